"""Draw ratios.png (a forest plot of latency ratios) and parts.png (which parts of ranges' wall time changed)."""

from __future__ import annotations

import numpy as np
import pandas as pd

from nsysprof.report.document import MOST_NAMED, clean, escape_mathtext, sentence_of
from nsysprof.report.figures import mpl
from nsysprof.report.figures.drawing import INK, NS_PER_S, SOFT, label_seconds, new_figure, quieten
from nsysprof.results.comparison import PARTS, LatencyChange, LatencyVerdict, RangeChange, VersionComparison
from nsysprof.units import format_ns

# Colours by Okabe and Ito, and a shape for each verdict, so that it does not depend on colour alone.
_VERDICTS = {
    LatencyVerdict.SLOWER: ("#D55E00", "s"),
    LatencyVerdict.FASTER: ("#009E73", "D"),
    LatencyVerdict.SAME: ("#0072B2", "o"),
    LatencyVerdict.INCONCLUSIVE: ("#8a929c", "^"),
}
_PARTS = {
    "before_ns": ("before the first kernel", "#E69F00"), "kernels_ns": ("kernels", "#0072B2"),
    "copies_ns": ("copies", "#56B4E9"), "fills_ns": ("fills", "#F0E442"), "graphs_ns": ("graphs", "#CC79A7"),
    "gaps_ns": ("gaps", "#D55E00"), "after_ns": ("after the last kernel", "#999999"),
}  # fmt: skip
_MOST_ROWS = 60
# A range is drawn if any part of it changed by this share of the largest change.
_LEAST_SHARE = 0.005
_NAME = 46


def draw_ratios(comparison: VersionComparison) -> mpl.Figure | None:
    """Draw one row per case, slowest first, with the margin shaded. Return None without a case on both sides."""
    known = [change for change in comparison.latency.changes if change.verdict is not None]
    if not known:
        return None
    known.sort(key=lambda change: -(change.ratio or 1))
    # If there are many cases, only those furthest from 1 are shown.
    far = sorted(known, key=lambda change: -abs(np.log(change.ratio or 1)))[:_MOST_ROWS]
    shown = [change for change in known if change in far]
    figure = new_figure(1.5 + 0.26 * len(shown))
    axes = figure.subplots()
    margin = 1 + (shown[0].margin_pct or 0) / 100
    axes.axvspan(1 / margin, margin, color="#eef1f5", zorder=0)
    axes.axvline(1, color=INK, linewidth=0.9, zorder=1)
    for row, change in enumerate(shown):
        _draw_case(axes, row, change)
    axes.set_yticks(range(len(shown)), [escape_mathtext(clean(change.case, _NAME)) for change in shown])
    axes.set_ylim(len(shown) - 0.4, -0.6)
    _scale(axes, shown)
    quieten(axes)
    axes.tick_params(axis="y", length=0)
    more = f"; the {len(shown)} of {len(known)} cases furthest from 1" if len(known) > len(shown) else ""
    axes.set_xlabel(f"latency, candidate over baseline (log), 95 % interval{more}", fontsize=10, color=INK)
    _legend(figure, shown, margin)
    return figure


def _draw_case(axes: mpl.Axes, row: int, change: LatencyChange) -> None:
    color, marker = _VERDICTS[change.verdict or LatencyVerdict.INCONCLUSIVE]
    ratio = change.ratio or 1.0
    if change.low is not None and change.high is not None:
        axes.plot([change.low, change.high], [row, row], color=color, linewidth=1.6, solid_capstyle="butt", zorder=2)
    axes.plot([ratio], [row], marker=marker, color=color, markersize=5.5, linestyle="none", zorder=3)
    text = f"{ratio:.3f}"
    axes.annotate(text, (1.01, row), xycoords=("axes fraction", "data"), fontsize=8.5, va="center", color=INK)


def _scale(axes: mpl.Axes, shown: list[LatencyChange]) -> None:
    """Make the axis symmetric around 1, so that faster and slower look alike; longer intervals are cut."""
    edges = [abs(np.log(edge)) for change in shown for edge in (change.ratio, change.low, change.high) if edge]
    ratios = [abs(np.log(change.ratio or 1)) for change in shown]
    reach = max(min(max(edges), 3 * max(ratios) + 0.05), np.log(1 + (shown[0].margin_pct or 0) / 100) * 1.3)
    axes.set_xscale("log")
    axes.set_xlim(float(np.exp(-reach * 1.04)), float(np.exp(reach * 1.04)))
    steps = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
    step = next((step for step in steps if np.expm1(reach) / step <= 6), 1.0)
    above = [1 + step * index for index in range(1, int(np.expm1(reach) / step) + 1)]
    ticks = above if len(above) <= 8 else [2.0**power for power in range(1, int(reach / np.log(2)) + 1)]
    axes.xaxis.set_major_locator(mpl.FixedLocator([*(1 / tick for tick in ticks), 1.0, *ticks]))
    axes.xaxis.set_minor_locator(mpl.NullLocator())
    axes.xaxis.set_major_formatter(mpl.FuncFormatter(lambda value, _at: f"{value:.3g}"))


