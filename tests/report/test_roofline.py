"""Traffic, limits and roofline in reports, from counters of a real GPU."""

import io
from dataclasses import replace

import pytest

from nsysprof.analysis.comparison.rank_cases import fill_results
from nsysprof.app.analyze import analyze_trace
from nsysprof.app.trace_analysis.assemble import join_counters, read_counted, read_record
from nsysprof.notes import Note, Severity
from nsysprof.report.figures.drawing import byte_ticks
from nsysprof.report.figures.roofline import draw_roofline, draw_traffic, place_labels
from nsysprof.report.formats.cell_text import cell_text
from nsysprof.report.formats.console import render_console
from nsysprof.report.formats.html import render_html
from nsysprof.report.formats.markdown import render_markdown
from nsysprof.report.pages.analysis import analysis_report, tier_of
from nsysprof.report.pages.cases import counter_table, limit_lines
from nsysprof.report.pages.trace_tables import kernel_counter_table
from nsysprof.results.checks import MissingSource
from nsysprof.trace.inputs.resolve_input import resolve_input
from tests.conftest import REPOSITORY
from tests.report import samples

CAPTURE = REPOSITORY / "traces" / "h200-roofline"
NO_COUNTERS = Note("no-counters", Severity.WARNING, "No hardware counters: not permitted.", "Be root.")


@pytest.fixture(scope="module")
def counted(tmp_path_factory):
    trace = resolve_input(CAPTURE, None, tmp_path_factory.mktemp("trace"))
    analysis, record = analyze_trace(trace), read_record(CAPTURE)
    record = replace(record, results=fill_results(record.results, analysis))
    return join_counters(analysis, record, read_counted(CAPTURE, None, [], None), trace, foreign=False)


def lower_tier(record):
    """Return the same capture where ncu was not permitted."""
    results = record.results.copy()
    for column in [name for name in results if name.startswith("counted_")]:
        results[column] = None
    return replace(record, results=results, notes=(*record.notes, NO_COUNTERS), missing=(MissingSource.COUNTERS,))


def test_each_source_has_a_column_of_its_own_and_they_are_held_together(counted):
    _, record = counted
    table = counter_table(record)
    assert [column.title for column in table.columns[1:4]] == ["DRAM, counted", "DRAM, sampled", "they agree"]
    rows = {
        row[0].value: [cell_text(cell, column) for cell, column in zip(row, table.columns, strict=True)]
        for row in table.rows
    }
    assert rows["math::S8192::pass=fwd"][1:6] == ["97.36 GiB", "97.98 GiB ± 2.061 GiB", "yes", "128 MiB", "778.9x"]
    assert rows["flash::S512::pass=bwd"][3].endswith("beyond the bound")
    assert rows["cudnn::S512::pass=fwd"][5] == "<0.01x"
    assert all(row[11].value for row in table.rows)


def test_without_any_of_it_there_is_no_table(tmp_path):
    analysis = samples.analysis(tmp_path)
    record = samples.record(analysis)
    assert counter_table(record) is None
    assert kernel_counter_table(analysis) is None
    assert limit_lines(record) == ()
    assert draw_roofline(record) is None
    assert draw_traffic(record) is None


@pytest.mark.parametrize("kind", ["markdown", "html", "console"])
def test_reports_hold_it(counted, kind):
    analysis, record = counted
    text = render(kind, analysis, record)
    assert "Traffic and limits" in text
    assert "of a copy's rate" in text or "of a copy&#39;s rate" in text
    assert "known less well" not in text
    if kind != "console":
        assert "Counters of kernels" in text
        assert "launch-bound where kernels fill less than 75 %" in text
        assert "743 TFLOP/s" in text, "the measured ceiling"


@pytest.mark.parametrize("kind", ["markdown", "html", "console"])
def test_every_table_names_the_lower_tier(counted, kind):
    analysis, record = counted
    text = render(kind, analysis, lower_tier(record))
    titles = {"markdown": "## ", "html": "<h2 id=", "console": ""}[kind]
    tables = ("Cases", "Ranges", "Top kernels", *(() if kind == "console" else ("Against", "API calls")))
    for table in tables:
        lines = [line for line in text.splitlines() if table in line and (titles in line or "<summary>" in line)]
        assert any("known less well: no hardware counters" in line for line in lines), (table, lines[:3])
    assert "not permitted" in text


def render(kind, analysis, record):
    report = analysis_report(analysis, record)
    if kind == "markdown":
        return render_markdown(report)
    return render_html(report) if kind == "html" else render_console(report, 200)


def test_a_part_that_is_missing_of_some_is_no_lower_tier(counted):
    _, record = counted
    assert tier_of(record) == ""
    assert tier_of(replace(record, missing=(MissingSource.COUNTERS,))) == "", "the others were counted"
    assert tier_of(lower_tier(record)) == "no hardware counters"
    assert tier_of(None) == ""


@pytest.mark.parametrize("draw", [draw_roofline, draw_traffic])
def test_figures_are_the_same_bytes_twice(counted, draw):
    pictures = []
    for _ in range(2):
        data = io.BytesIO()
        draw(counted[1]).savefig(data, format="png", metadata={"Software": None})
        pictures.append(data.getvalue())
    assert pictures[0] == pictures[1]
    assert len(pictures[0]) > 20_000


def test_a_point_above_the_roof_is_ringed_and_said(counted):
    _, record = counted
    results = record.results.copy()
    results["above_roof"] = results["above_roof"].fillna(False)
    results.loc[results.index[-1], "above_roof"] = True
    changed = replace(record, results=results)
    assert counter_table(changed).rows[-1][8].remark == "(above)"
    assert lines_of(draw_roofline(changed)) == lines_of(draw_roofline(record)) + 1


def lines_of(figure):
    return sum(len(axes.lines) for axes in figure.axes)


def test_the_roof_needs_ceilings(counted):
    _, record = counted
    environment = {key: value for key, value in record.environment.items() if key != "ceilings"}
    assert draw_roofline(replace(record, environment=environment)) is None
    assert draw_traffic(replace(record, environment=environment)) is not None


def test_no_label_covers_another():
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4, 4), dpi=100)
    axes = figure.subplots()
    points = [(0.5 + 0.01 * n, 0.5 + 0.004 * n) for n in range(12)]
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 1)
    place_labels(axes, points, [f"label {n}" for n in range(12)], fontsize=8)
    boxes = [text.get_window_extent() for text in axes.texts]
    assert 4 <= len(boxes) < 12, "those without room are left out"
    for index, box in enumerate(boxes):
        assert not any(box.overlaps(other) for other in boxes[index + 1 :])


def test_ticks_of_bytes():
    assert byte_ticks(20_000, 2**36) == (
        [2.0**15, 2.0**20, 2.0**25, 2.0**30, 2.0**35],
        ["32 KiB", "1 MiB", "32 MiB", "1 GiB", "32 GiB"],
    )
