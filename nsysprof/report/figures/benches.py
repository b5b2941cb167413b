"""Draw a bench (latency, throughput, scaling: a line for each backend) and the best backend of each shape."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from nsysprof.attention.shape import varied_columns
from nsysprof.report.document import clean, escape_mathtext, shape_label
from nsysprof.report.figures import mpl
from nsysprof.report.figures.drawing import BACKEND_COLORS, INK, SOFT, WIDTH_IN, legend_columns, new_figure, quieten
from nsysprof.results.roof import known
from nsysprof.units import format_factor, format_ns, format_rate

_OTHERS = ("#7B3294", "#6b7683", "#F0E442", "#8c510a", "#01665e", "#999999")
_MARKERS = "osD^vPX*"
_AXES = {
    "seq": "sequence length",
    "kv_seq": "length of k and v",
    "batch": "batch",
    "heads": "heads",
    "head_dim": "head dimension",
    "head_dim_v": "head dimension of v",
}
_MOST_PANELS = 9
# The longest part of an interval that is drawn below a median, as a share of the median.
_MOST_BELOW = 0.9


def draw_latency(table: pd.DataFrame) -> mpl.Figure | None:
    """Draw medians with their 95 % intervals on logarithmic axes. Return None without a measured cell."""
    return _draw(table, "median latency (us, log), 95 % interval", lambda rows, ns: ns / 1e3, log=True)


def draw_throughput(table: pd.DataFrame, ceilings: Mapping[str, Any]) -> mpl.Figure | None:
    """Draw FLOP/s by formula, with the rate of a large matrix product on this device. Return None without a cell."""
    figure = _draw(table, "TFLOP/s by formula", lambda rows, ns: rows["flops"].astype(float) / ns / 1e3, log=False)
    dtypes = list(table["dtype"].unique())
    top = (ceilings.get("flops") or {}).get(dtypes[0]) if len(dtypes) == 1 else None
    if figure is None or top is None:
        return figure
    for axes in figure.axes:
        axes.axhline(top / 1e12, color=INK, linewidth=0.9, linestyle=(0, (4, 3)))
        text = f"matrix product here, {dtypes[0]}: {top / 1e12:.3g}"
        where = (0.01, top / 1e12)
        axes.annotate(text, where, xycoords=("axes fraction", "data"), fontsize=8, va="bottom", color=INK)
        axes.set_ylim(0, top / 1e12 * 1.12)
    return figure


def draw_scaling(table: pd.DataFrame) -> mpl.Figure | None:
    """Draw the time of a billion operations along each varied size: flat where cost grows as the work does."""
    # Time (ns) for a million operations is time (us) for a billion.
    cost = lambda rows, ns: ns / (rows["flops"].astype(float) / 1e6)  # noqa: E731
    return _draw(table, "us for 10⁹ operations (log)", cost, log=True)


def _draw(
    table: pd.DataFrame,
    label: str,
    value_of: Callable[[pd.DataFrame, pd.Series[float]], pd.Series[float]],
    *,
    log: bool,
) -> mpl.Figure | None:
    """Draw a line for each backend, with the interval of every median.

    value_of: what is drawn for cells that take these times (ns).
    """
    timed = table[table["median_ns"].notna()]
    if len(timed) == 0:
        return None
    along = next((column for column in _AXES if timed[column].nunique() > 1), "seq")
    rest = [column for column in varied_columns(timed) if column != along and timed[column].nunique() > 1]
    panels = list(timed.groupby(rest, sort=True, dropna=False)) if rest else [((), timed)]
    columns = min(3, len(panels))
    shown = panels[:_MOST_PANELS]
    height = -(-len(shown) // columns)
    figure = new_figure(2.9 * height + (0.9 if columns > 1 else 1.2))
    grid = figure.subplots(height, columns, squeeze=False, sharex=True, sharey=True)
    sizes = sorted(timed[along].unique())
    backends = list(dict.fromkeys(timed["backend"]))
    step = (sizes[-1] / sizes[0]) ** 0.006 if len(sizes) > 1 else 1.03
    for axes, (key, rows) in zip(grid.flat, shown, strict=False):
        for index, backend in enumerate(backends):
            mine = rows[rows["backend"] == backend].sort_values(along)
            if len(mine) == 0:
                continue
            color = BACKEND_COLORS.get(backend, _OTHERS[index % len(_OTHERS)])
            # Side by side, so that intervals of equal medians do not hide each other.
            shift = step ** (index - (len(backends) - 1) / 2)
            x = [float(size) * shift for size in mine[along]]
            name = escape_mathtext(clean(backend, 30))
            axes.errorbar(
                x, *_interval(mine, value_of), capsize=2.5, linewidth=1.4, markersize=4.5, color=color,
                marker=_MARKERS[index % len(_MARKERS)], label=name,
            )  # fmt: skip
        _dress(axes, sizes, log)
        if rest:
            values = key if isinstance(key, tuple) else (key,)
            axes.set_title(escape_mathtext(shape_label(rest, values)), fontsize=9, loc="left", color=INK)
    for axes in list(grid.flat)[len(shown) :]:
        axes.set_visible(False)
    # A backend that cannot run the first panel's shapes is drawn in others.
    drawn = {name: handle for axes in grid.flat for handle, name in zip(*axes.get_legend_handles_labels(), strict=True)}
    more = f"; {len(shown)} of {len(panels)} panels, all rows are in results.csv" if len(panels) > len(shown) else ""
    columns = legend_columns(list(drawn), most=7)
    figure.legend([*drawn.values()], [*drawn], loc="outside upper left", ncols=columns, fontsize=9, frameon=False)
    figure.supxlabel(f"{_AXES[along]} (log){more}", fontsize=10, color=INK)
    figure.supylabel(label, fontsize=10, color=INK)
    return figure


def _interval(rows: pd.DataFrame, value_of: Any) -> tuple[pd.Series[float], list[pd.Series[float]]]:
    """Return the medians, and how far their intervals reach below and above.

    On a logarithmic axis, one that reaches zero is cut.
    """
    ns = rows["median_ns"].astype(float)
    middle, *ends = (value_of(rows, rows[end].astype(float).fillna(ns)) for end in ("median_ns", "low_ns", "high_ns"))
    low, high = np.minimum(*ends), np.maximum(*ends)
    return middle, [(middle - low).clip(lower=0, upper=_MOST_BELOW * middle), (high - middle).clip(lower=0)]


def _dress(axes: mpl.Axes, sizes: list[Any], log: bool) -> None:
    axes.set_xscale("log", base=2)
    axes.set_xticks([float(size) for size in sizes], [f"{size}" for size in sizes])
    axes.minorticks_off()
    if len(sizes) == 1:
        axes.set_xlim(float(sizes[0]) / 2, float(sizes[0]) * 2)
    if log:
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(mpl.LogLocator(subs=(1.0, 2.0, 5.0)))
        axes.yaxis.set_major_formatter(mpl.StrMethodFormatter("{x:,g}"))
        axes.yaxis.set_minor_formatter(mpl.NullFormatter())
    quieten(axes)
    axes.grid(axis="y", color=SOFT, linewidth=0.5)


_UNDECIDED = ("tie", "inconclusive")
_UNKNOWN = "#ffffff"
_MOST_HEAT_MAPS = 12
# The widths of the names of rows, and of a letter in a cell (inches).
_ROW_NAMES_IN, _CELL_LETTER_IN = 0.9, 0.07
# The colour of a cell: how many times as long torch's own choice takes as the best, from the palest to the darkest.
_GAINS = (
    (1.03, "#e3e7ec"),
    (1.1, "#d5eadf"),
    (1.25, "#a6d8bd"),
    (1.5, "#5fb98c"),
    (2.0, "#1f8a5b"),
    (math.inf, "#0b5d3b"),
)
_DARK_FROM = 1.5


def draw_winners(winners: pd.DataFrame) -> mpl.Figure | None:
    """Draw a heat map: the best backend of each shape; the colour is what torch's own choice loses against it.

    Return None where no shape has a winner.
    """
    if len(winners) == 0:
        return None
    across = "seq" if winners["seq"].nunique() > 1 or winners["kv_seq"].nunique() == 1 else "kv_seq"
    down = next((column for column in ("batch", "heads", "head_dim") if winners[column].nunique() > 1), "batch")
    rest = [c for c in varied_columns(winners) if c not in (across, down) and winners[c].nunique(dropna=False) > 1]
    panels = list(winners.groupby(rest, sort=True, dropna=False)) if rest else [((), winners)]
    shown = panels[:_MOST_HEAT_MAPS]
    columns = min(2 if winners[across].nunique() > 3 else 3, len(shown))
    lines = -(-len(shown) // columns)
    rows = winners[down].nunique()
    figure = new_figure(0.9 + lines * (0.55 + 0.56 * max(2, rows)))
    grid = figure.subplots(lines, columns, squeeze=False)
    for axes, (key, cells) in zip(grid.flat, shown, strict=False):
        room_in = (WIDTH_IN / columns - _ROW_NAMES_IN) / winners[across].nunique()
        _draw_panel(axes, cells, across, down, letters=max(3, int(room_in / _CELL_LETTER_IN)))
        if rest:
            values = key if isinstance(key, tuple) else (key,)
            axes.set_title(escape_mathtext(shape_label(rest, values)), fontsize=9, loc="left", color=INK)
    for axes in list(grid.flat)[len(shown) :]:
        axes.set_visible(False)
    handles = [
        mpl.Patch(facecolor=color, edgecolor=SOFT, linewidth=0.5, label=label) for color, label in _gain_labels()
    ]
    figure.legend(handles=handles, loc="outside upper left", ncols=4, fontsize=9, frameon=False)
    more = f"; {len(shown)} of {len(panels)} panels, all rows are in winners.csv" if len(panels) > len(shown) else ""
    figure.supxlabel(
        f"colour: how much longer torch's own choice takes; below the best, the next slower one{more}",
        fontsize=9,
        color=INK,
    )
    return figure


def _gain_labels() -> list[tuple[str, str]]:
    """Return the colours of gains with what they mean, and the colour of an unknown one."""
    labels, least = [], 1.0
    for most, color in _GAINS:
        if least == 1.0:
            text = f"within {_longer(most)}"
        else:
            text = f"over {_longer(least)}" if math.isinf(most) else f"{_longer(least)} to {_longer(most)}"
        labels.append((color, text))
        least = most
    return [*labels, (_UNKNOWN, "auto not measured")]


def _longer(ratio: float) -> str:
    return f"{100 * (ratio - 1):.0f} %" if ratio < 2 else f"{ratio:g}x"


def _gain_color(ratio: float | None) -> str:
    return _UNKNOWN if ratio is None else next(color for most, color in _GAINS if ratio <= most)


def _draw_panel(axes: mpl.Axes, cells: pd.DataFrame, across: str, down: str, letters: int) -> None:
    """Draw one heat map. letters: how many of them a cell has room for."""
    xs, ys = sorted(cells[across].unique()), sorted(cells[down].unique())
    for row in cells.to_dict("records"):
        x, y = xs.index(row[across]), ys.index(row[down])
        gain = known(row["over_auto"])
        color = _gain_color(gain)
        axes.add_patch(mpl.Rectangle((x - 0.48, y - 0.46), 0.96, 0.92, facecolor=color, edgecolor=SOFT, linewidth=0.5))
        ink = "white" if gain is not None and gain > _DARK_FROM else INK
        axes.annotate(_cell_text(row, letters), (x, y), ha="center", va="center", fontsize=7.5, color=ink)
    axes.set_xlim(-0.5, len(xs) - 0.5)
    axes.set_ylim(len(ys) - 0.5, -0.5)
    axes.set_xticks(range(len(xs)), [f"S={x}" if across == "seq" else str(x) for x in xs], fontsize=8)
    axes.set_yticks(range(len(ys)), [f"{down}={y}" for y in ys], fontsize=8)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)


def _cell_text(row: dict[Any, Any], letters: int) -> str:
    margin = known(row["margin"])
    if row["verdict"] in _UNDECIDED:
        names = sorted([str(row["backend"]), *str(row["tied"]).split(", ")])
        lines = [clean(name, letters) for name in names[:3]] + (["…"] if len(names) > 3 else [])
    else:
        lines = [clean(str(row["backend"]), letters)] if row["backend"] else []
    if margin is None:
        return "\n".join(lines)
    # Nobody reads a surplus of thousands of percent.
    return "\n".join([*lines, f"{100 * (margin - 1):+.0f} %" if margin < 2 else format_factor(margin)])


def describe_bench(table: pd.DataFrame, column: str, what: str, unit: str) -> str:
    """Return the best and the worst case of a bench.

    column: what is compared.
    what: its name.
    unit: ns, or the unit of a rate, for which more is better.
    """
    rows = table[table[column].notna()].sort_values(column, ascending=unit == "ns", kind="stable")
    text = f"{what} of {len(rows)} cases"
    if not len(rows):
        return f"{text}."
    ends = [rows.iloc[0], *([rows.iloc[-1]] if len(rows) > 1 else [])]
    said = [f"{row['case']} {_value(float(row[column]), unit)}" for row in ends]
    return f"{text}, from the best to the worst: {' to '.join(said)}."


def describe_scaling(table: pd.DataFrame) -> str:
    """Return which cases take the least and the most time for equal work."""
    timed = table[table["median_ns"].notna() & (table["flops"] > 0)]
    cost = timed.assign(cost_ns=timed["median_ns"].astype(float) / (timed["flops"].astype(float) / 1e9))
    return describe_bench(cost, "cost_ns", "Time for a billion operations", "ns")


def describe_winners(winners: pd.DataFrame) -> str:
    """Return for how many shapes each backend is the best, and for how many there is no best."""
    undecided = winners["verdict"].isin(("tie", "inconclusive"))
    counts = winners[~undecided]["backend"].value_counts()
    said = [f"{name} for {count}" for name, count in counts.items()]
    said += [f"none for {int(undecided.sum())}"] if undecided.any() else []
    return f"The best backend of each of {len(winners)} shapes: {', '.join(said)}." if said else "No shape has a best."


def _value(value: float, unit: str) -> str:
    return format_ns(value) if unit == "ns" else format_rate(value, unit)
