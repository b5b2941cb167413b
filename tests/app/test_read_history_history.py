"""How latencies developed, as a terminal shows it."""

from dataclasses import replace

import pytest

from nsysprof.app.inputs.reading_requests import HistoryRequest
from nsysprof.app.read_history import history
from nsysprof.errors import TraceError, UsageError
from nsysprof.report.pages.history import draw_history, history_report
from tests.app.test_read_history import database


@pytest.fixture
def results(tmp_path):
    runs = [(name, f"2026-01-0{day}T00:00", "h", True) for day, name in enumerate("abc", 1)]
    flash = [(run, "flash", 512, time) for run, time in zip("abc", (100, 200, 130), strict=True)]
    math = [(run, "math", 512, time) for run, time in zip("abc", (1000, 1010, 1020), strict=True)]
    return database(tmp_path / "all.db", runs, [*flash, *math, ("a", "cudnn", 512, 50)])


def test_what_changed_since_the_run_before_comes_first(results):
    found = history(HistoryRequest(results))
    report = history_report(found.name, found.cases, {})
    lines = report.sections[0].parts[0].texts
    assert lines == (
        "flash S=512 takes 35.0 % less than in the run before: 130 ns instead of 200 ns.",
        "Cases that did not change by more than the intervals of both runs: 1.",
        "Cases that have no time in the newest run, or no earlier run under the same conditions: 1.",
        "Cases that take longer than in the oldest run under the same conditions: 1; less: 0; the largest change is of "
        "flash S=512: +30.0 %.",
    )


def test_cases_are_chosen_by_their_names(results):
    assert [case.name for case in history(HistoryRequest(results, "MATH")).cases] == ["math S=512"]
    with pytest.raises(UsageError, match="No case has 'triton'"):
        history(HistoryRequest(results, "triton"))


def test_another_file_is_refused_with_the_next_step(tmp_path):
    other = tmp_path / "notes.txt"
    other.write_text("hello")
    with pytest.raises(TraceError, match="is not a results database"):
        history(HistoryRequest(other))
    with pytest.raises(TraceError, match="does not exist"):
        history(HistoryRequest(tmp_path / "none.db"))


def test_runs_of_one_day_are_told_apart_by_their_time(results):
    (case,) = history(HistoryRequest(results, "flash")).cases
    labels = [label.get_text() for label in draw_history(case).axes[0].get_xticklabels()]
    assert labels == ["2026-01-01", "2026-01-02", "2026-01-03"]
    points = tuple(replace(point, created_utc=f"2026-01-01T0{hour}:00") for hour, point in enumerate(case.points))
    axes = draw_history(replace(case, points=points)).axes[0]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["01-01 00:00", "01-01 01:00", "01-01 02:00"]
    assert axes.yaxis.get_major_formatter()(2e-4, None) == "200 us", "as in the tables"
