import pytest

from nsysprof.report.document import Bars, Segment, StackedBar
from nsysprof.report.formats.bars import bar_lines, describe_bars, show_bars, show_segments, usual_line

STEP = StackedBar("Where a step goes", (Segment("gemm", 750, "gemm"), Segment("idle: unknown", 250, "unknown")))
STEPS = Bars(
    "Time of each step", ("step 0", "step 1", "step 2", "step 3"), (9000, 1000, 1500, 1000),
    ((0, 9000), (9000, 10_000), (10_000, 11_500), (11_500, 12_500)), 1000, {2: "slow"}, frozenset({0}),
)  # fmt: skip


def test_parts_fill_the_bar_and_are_labelled_where_there_is_room():
    shown = show_segments(STEP)
    assert [(each.x, each.width, each.inside) for each in shown] == [(0, 75, "gemm"), (75, 25, "unknown")]
    assert [each.is_tight for each in shown] == [False, False]
    tight = show_segments(StackedBar("", (Segment("gemm", 92, "gemm"), Segment("copy", 8, "copy"))))[1]
    assert (tight.inside, tight.is_tight) == ("copy", True), "it fits, but not on a phone"
    assert shown[0].text == "750 ns (75.0 %)"
    assert bar_lines(STEP) == ["Where a step goes (1.00 us): gemm 750 ns (75.0 %), idle: unknown 250 ns (25.0 %)."]
    assert show_segments(StackedBar("nothing", ())) == []


def test_bars_are_as_high_as_their_values_and_very_long_ones_are_cut():
    warm, usual, slow, _ = show_bars(STEPS)
    assert (warm.kind, warm.mark, warm.text) == ("faint", "↑", "step 0: 9.00 us (warm-up, cut)")
    assert slow.height == pytest.approx(1.5 * usual.height, abs=0.02)
    assert (slow.kind, slow.mark, slow.text, slow.span) == ("slow", "▲", "step 2: 1.50 us (slow)", "10000 11500")
    assert usual_line(STEPS) == (pytest.approx(96 - usual.height, abs=0.02), "1.00 us")


def test_what_is_drawn_is_said_too():
    assert describe_bars(STEPS) == ("Time of each step: 4 bars, usually 1.00 us, from 1.00 us to 1.50 us; slow: step 2")
