"""Draw memory over time: vram.png (what the driver gave) and memory.png (torch's allocator, coloured by owner)."""

from __future__ import annotations

import numpy as np
import pandas as pd

from nsysprof.attention.range_name import parse_range
from nsysprof.report.document import MOST_NAMED, clean, escape_mathtext, words_for
from nsysprof.report.figures import mpl
from nsysprof.report.figures.drawing import (
    BACKEND_COLORS,
    CATEGORY_COLORS,
    INK,
    NS_PER_S,
    RANGE,
    byte_scale,
    label_seconds,
    legend_columns,
    new_figure,
    quieten,
)
from nsysprof.results.allocator_memory import OTHERS, AllocatorMemory, OwnedInSlices, OwnedOverTime
from nsysprof.results.analysis import Analysis, CaptureRecord
from nsysprof.units import format_bytes

# Strong colours are for owners; everything else is grey.
_GREYS = ("graph", "wait", "other")
_COLORS = tuple(color for name, color in CATEGORY_COLORS.items() if name not in _GREYS)
_MARK, _LEAST_MARK = "#dfe3e8", 0.006
_GREY = CATEGORY_COLORS["wait"]
_GIB, _MIB = 1 << 30, 1 << 20
_MOST_LETTERS, _COLUMNS = 54, 2
# The heights of the axes of peaks, of the label of a bar, and of a row of the legend above it (inches).
_PEAKS_IN, _LABEL_IN, _LEGEND_ROW_IN, _MOST_ROOM = 2.4, 0.35, 0.2, 0.6


def draw_memory(over_time: OwnedOverTime) -> mpl.Figure | None:
    """Draw what each owner held, stacked. Return None where there is no history to draw."""
    whole, near = over_time.whole, over_time.around_peak
    if len(whole.edges) < 2:
        return None
    figure = new_figure(3.6 if near is None else 6.0)
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


def _mark(axes: mpl.Axes, near: OwnedInSlices, whole: OwnedInSlices, scale: float) -> None:
    """Show where the part around the peak lies in the whole, wide enough to be seen."""
    least = _LEAST_MARK * float(whole.edges[-1] - whole.edges[0])
    middle, half = (near.edges[0] + near.edges[-1]) / 2, max(least, float(near.edges[-1] - near.edges[0])) / 2
    axes.axvspan((middle - half) / scale, (middle + half) / scale, color=_MARK, zorder=0, linewidth=0)


def _draw(axes: mpl.Axes, slices: OwnedInSlices, owners: tuple[str, ...], scale: float, divisor: int) -> None:
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


_MAX_POINTS = 20_000
_OTHERS = (
    "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#999999", "#7B3294", "#8c510a", "#01665e",
    "#F0E442", "#C44E52",
)  # fmt: skip


def draw_vram(analysis: Analysis, record: CaptureRecord | None) -> mpl.Figure | None:
    """Draw peaks by case (log scale) above, and memory over time below. Return None without memory events."""
    cases = _peaks(analysis, record)
    memory = analysis.timeline.memory
    if len(memory) == 0 and cases is None:
        return None
    parts = [part for part in (cases is not None, len(memory) > 0) if part]
    figure = new_figure(3.1 * len(parts) + 0.2)
    axes = figure.subplots(len(parts), 1, squeeze=False)[:, 0]
    if cases is not None:
        _draw_peaks(axes[0], cases[0], cases[1])
    if len(memory):
        _draw_over_time(axes[-1], analysis)
    return figure


def _peaks(analysis: Analysis, record: CaptureRecord | None) -> tuple[pd.DataFrame, str] | None:
    """Return rows (backend, seq, variant, bytes) and their source: torch's peak where measured, else the trace's."""
    words = words_for(analysis.trace)
    if record is not None and record.results["peak_allocated_bytes"].notna().any():
        table = record.results[["range", "peak_allocated_bytes"]].set_axis(["range", "bytes"], axis=1)
        label = "peak allocated by torch, untraced pass"
    else:
        ranges = analysis.ranges.sort_values("style", key=lambda style: style != "StartEnd", kind="stable")
        ranges = ranges.drop_duplicates("range")
        table = ranges[["range", "peak_vram_bytes"]].set_axis(["range", "bytes"], axis=1)
        kind = "torch's allocator" if analysis.trace.memory_kind == "allocator" else "the driver"
        label = f"peak {words.memory} in the range, from {kind}"
    table = table[table["bytes"].fillna(0) > 0].copy()  # zero has no place on a log scale
    parsed = [parse_range(str(name)) for name in table["range"]]
    table = table[[entry is not None for entry in parsed]]
    ours = [entry for entry in parsed if entry is not None]
    if not ours:
        return None
    table["backend"] = [f"{entry.backend} {entry.variant}".strip() for entry in ours]
    table["seq"] = [entry.seq for entry in ours]
    return table, label


