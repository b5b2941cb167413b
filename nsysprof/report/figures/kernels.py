"""Draw kernels.png: the time of each backend by category of kernel, or the top kernels of other traces."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

from nsysprof.attention.range_name import parse_range
from nsysprof.report.figures.drawing_style import (
    CATEGORY_COLORS,
    INK,
    NS_PER_S,
    label_seconds,
    legend_of_categories,
    new_figure,
    quieten,
)
from nsysprof.report.formats.cell_text import shorten_names
from nsysprof.report.formats.escape import clean, escape_mathtext
from nsysprof.report.wording import MOST_NAMED, words_for
from nsysprof.results.analysis import Analysis
from nsysprof.units import format_ns

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MAX_BARS = 30
_TOP = 15


def draw_kernels(analysis: Analysis, calls: dict[str, int] | None = None) -> Figure | None:
    """Draw the time per call by range, stacked by category; one panel a sequence length. None without kernels."""
    if len(analysis.kernels) == 0:
        return None
    table = _by_range(analysis, calls or {})
    return _draw_top(analysis) if table is None else _draw_ranges(analysis, table, bool(calls))


def _by_range(analysis: Analysis, calls: dict[str, int]) -> pd.DataFrame | None:
    rows = analysis.range_kernels
    twins = set(rows.loc[rows["style"] == "StartEnd", "range"])
    rows = rows[(rows["style"] == "StartEnd") | ~rows["range"].isin(twins)]
    parsed = {name: parse_range(name) for name in rows["range"].unique()}
    ours = rows[rows["range"].map(lambda name: parsed[name] is not None).astype(bool)]
    if len(ours) == 0:
        return None
    table = ours.groupby(["range", "category"], sort=False)[["total_ns", "instances"]].sum().reset_index()
    calls_of_range = table["range"].map(lambda name: calls.get(name, 1))
    table["total_ns"], table["instances"] = table["total_ns"] / calls_of_range, table["instances"] / calls_of_range
    for field in ("backend", "seq", "variant"):
        table[field] = [getattr(parsed[name], field) for name in table["range"]]
    return table


def _draw_ranges(analysis: Analysis, table: pd.DataFrame, per_call: bool) -> Figure:
    words = words_for(analysis.trace)
    sizes = list(dict.fromkeys(table["seq"]))[:6]
    counts = [table[table["seq"] == seq]["range"].nunique() for seq in sizes]
    figure = new_figure(0.34 * min(sum(counts), _MAX_BARS) + 0.62 * len(sizes) + 0.9)
    axes = figure.subplots(len(sizes), 1, gridspec_kw={"height_ratios": counts}, squeeze=False)[:, 0]
    used: set[str] = set()
    for panel, seq in zip(axes, sizes, strict=True):
        used |= _stack(panel, table[table["seq"] == seq], words.works)
        panel.set_title(f"S={seq}", fontsize=10, loc="left", color=INK)
    unit = " per call" if per_call else " in the range"
    axes[-1].set_xlabel(f"{words.work} time{unit}, summed (each S has its own scale)", fontsize=10, color=INK)
    legend_of_categories(figure, used)
    return figure


def _stack(axes: Axes, rows: pd.DataFrame, works: str) -> set[str]:
    ranges = list(dict.fromkeys(rows["range"]))[:_MAX_BARS]
    largest = float(rows.groupby("range")["total_ns"].sum().max())
    for y, name in enumerate(reversed(ranges)):
        left = 0.0
        mine = rows[rows["range"] == name].set_index("category")
        for category in [c for c in CATEGORY_COLORS if c in mine.index]:
            width = float(mine.loc[category, "total_ns"]) / NS_PER_S
            axes.barh(y, width, left=left, height=0.72, color=CATEGORY_COLORS[category], linewidth=0)
            left += width
        count = float(mine["instances"].sum())
        label = f" {format_ns(left * NS_PER_S)}, {count:g} {works if count != 1 else works[:-1]}"
        axes.text(left, y, label, va="center", fontsize=9, color=INK)
    first = rows.drop_duplicates("range").set_index("range")
    labels = [f"{first.loc[n, 'backend']} {first.loc[n, 'variant']}".strip() for n in reversed(ranges)]
    axes.set_yticks(range(len(ranges)), [escape_mathtext(clean(label, 40)) for label in labels])
    axes.set_xlim(0, 1.32 * largest / NS_PER_S)
    label_seconds(axes.xaxis)
    quieten(axes)
    return set(rows["category"])


def _draw_top(analysis: Analysis) -> Figure:
    words = words_for(analysis.trace)
    top = analysis.kernels.head(_TOP).iloc[::-1]
    figure = new_figure(0.34 * len(top) + 1.1)
    axes = figure.subplots()
    colors = [CATEGORY_COLORS.get(category, "#999999") for category in top["category"]]
    axes.barh(range(len(top)), top["total_ns"] / NS_PER_S, color=colors, height=0.72, linewidth=0)
    for y, row in enumerate(top.to_dict("records")):
        mean = row["total_ns"] / row["instances"]
        label = f" {format_ns(row['total_ns'])} = {row['instances']:,} × {format_ns(mean)}, {row['share_pct']:.1f} %"
        axes.text(row["total_ns"] / NS_PER_S, y, label, va="center", fontsize=9, color=INK)
    names = shorten_names([str(name) for name in top["label"]], 40)
    axes.set_yticks(range(len(top)), [escape_mathtext(name) for name in names])
    axes.set_xlim(0, 1.6 * float(top["total_ns"].max()) / NS_PER_S)
    label_seconds(axes.xaxis)
    axes.set_xlabel(
        f"total {words.work} time = instances × mean, and its share of all {words.work} time", fontsize=10, color=INK
    )
    quieten(axes)
    legend_of_categories(figure, set(top["category"]))
    return figure


def describe_kernels(analysis: Analysis) -> str:
    """Return the time of the kernels by category, and the longest of them."""
    words, kernels = words_for(analysis.trace), analysis.kernels
    total, count = int(kernels["total_ns"].sum()), int(kernels["instances"].sum())
    text = f"{count:,} {words.works} take {format_ns(total)}. {categories_line(analysis)}"
    if len(kernels):
        first = kernels.sort_values("total_ns", ascending=False, kind="stable").iloc[0]
        time, times = format_ns(int(first["total_ns"])), f"{int(first['instances']):,}"
        text += f" {first['label']} takes the most time: {time} in {times} runs."
    return text


def categories_line(analysis: Analysis) -> str:
    """Return the categories of kernels with the most time, with their shares of it."""
    total = float(analysis.kernels["total_ns"].sum())
    if total <= 0:
        return ""
    sums = analysis.kernels.groupby("category")["total_ns"].sum().sort_values(ascending=False, kind="stable")
    parts = [
        f"{name} {format_ns(float(time))} ({100 * time / total:.1f} %)" for name, time in sums.head(MOST_NAMED).items()
    ]
    return f"By kind: {', '.join(parts)}."
