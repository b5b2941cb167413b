"""Lay out bars of a page as SVG with positions in percent, so that they fit any width, and describe them as text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nsysprof.report.document import Bars, StackedBar, Unit
from nsysprof.report.figures.drawing import CATEGORY_COLORS, IDLE_COLORS
from nsysprof.report.formats.cell_text import value_text
from nsysprof.units import PROSE_DIGITS

_UNKNOWN_COLOR = "#999999"
# The share of a bar's width that each letter of an inside label needs (percent), on a wide page and on a phone.
_LETTER_PCT, _LETTER_PCT_OF_PHONE = 0.9, 2.6
# A step that takes more than this many times the usual one is cut, so that the others stay visible.
_CUT = 2.0
_HEIGHT = 96.0
_INKS = "#1b1f24", "#ffffff"


@dataclass(frozen=True)
class ShownSegment:
    """A part of a stacked bar, as drawn.

    x, width: percent of the whole.
    text: its label with the value.
    inside: what fits into it.
    floor_width: how much of it the least possible value takes (percent of the whole); None where that is unknown.
    """

    x: float
    width: float
    color: str
    ink: str
    inside: str
    label: str
    text: str
    # Whether the inside label only fits where the page is wide.
    is_tight: bool = False
    floor_width: float | None = None


@dataclass(frozen=True)
class ShownBar:
    """A bar, as drawn.

    x, width: percent.
    y, height: pixels.
    kind: how it looks.
    mark: a word above it.
    """

    x: float
    width: float
    y: float
    height: float
    kind: str
    mark: str
    text: str
    span: str


def color_of(name: str) -> str:
    """Return the colour of a category of work or a cause of idle time."""
    return {**CATEGORY_COLORS, **IDLE_COLORS}.get(name, _UNKNOWN_COLOR)


def show_segments(bar: StackedBar) -> list[ShownSegment]:
    """Return the parts of a stacked bar, with their positions."""
    segments, x, total = [], 0.0, bar.total or 1.0
    for segment in bar.segments:
        width, color = 100 * segment.value / total, color_of(segment.color)
        short = segment.color.replace("-", " ").replace("cuda", "CUDA")
        inside = short if width > _LETTER_PCT * len(short) else ""
        text = f"{_value(segment.value, bar.unit)} ({_percent(width)})"
        text += "" if segment.floor is None else f", least {_value(segment.floor, bar.unit)}"
        floor_width = None if segment.floor is None else round(100 * segment.floor / total, 3)
        tight = width <= _LETTER_PCT_OF_PHONE * len(short)
        shape = (round(x, 3), round(width, 3), color, _ink_on(color))
        segments.append(ShownSegment(*shape, inside, segment.label, text, tight, floor_width))
        x += width
    return segments


def bar_lines(bar: StackedBar) -> list[str]:
    """Return the bar as one sentence, for formats without pictures."""
    parts = [f"{segment.label} {segment.text}" for segment in show_segments(bar)]
    return [f"{bar.title} ({_value(bar.total, bar.unit)}): {', '.join(parts)}."] if parts else []


def show_bars(bars: Bars) -> list[ShownBar]:
    """Return the bars with their positions, in an area of 100 percent by 96 pixels. Very long ones are cut."""
    top, room = _top(bars), 100 / max(1, len(bars.values))
    shown_bars = []
    for at, (label, value, span) in enumerate(zip(bars.labels, bars.values, bars.spans, strict=True)):
        height = round(min(value, top) / top * _HEIGHT, 2)
        is_cut = value > top
        mark = bars.marks.get(at, "")
        kind = "slow" if mark else "faint" if at in bars.faint else "usual"
        said = [remark for remark in (mark, "warm-up" if at in bars.faint else "", "cut" if is_cut else "") if remark]
        text = f"{label}: {_value(value, bars.unit)}" + (f" ({', '.join(said)})" if said else "")
        sign = "▲" if mark else "↑" if is_cut else ""
        place = f"{span[0]} {span[1]}"
        shown_bars.append(
            ShownBar(round(at * room, 3), round(0.84 * room, 3), _HEIGHT - height, height, kind, sign, text, place)
        )
    return shown_bars


def usual_line(bars: Bars) -> tuple[float, str]:
    """Return how far below the top the line of the usual value is (pixels), and its text."""
    return round(_HEIGHT * (1 - min(1.0, bars.usual / _top(bars))), 2), _value(bars.usual, bars.unit)


def describe_bars(bars: Bars) -> str:
    """Return a description of the bars, for readers who cannot see them."""
    slow = [label for at, label in enumerate(bars.labels) if at in bars.marks]
    values = [value for at, value in enumerate(bars.values) if at not in bars.faint] or list(bars.values)
    text = f"{bars.title}: {len(bars.values)} bars, usually {_value(bars.usual, bars.unit)}"
    text += f", from {_value(min(values), bars.unit)} to {_value(max(values), bars.unit)}"
    return text + (f"; slow: {', '.join(slow[:10])}" if slow else "; no instance is slow")


def describe_segments(bar: StackedBar, shown: Sequence[ShownSegment]) -> str:
    """Return a description of a stacked bar, for readers who cannot see it."""
    return f"{bar.title}: " + ", ".join(f"{segment.label} {segment.text}" for segment in shown)


def _top(bars: Bars) -> float:
    """Return the value at the top of the field."""
    return max(1.0, min(max(bars.values, default=1.0), _CUT * bars.usual) * 1.04)


def _value(value: float, unit: Unit) -> str:
    return value_text(value, unit, PROSE_DIGITS)


def _percent(share: float) -> str:
    return "<0.1 %" if 0 < share < 0.05 else f"{share:.1f} %"


def _ink_on(color: str) -> str:
    red, green, blue = (int(color[at : at + 2], 16) for at in (1, 3, 5))
    return _INKS[0] if 0.3 * red + 0.59 * green + 0.11 * blue > 120 else _INKS[1]