def _draw_peaks(axes: mpl.Axes, table: pd.DataFrame, label: str) -> None:
    backends, seqs = list(dict.fromkeys(table["backend"])), sorted(table["seq"].unique())
    width = 0.82 / len(backends)
    labels = [clean(backend, 30) for backend in backends]
    for index, backend in enumerate(backends):
        mine = table[table["backend"] == backend]
        x = [seqs.index(seq) + (index - (len(backends) - 1) / 2) * width for seq in mine["seq"]]
        sizes = mine["bytes"].astype(float).to_numpy()
        color = BACKEND_COLORS.get(backend, _OTHERS[index % len(_OTHERS)])
        name = escape_mathtext(labels[index])
        axes.bar(x, sizes / 2**20, width * 0.94, color=color, label=name, linewidth=0)
        if len(backends) * len(seqs) <= 24:
            for position, size in zip(x, sizes, strict=True):
                axes.annotate(
                    format_bytes(size).replace(" ", "\n"), (position, size / 2**20), ha="center", va="bottom",
                    fontsize=8, xytext=(0, 1), textcoords="offset points", color=INK, linespacing=0.9,
                )  # fmt: skip
    axes.set_yscale("log")
    columns = legend_columns(labels)
    # Room above the bars for their labels and the rows of the legend.
    room = min(_MOST_ROOM, (_LABEL_IN + _LEGEND_ROW_IN * -(-len(labels) // columns)) / _PEAKS_IN)
    low, high = axes.get_ylim()
    axes.set_ylim(low / 1.5, low * (high / low) ** (1 / (1 - room)))
    axes.set_ylabel("MiB (log)", fontsize=10, color=INK)
    axes.set_xticks(range(len(seqs)), [f"S={seq}" for seq in seqs])
    axes.set_title(label, fontsize=10, loc="left", color=INK)
    axes.legend(fontsize=9, frameon=False, ncols=columns, loc="upper left")
    quieten(axes)
    axes.grid(False)


def _draw_over_time(axes: mpl.Axes, analysis: Analysis) -> None:
    words, memory = words_for(analysis.trace), analysis.timeline.memory
    start, end = int(memory["time_ns"].min()), int(memory["time_ns"].max())
    size, name = byte_scale(float(memory["used_bytes"].max()))
    is_shaded = _shade_ranges(axes, analysis, start)
    for index, (device, events) in enumerate(memory.groupby("device_id")):
        x, y = _thin(events["time_ns"].to_numpy() - start, events["used_bytes"].to_numpy())
        color = _OTHERS[index % len(_OTHERS)]
        axes.step(x / NS_PER_S, y / size, where="post", linewidth=1, color=color, label=f"device {device}")
    axes.set_ylabel(name, fontsize=10, color=INK)
    axes.set_ylim(bottom=0)
    axes.set_xlim(0, max(1, end - start) / NS_PER_S)
    label_seconds(axes.xaxis)
    shaded = "; shaded: measured ranges" if is_shaded else ""
    axes.set_xlabel(f"time since the first allocation{shaded}", fontsize=10, color=INK)
    kind = "torch's allocator" if analysis.trace.memory_kind == "allocator" else "the driver"
    axes.set_title(f"{words.memory} in use, from {kind}", fontsize=10, loc="left", color=INK)
    if memory["device_id"].nunique() > 1:
        axes.legend(fontsize=9, frameon=False)
    quieten(axes)


def _shade_ranges(axes: mpl.Axes, analysis: Analysis, start: int) -> bool:
    """Shade the ranges of our own cases, and return whether there are any."""
    nvtx = analysis.timeline.nvtx
    names = [name for name in nvtx["name"].unique() if parse_range(name)][:200] if len(nvtx) else []
    for row in nvtx[nvtx["name"].isin(names)].drop_duplicates("name").to_dict("records") if names else []:
        axes.axvspan((row["start_ns"] - start) / NS_PER_S, (row["end_ns"] - start) / NS_PER_S, color=RANGE, linewidth=0)
    return bool(names)


def _thin(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return fewer points that keep every bin's lowest and highest value."""
    if len(x) <= _MAX_POINTS:
        return x, y
    chunks = np.array_split(np.arange(len(x)), _MAX_POINTS // 2)
    keep = np.unique(np.concatenate([[c[np.argmin(y[c])], c[np.argmax(y[c])]] for c in chunks]))
    return x[keep], y[keep]


def describe_vram(analysis: Analysis, record: CaptureRecord | None) -> str:
    """Return the largest peaks of memory by case or range, and the peak of the trace."""
    memory = words_for(analysis.trace).memory
    column, name, table = "peak_vram_bytes", "family", analysis.ranges
    if record is not None and record.results["peak_allocated_bytes"].notna().any():
        column, name, table = "peak_allocated_bytes", "range", record.results
    peaks = table[table[column].notna()].sort_values(column, ascending=False, kind="stable").drop_duplicates(name)
    parts = [f"{row[name]} {format_bytes(int(row[column]))}" for row in peaks.head(MOST_NAMED).to_dict("records")]
    more = f", and {len(peaks) - MOST_NAMED} smaller ones" if len(peaks) > MOST_NAMED else ""
    text = f"Peak {memory}: {', '.join(parts)}{more}." if parts else f"{memory} in use over time."
    used = analysis.timeline.memory
    return text + (f" Over the trace at most {format_bytes(int(used['used_bytes'].max()))}." if len(used) else "")


def describe_memory(allocator: AllocatorMemory) -> str:
    """Return who owned the memory of torch's allocator at its peak."""
    owners = allocator.owners.sort_values("peak_bytes", ascending=False, kind="stable")
    parts = [
        f"{row['owner']} {format_bytes(int(row['peak_bytes']))}" for row in owners.head(MOST_NAMED).to_dict("records")
    ]
    peak = format_bytes(int(owners["peak_bytes"].sum()))
    return f"Memory of torch's allocator over time, {peak} at its peak, by owner: {', '.join(parts)}."
