"""Compose the report of `analyze` about one trace: overview, findings, idle time, tables, method and notes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from nsysprof.arrays import find_trend
from nsysprof.notes import Note
from nsysprof.report.document import (
    IDLE_WORDS,
    KERNELS,
    OPERATORS,
    Bars,
    Cell,
    Chart,
    Column,
    Figure,
    Item,
    Lines,
    Notes,
    Paragraph,
    Part,
    Ranking,
    Report,
    Section,
    Segment,
    StackedBar,
    Table,
    Unit,
    Words,
    count_of,
    latency_text,
    table_of,
    words_for,
)
from nsysprof.report.figures.step import BarPart, list_parts
from nsysprof.report.pages.cases import (
    case_table,
    comparison_table,
    counter_table,
    coverage_line,
    environment_table,
    limit_lines,
    method_lines,
    reason_lines,
    verdict_lines,
)
from nsysprof.report.pages.memory import failure_sections, memory_parts
from nsysprof.report.pages.range_rows import step_label
from nsysprof.report.pages.recording import cpu_sections, os_call_table, recording_cost_table
from nsysprof.report.pages.trace_tables import (
    api_table,
    collective_table,
    energy_table,
    gpu_use_table,
    kernel_counter_table,
    kernel_table,
    layer_table,
    memop_table,
    operator_table,
    phase_table,
    range_api_table,
    range_table,
    stream_table,
)
from nsysprof.results.analysis import (
    MOST_COST,
    OUTSIDE,
    Analysis,
    CaptureRecord,
    ReadPart,
    StepPart,
    StepTimes,
    StepWork,
)
from nsysprof.results.checks import MissingSource
from nsysprof.results.findings import LEAST_SHARE, MEAN_STEP, TRACE, Finding, Findings, Idle
from nsysprof.units import format_apart, format_ns, format_percent, format_rate

# How many reasons a terminal shows; the files have all of them.
_MOST_LIMITS = 12
# The figure that stands first, before the findings, and the one that a page with a timeline leaves out.
STEP_FIGURE = "step.png"
TIMELINE_FIGURE = "timeline.png"


def analysis_report(
    analysis: Analysis,
    record: CaptureRecord | None,
    *,
    figures: Sequence[Figure] = (),
    timeline: Mapping[str, Any] | None = None,
) -> Report:
    """Return the report of one trace.

    record: what a capture folder adds to its trace; None for a trace alone.
    figures: the figures that were drawn, in order.
    timeline: the result of timeline_data; None for a report without an interactive timeline.
    """
    words, tier = words_for(analysis.trace), tier_of(record)
    # The cases of a grid do not form one program: their shares of the GPU's time mean nothing.
    is_grid = record is not None and record.has_cases
    if record is not None and is_grid:
        # A part holds the cases of one backend, or some: nothing to say about the fastest.
        first = verdict_sections(record) if analysis.part is None else overview_sections(analysis)
        sections = [*first, *findings_sections(analysis), *case_sections(record, words)]
    else:
        overview = [*overview_sections(analysis), *cpu_sections(analysis)]
        sections = [*overview, *findings_sections(analysis)]
        sections += [Section("", (phase_table(analysis.phases),))] if analysis.phases is not None else []
    first = [*failure_sections(analysis.allocator), *_lost_sections(analysis)]
    sections = [*first, *_bar_sections(analysis, figures), *sections]
    sections += [Section("Timeline", (Chart(timeline),), in_terminal=False)] if timeline is not None else []
    sections += [*([] if is_grid else step_sections(analysis)), *idle_sections(analysis)]
    # The interactive timeline has all that the figure of a program shows; that of a grid compares its backends.
    is_shown = timeline is not None and not is_grid
    drawn = [figure for figure in figures if figure.file != STEP_FIGURE]
    sections += figure_sections(
        [replace(figure, in_page=not is_shown) if figure.file == TIMELINE_FIGURE else figure for figure in drawn]
    )
    sections.append(_trace_section(analysis, tier))
    sections += [Section("Memory", tuple(memory_parts(analysis.allocator)))] if analysis.allocator is not None else []
    if analysis.recording_cost:
        sections.append(Section("", (recording_cost_table(analysis.recording_cost),)))
    sections.append(_notes_section(analysis, record))
    if not analysis.is_of_cpu or len(analysis.kernels):
        sections.append(Section("", (Paragraph(f"Coverage: {coverage_line(analysis)}"),)))
    sections.append(Section("Method", (Lines(tuple(method_lines(analysis, record))),), in_terminal=False))
    sections.append(Section("", (environment_table(analysis, record),), in_terminal=False))
    return Report(record.title if record else analysis.trace.path_name, tuple(sections))


def first_report(analysis: Analysis) -> Report:
    """Return the beginning of a report: what the program does with the GPU, and what to change."""
    return Report(
        analysis.trace.path_name,
        (
            *failure_sections(analysis.allocator), *_lost_sections(analysis), *_bar_sections(analysis, ()),
            *overview_sections(analysis),
            *cpu_sections(analysis),             *findings_sections(analysis), *idle_sections(analysis),
        ),
    )  # fmt: skip


def _lost_sections(analysis: Analysis) -> list[Section]:
    """Return what the trace lost, which comes before everything that depends on it."""
    if not analysis.losses and not analysis.lost_kernels:
        return []
    what = "This trace lost every kernel." if analysis.lost_kernels else "This trace is not complete."
    lost = " ".join(loss.note.text for loss in analysis.losses[:1])
    return [Section("", (Lines((f"{what} {lost}".rstrip(),), is_verdict=True),))]


def demo_report(analysis: Analysis, about: str) -> Report:
    """Return what `demo` shows of its analysis: what the trace is about, and the findings. The page has the rest."""
    first = first_report(analysis)
    return Report(first.title, (Section("", (Paragraph(about),)), *first.sections))


def capture_report(results: pd.DataFrame, environment: Mapping[str, Any], notes: Sequence[Note]) -> Report:
    """Return what `capture` prints at its end: its cases, and the notes about them.

    results: the columns of results.csv.
    environment: from the capture's manifest.
    """
    record = CaptureRecord("capture", results, dict(environment), "", tuple(notes))
    words = OPERATORS if environment.get("device") == "cpu" else KERNELS
    parts: list[Part] = [case_table(record, words), Lines(reason_lines(record)), Notes(record.notes)]
    return Report(record.title, (Section("", tuple(parts)),))


def verdict_sections(record: CaptureRecord) -> Sequence[Section]:
    """Return which backends are the fastest; nothing where no case can be compared."""
    verdicts = verdict_lines(record)
    return [Section("Fastest backends", (Lines(verdicts, is_verdict=True),))] if verdicts else []


def case_sections(record: CaptureRecord, words: Words) -> Sequence[Section]:
    """Return the cases and what limits them."""
    tier = tier_of(record)
    traffic = counter_table(record)
    parts: list[Part] = [
        with_tier(case_table(record, words), tier),
        Lines(reason_lines(record)),
        with_tier(comparison_table(record, words), tier),
        *([] if traffic is None else [with_tier(traffic, tier)]),
    ]
    sections = [Section("", tuple(parts))]
    limits = limit_lines(record)
    if limits:
        sections.append(Section("What limits each case", (Lines(limits, terminal_lines=_MOST_LIMITS),)))
    return sections


def _bar_sections(analysis: Analysis, figures: Sequence[Figure]) -> list[Section]:
    """Return the step as one bar for each device, before all else. A page draws it and needs no figure of it."""
    times = _times_of_gpu(analysis) if analysis.part is None else None
    bars = [] if times is None else _stacked_bars(analysis, times)
    step = [replace(figure, in_page=not bars) for figure in figures if figure.file == STEP_FIGURE]
    return [Section("", (*step, *bars), in_terminal=False)] if step or bars else []


def figure_sections(figures: Sequence[Figure]) -> list[Section]:
    """Return the section of figures; nothing where none was drawn."""
    return [Section("Figures", tuple(figures), in_terminal=False)] if figures else []


def _trace_section(analysis: Analysis, tier: str) -> Section:
    tables = (
        range_table(analysis), stream_table(analysis), kernel_table(analysis), operator_table(analysis),
        layer_table(analysis), kernel_counter_table(analysis),
        collective_table(analysis), gpu_use_table(analysis),
        energy_table(analysis), memop_table(analysis), api_table(analysis),
        range_api_table(analysis), os_call_table(analysis),
    )  # fmt: skip
    return Section("", tuple(with_tier(table, tier) for table in tables if table is not None))


def _notes_section(analysis: Analysis, record: CaptureRecord | None) -> Section:
    notes: tuple[Note, ...] = tuple(dict.fromkeys((*(record.notes if record else ()), *analysis.notes)))
    return Section("Notes", (Notes(notes),))


_WORDS = {
    MissingSource.COUNTERS: "no hardware counters",
    MissingSource.DRAM_SAMPLES: "DRAM not sampled",
    MissingSource.COUNTERS_OF_THIS_GPU: "no hardware counters of this GPU",
    MissingSource.NSYS: "traced by torch, not nsys",
}


def tier_of(record: CaptureRecord | None) -> str:
    """Return which sources are missing, in words; "" where none is.

    A source counts as missing if at least one case has no data from it.
    """
    if record is None:
        return ""
    counted = record.results["counted_kernels"].notna().any()
    missing = dict.fromkeys(source for source in record.missing if not (source is MissingSource.COUNTERS and counted))
    return ", ".join(_WORDS[source] for source in missing)


def with_tier(table: Table, tier: str) -> Table:
    """Return the table under a title that says what is missing."""
    return replace(table, title=f"{table.title} (known less well: {tier})") if tier else table


_NO_STACKS = "No {other}lines of code are known, because no stacks were recorded: nsysprof capture --stacks -- PROGRAM"


def findings_sections(analysis: Analysis) -> list[Section]:
    """Return the findings, the most valuable one first, or why they are unknown; nothing where no GPU was used."""
    if analysis.findings is not None:
        return [_findings(analysis.findings, _set_up_text(analysis) or _distance_text(analysis), analysis.part)]
    if not analysis.no_findings:
        return []
    text = f"Findings are unknown, because {analysis.no_findings}."
    return [Section("Findings", (Lines((text,), is_verdict=True),))]


def idle_sections(analysis: Analysis) -> list[Section]:
    """Return the idle time by cause; nothing where it is unknown."""
    return [] if analysis.idle is None else [Section("", (idle_table(analysis.idle, _idle_title(analysis)),))]


def _set_up_text(analysis: Analysis) -> str:
    """Return that a trace without steps passes outside the GPU; "" where the GPU works for a notable part of it."""
    times = _times_of_gpu(analysis)
    if times is None or times.are_steps or len(times.devices) != 1:
        return ""
    parts = times.parts_of(times.devices[0])
    whole, busy = (sum(part.mean_ns for part in chosen) for chosen in (parts, [part for part in parts if part.is_busy]))
    if not whole or 100 * busy >= _LEAST_PCT * whole:
        return ""
    return (
        f" The GPU is busy for {_percent(busy, whole)} of the trace, and nothing repeats: nearly all of it passes "
        "outside the GPU, as while a program loads or compiles. Record the part that you want to make faster, and "
        "several times."
    )


def _distance_text(analysis: Analysis) -> str:
    """Return how far the work of a usual step, a part or a trace is from its floor, or that this is not known."""
    times = _times_of_gpu(analysis)
    if analysis.work is None or not len(analysis.work) or words_for(analysis.trace).device != "GPU":
        return ""
    span = "the trace" if times is None or not times.are_steps else "a step"
    span = span if analysis.part is None else str(analysis.part)
    # Findings are about the process that works most.
    devices = analysis.work["device_id"].unique().tolist()
    parts_of = {device: [part for part in list_parts(analysis, device) if part.is_busy] for device in devices}
    device = max(parts_of, key=lambda device: sum(part.mean_ns for part in parts_of[device]))
    busy_ns = sum(part.mean_ns for part in parts_of[device])
    known = [part for part in parts_of[device] if part.floor_ns is not None]
    known_ns = sum(part.mean_ns for part in known)
    name = f"GPU {device}" if len(devices) > 1 else "The GPU"
    if analysis.part is not None and not known:
        return f" {name} works for {format_ns(busy_ns)} of {span}. The least time is known of whole traces alone."
    if not busy_ns or 100 * known_ns < _LEAST_FLOOR_PCT * busy_ns:
        how_much = f" of {_percent(busy_ns - known_ns, busy_ns)} of this work" if known else ""
        return (
            f" {name} works for {format_ns(busy_ns)} of {span}. The least time{how_much} is not known: capture "
            "--operators records what torch computes, and --counters counts the kernels of any program."
        )
    above = sorted(((part.mean_ns - (part.floor_ns or 0.0), part.name) for part in known), reverse=True)
    rest = ", ".join(f"{format_ns(time)} in {name}" for time, name in above[:_MOST_CAUSES] if time > 0)
    floor_ns = busy_ns - sum(time for time, _ in above)
    return (
        f" {name} works for {format_ns(busy_ns)} of {span}; at the least time of each kernel that would be "
        f"{format_ns(floor_ns)} (rates {analysis.floor_source}){f'. The rest is {rest}' if rest else ''}."
        + _rate_of_products(analysis.step_work)
    )


def _rate_of_products(work: StepWork | None) -> str:
    """Return which share of the peak the products of a step reach while they run; "" where it is unknown."""
    if work is None or not work.step_flops or not work.products_ns or not work.peak_flops_per_s:
        return ""
    share_pct = 100e9 * work.step_flops / work.products_ns / work.peak_flops_per_s
    return (
        f" Products, convolutions and attention take {format_ns(work.products_ns)}, in which they reach "
        f"{format_percent(share_pct)} of {format_rate(work.peak_flops_per_s, 'FLOP/s')} ({work.peak_source})."
    )


# Where all changes together save so many times what each saves by itself, it is said why.
_MUCH_MORE = 1.3


def _findings(findings: Findings, more: str, part: ReadPart | None) -> Section:
    step = "the trace" if findings.per == TRACE else step_label(findings.per)
    bare = "" if findings.unrecorded_ns is None else " without the profiler"
    whole = f"{format_ns(findings.whole_ns)} of {step}{bare}.{_what_was_replayed(findings)}"
    if not findings.items:
        place = "" if part is None else f" in {part}"
        text = f"Nothing was found{place} above {100 * LEAST_SHARE:g} % of the {whole}{more}"
        return Section("Findings", (Lines((text,), is_verdict=True),))
    rare = [item for item in findings.items if item.per == MEAN_STEP]
    text = f"Together these changes save about {format_ns(findings.together_ns)} of the {whole}"
    if findings.together_ns > _MUCH_MORE * sum(item.saving_ns for item in findings.items if item not in rare):
        text += " That is more than each saves by itself, since what one of them shortens then waits for another."
    if len(rare) == len(findings.items):
        text = f"Nothing was found above {100 * LEAST_SHARE:g} % of the {whole}{more}"
    if rare:
        text += (
            f" Slow steps, which are not in that time, lose {format_ns(sum(item.saving_ns for item in rare))} a step "
            "more, as a mean over all steady steps."
        )
    title = "saved" if findings.per == TRACE else "saved per step"
    ranking = Ranking(tuple(map(finding_item, findings.items)), title, Unit.NS, "findings.csv")
    other = "other " if any(item.location for item in findings.items) else ""
    after = () if findings.has_stacks else (Lines((_NO_STACKS.format(other=other),)),)
    return Section("Findings", (Lines((text,), is_verdict=True), ranking, *after))


def _what_was_replayed(findings: Findings) -> str:
    """Return a sentence about the part of the program that the savings come from, where it is not typical."""
    if findings.are_typical:
        return ""
    took = format_ns(findings.recorded_ns)
    if findings.per == TRACE:
        if findings.recorded_ns > findings.step_ns:
            return f" The savings are computed on {took}: the process that works most, with its calls before that time."
        return f" The savings are computed on {took} of it: the process that works most, from its first call on."
    if findings.first_step == findings.last_step:
        return f" The savings are computed on step {findings.first_step}, which took {took}."
    steps = f"{findings.first_step} to {findings.last_step}"
    return f" The savings are computed on steps {steps}, which took {took} on average."


def finding_item(finding: Finding) -> Item:
    """Return a finding as a line of a ranking."""
    amount = Cell(finding.saving_ns, low=finding.saving_low_ns, high=finding.saving_high_ns)
    share = finding.location_share_pct
    line = finding.location if share is None else f"{finding.location} ({share:.0f} % of its samples)"
    where = " at ".join(part for part in (finding.place, line) if part)
    if finding.layer:
        where = f"{where} in {finding.layer}" if where else finding.layer
    return Item(finding.code, where, amount, finding.text, finding.next_step)


def _idle_title(analysis: Analysis) -> str:
    """Return the title of the table of idle time. Beside the overview of a step, it says that it is of all of them."""
    times = _times_of_gpu(analysis)
    is_beside_a_step = times is not None and times.are_steps and analysis.part is None
    return "Idle time by cause" + (" in the whole trace" if is_beside_a_step else "")


def idle_table(idle: Idle, title: str) -> Table:
    """Return the idle time of each device by cause, the largest first. The rows add up to all its idle time."""
    totals = {device.device_id: device for device in idle.devices}
    whole = idle.table[(idle.table["range"] == "").to_numpy(dtype=bool)]
    whole = whole.sort_values(["device_id", "idle_ns"], ascending=[True, False], kind="stable")
    columns = (
        (Column("device"), lambda row: str(row["device_id"])),
        (Column("cause"), "cause"),
        (Column("idle", Unit.NS), "idle_ns"),
        (
            Column("of the device's time", Unit.SHARE),
            lambda row: 100 * row["idle_ns"] / span if (span := totals[row["device_id"]].span_ns) else None,
        ),
        (Column("gaps", Unit.COUNT, drop=1), "count"),
    )
    return table_of(title, whole.to_dict("records"), columns, source="idle.csv")


# The most causes of idle time that the sentence names, and the least share of a step to name one (percent).
_MOST_CAUSES, _LEAST_PCT = 3, 1.0
# The most kinds of work that the sentence names, and the least share of the busy time to name one (percent).
_MOST_WORK, _LEAST_WORK_PCT = 5, 3.0
# The share of kernel time whose operators' floors must be known to say how far a step is from them (percent).
_LEAST_FLOOR_PCT = 90.0
_MOST_DEVICES = 8
# The category of collectives, and the least share of a step without other work to say so (percent).
_COLLECTIVES, _LEAST_WAITING_PCT = "communication", 10.0
# More bars than this are thinner than two pixels.
_MOST_BARS = 400
_MOST_SLOW = 3


def overview_sections(analysis: Analysis) -> list[Section]:
    """Return the overview; nothing where it is unknown when the GPU worked, or where no GPU did."""
    if analysis.part is not None:
        lines = [_part_line(analysis.part, analysis.step_times), *_device_lines(analysis)]
        return [Section("Overview", (Lines(tuple(lines), is_verdict=True),))]
    times = _times_of_gpu(analysis)
    if times is None:
        return []
    devices = times.devices[:_MOST_DEVICES]
    lines = [_busy_line(times, device, several=len(devices) > 1) for device in devices]
    if len(devices) == 1:
        lines += [*_work_lines(times, devices[0], analysis.work), *_floor_lines(analysis, devices[0])]
    if times.are_steps:
        lines += [_step_line(times), *_slow_lines(times)]
        distortion, is_large = _distortion_lines(analysis)
        lines = [*distortion, *lines] if is_large else [*lines, *distortion]
    return [Section("Overview", (Lines(tuple(lines), is_verdict=True),))]


def _part_line(part: ReadPart, times: StepTimes | None) -> str:
    """Return what the part is, and how long it took.

    times: the step, where the part is one.
    """
    wall = format_ns(part.wall_ns)
    if part.range is not None:
        return f"This is the range {part} alone: {count_of(part.instances, 'instance')}, {wall} in all."
    text = f"This is step {part.step} alone: {wall}. A usual step takes {format_ns(part.usual_ns)} on average."
    if times is None or not len(times.table):
        return text
    step = times.table.iloc[0]
    if step["is_warmup"]:
        return f"{text} This one belongs to the warm-up."
    return f"{text} This one was unusually slow." if step["is_slow"] else text


def _device_lines(analysis: Analysis) -> list[str]:
    """Return how much of the time of a part devices are busy, and what its own work is."""
    idle, work, lines = analysis.idle, analysis.work, list[str]()
    if idle is None:
        return lines
    devices = idle.devices[:_MOST_DEVICES]
    for device in devices:
        name = f"GPU {device.device_id}" if len(idle.devices) > 1 else "the GPU"
        causes = idle.table[(idle.table["range"] == "") & (idle.table["device_id"] == device.device_id)]
        parts = [
            StepPart(cause, False, float(idle_ns))
            for cause, idle_ns in zip(causes["cause"], causes["idle_ns"], strict=True)
        ]
        busy, span = format_ns(device.busy_ns), format_ns(device.span_ns)
        text = f"Meanwhile, {name} is busy for {_percent(device.busy_ns, device.span_ns)}: {busy} of {span}."
        lines.append(text + _causes_text(parts, device.span_ns))
    if work is not None and len(devices) == 1:
        own = work[work["range"].isna()].groupby("category", sort=False)["busy_ns"].sum()
        kinds = [StepPart(str(name), True, float(busy)) for name, busy in own.items() if busy]
        lines += _kinds_line(f"Its own work keeps the GPU busy for {format_ns(int(own.sum()))}", kinds, work)
    return lines


def step_sections(analysis: Analysis) -> list[Section]:
    """Return the time of each step; nothing where it is unknown, or there is only one."""
    times = _times_of_gpu(analysis)
    if times is None or not times.are_steps or len(times.steps) < 2:
        return []
    return [Section("Steps", (_bars(times),), in_terminal=False)]


def _times_of_gpu(analysis: Analysis) -> StepTimes | None:
    return analysis.step_times if words_for(analysis.trace).device == "GPU" else None


def _stacked_bars(analysis: Analysis, times: StepTimes) -> list[StackedBar]:
    devices = times.devices[:_MOST_DEVICES]
    of = "of the trace"
    if times.are_steps:
        of = f"of {step_label(times.per)}"
    names = [f", device {device}" if len(devices) > 1 else "" for device in devices]
    return [
        StackedBar(f"Where the time {of} goes{name}", _segments(analysis, device))
        for name, device in zip(names, devices, strict=True)
    ]


def _busy_line(times: StepTimes, device: int, *, several: bool) -> str:
    parts = times.parts_of(device)
    # Nothing of this device lies before its first or after its last work, but migrations do.
    outside = 0 if times.are_steps else sum(part.mean_ns for part in parts if part.name == OUTSIDE)
    whole = sum(part.mean_ns for part in parts) - outside
    busy = sum(part.mean_ns for part in parts if part.is_busy)
    name = f"GPU {device}" if several else "The GPU"
    span = "a step" if times.are_steps else "the time from its first to its last work"
    mean = " on average" if times.are_steps else ""
    text = f"{name} is busy for {_percent(busy, whole)} of {span}: {format_ns(busy)} of {format_ns(whole)}{mean}"
    waiting = sum(part.mean_ns for part in parts if part.name == _COLLECTIVES)
    if 100 * waiting >= _LEAST_WAITING_PCT * whole:
        text += f", {format_ns(waiting)} of it with nothing but collectives, which may wait for other ranks"
    text += "."
    if 100 * outside >= _LEAST_PCT * (whole + outside):
        text += f" Another {format_ns(outside)} of the trace lie before this or after it."
    inside = (part for part in parts if not part.is_busy and (times.are_steps or part.name != OUTSIDE))
    return text + _causes_text(inside, whole)


def _causes_text(idle: Iterable[StepPart], whole: float) -> str:
    """Return a sentence on the largest causes of idle time; "" where none is notable."""
    largest = sorted(idle, key=lambda part: -part.mean_ns)[:_MOST_CAUSES]
    shown = [part for part in largest if 100 * part.mean_ns >= _LEAST_PCT * whole]
    causes = "; ".join(f"{_percent(part.mean_ns, whole)} {IDLE_WORDS[part.name]}" for part in shown)
    return f" Idle: {causes}." if shown else ""


def _work_lines(times: StepTimes, device: int, work: pd.DataFrame | None) -> list[str]:
    """Return what the GPU does while it works, the most time first.

    work: the rows of work.csv; None where they are unknown.
    """
    if work is None:
        return []
    kinds = [part for part in times.parts_of(device) if part.is_busy]
    return _kinds_line("What it does", kinds, work[(work["device_id"] == device).to_numpy(dtype=bool)])


def _kinds_line(begin: str, kinds: Sequence[StepPart], work: pd.DataFrame) -> list[str]:
    """Return a line on the kinds of work, the most time first; nothing where there is no work.

    begin: what the kinds are of.
    work: the rows of work.csv of the device.
    """
    parts = sorted(kinds, key=lambda part: -part.mean_ns)
    busy = sum(part.mean_ns for part in parts)
    shown = [part for part in parts[:_MOST_WORK] if 100 * part.mean_ns >= _LEAST_WORK_PCT * busy]
    if not shown:
        return []
    whole = work[work["range"].isna()]
    texts = []
    for part in shown:
        rows = whole[whole["category"] == part.name]
        plain_ns, all_ns = int(rows.loc[rows["unit"] == "plain", "busy_ns"].sum()), int(rows["busy_ns"].sum())
        text = f"{format_ns(part.mean_ns)} {part.name}"
        if 10 * plain_ns >= 9 * all_ns > 0:
            text += " without tensor cores"
        elif 10 * plain_ns >= all_ns > 0:
            text += f" ({_percent(plain_ns, all_ns)} of it without tensor cores)"
        texts.append(text)
    rest = busy - sum(part.mean_ns for part in shown)
    more = f", {format_ns(rest)} other work" if 100 * rest >= _LEAST_WORK_PCT * busy else ""
    return [f"{begin}: {', '.join(texts)}{more}."]


def _counted_floor(analysis: Analysis, device: int) -> list[str]:
    """Return how far the work of a device is from its floor as ncu counted it, and where the rest is."""
    parts = [part for part in list_parts(analysis, device) if part.is_busy]
    above = {part.name: part.mean_ns - part.floor_ns for part in parts if part.floor_ns is not None}
    known_ns = sum(part.mean_ns for part in parts if part.name in above)
    busy_ns = sum(part.mean_ns for part in parts)
    if not above or 100 * known_ns < _LEAST_FLOOR_PCT * busy_ns:
        return []
    most = sorted(above.items(), key=lambda item: -item[1])[:_MOST_CAUSES]
    rest = ", ".join(f"{format_ns(time)} {name}" for name, time in most if time > 0)
    return [
        f"Counters: {format_ns(busy_ns)} of work would take {format_ns(busy_ns - sum(above.values()))} at the least "
        f"time of each kernel (rates {analysis.floor_source})." + (f" Most above it: {rest}." if rest else "")
    ]


def _floor_lines(analysis: Analysis, device: int) -> list[str]:
    """Return how far the kernels of a step are from their floor, where the rest is, and what the products reach."""
    operators, work = analysis.operators, analysis.step_work
    if operators is None or not len(operators) or work is None:
        return _counted_floor(analysis, device)
    if not work.is_usual:
        return [
            "Operators: they were recorded of one step. Kernels like its own take "
            f"{format_percent(work.covered_pct)} of the time of all kernels, so it is not taken for a usual step.",
            *_counted_floor(analysis, device),
        ]  # fmt: skip
    known = operators[operators["floor_ns"].notna()]
    spent, floor = float(known["kernel_total_ns"].sum()), float(known["floor_ns"].sum())
    if 100 * spent < _LEAST_FLOOR_PCT * float(operators["kernel_total_ns"].sum()):
        if operators["shapes"].isna().all():
            return ["Operators: their least time is not known, because the sizes of their tensors were not recorded."]
        without = operators[operators["floor_ns"].isna()].groupby("operator")["kernel_total_ns"].sum()
        names = ", ".join(str(name).removeprefix("aten::") for name in without.nlargest(_MOST_CAUSES).index)
        share = _percent(float(without.sum()), float(operators["kernel_total_ns"].sum()))
        return [f"Operators: the least time of {share} of a step's kernels is not known, most of it of {names}."]
    above = (known["kernel_total_ns"] - known["floor_ns"]).clip(lower=0).groupby(known["operator"]).sum()
    most = above.sort_values(ascending=False).head(_MOST_CAUSES)
    parts = [
        f"{format_ns(float(time))} {name.removeprefix('aten::')}"
        for name, time in zip(map(str, most.index), most, strict=True)
        if time > 0
    ]
    lines = [
        f"Operators: the kernels of a step take {format_ns(spent)}; at the least time of each operator they would take "
        f"{format_ns(floor)} (rates {analysis.floor_source}). Most above it: {', '.join(parts)}."
    ]
    if work.step_flops and work.mfu_pct is not None:
        lines.append(
            f"Its products compute {format_rate(work.step_flops, 'FLOP')} a step, {format_percent(work.mfu_pct)} of "
            f"{format_rate(work.peak_flops_per_s, 'FLOP/s')} ({work.peak_source})."
        )
    return lines


def _percent(part: float, whole: float) -> str:
    share = 100 * part / whole if whole else 0.0
    return f"{share:.1f} %" if share < 10 else f"{share:.0f} %"


def _step_line(times: StepTimes) -> str:
    walls = times.steady_walls_ns()
    warmup, slow = int(times.steps["is_warmup"].sum()), int(times.steps["is_slow"].sum())
    usual = len(walls) - slow
    trend = find_trend(walls)
    kind = "steady " * (trend is None)
    text = f"A step takes {format_ns(times.step_ns)}: the mean of {usual:,} {kind}step{'s' * (usual != 1)}"
    if len(walls) > 2:
        points = format_apart(format_ns, *np.quantile(walls, (0.5, 0.25, 0.75, 0.0, 1.0)).tolist())
        text += f" (median {points[0]}, half of them {points[1]} to {points[2]}, all {points[3]} to {points[4]})"
    if trend is not None:
        way = "shorter" if trend[1] < trend[0] else "longer"
        text += (
            f". No step is typical: they become {way} from the first to the last, {format_ns(trend[0])} in the first "
        )
        text += f"eighth of them and {format_ns(trend[1])} in the last"
    steps = "step" if warmup == 1 else "steps"
    before = f" {warmup} {steps} before them {'was' if warmup == 1 else 'were'} warm-up." if warmup else ""
    found_pct = times.found_pct
    unsure = (
        ""
        if found_pct is None
        else f" No range marks the steps: they are where the same kernels repeat, {found_pct:.0f} % of all kernels."
    )
    return f"{text}.{before}" + _slow_share(times, slow) + unsure


# By so much the host makes two runs of a program differ.
_OF_RUNS = 0.2


def _distortion_lines(analysis: Analysis) -> tuple[list[str], bool]:
    """Return how long a step takes without the profiler, as far as that is known, and whether it is notably less."""
    findings = analysis.findings
    if findings is None:
        return [], False
    recorded = format_ns(findings.step_ns)
    if findings.unrecorded_ns is not None:
        return _measured_line(findings, recorded)
    measured = [cost for cost in analysis.recording_cost or () if cost.range == findings.per and cost.is_distorted]
    if measured:
        ranges = f"{format_ns(measured[0].wall_med_ns)} instead of {format_ns(measured[0].plain_wall_med_ns)}"
        return [f"Recording makes this program slower: a step takes {ranges} (medians, measured)."], True
    if findings.unrecorded_low_ns is None or analysis.recording_cost is not None:
        return [], False
    least = format_ns(findings.unrecorded_low_ns)
    return [
        f"Recording slows the host: without it, a step takes between {least} and {recorded}, by a replay. nsysprof "
        "capture --measure-cost measures it."
    ], findings.step_ns > (1 + MOST_COST) * findings.unrecorded_low_ns  # fmt: skip


def _measured_line(findings: Findings, recorded: str) -> tuple[list[str], bool]:
    """Return what one run without the profiler says of a step, and whether it is far from the recorded one."""
    assert findings.unrecorded_ns is not None
    text = (
        "Without the profiler, a step takes "
        f"{latency_text(findings.unrecorded_ns, findings.unrecorded_low_ns, findings.unrecorded_high_ns)} "
        "(median and 95 % of one run; where the host sets the pace, another run may take twice as long, or half)"
    )
    longer = findings.step_ns / findings.unrecorded_ns - 1
    if longer < -MOST_COST:
        return [
            f"{text}. Under the profiler it took {recorded}, which is less: the two runs differ by something else than "
            "recording, so that neither is sure. Capture again on a quiet machine; savings are of the first."
        ], True
    if longer <= MOST_COST:
        return [f"{text}; savings are of this time."], False
    cause = "Recording slows the host, which" if longer > _OF_RUNS else "Recording, or another run,"
    return [
        f"{text}. {cause} makes it {recorded}, {format_percent(100 * longer)} more: savings are of the time without "
        "it, shares and idle times of the time with it."
    ], True


def _slow_share(times: StepTimes, slow: int) -> str:
    """Return how often steps are slow, by how much, and the mean with them."""
    if not slow:
        return ""
    walls = times.steady_walls_ns()
    if slow == 1:
        return f" 1 was unusually slow and does not count in the mean: with it, it is {format_ns(walls.mean())}."
    longer = (walls.sum() - (len(walls) - slow) * times.step_ns) / slow - times.step_ns
    return (
        f" {slow} were unusually slow and do not count in the mean: one step in {round(len(walls) / slow)} takes "
        f"{format_ns(longer)} longer, and with them the mean is {format_ns(walls.mean())}."
    )


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


def _segments(analysis: Analysis, device: int) -> tuple[Segment, ...]:
    """Return the parts of a bar: work first, then idle time, each ordered by size."""
    parts = list_parts(analysis, device)
    least = sum(part.mean_ns for part in parts) * _LEAST_PCT / 100
    segments: list[Segment] = []
    for is_busy, rest in ((True, "other kinds of work"), (False, "idle: other causes")):
        own = [part for part in parts if part.is_busy is is_busy]
        small = [part for part in own if part.mean_ns < least]
        small = small if len(small) > 1 else []
        segments += [
            Segment(_label(part), round(part.mean_ns), part.name, part.floor_ns) for part in own if part not in small
        ]
        if small:
            color = "other" if is_busy else "unknown"
            segments.append(Segment(f"{rest} ({len(small)})", round(sum(part.mean_ns for part in small)), color))
    return tuple(segments)


def _label(part: BarPart) -> str:
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
