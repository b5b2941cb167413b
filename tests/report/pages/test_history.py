"""What the pages of a results database say."""

from nsysprof.analysis.sampling.significance import judge_history
from nsysprof.report.formats.markdown import render_markdown
from nsysprof.report.pages.history import describe_history, history_report, write_history
from nsysprof.results.latency_history import CaseHistory, HistoryPoint


def point(day, median, conditions="h", spread=0.02):
    bounds = (None, None) if median is None else (median * (1 - spread), median * (1 + spread))
    status = "timeout" if median is None else "ok"
    return HistoryPoint(f"2026-01-{day:02}T10:00:00Z", status, median, *bounds, 30, conditions, f"H200, {conditions}")


FLASH = judge_history(
    CaseHistory("flash S=512", (point(1, 9000.0, "old"), point(2, 1000.0), point(3, None), point(4, 1500.0)))
)
MATH = CaseHistory("math S=512", (point(1, None),))


def test_changes_are_given_between_equal_conditions_alone():
    text = render_markdown(history_report("all.db", (FLASH, MATH), {}))
    assert "| flash S\\=512 | 4 |" in text.replace("flash S=512", "flash S\\=512")
    assert "+50.0 %" in text or "+50 %" in text
    assert "-83" not in text, "that would be against the old conditions"
    assert text.count("timeout") >= 2
    assert "first of these conditions" in text


def test_a_change_within_the_intervals_is_said_to_be_one():
    case = judge_history(CaseHistory("a", (point(1, 1000.0, spread=0.3), point(2, 1100.0, spread=0.3))))
    assert "(intervals overlap)" in render_markdown(history_report("all.db", (case,), {}))
    assert "(intervals overlap)" not in render_markdown(history_report("all.db", (FLASH,), {}))


def test_the_figure_is_told_in_numbers():
    told = describe_history(FLASH)
    assert told.startswith("Median latency of flash S=512 over 3 runs: 1.50 us in the newest, 1.00 us in the oldest")
    assert "(+50.0 %)" in told
    assert "2 different conditions" in told


def test_each_timed_case_has_a_figure(tmp_path):
    write_history("all.db", (FLASH, MATH), tmp_path, figures=True, say=lambda _text: None)
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert (tmp_path / "history-0.png").stat().st_size > 1000
    assert not (tmp_path / "history-1.png").exists()
    assert describe_history(FLASH).replace("+", "&#43;") in page.replace("+50", "&#43;50")


def test_an_empty_database_says_so():
    assert "holds no results yet" in render_markdown(history_report("all.db", (), {}))
