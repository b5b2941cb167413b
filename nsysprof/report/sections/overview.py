"""Compose the overview: how busy the program keeps the GPU, and how long its steps take."""

from __future__ import annotations

import numpy as np

from nsysprof.report.document import Bars, Lines, Part, Section, Segment, StackedBar
from nsysprof.report.pages.range_rows import step_label
from nsysprof.report.wording import IDLE_WORDS, words_for
from nsysprof.results.analysis import Analysis
from nsysprof.results.step_times import StepPart, StepTimes
from nsysprof.units import format_ns

# The most causes of idle time that the sentence names, and the least share of a step to name one (percent).
_MOST_CAUSES, _LEAST_PCT = 3, 1.0
_MOST_DEVICES = 8
# The category of collectives, and the least share of a step without other work to say so (percent).
_COLLECTIVES, _LEAST_WAITING_PCT = "nccl", 10.0
# More bars than this are thinner than two pixels.
_MOST_BARS = 400
_MOST_SLOW = 3


def overview_sections(analysis: Analysis) -> list[Section]:
    """Return the overview; nothing where it is unknown when the GPU worked, or where no GPU did."""
    times = _times_of_gpu(analysis)
    if times is None:
        return []
    devices = times.devices[:_MOST_DEVICES]
    lines = [_busy_line(times, device, several=len(devices) > 1) for device in devices]
    if times.are_steps:
        lines += [_step_line(times), *_slow_lines(times)]
    # The findings follow, and should be seen without a scroll: the bars of several devices stand behind them.
    bars = _stacked_bars(times) if len(devices) == 1 else []
    return [Section("Overview", (Lines(tuple(lines), is_verdict=True), *bars))]


def step_sections(analysis: Analysis) -> list[Section]:
    """Return the time of each step, and the bars of several devices; nothing where neither is known."""
    times = _times_of_gpu(analysis)
    if times is None:
        return []
    parts: list[Part] = [*(_stacked_bars(times) if len(times.devices) > 1 else [])]
    if times.are_steps and len(times.steps) > 1:
        parts.append(_bars(times))
    return [Section("Steps" if times.are_steps else "Devices", tuple(parts), in_terminal=False)] if parts else []


def _times_of_gpu(analysis: Analysis) -> StepTimes | None:
    return analysis.step_times if words_for(analysis.trace).device == "GPU" else None


def _stacked_bars(times: StepTimes) -> list[StackedBar]:
    devices = times.devices[:_MOST_DEVICES]
    of = "of the trace"
    if times.are_steps:
        of = f"of {step_label(times.per)}"
    names = [f", device {device}" if len(devices) > 1 else "" for device in devices]
    return [
        StackedBar(f"Where the time {of} goes{name}", _segments(times, device))
        for name, device in zip(names, devices, strict=True)
    ]


def _busy_line(times: StepTimes, device: int, *, several: bool) -> str:
    parts = times.parts_of(device)
    whole = sum(part.mean_ns for part in parts)
    busy = sum(part.mean_ns for part in parts if part.is_busy)
    name = f"GPU {device}" if several else "The GPU"
    span = "a step" if times.are_steps else "the time from its first to its last work"
    mean = " on average" if times.are_steps else ""
    text = f"{name} is busy for {_percent(busy, whole)} of {span}: {format_ns(busy)} of {format_ns(whole)}{mean}"
    waiting = sum(part.mean_ns for part in parts if part.name == _COLLECTIVES)
    if 100 * waiting >= _LEAST_WAITING_PCT * whole:
        text += f", {format_ns(waiting)} of it with nothing but collectives, which may wait for other ranks"
    text += "."
    idle = sorted((part for part in parts if not part.is_busy), key=lambda part: -part.mean_ns)
    shown = [part for part in idle[:_MOST_CAUSES] if 100 * part.mean_ns >= _LEAST_PCT * whole]
    if not shown:
        return text
    causes = "; ".join(f"{_percent(part.mean_ns, whole)} {IDLE_WORDS[part.name]}" for part in shown)
    return f"{text} Idle: {causes}."


def _percent(part: float, whole: float) -> str:
    share = 100 * part / whole if whole else 0.0
    return f"{share:.1f} %" if share < 10 else f"{share:.0f} %"


