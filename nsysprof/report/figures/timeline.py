"""Draw timeline.png: a typical step of a program, or one panel per backend of a grid on one time scale."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from nsysprof.attention.range_name import parse_range
from nsysprof.report.figures.drawing_style import (
    INK,
    NS_PER_S,
    byte_scale,
    label_seconds,
    legend_of_categories,
    new_figure,
    quieten,
)
from nsysprof.report.figures.timeline_lanes import Panel, draw_lanes, draw_overview, list_lanes, span_of
from nsysprof.report.formats.escape import clean
from nsysprof.report.pages.range_rows import range_label
from nsysprof.report.wording import words_for
from nsysprof.results.analysis import Analysis
from nsysprof.results.findings import STEP
from nsysprof.units import format_ns

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MAX_PANELS = 6
_LANE_IN, _MEMORY_IN, _OVERVIEW_IN = 0.26, 0.36, 0.3

Row = Mapping[Any, Any]


def draw_timeline(analysis: Analysis, calls: dict[str, int] | None = None) -> Figure | None:
    """Draw ranges, API calls, streams and device memory of a typical step, below an overview of the whole run.

    A grid of cases has one panel for each backend at one sequence length. All panels begin at the start of their range
    and last as long as one call of the slowest backend. Every lane shows only which share of each slice of time is
    busy: what is busy for a tenth of the time fills a tenth of its lane. Return None when the trace has nothing to
    draw.

    calls: the traced calls by range name.
    """
    panels = choose_panels(analysis, calls or {})
    if not panels:
        return None
    lanes = [list_lanes(analysis, panel) for panel in panels]
    whole = span_of(analysis)
    has_overview = any(panel.start_ns > whole[0] or panel.end_ns < whole[1] for panel in panels)
    has_memory = len(analysis.timeline.memory) > 0
    heights = [_OVERVIEW_IN] if has_overview else []
    for rows in lanes:
        heights += [len(rows) * _LANE_IN + 0.1, *([_MEMORY_IN] if has_memory else [])]
    figure = new_figure(sum(heights) + 0.42 * len(panels) + 0.9 + 0.5 * has_overview)
    axes = figure.subplots(len(heights), 1, gridspec_kw={"height_ratios": heights}, squeeze=False)[:, 0].tolist()
    seen: set[str] = set()
    if has_overview:
        seen |= draw_overview(axes.pop(0), analysis, panels, whole)
    span = max(panel.end_ns - panel.start_ns for panel in panels)
    step = 2 if has_memory else 1
    for index, (panel, rows) in enumerate(zip(panels, lanes, strict=True)):
        seen |= draw_lanes(axes[index * step], panel, rows, span)
        if has_memory:
            _draw_memory(axes[index * step + 1], analysis, panel)
        for each in axes[index * step : index * step + step]:
            each.set_xlim(0, span / NS_PER_S)
    label_seconds(axes[-1].xaxis)
    for each in axes[:-1]:
        each.tick_params(labelbottom=False)
    axes[-1].set_xlabel(f"time since the start of the {panels[0].what}", fontsize=10, color=INK)
    legend_of_categories(figure, seen)
    return figure


def choose_panels(analysis: Analysis, calls: dict[str, int]) -> list[Panel]:
    """Return our own ranges at the largest sequence length that most backends share, else a typical step, else all."""
    nvtx = analysis.timeline.nvtx
    if len(nvtx):
        nvtx = nvtx.sort_values("style", key=lambda style: style != "StartEnd", kind="stable")
    rows = []
    for row in nvtx.drop_duplicates("name").to_dict("records") if len(nvtx) else []:
        parsed = parse_range(row["name"])
        if parsed is not None:
            rows.append({**row, "backend": parsed.backend, "seq": parsed.seq, "variant": parsed.variant})
    if not rows:
        return _typical_step(analysis) or _whole_trace(analysis)
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
            "range",
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


def _typical_step(analysis: Analysis) -> list[Panel]:
    """Return the window of a steady step with the median duration; None where the program has no steps."""
    times = analysis.step_times
    if times is None or not times.are_steps:
        return []
    start, end = times.usual_window_ns()
    steps = times.steps
    number = int(steps["step"].iloc[int(np.searchsorted(steps["start_ns"].to_numpy(), start))])
    name = f" ({clean(range_label(times.per), 60)})" if times.per != STEP else ""
    busy = times.busy_pct(times.devices[0])
    title = f"a typical step{name}: number {number + 1} of {len(steps):,}, {format_ns(end - start)}"
    title += f"; the GPU is busy for {busy:.{int(busy < 10)}f} % of the steady steps"
    return [Panel(title, start, end, None, "step")]


def _whole_trace(analysis: Analysis) -> list[Panel]:
    if not any(len(table) for table in (analysis.timeline.work, analysis.timeline.calls, analysis.timeline.nvtx)):
        return []
    start, end = span_of(analysis)
    words = words_for(analysis.trace)
    count = analysis.totals.kernel_count
    title = clean(analysis.trace.path_name, 60) + ("" if count is None else f": {count:,} {words.works}")
    return [Panel(title, start, max(end, start + 1), None, "trace")]


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
