"""The bar of a step holds what steps.csv holds, and floors only where they are known."""

from dataclasses import replace

import pandas as pd
import pytest

from nsysprof.app.trace_analysis.assemble import assemble
from nsysprof.report.figures.step import describe_step, draw_step, list_parts
from nsysprof.report.write import write_analysis
from tests.report import samples


def analysis_of(path):
    return assemble(path, path).analysis


@pytest.fixture
def training(trace_path):
    return analysis_of(trace_path("h200-faults/all"))


def test_the_parts_add_up_to_the_step_on_each_device(training):
    for device in training.step_times.devices:
        bar = list_parts(training, device)
        assert sum(part.mean_ns for part in bar) == pytest.approx(training.step_times.step_ns)
        assert [part.is_busy for part in bar] == sorted((part.is_busy for part in bar), reverse=True)
        assert all(part.floor_ns is None for part in bar), "operators were not recorded"
    assert "at the least time" not in describe_step(training)


def test_a_floor_has_the_share_that_the_ledger_says_and_copies_count_as_they_are(training):
    device = training.step_times.devices[0]
    work = training.work.copy()
    is_copy = (work["category"] == "copy") & (work["device_id"] == device) & work["range"].isna()
    assert is_copy.any()
    # Half of the time of copies is that of kernels, whose floor is a tenth of it.
    work.loc[is_copy, "kernel_total_ns"] = work.loc[is_copy, "busy_ns"] // 2
    work["floor_ns"] = pd.array([pd.NA] * len(work), dtype="Int64")
    work.loc[is_copy, "floor_ns"] = work.loc[is_copy, "busy_ns"] // 20
    floors = {part.name: part for part in list_parts(replace(training, work=work), device) if part.floor_ns is not None}
    assert floors.keys() == {"copy"}
    assert floors["copy"].floor_ns == pytest.approx(0.55 * floors["copy"].mean_ns, rel=1e-4)


def test_no_bar_is_drawn_where_no_step_is_known(tmp_path):
    assert draw_step(samples.analysis(tmp_path)) is None


def test_the_bar_is_the_first_figure_of_the_page_and_stands_before_the_findings(training, tmp_path):
    write_analysis(training, None, tmp_path)
    assert (tmp_path / "step.png").stat().st_size > 10_000
    text = (tmp_path / "report.md").read_text()
    assert 0 < text.index("](step.png)") < text.index("Findings") < text.index("](timeline.png)")


def test_the_figure_says_what_is_the_least_time_where_any_is_known(training):
    def title(analysis):
        return draw_step(analysis).axes[0].get_title(loc="left")

    assert "full colour" not in title(training)
    work = training.work.assign(floor_ns=(training.work["busy_ns"] // 2).astype("Int64"))
    assert "Where the least time of work is known, it has the full colour" in title(replace(training, work=work))
