import re
from dataclasses import replace
from xml.etree import ElementTree

import pytest

from nsysprof.analysis.comparison.compare_ranges import compare_ranges
from nsysprof.report.document import Figure
from nsysprof.report.figures.compare import draw_parts, draw_ratios
from nsysprof.report.formats.console import render_console, render_part
from nsysprof.report.formats.data_formats import render_junit
from nsysprof.report.formats.markdown import render_markdown
from nsysprof.report.pages.compare import compare_report, comparison_json, latency_table, part_table, verdict_line
from nsysprof.results.checks import GateFinding, GateResult, Outcome
from nsysprof.results.comparison import (
    METRICS,
    PARTS,
    Difference,
    KernelFacts,
    LatencyChange,
    LatencyComparison,
    LatencyVerdict,
    RangeFacts,
    Side,
    SideOfCase,
    VersionComparison,
)

HOSTILE = "<img src=x onerror=alert(1)>|`$x$`\x1b[31m\ud800"
SIDE = SideOfCase("ok", median_ns=100_000.0, samples=150, blocks=15, processes=3, inputs=1)


def case(name, verdict, ratio, *, low=None, high=None, reason=""):
    low, high = low or ratio * 0.98, high or ratio * 1.02
    return LatencyChange(name, verdict, SIDE, SIDE, reason, "more", ratio, low, high, 0.01, 0.01, 0.01, 0.5, 1.0, 3.0)


def facts(scale, name="gemm(int)"):
    parts = {**dict.fromkeys(PARTS, 0), "kernels_ns": 1000 * scale, "gaps_ns": 500}
    metrics = {**dict.fromkeys(METRICS, 0), "launches": scale, "kernel_time": 1000 * scale, "wall": 1000 * scale + 500}
    return RangeFacts(1, None, metrics, parts, {name: KernelFacts("gemm", "gemm", scale, 1000 * scale)})


def comparison(cases=(), ranges=(), gate=(), **fields):
    sides = Side(("old",), ("capture",), {"gpu_name": "H200"}), Side(("new",), ("capture",), {"gpu_name": "H200"})
    return VersionComparison(
        *sides, (), LatencyComparison(tuple(cases), 1.2, "9 pairs"), tuple(ranges), tuple(gate), **fields
    )


@pytest.fixture
def large():
    """More of everything than any table shows, with hostile names."""
    cases = [case(f"{HOSTILE}{i}", list(LatencyVerdict)[i % 4], 0.8 + i / 500) for i in range(300)]
    old, new = ({(f"{HOSTILE}{i}", "d"): facts(n, f"gemm{i}{n}") for i in range(300)} for n in (1, 2))
    findings = tuple(GateFinding(f"{HOSTILE}{i}", Outcome.REGRESSION, HOSTILE, HOSTILE) for i in range(300))
    gate = [GateResult("launches:+1", Outcome.REGRESSION, 300, findings)]
    return comparison(cases, compare_ranges([old], [new]), gate)


def test_the_report_fits_a_comment_and_nothing_in_it_is_markup(large):
    text = render_markdown(compare_report(large, [Figure("ratios.png", "ratios")]))
    assert len(text) < 60_000
    assert re.search(r"(?<!\\)<img", text) is None
    assert "\x1b" not in text
    assert "40 of 300 rows" in text
    console = render_console(compare_report(large), 100)
    assert "\x1b" not in console
    assert "and 280 more" in console


def test_what_needs_a_look_comes_first():
    found = comparison(
        [
            case("a", LatencyVerdict.SAME, 1.0),
            case("b", LatencyVerdict.SLOWER, 1.1),
            case("c", LatencyVerdict.INCONCLUSIVE, 1.0),
        ]
    )
    assert [row[0].value for row in latency_table(found).rows] == ["b", "c", "a"]
    assert verdict_line(found) == "Latency of 3 cases: 1 SLOWER, 1 INCONCLUSIVE, 1 SAME."


def test_what_was_forced_is_said_on_top():
    found = comparison([case("a", LatencyVerdict.SAME, 1.0)])
    forced = VersionComparison(
        **{**found.__dict__, "differences": (Difference("driver_version", ("1",), ("2",)),), "forced": True}
    )
    for text in (render_markdown(compare_report(forced)), render_console(compare_report(forced), 100)):
        head = text[: text.index("Latency of")]
        assert "NOT COMPARABLE" in head
        assert "driver" in head


def test_parts_are_shown_with_their_sign_and_add_up():
    found = comparison(ranges=compare_ranges([{("s", ""): facts(1)}], [{("s", ""): facts(3)}]))
    table = part_table(found)
    assert [column.title for column in table.columns] == ["range", "wall", "kernels"]
    assert [[cell.value for cell in row] for row in table.rows] == [["s", 2000, 2000]]
    assert "+2.000 us" in render_console(compare_report(found), 100)


def test_a_narrow_terminal_keeps_the_parts_that_changed_most():
    found = comparison(ranges=compare_ranges([{("s", ""): facts(1)}], [{("s", ""): facts(3)}]))
    (change,) = found.ranges
    parts = dict(zip(PARTS, (100, 900_000, 1, 20, 0, 800_000, 5000), strict=True))
    wide = replace(change, per_call=True, parts=parts)
    table = part_table(replace(found, ranges=(wide,)))
    assert table.title == "Where the time went (per call)"
    shown = render_part(table, 48)
    assert [title for title in ("kernels", "gaps", "fills", "before") if title in shown.splitlines()[2]] == [
        "kernels", "gaps",
    ]  # fmt: skip


def test_junit_counts_and_survives_any_name(large):
    suite = ElementTree.fromstring(render_junit(compare_report(large)).encode())[0]
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("300", "300", "0")
    passed = comparison(gate=[GateResult("slower:3%", Outcome.PASS, 5, ())])
    suite = ElementTree.fromstring(render_junit(compare_report(passed)).encode())[0]
    assert (suite.get("tests"), suite.get("failures")) == ("1", "0")


def test_json_holds_the_changes():
    data = comparison_json(comparison(ranges=compare_ranges([{("s", ""): facts(2)}], [{("s", ""): facts(3)}])))
    assert data["ranges"][0]["metrics"]["launches"]["change"] == 1
    assert data["ranges"][0]["metrics"]["launches"]["change_pct"] == 50
    assert data["outcome"] is None


def test_figures(large):
    ratios, parts = draw_ratios(large), draw_parts(large)
    assert len(ratios.axes[0].get_yticks()) == 60
    low, high = ratios.axes[0].get_xlim()
    assert low * high == pytest.approx(1), "as far to either side"
    assert len(parts.axes[0].get_yticks()) == 30
    for figure in (ratios, parts):
        figure.canvas.draw()
    assert draw_ratios(comparison()) is None
    assert draw_parts(comparison()) is None


@pytest.mark.parametrize("ratio", [1.0, 1.0001, 0.5, 200.0, 0.004])
def test_a_figure_of_one_case_however_far(ratio):
    figure = draw_ratios(comparison([case("a", LatencyVerdict.SLOWER, ratio)]))
    figure.canvas.draw()
    low, high = figure.axes[0].get_xlim()
    assert low < ratio < high
