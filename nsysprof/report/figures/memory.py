"""Draw memory.png: the memory of torch's allocator over time, coloured by owner, and again around the peak."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nsysprof.report.figures.style.palette import CATEGORY_COLORS, quieten
from nsysprof.report.figures.style.palette import new_figure as make_figure
from nsysprof.report.formats.escape import clean, escape_mathtext
from nsysprof.results.allocator_memory import OTHERS, OwnedInSlices, OwnedOverTime

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Strong colours are for owners; everything else is grey.
_GREYS = ("graph", "wait", "other")
_COLORS = tuple(color for name, color in CATEGORY_COLORS.items() if name not in _GREYS)
_MARK, _LEAST_MARK = "#dfe3e8", 0.006
_GREY = CATEGORY_COLORS["wait"]
_GIB, _MIB = 1 << 30, 1 << 20
_MOST_LETTERS, _COLUMNS = 54, 2


def draw_memory(over_time: OwnedOverTime) -> Figure | None:
    """Draw what each owner held, stacked. Return None where there is no history to draw."""
    whole, near = over_time.whole, over_time.around_peak
    if len(whole.edges) < 2:
        return None
    figure = make_figure(3.6 if near is None else 6.0)
    panels = figure.subplots(1 if near is None else 2, 1, squeeze=False)[:, 0].tolist()
    highest = int(whole.bytes.sum(axis=0).max())
    divisor, unit = (_GIB, "GiB") if highest >= 4 * _GIB else (_MIB, "MiB")
    for axes, slices in zip(panels, (whole, near), strict=False):
        if slices is None:
            continue
        scale, what = _scale_of(over_time, slices)
        _draw(axes, slices, over_time.owners, scale, divisor)
        is_near = slices is near
        axes.set_xlabel(f"{what}, around the peak" if is_near else what, fontsize=9)
        axes.set_ylabel(f"allocated ({unit})", fontsize=9)
        axes.set_ylim(0, 1.04 * highest / divisor)
    if near is not None:
        _mark(panels[0], near, whole, _scale_of(over_time, whole)[0])
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, fontsize=8, loc="outside lower center", ncols=_COLUMNS, frameon=False)
    return figure


def _scale_of(over_time: OwnedOverTime, slices: OwnedInSlices) -> tuple[float, str]:
    """Return by what to divide the edges, and what the axis shows."""
    if not over_time.is_time:
        return 1.0, "events of the allocator"
    is_long = int(slices.edges[-1] - slices.edges[0]) >= 1_000_000
    return (1e6, "seconds of the recording") if is_long else (1e3, "milliseconds of the recording")


def _mark(axes: Axes, near: OwnedInSlices, whole: OwnedInSlices, scale: float) -> None:
    """Show where the part around the peak lies in the whole, wide enough to be seen."""
    least = _LEAST_MARK * float(whole.edges[-1] - whole.edges[0])
    middle, half = (near.edges[0] + near.edges[-1]) / 2, max(least, float(near.edges[-1] - near.edges[0])) / 2
    axes.axvspan((middle - half) / scale, (middle + half) / scale, color=_MARK, zorder=0, linewidth=0)


def _draw(axes: Axes, slices: OwnedInSlices, owners: tuple[str, ...], scale: float, divisor: int) -> None:
    edges = slices.edges / scale
    low = np.zeros(slices.bytes.shape[1])
    for number, owner in enumerate(owners):
        high = low + slices.bytes[number] / divisor
        is_others = number == len(owners) - 1 and owner == OTHERS
        color = _GREY if is_others else _COLORS[number % len(_COLORS)]
        label = escape_mathtext(clean(owner, _MOST_LETTERS))
        axes.stairs(high, edges, baseline=low, fill=True, color=color, label=label, linewidth=0)
        low = high
    quieten(axes)
    axes.set_xlim(edges[0], edges[-1] if edges[-1] > edges[0] else edges[0] + 1)