def _legend(figure: mpl.Figure, shown: list[LatencyChange], margin: float) -> None:
    used = [verdict for verdict in _VERDICTS if any(change.verdict is verdict for change in shown)]
    handles: list[mpl.Line2D | mpl.Patch] = [
        mpl.Line2D([], [], color=_VERDICTS[v][0], marker=_VERDICTS[v][1], linewidth=1.6, markersize=5.5, label=v.value)
        for v in used
    ]
    handles.append(mpl.Patch(color="#e3e8ee", label=f"margin ±{100 * (margin - 1):g} %"))
    figure.legend(handles=handles, loc="outside upper left", ncols=5, fontsize=9, frameon=False)


def draw_parts(comparison: VersionComparison) -> mpl.Figure | None:
    """Draw one bar per range, with its parts stacked by sign. Return None where nothing changed."""
    known = [change for change in comparison.ranges if change.parts is not None and any(change.parts.values())]
    if not known:
        return None
    known.sort(key=lambda change: -abs(change.wall_change_ns or 0))
    least_ns = _LEAST_SHARE * max(map(_largest_part, known))
    shown = [change for change in known if _largest_part(change) >= least_ns][: _MOST_ROWS // 2]
    figure = new_figure(1.7 + 0.3 * len(shown))
    axes = figure.subplots()
    below, above = np.zeros(len(shown)), np.zeros(len(shown))
    rows = np.arange(len(shown))
    for part in PARTS:
        values = np.array([(change.parts or {})[part] / NS_PER_S for change in shown])
        if not values.any():
            continue
        title, color = _PARTS[part]
        axes.barh(rows, values, left=np.where(values > 0, above, below), height=0.62, color=color, label=title)
        above, below = above + np.maximum(values, 0), below + np.minimum(values, 0)
    walls = [(change.wall_change_ns or 0) / NS_PER_S for change in shown]
    axes.plot(
        walls, rows, marker="|", markersize=13, markeredgewidth=2.2, color=INK, linestyle="none", label="wall time"
    )
    axes.axvline(0, color=INK, linewidth=0.9)
    axes.set_yticks(rows, [escape_mathtext(clean(change.label, _NAME)) for change in shown])
    axes.set_ylim(len(shown) - 0.4, -0.6)
    quieten(axes)
    axes.tick_params(axis="y", length=0)
    more = f"; the {len(shown)} of {len(known)} ranges that changed most" if len(known) > len(shown) else ""
    axes.set_xlabel(f"change of wall time by what it is made of{more}", fontsize=10, color=INK)
    label_seconds(axes.xaxis)
    axes.grid(axis="x", color=SOFT, linewidth=0.5)
    figure.legend(loc="outside upper left", ncols=4, fontsize=9, frameon=False)
    return figure


def _largest_part(change: RangeChange) -> float:
    """Return by how much the part of a range that changed most did (ns)."""
    return max(map(abs, (change.parts or {}).values()), default=0.0)


def describe_ratios(comparison: VersionComparison) -> str:
    """Return how many cases became slower and faster, and the largest change of each kind."""
    changes = [change for change in comparison.latency.changes if change.verdict is not None]
    verdicts = pd.Series([change.verdict.value for change in changes if change.verdict is not None], dtype=object)
    counts = [f"{count} {name}" for name, count in verdicts.value_counts().items()]
    text = f"Latency of {len(changes)} cases, candidate over baseline: {', '.join(counts)}."
    measured = sorted((change.ratio, change.case) for change in changes if change.ratio is not None)
    ends = dict.fromkeys((measured[-1], measured[0])) if measured else ()
    return f"{text} {sentence_of([f'{case} {ratio:.3f}' for ratio, case in ends])}".rstrip()


def describe_parts(comparison: VersionComparison) -> str:
    """Return the ranges whose wall time changed most, and the part that changed most in each."""
    shown = [change for change in comparison.ranges if change.parts is not None and any(change.parts.values())]
    shown.sort(key=lambda change: -abs(change.wall_change_ns or 0))
    said = []
    for change in shown[:MOST_NAMED]:
        part, size = max((change.parts or {}).items(), key=lambda part_and_size: abs(part_and_size[1]))
        wall = _signed(change.wall_change_ns or 0)
        said.append(f"{change.label} {wall}, most of it {part.removesuffix('_ns')} {_signed(size)}")
    more = f", and {len(shown) - MOST_NAMED} more" if len(shown) > MOST_NAMED else ""
    return f"Change of the wall time of ranges by its parts: {'; '.join(said)}{more}."


def _signed(value_ns: float) -> str:
    return ("+" if value_ns > 0 else "") + format_ns(value_ns)
