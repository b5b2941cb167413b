"""Draw roofline.png and traffic.png: each case against what the device can reach, and its bytes against the least.

Labels are placed by our own code, because libraries move them by random steps, and the same data must give the same
file.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from nsysprof.report.document import clean, escape_mathtext
from nsysprof.report.figures import mpl
from nsysprof.report.figures.drawing import BACKEND_COLORS, INK, SOFT, byte_ticks, legend_columns, new_figure, quieten
from nsysprof.results.analysis import CaptureRecord
from nsysprof.results.roof import COUNTED, LAUNCH, SAMPLED, Roof, known, roof_of, sampled_of
from nsysprof.units import format_factor, format_rate

_OTHERS = ("#7B3294", "#6b7683", "#8c510a", "#01665e", "#999999")
_MARKERS = "osD^vPX*"
# the end of the axis, as a multiple of the ridge: a case that never leaves the L2 has no DRAM bytes to divide by
_BEYOND = 40.0
_LEAST_SHOWN = 1 / 200  # as a share of the least bytes; a case below this moves almost nothing
_PASSES = {"fwd": "forward", "bwd": "backward", "fwdbwd": "forward and backward"}


def draw_roofline(record: CaptureRecord) -> mpl.Figure | None:
    """Draw FLOP/s by formula over FLOP per byte of DRAM, by pass and dtype. Return None without ceilings or traffic."""
    roof, results = roof_of(record.environment), record.results
    points = results[results["flops_per_s"].notna() & results["dram_bytes"].notna()]
    if roof is None or not len(points):
        return None
    panels = list(points.groupby(["pass", "dtype"], sort=False))
    figure = new_figure(4.6 * -(-len(panels) // 2) + 0.5)
    grid = figure.subplots(-(-len(panels) // 2), min(2, len(panels)), squeeze=False)
    backends = list(dict.fromkeys(points["backend"]))
    for axes, ((pass_, dtype), rows) in zip(grid.flat, panels, strict=False):
        peak = roof.flops.get(str(dtype))
        if peak is None:
            continue
        _frame(axes, rows, roof, peak)
        _draw_roof(axes, roof, str(dtype), peak)
        _draw_points(axes, rows, backends)
        axes.set_title(f"{_PASSES[str(pass_)]}, {dtype}; label: sequence length", fontsize=10, loc="left", color=INK)
        axes.set_xlabel("FLOP by formula a byte of DRAM (log)", fontsize=10, color=INK)
    for axes in list(grid.flat)[len(panels) :]:
        axes.set_visible(False)
    hollow: dict[str, Any] = dict(marker="o", linewidth=0, color=INK, markerfacecolor="white", markersize=5)
    ring: dict[str, Any] = dict(marker="o", linewidth=0, color="#a40e26", markerfacecolor="none", markersize=9)
    meanings = [mpl.Line2D([], [], label="launch-bound", **hollow), mpl.Line2D([], [], label="above the roof", **ring)]
    _legend(figure, backends, meanings)
    figure.supylabel("FLOP/s by formula, untraced", fontsize=10, color=INK)
    for axes, (_, rows) in zip(grid.flat, panels, strict=False):
        _label(axes, rows)
    return figure


def _frame(axes: mpl.Axes, rows: pd.DataFrame, roof: Roof, peak: float) -> None:
    ridge = peak / roof.bytes_per_s
    intensity = rows["intensity"].astype(float).dropna()
    rate = rows["flops_per_s"].astype(float)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(min(float(intensity.min()) / 2 if len(intensity) else ridge, ridge / 20), ridge * _BEYOND)
    axes.set_ylim(float(rate.min()) / 3, max(peak, _datasheet(roof, peak)) * 2.2)
    quieten(axes)
    axes.grid(visible=True, which="major", color=SOFT, linewidth=0.5)
    axes.xaxis.set_major_formatter(lambda x, _: f"{x:,.0f}" if x >= 1 else f"{x:g}")
    axes.yaxis.set_major_formatter(mpl.EngFormatter())


def _datasheet(roof: Roof, peak: float) -> float:
    return peak if roof.datasheet is None else max(roof.datasheet.flops.values())


def _draw_roof(axes: mpl.Axes, roof: Roof, dtype: str, peak: float) -> None:
    low, high = axes.get_xlim()
    clock = roof.clock_mhz.get(dtype)
    at = f" at {clock:,} MHz" if clock else ""
    lines = [(roof.bytes_per_s, peak, "-", INK)]
    ceilings = [f"measured: {peak / 1e12:,.0f} TFLOP/s{at}, DRAM {roof.bytes_per_s / 1e12:.2f} TB/s"]
    if roof.datasheet is not None:
        top = roof.datasheet.flops[dtype]
        lines.append((roof.datasheet.bytes_per_s, top, ":", "#6b7683"))
        ceilings.append(f"datasheet (dotted): {top / 1e12:,.0f} TFLOP/s, {roof.datasheet.bytes_per_s / 1e12:.2f} TB/s")
    for rate, top, style, color in lines:
        x = [low, top / rate, high]
        axes.plot(
            x, [min(top, intensity * rate) for intensity in x], linestyle=style, color=color, linewidth=1.2, zorder=1
        )
    if roof.l2_bytes_per_s is not None:
        x = [low, peak / roof.l2_bytes_per_s]
        y = [intensity * roof.l2_bytes_per_s for intensity in x]
        axes.plot(x, y, linestyle="--", color="#56B4E9", linewidth=1.0, zorder=1)
        ceilings.append(f"L2 (dashed): {roof.l2_bytes_per_s / 1e12:.2f} TB/s")
    text = "\n".join(ceilings)
    axes.annotate(text, (0.99, 0.015), xycoords="axes fraction", fontsize=7.5, ha="right", va="bottom", color=INK)


def _draw_points(axes: mpl.Axes, rows: pd.DataFrame, backends: list[str]) -> None:
    for index, backend in enumerate(backends):
        mine = rows[rows["backend"] == backend].sort_values("seq")
        color, marker = _color(backend, index), _MARKERS[index % len(_MARKERS)]
        places = [_place(axes, row) for row in mine.to_dict("records")]
        axes.plot([x for x, _ in places], [y for _, y in places], color=color, linewidth=0.7, alpha=0.5, zorder=2)
        for (x, y), row in zip(places, mine.to_dict("records"), strict=True):
            low, high = (float(known(row[f"flops_per_s_{end}"]) or y) for end in ("low", "high"))
            face = "white" if row["limiter"] == LAUNCH else color
            axes.errorbar(
                x, y, yerr=[[max(0.0, y - low)], [max(0.0, high - y)]], color=color, marker=marker, markersize=5.5,
                markerfacecolor=face, capsize=2, linewidth=1, zorder=3,
            )  # fmt: skip
            if known(row["above_roof"]):
                axes.plot(x, y, marker="o", markersize=13, markerfacecolor="none", color="#a40e26", zorder=4)


def _place(axes: mpl.Axes, row: Any) -> tuple[float, float]:
    """Return where a case is drawn: at the edge when it moves next to nothing."""
    edge = axes.get_xlim()[1] / 1.3
    intensity = known(row["intensity"])
    return (edge if intensity is None else min(float(intensity), edge)), float(row["flops_per_s"])


def _label(axes: mpl.Axes, rows: pd.DataFrame) -> None:
    cells = rows.sort_values(["backend", "seq"]).to_dict("records")
    places = [_place(axes, row) for row in cells]
    edge = axes.get_xlim()[1] / 1.3
    labels = [f"{_short(row['seq'])}{'→' if x >= edge else ''}" for row, (x, _) in zip(cells, places, strict=True)]
    place_labels(axes, places, labels, fontsize=7, color=INK)


def _short(seq: int) -> str:
    return f"{seq // 1024}k" if seq >= 1024 and seq % 1024 == 0 else str(seq)


def _color(backend: str, index: int) -> str:
    return BACKEND_COLORS.get(backend, _OTHERS[index % len(_OTHERS)])


def _legend(figure: mpl.Figure, backends: list[str], meanings: list[mpl.Line2D]) -> None:
    handles = [
        mpl.Line2D(
            [], [], color=_color(name, i), marker=_MARKERS[i % len(_MARKERS)], markersize=5, linewidth=0.8, label=text
        )
        for i, name in enumerate(backends)
        if (text := escape_mathtext(clean(name, 30)))
    ]
    columns = legend_columns([clean(name, 30) for name in backends])
    figure.legend(handles=handles, loc="outside upper left", ncols=columns, fontsize=9, frameon=False)
    figure.legend(handles=meanings, loc="outside lower center", ncols=3, fontsize=9, frameon=False)


def draw_traffic(record: CaptureRecord) -> mpl.Figure | None:
    """Draw DRAM bytes per call by sequence length against the least, by pass. Return None where none are known."""
    results = record.results
    rows = results[results["dram_bytes"].notna() | results["sampled_read_bytes"].notna()]
    if not len(rows):
        return None
    panels = list(rows.groupby("pass", sort=False))
    figure = new_figure(4.3)
    grid = figure.subplots(1, len(panels), squeeze=False, sharey=True)[0]
    backends = list(dict.fromkeys(rows["backend"]))
    floor = float(rows["least_bytes"].astype(float).min()) * _LEAST_SHOWN
    for axes, (pass_, mine) in zip(grid, panels, strict=True):
        _draw_traffic(axes, mine, backends, floor)
        axes.set_title(_PASSES[str(pass_)], fontsize=10, loc="left", color=INK)
        axes.set_xlabel("sequence length (log)", fontsize=10, color=INK)
    handles = [
        mpl.Line2D([], [], color=INK, linestyle=":", label="least: inputs read, results written once"),
        mpl.Line2D([], [], color=INK, marker="o", linewidth=1, markersize=5, label=f"{COUNTED} (ncu)"),
        mpl.Line2D(
            [],
            [],
            color=INK,
            marker="o",
            linewidth=0,
            markersize=5,
            markerfacecolor="white",
            label=f"{SAMPLED} (nsys), ± bound",
        ),
    ]
    _legend(figure, backends, handles)
    figure.supylabel("DRAM bytes of a call (log)", fontsize=10, color=INK)
    return figure


def _draw_traffic(axes: mpl.Axes, rows: pd.DataFrame, backends: list[str], floor: float) -> None:
    """Draw the traffic of one panel.

    floor: smaller values (bytes) are raised to this one, to stay on the axis.
    """
    sizes = sorted(rows["seq"].unique())
    step = 1.025
    for index, backend in enumerate(backends):
        mine = rows[rows["backend"] == backend].sort_values("seq")
        color, marker = _color(backend, index), _MARKERS[index % len(_MARKERS)]
        shift = step ** (index - (len(backends) - 1) / 2)
        counted = mine[mine["dram_source"] == COUNTED]
        heights = [max(float(value), floor) for value in counted["dram_bytes"]]
        x = [float(seq) * shift for seq in counted["seq"]]
        axes.plot(x, heights, color=color, marker=marker, markersize=5, linewidth=1.3, zorder=3)
        for row in mine.to_dict("records"):
            moved, error = sampled_of(row)
            if moved is None or error is None:
                continue
            low = max(moved - error, floor)
            top = max(moved, floor)
            beside = float(row["seq"]) * shift * step**0.4
            bound = [[top - min(low, top)], [moved + error - top]]
            style: dict[str, Any] = dict(marker=marker, markersize=5, markerfacecolor="white", capsize=2, linewidth=0.9)
            axes.errorbar(beside, top, yerr=bound, color=color, zorder=2, **style)
    least = rows.drop_duplicates("seq").sort_values("seq")
    axes.plot(least["seq"].astype(float), least["least_bytes"].astype(float), linestyle=":", color=INK, linewidth=1.4)
    axes.set_xscale("log", base=2)
    axes.set_xticks([float(size) for size in sizes], [str(size) for size in sizes])
    axes.minorticks_off()
    axes.set_yscale("log", base=2)
    axes.set_ylim(bottom=floor / 1.5)
    low, high = axes.get_ylim()
    axes.set_yticks(*byte_ticks(low, high))
    quieten(axes)
    axes.grid(axis="y", color=SOFT, linewidth=0.5)
    axes.annotate("at the bottom: less", (0.99, 0.01), xycoords="axes fraction", fontsize=7.5, ha="right", color=INK)


_AROUND = (
    (5, 3),
    (5, -9),
    (-5, 3),
    (-5, -9),
    (0, 7),
    (0, -13),
    (12, 8),
    (-12, 8),
    (12, -14),
    (-12, -14),
    (22, 0),
    (-22, 0),
)
_POINT_PX = 5.0

Box = tuple[float, float, float, float]


def place_labels(axes: mpl.Axes, points: Sequence[tuple[float, float]], labels: Sequence[str], **style: Any) -> None:
    """Write each label at the first free place around its point. A label without a free place is left out.

    axes: the axes, with their final limits.
    points: the points in data coordinates.
    """
    figure = axes.figure
    figure.canvas.draw()
    scale = figure.dpi / 72
    pixels = [tuple(axes.transData.transform(point)) for point in points]
    taken: list[Box] = [
        (x - _POINT_PX * scale, y - _POINT_PX * scale, x + _POINT_PX * scale, y + _POINT_PX * scale) for x, y in pixels
    ]
    frame = axes.get_window_extent()
    for point, own, label in zip(points, list(taken), labels, strict=True):
        for dx, dy in _AROUND:
            side = "left" if dx > 0 else "right" if dx < 0 else "center"
            text = axes.annotate(label, point, (dx, dy), textcoords="offset points", ha=side, **style)
            extent = text.get_window_extent()
            box = (extent.x0, extent.y0, extent.x1, extent.y1)
            inside = box[0] >= frame.x0 and box[2] <= frame.x1 and box[1] >= frame.y0 and box[3] <= frame.y1
            if inside and not any(_meet(box, other) for other in taken if other is not own):
                taken.append(box)
                break
            text.remove()


def _meet(a: Box, b: Box) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def describe_roofline(record: CaptureRecord) -> str:
    """Return the highest and the lowest rate of the cases, and what limits how many of them."""
    points = record.results[record.results["flops_per_s"].notna() & record.results["dram_bytes"].notna()]
    ordered = points.sort_values("flops_per_s", ascending=False, kind="stable")
    text = f"Roofline of {len(points)} cases"
    if len(ordered):
        ends = [ordered.iloc[0], *([ordered.iloc[-1]] if len(ordered) > 1 else [])]
        rates = [f"{row['range']} at {format_rate(known(row['flops_per_s']), 'FLOP/s')}" for row in ends]
        text += f", from {' down to '.join(rates)}"
    limits = points["limiter"].dropna().value_counts()
    counts = [f"{count} {name}" for name, count in limits.items()]
    return text + (f"; {', '.join(counts)}." if counts else ".")


def describe_traffic(record: CaptureRecord) -> str:
    """Return which cases move the most and the fewest bytes relative to the least that they need."""
    rows = record.results[record.results["dram_bytes"].notna() & (record.results["least_bytes"] > 0)]
    ratio = (rows["dram_bytes"].astype(float) / rows["least_bytes"].astype(float)).sort_values(kind="stable")
    text = f"DRAM traffic of {len(rows)} cases against the least that their inputs and outputs need"
    if not len(ratio):
        return f"{text}."
    ends = dict.fromkeys(((ratio.index[0], float(ratio.iloc[0])), (ratio.index[-1], float(ratio.iloc[-1]))))
    names = [f"{rows['range'].loc[place]} {_least(times)}" for place, times in ends]
    return f"{text}: from {' to '.join(names)}."


def _least(times: float) -> str:
    """Return a factor as text; one that would round to zero is written as less than 0.01x."""
    return format_factor(times) if times >= 0.01 else "less than 0.01x" if times > 0 else "none"