def _step_line(times: StepTimes) -> str:
    walls = times.steady_walls_ns()
    warmup, slow = int(times.steps["is_warmup"].sum()), int(times.steps["is_slow"].sum())
    usual = len(walls) - slow
    text = f"A step takes {format_ns(times.step_ns)}: the mean of {usual:,} steady step{'s' * (usual != 1)}"
    if len(walls) > 2:
        points = [format_ns(float(each)) for each in np.quantile(walls, (0.5, 0.25, 0.75, 0.0, 1.0))]
        text += f" (median {points[0]}, half of them {points[1]} to {points[2]}, all {points[3]} to {points[4]})"
    steps = "step" if warmup == 1 else "steps"
    before = f" {warmup} {steps} before them {'was' if warmup == 1 else 'were'} warm-up." if warmup else ""
    are = "was unusually slow and does" if slow == 1 else "were unusually slow and do"
    found = times.found_pct
    unsure = (
        ""
        if found is None
        else f" No range marks the steps: they are where the same kernels repeat, {found:.0f} % of all kernels."
    )
    return f"{text}.{before}" + (f" {slow} {are} not count in the mean." if slow else "") + unsure


def _slow_lines(times: StepTimes) -> list[str]:
    steps = times.steps
    slow = steps[steps["is_slow"].to_numpy(dtype=bool)].sort_values("wall_ns", ascending=False, kind="stable")
    if len(slow) == 0:
        return []
    texts = [
        f"{number} ({format_ns(wall)}, {_excess(times, int(number))})"
        for number, wall in zip(slow["step"].head(_MOST_SLOW), slow["wall_ns"], strict=False)
    ]
    more = f" and {len(slow) - _MOST_SLOW} more" if len(slow) > _MOST_SLOW else ""
    return [f"Slow steps: {', '.join(texts)}{more}. steps.csv says of what each is made."]


def _excess(times: StepTimes, step: int) -> str:
    """Return where most of the additional time of a slow step is, on the busiest device."""
    part = times.largest_excess(step, times.devices[0])
    if part.is_busy:
        return f"{format_ns(part.mean_ns)} more of {part.name}"
    return f"{format_ns(part.mean_ns)} more idle {IDLE_WORDS[part.name].partition(' (')[0]}"


def _segments(times: StepTimes, device: int) -> tuple[Segment, ...]:
    """Return the parts of a bar: work first, then idle time, each ordered by size."""
    parts = sorted(times.parts_of(device), key=lambda part: (not part.is_busy, -part.mean_ns))
    least = sum(part.mean_ns for part in parts) * _LEAST_PCT / 100
    found: list[Segment] = []
    for is_busy, rest in ((True, "other kinds of work"), (False, "idle: other causes")):
        own = [part for part in parts if part.is_busy is is_busy]
        small = [part for part in own if part.mean_ns < least]
        small = small if len(small) > 1 else []
        found += [Segment(_label(part), round(part.mean_ns), part.name) for part in own if part not in small]
        if small:
            color = "other" if is_busy else "unknown"
            found.append(Segment(f"{rest} ({len(small)})", round(sum(part.mean_ns for part in small)), color))
    return tuple(found)


def _label(part: StepPart) -> str:
    return part.name if part.is_busy else f"idle: {IDLE_WORDS[part.name].partition(' (')[0]}"


def _bars(times: StepTimes) -> Bars:
    """Return the time of each step. Where there are very many, each bar is the longest of several steps in a row."""
    steps = times.steps.reset_index(drop=True)
    size = -(-len(steps) // _MOST_BARS)
    wall = steps["wall_ns"].to_numpy(dtype=np.int64)
    rows = [int(low + np.argmax(wall[low : low + size])) for low in range(0, len(steps), size)]
    chosen = steps.iloc[rows]
    title = "Time of each step" if size == 1 else f"Time of each step; a bar is the longest of {size} in a row"
    return Bars(
        title=title,
        labels=tuple(f"step {number}" for number in chosen["step"]),
        values=tuple(map(int, chosen["wall_ns"])),
        spans=tuple((int(a), int(a + w)) for a, w in zip(chosen["start_ns"], chosen["wall_ns"], strict=True)),
        usual=times.step_ns,
        marks={at: "slow" for at, slow in enumerate(chosen["is_slow"]) if slow},
        faint=frozenset(at for at, warm in enumerate(chosen["is_warmup"]) if warm),
    )
