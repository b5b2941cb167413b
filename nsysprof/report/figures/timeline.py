"""Draw timeline.png (a typical step, or a panel for each backend of a grid) and kernels.png (time by category).

The height of a lane shows which share of each slice of time is busy. A kernel that is longer than a slice fills its
lane; a thousand short ones with pauses between them do not.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from nsysprof.arrays import Floats, Int64s
from nsysprof.attention.range_name import parse_range, range_label
from nsysprof.report.document import MOST_NAMED, clean, escape_mathtext, words_for
from nsysprof.report.figures import mpl
from nsysprof.report.figures.drawing import (
    API,
    CATEGORY_COLORS,
    INK,
    NS_PER_S,
    RANGE,
    byte_scale,
    label_seconds,
    legend_of_categories,
    new_figure,
    quieten,
)
from nsysprof.report.formats.cell_text import shorten_names
from nsysprof.report.formats.timeline_lanes import BusyShares, busy_shares, category_shares
from nsysprof.results.analysis import Analysis
from nsysprof.results.event_rows import CallRows, WorkRows, pieces
from nsysprof.results.findings import STEP
from nsysprof.results.roof import known
from nsysprof.units import format_ns

_MAX_PANELS = 6
# The most letters in a line of a title, so that it ends before what is written beside the lanes.
_TITLE_LETTERS = 88
_LANE_IN, _MEMORY_IN, _OVERVIEW_IN = 0.26, 0.36, 0.3

Row = Mapping[Any, Any]


def draw_timeline(analysis: Analysis, calls: dict[str, int] | None = None) -> mpl.Figure | None:
    """Draw ranges, API calls, streams and device memory of a typical step, below an overview of the whole run.

    A grid of cases has one panel for each backend at one sequence length: its first call, from the start of its range,
    and all panels have the same scale. Every lane shows only which share of each slice of time is
    busy: what is busy for a tenth of the time fills a tenth of its lane. Return None when the trace has nothing to
    draw.

    calls: the traced calls by range name.
    """
    panels = choose_panels(analysis, calls or {})
    if not panels:
        return None
    lanes = [list_lanes(analysis, panel) for panel in panels]
    whole = span_of(analysis)
    has_overview = bool(len(analysis.timeline.work)) and any(
        panel.start_ns > whole[0] or panel.end_ns < whole[1] for panel in panels
    )
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
        for lane in axes[index * step : index * step + step]:
            lane.set_xlim(0, span / NS_PER_S)
    label_seconds(axes[-1].xaxis)
    for lane in axes[:-1]:
        lane.tick_params(labelbottom=False)
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
    return [
        Panel(
            _title(analysis, row, calls.get(row["name"]), counts),
            int(row["start_ns"]),
            _end_of_first_call(analysis, row, calls.get(row["name"], 1), counts),
            int(row["global_pid"]),
            "range",
        )
        for row in chosen.to_dict("records")
    ]


def _end_of_first_call(analysis: Analysis, row: Row, calls: int, counts: dict[str, Row]) -> int:
    """Return when the first of some calls in a range ended: with its last kernel, which begins after the call did."""
    start, end = int(row["start_ns"]), int(row["end_ns"])
    kernels = known(counts.get(row["name"], {}).get("kernel_count"))
    if not kernels or kernels % calls:
        return start + (end - start) // calls
    work = analysis.timeline.work
    numbers = work.numbers()
    first = numbers[(numbers < work.kernels) & (work.start_ns[numbers] >= start)][: int(kernels) // calls]
    return min(end, int((work.start_ns[first] + work.duration_ns[first]).max())) if len(first) else end


def _counts(analysis: Analysis) -> dict[str, Row]:
    ranges = analysis.ranges.sort_values("style", key=lambda style: style != "StartEnd", kind="stable")
    return {str(row["range"]): row for row in ranges.drop_duplicates("range").to_dict("records")}


def _title(analysis: Analysis, row: Row, calls: int | None, counts: dict[str, Row]) -> str:
    words, count_by_name = words_for(analysis.trace), counts.get(row["name"], {})
    text = f"{row['backend']}, S={row['seq']}" + (f", {row['variant']}" if row["variant"] else "")
    launches, kernels = count_by_name.get("launch_count"), count_by_name.get("kernel_count")
    if launches is None or kernels is None or launches is pd.NA or kernels is pd.NA:
        return text
    if calls:
        call_ns = (row["end_ns"] - row["start_ns"]) / calls
        works = f"{words.works}" if kernels != calls else words.work
        return f"{text}: {kernels / calls:g} {works} a call, {format_ns(call_ns)} a call under the profiler"
    instances = int(count_by_name["instances"])
    if instances > 1:
        return f"{text}: {kernels / instances:g} {words.works} each of {instances:,} times; this is the first"
    return f"{text}: {launches:,} {words.launches}, {kernels:,} {words.works}"


def _typical_step(analysis: Analysis) -> list[Panel]:
    """Return the window of a steady step with the median duration; nothing for a program without steps, or a part."""
    times = analysis.step_times
    if times is None or not times.are_steps or analysis.part is not None:
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


def _draw_memory(axes: mpl.Axes, analysis: Analysis, panel: Panel) -> None:
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
    return mpl.MaxNLocator(2)


_MAX_STREAMS, _MAX_LEVELS = 4, 3
# About one slice per pixel of the file.
_BINS = 1200
_HEIGHT = 0.8
# A range is labelled where there is room for at least this many letters, and a lane has room for about this many.
_FEWEST_LETTERS, _LETTERS = 5, 110
# Before and behind a label; in parts of the lane.
_GAP = 0.004
_PID_OF_TID = ~0xFFFFFF


@dataclass(frozen=True)
class Panel:
    """A window of the trace, [start_ns, end_ns), of one process or, with None, of all processes."""

    title: str
    start_ns: int
    end_ns: int
    global_pid: int | None
    # What the window shows: "range", "step" or "trace".
    what: str


@dataclass(frozen=True)
class FigureLane:
    """Rows that are drawn in one lane."""

    label: str
    # "range", "api" or "work".
    kind: str
    rows: pd.DataFrame


def span_of(analysis: Analysis) -> tuple[int, int]:
    """Return when the first work or range starts and the last one ends (ns); without these, the first and last call.

    A program may call CUDA for seconds before and after without anything worth looking at.
    """
    timeline = analysis.timeline
    nvtx = timeline.nvtx
    spans = [] if nvtx.empty else [(int(nvtx["start_ns"].min()), int(nvtx["end_ns"].max()))]
    spans += _spans(timeline.work)
    spans = spans or _spans(timeline.calls)
    return min(start for start, _ in spans), max(end for _, end in spans)


def _spans(rows: CallRows | WorkRows) -> list[tuple[int, int]]:
    times = (rows.times(*piece) for piece in pieces(rows))
    return [(int(start.min()), int(end.max())) for start, end in times]


def list_lanes(analysis: Analysis, panel: Panel) -> list[FigureLane]:
    """Return the lanes of a window from top to bottom."""
    timeline = analysis.timeline

    def of_process(table: pd.DataFrame, pid: pd.Series) -> pd.DataFrame:
        return table if panel.global_pid is None or table.empty else table[pid == panel.global_pid]

    lanes = []
    nvtx = timeline.nvtx
    nvtx = nvtx[(nvtx["start_ns"] < panel.end_ns) & (nvtx["end_ns"] > panel.start_ns)]
    nvtx = of_process(nvtx, nvtx["global_pid"])
    for level in range(_MAX_LEVELS if panel.what == "step" or not len(timeline.work) else 1):
        mine = nvtx[nvtx["level"] == level] if len(nvtx) else nvtx
        # A process-wide range hides its push/pop twin: drawing both on one lane would show neither.
        mine = mine.drop_duplicates("name") if panel.global_pid is not None else mine
        if len(mine):
            lanes.append(FigureLane("" if level else "NVTX", "range", mine))
    api = _window(timeline.calls, panel)
    api = of_process(api, api["global_tid"] & _PID_OF_TID)
    if len(api) and analysis.trace.work_kind == "kernel":
        lanes.append(FigureLane("CUDA API", "api", api))
    gpu = _window(timeline.work, panel)
    gpu = of_process(gpu, gpu["global_pid"])
    busiest = (gpu["end_ns"] - gpu["start_ns"]).groupby(gpu["stream"], observed=True).sum().nlargest(_MAX_STREAMS)
    label = "thread" if analysis.trace.work_kind == "operator" else ""
    for stream in busiest.index:
        name = f"{label} {str(stream).rpartition(' ')[2]}" if label else str(stream)
        lanes.append(FigureLane(name, "work", gpu[gpu["stream"] == stream]))
    return lanes or [FigureLane("no GPU work", "work", gpu)]


def _window(rows: CallRows | WorkRows, panel: Panel) -> pd.DataFrame:
    """Return the rows in the window, which are a small part of a large trace."""
    blocks = [rows.table(0, 0)]
    for low, high in pieces(rows):
        start, end = rows.times(low, high)
        inside = (start < panel.end_ns) & (end > panel.start_ns)
        if inside.any():
            blocks.append(rows.table(low, high)[inside])
    return pd.concat(blocks[1:], ignore_index=True) if len(blocks) > 1 else blocks[0]


def draw_lanes(axes: mpl.Axes, panel: Panel, lanes: Sequence[FigureLane], span_ns: int) -> set[str]:
    """Draw lanes, each with how busy it is at its end, and return the categories that were drawn.

    span_ns: the length of the time axis; the panel may end earlier.
    """
    seen: set[str] = set()
    for index, lane in enumerate(lanes):
        y = len(lanes) - 1 - index
        start, end = _clipped(lane.rows, panel.start_ns, panel.end_ns)
        length = panel.end_ns - panel.start_ns
        if lane.kind == "work":
            busy_by: dict[str, BusyShares] = {}
            codes, names = pd.factorize(lane.rows["category"].astype(object))
            _add_up(busy_by, [str(name) for name in names], codes, start, end, length)
            seen |= _stack(axes, y - _HEIGHT / 2, busy_by, length)
        else:
            share = busy_shares(start, end, length, _BINS)
            _fill(axes, y - _HEIGHT / 2, [(RANGE if lane.kind == "range" else API, share)], length)
        if lane.kind == "range":
            _range_labels(axes, lane.rows, start, end, y, span_ns)
        else:
            busy = _percent(busy_shares(start, end, length, _BINS))
            _beside(axes, busy, y)
    axes.set_yticks(range(len(lanes)), [clean(lane.label, 18) for lane in reversed(lanes)])
    axes.set_ylim(-0.5, len(lanes) - 0.5)
    title = textwrap.fill(escape_mathtext(panel.title), _TITLE_LETTERS)
    axes.set_title(title, fontsize=10, loc="left", color=INK)
    if any(lane.kind != "range" for lane in lanes):
        _beside(axes, "busy", len(lanes) - 0.4)
    quieten(axes)
    return seen


def _beside(axes: mpl.Axes, text: str, y: float) -> None:
    """Write a text at the right end of a lane."""
    place: dict[str, Any] = {"xycoords": ("axes fraction", "data"), "va": "center", "annotation_clip": False}
    axes.annotate(text, (1.005, y), fontsize=8, color=INK, **place)


def _percent(shares: Floats) -> str:
    """Return the busy share of all slices together, as text. A small share is never shown as none."""
    busy = 100 * float(shares.mean())
    if 0 < busy < 0.1:
        return "<0.1 %"
    return f"{busy:.1f} %" if busy < 10 else f"{busy:.0f} %"


def draw_overview(axes: mpl.Axes, analysis: Analysis, panels: Sequence[Panel], whole: tuple[int, int]) -> set[str]:
    """Draw the whole run in one lane, with the windows of the panels marked, and return the categories drawn."""
    work, span = analysis.timeline.work, whole[1] - whole[0]
    busy: dict[str, BusyShares] = {}
    category, names = pd.factorize(work.variants["category"].astype(object))
    for piece in pieces(work):
        times = _cut(*work.times(*piece), *whole)
        _add_up(busy, [str(name) for name in names], category[work.variants_at(*piece)], *times, span)
    seen = _stack(axes, 0.0, busy, span, height=1.0)
    for panel in panels:
        left, right = ((edge - whole[0]) / NS_PER_S for edge in (panel.start_ns, panel.end_ns))
        axes.axvspan(left, right, facecolor="none", edgecolor=INK, linewidth=1.2, zorder=4, clip_on=False)
    axes.set_xlim(0, span / NS_PER_S)
    axes.set_ylim(0, 1)
    axes.set_yticks([0.5], ["whole run"])
    marked = "framed: shown below" if len(panels) == 1 else "framed: those shown below"
    axes.set_title(
        f"the {words_for(analysis.trace).device} over the whole run ({marked})", fontsize=10, loc="left", color=INK
    )
    axes.xaxis.set_major_formatter(mpl.EngFormatter(unit="s"))
    quieten(axes)
    axes.tick_params(labelbottom=True, labelsize=8)
    return seen


def _clipped(rows: pd.DataFrame, low_ns: int, high_ns: int) -> tuple[Int64s, Int64s]:
    """Return starts and ends since `low_ns`, cut to the window."""
    start, end = (rows[column].to_numpy(dtype=np.int64) for column in ("start_ns", "end_ns"))
    return _cut(start, end, low_ns, high_ns)


def _cut(start: Int64s, end: Int64s, low_ns: int, high_ns: int) -> tuple[Int64s, Int64s]:
    return np.maximum(start, low_ns) - low_ns, np.minimum(end, high_ns) - low_ns


def _add_up(
    busy: dict[str, BusyShares], names: list[str], category: Int64s, start: Int64s, end: Int64s, span_ns: int
) -> None:
    """Add work to the shares of its categories, which are in the order of their first work."""
    codes, present = pd.factorize(category)
    for code, number in enumerate(present):
        mine = codes == code
        busy.setdefault(names[number], BusyShares(span_ns, _BINS)).add(start[mine], end[mine])


def _stack(
    axes: mpl.Axes, low: float, busy: dict[str, BusyShares], span_ns: int, *, height: float = _HEIGHT
) -> set[str]:  # fmt: skip
    """Draw the share of each category on top of each other, and return the categories."""
    shares = category_shares(busy)
    order = sorted(shares, key=_rank)
    _fill(axes, low, [(CATEGORY_COLORS.get(name, "#999999"), shares[name]) for name in order], span_ns, height)
    return set(shares)


def _rank(category: str) -> int:
    known = list(CATEGORY_COLORS)
    return known.index(category) if category in known else len(known)


def _fill(
    axes: mpl.Axes, low: float, shares: Sequence[tuple[str, Floats]], span_ns: int, height: float = _HEIGHT
) -> None:
    edges = np.linspace(0, span_ns, _BINS + 1) / NS_PER_S
    bottom = np.full(_BINS + 1, low)
    for color, share in shares:
        top = bottom + height * np.append(share, share[-1:])
        axes.fill_between(edges, bottom, top, step="post", color=color, linewidth=0)
        bottom = top


def _range_labels(axes: mpl.Axes, rows: pd.DataFrame, start: Int64s, end: Int64s, y: int, span_ns: int) -> None:
    """Label the ranges that have room for it until the next one begins, and separate them from those before."""
    order = np.argsort(start, kind="stable")
    low, name = start[order], rows["name"].to_numpy(dtype=object)[order]
    free = np.minimum(end[order], np.append(low[1:], span_ns)) - low
    letters = (_LETTERS * (free / span_ns - 2 * _GAP)).astype(np.int64)
    for at in np.flatnonzero(letters >= _FEWEST_LETTERS).tolist():
        axes.vlines([low[at] / NS_PER_S], y - _HEIGHT / 2, y + _HEIGHT / 2, color="white", linewidth=1)
        text = escape_mathtext(clean(str(name[at]), int(letters[at])))
        axes.text((low[at] + _GAP * span_ns) / NS_PER_S, y, text, fontsize=8, va="center", clip_on=True, color=INK)


def describe_timeline(analysis: Analysis) -> str:
    """Return how busy the GPU is over the trace, and with what."""
    words, totals = words_for(analysis.trace), analysis.totals
    if analysis.is_of_cpu and not len(analysis.kernels):
        return "Timeline of ranges."
    text = f"Timeline of ranges{', API calls' * (not analysis.is_of_cpu)} and {words.works}."
    if totals.gpu_busy_ns is not None and totals.gpu_span_ns:
        share = 100 * totals.gpu_busy_ns / totals.gpu_span_ns
        text += f" The {words.device} is busy for {format_ns(totals.gpu_busy_ns)} of {format_ns(totals.gpu_span_ns)}"
        text += f" ({share:.1f} %) from its first to its last work."
    else:
        text += f" The trace does not show how busy the {words.device} is."
    return f"{text} {categories_line(analysis)}".rstrip()


_MAX_BARS = 30
_TOP = 15


def draw_kernels(analysis: Analysis, calls: dict[str, int] | None = None) -> mpl.Figure | None:
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


def _draw_ranges(analysis: Analysis, table: pd.DataFrame, per_call: bool) -> mpl.Figure:
    words = words_for(analysis.trace)
    sizes = list(dict.fromkeys(table["seq"]))[:6]
    counts = [table[table["seq"] == seq]["range"].nunique() for seq in sizes]
    figure = new_figure(0.34 * min(sum(counts), _MAX_BARS) + 0.62 * len(sizes) + 0.9)
    axes = figure.subplots(len(sizes), 1, gridspec_kw={"height_ratios": counts}, squeeze=False)[:, 0]
    used: set[str] = set()
    for panel, seq in zip(axes, sizes, strict=True):
        used |= _stack_categories(panel, table[table["seq"] == seq], words.works)
        panel.set_title(f"S={seq}", fontsize=10, loc="left", color=INK)
    unit = " per call" if per_call else " in the range"
    axes[-1].set_xlabel(f"{words.work} time{unit}, summed (each S has its own scale)", fontsize=10, color=INK)
    legend_of_categories(figure, used)
    return figure


def _stack_categories(axes: mpl.Axes, rows: pd.DataFrame, works: str) -> set[str]:
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


def _draw_top(analysis: Analysis) -> mpl.Figure:
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
