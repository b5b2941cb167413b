"""Draw memory.png: the memory of torch's allocator over time, coloured by owner."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nsysprof.report.figures.style.palette import CATEGORY_COLORS, quieten
from nsysprof.report.figures.style.palette import new_figure as make_figure
from nsysprof.report.formats.escape import clean, escape_mathtext
from nsysprof.results.allocator_memory import OwnedOverTime

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_COLORS = tuple(CATEGORY_COLORS.values())
_GIB, _MIB = 1 << 30, 1 << 20


def draw_memory(over_time: OwnedOverTime) -> Figure | None:
    """Draw what each owner held, stacked. Return None where there is no history to draw."""
    if len(over_time.moment) < 2:
        return None
    figure = make_figure(3.6)
    axes = figure.subplots()
    divisor, unit = (_GIB, "GiB") if over_time.bytes.sum(axis=0).max() >= 4 * _GIB else (_MIB, "MiB")
    moment = over_time.moment / 1e6 if over_time.is_time else over_time.moment
    low = np.zeros(len(moment))
    for number, owner in enumerate(over_time.owners):
        high = low + over_time.bytes[number] / divisor
        label, color = escape_mathtext(clean(owner, 60)), _COLORS[number % len(_COLORS)]
        axes.fill_between(moment, low, high, step="post", color=color, label=label, linewidth=0)
        low = high
    quieten(axes)
    axes.set_xlabel("seconds of the recording" if over_time.is_time else "events of the allocator", fontsize=9)
    axes.set_ylabel(f"allocated ({unit})", fontsize=9)
    axes.set_ylim(bottom=0)
    handles, labels = axes.get_legend_handles_labels()
    axes.legend(handles[::-1], labels[::-1], fontsize=7, loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
    return figure
