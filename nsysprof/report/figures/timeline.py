"""Draw timeline.png: one panel per backend on one time scale, which shows at once who launches many kernels or few."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from nsysprof.attention.range_name import parse_range
from nsysprof.report.figures.occupancy import busy_shares
from nsysprof.report.figures.palette import API, CATEGORY_COLORS, INK, RANGE, new_figure, quieten
from nsysprof.report.figures.scale import NS_PER_S, byte_scale, label_seconds
from nsysprof.report.formats.escape import clean, escape_mathtext
from nsysprof.report.sections.vocabulary import words_for
from nsysprof.results.analysis import Analysis
from nsysprof.units import format_ns

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MAX_PANELS = 6
_MAX_STREAMS = 4
_MAX_BARS = 2500
_BINS = 1400
_LANE_IN = 0.26

Row = Mapping[Any, Any]


@dataclass(frozen=True)
class Panel:
    """A window of the trace: [start_ns, end_ns) of one process, and its title."""

    title: str
    start_ns: int
    end_ns: int
    global_pid: int | None


def draw_timeline(analysis: Analysis, calls: dict[str, int] | None = None) -> Figure | None:
    """Draw ranges, API calls, streams and device memory, for each backend at one sequence length or for the trace.

    All panels begin at their range's start and span one call of the slowest backend. Return None when the trace has
    nothing to draw.

    calls: traced calls by range name.
    """
    panels = choose_panels(analysis, calls or {})
    if not panels:
        return None
    lanes = [_lanes(analysis, panel) for panel in panels]
    has_memory = len(analysis.timeline.memory) > 0
    heights = []
    for rows in lanes:
        heights.append(len(rows) * _LANE_IN + 0.1)
        if has_memory:
            heights.append(0.36)
    figure = new_figure(sum(heights) + 0.42 * len(panels) + 0.9)
    axes = figure.subplots(len(heights), 1, gridspec_kw={"height_ratios": heights}, squeeze=False)[:, 0]
    span = max(panel.end_ns - panel.start_ns for panel in panels)
    seen: set[str] = set()
    step = 2 if has_memory else 1
    for index, (panel, rows) in enumerate(zip(panels, lanes, strict=True)):
        top = axes[index * step]
        seen |= _draw_lanes(top, panel, rows)
        if has_memory:
            _draw_memory(axes[index * step + 1], analysis, panel)
        for each in axes[index * step : index * step + step]:
            each.set_xlim(0, span / NS_PER_S)
    label_seconds(axes[-1].xaxis)
    for each in axes[:-1]:
        each.tick_params(labelbottom=False)
    axes[-1].set_xlabel("time since the start of the range", fontsize=10, color=INK)
    _legend(figure, seen)
    return figure


def choose_panels(analysis: Analysis, calls: dict[str, int]) -> list[Panel]:
    """Return our own ranges at the largest sequence length that most backends share, or else the whole trace."""
    nvtx = analysis.timeline.nvtx
    if len(nvtx):
        nvtx = nvtx.sort_values("style", key=lambda style: style != "StartEnd", kind="stable")
    rows = []
    for row in nvtx.drop_duplicates("name").to_dict("records") if len(nvtx) else []:
        parsed = parse_range(row["name"])
        if parsed is not None:
            rows.append({**row, "backend": parsed.backend, "seq": parsed.seq, "variant": parsed.variant})
    if not rows:
        return _whole_trace(analysis)
    ours = pd.DataFrame(rows)
    sizes = ours.groupby(["variant", "seq"])["backend"].nunique().reset_index()
    best = sizes.sort_values(["backend", "seq"], ascending=False).iloc[0]
    chosen = ours[(ours["variant"] == best["variant"]) & (ours["seq"] == best["seq"])]
    chosen = chosen.drop_duplicates("backend").sort_values("start_ns").head(_MAX_PANELS)
    counts = _counts(analysis)
    window = max(int(row["end_ns"] - row["start_ns"]) // calls.get(row["name"], 1) for row in chosen.to_dict("records"))
    return [
        Panel(
            _title(analysis, row, calls.get(row["name"]), counts),
            int(row["start_ns"]),
            int(row["start_ns"]) + window,
            int(row["global_pid"]),
        )
        for row in chosen.to_dict("records")
    ]


def _counts(analysis: Analysis) -> dict[str, Row]:
    ranges = analysis.ranges.sort_values("style", key=lambda style: style != "StartEnd", kind="stable")
    return {str(row["range"]): row for row in ranges.drop_duplicates("range").to_dict("records")}


def _title(analysis: Analysis, row: Row, calls: int | None, counts: dict[str, Row]) -> str:
    words, found = words_for(analysis.trace), counts.get(row["name"], {})
    text = f"{row['backend']}, S={row['seq']}" + (f", {row['variant']}" if row["variant"] else "")
    launches, kernels = found.get("launch_count"), found.get("kernel_count")
    if launches is None or kernels is None or launches is pd.NA or kernels is pd.NA:
        return text
    if calls:
        each = (row["end_ns"] - row["start_ns"]) / calls
        works = f"{words.works}" if kernels != calls else words.work
        return f"{text}: {kernels / calls:g} {works} a call, {format_ns(each)} a call under the profiler"
    instances = int(found["instances"])
    if instances > 1:
        return f"{text}: {kernels / instances:g} {words.works} each of {instances:,} times; this is the first"
    return f"{text}: {launches:,} {words.launches}, {kernels:,} {words.works}"


def _whole_trace(analysis: Analysis) -> list[Panel]:
    tables = (analysis.timeline.gpu, analysis.timeline.api, analysis.timeline.nvtx)
    present = [table for table in tables if len(table)]
    if not present:
        return []
    start = min(int(table["start_ns"].min()) for table in present)
    end = max(int(table["end_ns"].max()) for table in present)
    words = words_for(analysis.trace)
    count = analysis.totals.kernel_count
    title = clean(analysis.trace.path_name, 60) + ("" if count is None else f": {count:,} {words.works}")
    return [Panel(title, start, max(end, start + 1), None)]


def _lanes(analysis: Analysis, panel: Panel) -> list[tuple[str, pd.DataFrame, str]]:
    """Return (label, rows, kind) from top to bottom."""
    timeline = analysis.timeline

    def window(table: pd.DataFrame, pid: pd.Series | None) -> pd.DataFrame:
        mine = (table["start_ns"] < panel.end_ns) & (table["end_ns"] > panel.start_ns)
        if panel.global_pid is not None and pid is not None:
            mine &= pid == panel.global_pid
        return table[mine]

    lanes: list[tuple[str, pd.DataFrame, str]] = []
    nvtx = timeline.nvtx[timeline.nvtx["level"] == 0] if len(timeline.nvtx) else timeline.nvtx
    nvtx = window(nvtx, nvtx["global_pid"] if len(nvtx) else None)
    if len(nvtx):
        # A process-wide range hides its push/pop twin: drawing both on one lane would show neither.
        lanes.append(("NVTX", nvtx.drop_duplicates("name") if panel.global_pid is not None else nvtx, "range"))
    api = window(timeline.api, (timeline.api["global_tid"] & ~0xFFFFFF) if len(timeline.api) else None)
    if len(api) and analysis.trace.work_kind == "kernel":
        lanes.append(("CUDA API", api, "api"))
    gpu = window(timeline.gpu, timeline.gpu["global_pid"])
    busiest = (gpu["end_ns"] - gpu["start_ns"]).groupby(gpu["stream"], observed=True).sum().nlargest(_MAX_STREAMS)
    label = "thread" if analysis.trace.work_kind == "operator" else ""
    for stream in busiest.index:
        name = f"{label} {str(stream).rpartition(' ')[2]}" if label else str(stream)
        lanes.append((name, gpu[gpu["stream"] == stream], "work"))
    return lanes or [("no GPU work", gpu, "work")]


def _draw_lanes(axes: Axes, panel: Panel, lanes: list[tuple[str, pd.DataFrame, str]]) -> set[str]:
    seen: set[str] = set()
    for index, (_label, rows, kind) in enumerate(lanes):
        y = len(lanes) - 1 - index
        if kind == "work":
            for category, part in rows.groupby("category", observed=True):
                seen.add(str(category))
                _bars(axes, panel, part, y, CATEGORY_COLORS.get(str(category), "#999999"), 0.8)
        else:
            _bars(axes, panel, rows, y, RANGE if kind == "range" else API, 0.7)
        if kind == "range" and len(rows) <= 8:
            _range_labels(axes, panel, rows, y)
    axes.set_yticks(range(len(lanes)), [clean(label, 18) for label, _, _ in reversed(lanes)])
    axes.set_ylim(-0.5, len(lanes) - 0.5)
    axes.set_title(escape_mathtext(panel.title), fontsize=10, loc="left", color=INK)
    quieten(axes)
    return seen


def _bars(axes: Axes, panel: Panel, rows: pd.DataFrame, y: int, color: str, height: float) -> None:
    start = rows["start_ns"].to_numpy() - panel.start_ns
    end = rows["end_ns"].to_numpy() - panel.start_ns
    start, end = np.maximum(start, 0), np.minimum(end, panel.end_ns - panel.start_ns)
    if len(rows) > _MAX_BARS:
        _occupancy(axes, panel, start, end, y, color, height)
        return
    # A bar thinner than a third of a pixel would vanish; it is drawn that wide.
    least = (panel.end_ns - panel.start_ns) / 4000
    # Neighbours of one colour are told apart by a hairline, unless they are so thin that it would hide them.
    edge = "white" if len(rows) < 400 else "none"
    spans = np.column_stack((start, np.maximum(end - start, least))) / NS_PER_S
    axes.broken_barh(
        [(a, w) for a, w in spans], (y - height / 2, height), facecolors=color, edgecolors=edge, linewidth=0.4
    )


def _occupancy(axes: Axes, panel: Panel, start: Any, end: Any, y: int, color: str, height: float) -> None:
    """Draw bars as tall as the busy share of each bin, because a million rectangles would take minutes."""
    span = panel.end_ns - panel.start_ns
    edges, share = np.linspace(0, span, _BINS + 1), busy_shares(start, end, span, _BINS)
    low = y - height / 2
    axes.fill_between(edges[:-1] / NS_PER_S, low, low + share * height, step="post", color=color, linewidth=0)


def _range_labels(axes: Axes, panel: Panel, rows: pd.DataFrame, y: int) -> None:
    window = panel.end_ns - panel.start_ns
    for row in rows.to_dict("records"):
        start = max(0, row["start_ns"] - panel.start_ns)
        room = int(100 * (min(window, row["end_ns"] - panel.start_ns) - start) / window)
        if room >= 8:
            text = escape_mathtext(clean(row["name"], room))
            axes.text((start + 0.005 * window) / NS_PER_S, y, text, fontsize=8, va="center", clip_on=True, color=INK)


def _draw_memory(axes: Axes, analysis: Analysis, panel: Panel) -> None:
    memory = analysis.timeline.memory
    highest = float(memory["used_bytes"].max())
    size, unit = byte_scale(highest)
    for device, events in memory.groupby("device_id"):
        times = events["time_ns"].to_numpy()
        low = max(0, int(np.searchsorted(times, panel.start_ns, "right")) - 1)
        high = int(np.searchsorted(times, panel.end_ns, "right"))
        x = np.append(np.maximum(times[low:high], panel.start_ns), panel.end_ns) - panel.start_ns
        y = events["used_bytes"].to_numpy()[low:high]
        y = np.append(y, y[-1] if len(y) else 0)
        axes.fill_between(x / NS_PER_S, 0, y / size, step="post", alpha=0.35, color="#0072B2", linewidth=0)
        axes.step(x / NS_PER_S, y / size, where="post", color="#0072B2", linewidth=1, label=f"device {device}")
    axes.set_ylim(0, 1.1 * highest / size)
    axes.set_ylabel(f"memory\n({unit})", fontsize=9, rotation=0, ha="right", va="center", color=INK)
    axes.yaxis.set_major_locator(_few_ticks())
    quieten(axes)


def _few_ticks() -> Any:
    from matplotlib.ticker import MaxNLocator

    return MaxNLocator(2)


def _legend(figure: Figure, categories: set[str]) -> None:
    from matplotlib.patches import Patch

    shown = [category for category in CATEGORY_COLORS if category in categories]
    patches = [Patch(color=CATEGORY_COLORS[category], label=category) for category in shown]
    if patches:
        figure.legend(
            handles=patches, loc="outside lower center", ncols=min(9, len(patches)), fontsize=9, frameon=False
        )
