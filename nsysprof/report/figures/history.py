"""Draw how the latency of one case changed over the runs of a results database."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from nsysprof.report.figures.style.palette import INK, SOFT, new_figure, quieten
from nsysprof.report.figures.style.scale import NS_PER_S, label_seconds
from nsysprof.report.formats.escape import clean, escape_mathtext
from nsysprof.results.latency_history import CaseHistory, HistoryPoint

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawn

_COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
_MARKERS = "osD^vP"
# An interval that is far longer than every median does not set the scale.
_MOST_OF_LONGEST = 2.5
_MOST_TICKS, _MOST_LABELS = 8, 6


def draw_history(case: CaseHistory) -> Drawn | None:
    """Draw the median of each run with its interval, and a line for each of the conditions. None without a time."""
    timed = case.timed
    if not timed:
        return None
    figure = new_figure(2.8)
    axes = figure.subplots()
    for number, conditions in enumerate(dict.fromkeys(point.conditions for point in timed)):
        places = [place for place, point in enumerate(timed) if point.conditions == conditions]
        middle = [(timed[place].median_ns or 0) / NS_PER_S for place in places]
        low = [_down(timed[place].median_ns, timed[place].low_ns) for place in places]
        high = [_down(timed[place].high_ns, timed[place].median_ns) for place in places]
        label = escape_mathtext(clean(timed[places[0]].setup, 60)) if number < _MOST_LABELS else None
        color, marker = _COLORS[number % len(_COLORS)], _MARKERS[number % len(_MARKERS)]
        axes.errorbar(
            places, middle, yerr=[low, high], capsize=2.5, linewidth=1.4, markersize=4.5, color=color, marker=marker,
            label=label,
        )  # fmt: skip
    step = -(-len(timed) // _MOST_TICKS)
    ticks = range(0, len(timed), step)
    axes.set_xticks(ticks, [escape_mathtext(clean(text, 16)) for text in _dates([timed[tick] for tick in ticks])])
    axes.set_xlim(-0.5, len(timed) - 0.5)
    longest = max((point.median_ns or 0) for point in timed) / NS_PER_S
    axes.set_ylim(0, min(axes.get_ylim()[1], _MOST_OF_LONGEST * longest) or None)
    label_seconds(axes.yaxis)
    quieten(axes)
    axes.grid(axis="y", color=SOFT, linewidth=0.5)
    axes.set_ylabel("median latency, 95 % interval", fontsize=9, color=INK)
    axes.set_xlabel("run", fontsize=9, color=INK)
    figure.legend(loc="outside upper left", ncols=2, fontsize=9, frameon=False)
    return figure


def _dates(points: Sequence[HistoryPoint]) -> list[str]:
    """Return the days of the runs, or day and time where two are of one day."""
    days = [point.created_utc[:10] for point in points]
    return days if len(set(days)) == len(days) else [point.created_utc[5:16].replace("T", " ") for point in points]


def _down(upper: float | None, lower: float | None) -> float:
    """Return a difference in seconds; 0 where a bound is unknown."""
    return 0.0 if upper is None or lower is None else max(0.0, (upper - lower) / NS_PER_S)
