"""Summarize the tables of a trace into its Analysis: all tables, facts, notes and findings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd

from nsysprof.analysis.attribution.attribute import attribute_work, covered, order_work
from nsysprof.analysis.attribution.caused_work import CausedWork, find_caused
from nsysprof.analysis.attribution.duration_statistics import summarize_durations
from nsysprof.analysis.attribution.intervals import kernels_and_graphs
from nsysprof.analysis.busy_time.foreach_kernels import find_optimizer_kernels
from nsysprof.analysis.busy_time.kernel_needs import KernelNeeds, join_needs, needs_of_counted
from nsysprof.analysis.busy_time.layers import tabulate_layers
from nsysprof.analysis.busy_time.operators import Facts, Operators, find_operators
from nsysprof.analysis.busy_time.work_ledger import tabulate_work
from nsysprof.analysis.findings.attention_calls import list_attention
from nsysprof.analysis.findings.list_findings import list_findings, within_graph
from nsysprof.analysis.idle_time.ledger import BlamedIdle, Ledger, blame_idle, doubt_of, keep_ledger, keep_part
from nsysprof.analysis.kernel_names.variant_names import (
    FILL_NAME,
    Names,
    call_names,
    copy_name,
    kernel_names,
    plain_call_name,
)
from nsysprof.analysis.overview.health import MUCH_LOST
from nsysprof.analysis.overview.memory import DeviceMemory, list_owners
from nsysprof.analysis.overview.stages import Stage, needed_stages, run_stages
from nsysprof.analysis.overview.streams import tabulate_streams
from nsysprof.analysis.overview.timeline import make_timeline
from nsysprof.analysis.overview.trace_overview import (
    Attribution,
    Judged,
    Outline,
    attribute,
    count_totals,
    judge,
    live_metrics,
    outline,
)
from nsysprof.analysis.parts.find_part import Part, WantedPart, cut_attribution, cut_tables, find_part
from nsysprof.analysis.ranges.instances import RangeEvidence
from nsysprof.analysis.ranges.summarize_ranges import MeasuredRanges, RangeSummary, measure_ranges, tabulate_ranges
from nsysprof.analysis.replay.replay import ExecutionGraph, build_graph
from nsysprof.analysis.steps.find_steps import Steps, find_steps, settle_steps
from nsysprof.analysis.steps.inference_phases import list_phases, split_phases
from nsysprof.analysis.steps.step_times import explain_pace, time_idle, time_steps
from nsysprof.analysis.traffic.collectives import tabulate_collectives
from nsysprof.analysis.traffic.energy import by_device
from nsysprof.attention.policy_file import PolicyFile
from nsysprof.kernels.names import kind_of
from nsysprof.notes import Loss, Note
from nsysprof.results.analysis import (
    API_COLUMNS,
    KERNEL_COLUMNS,
    MEMOP_COLUMNS,
    Analysis,
    Coverage,
    StepTimes,
    StepWork,
    Timeline,
    Totals,
    TraceRows,
)
from nsysprof.results.column_registry.analysis_columns import OS_CALLS, RANGE_INSTANCES, RANGE_TREE, RANGES
from nsysprof.results.findings import Findings, Idle, StackSamples, UnrecordedSteps
from nsysprof.results.kernel_counters import CountedLaunches
from nsysprof.results.power_samples import GpuEnergy
from nsysprof.results.roof import Peak, settle_peak
from nsysprof.trace.schema import COPY, FILL, MIGRATION, Bools, GpuMetrics, Int64s, Ints, Tables

# In a trace with fewer calls and pieces of work, two threads wait for each other longer than they work together.
_MANY_EVENTS = 150_000


def summarize(
    tables: Tables,
    *,
    launched_only: bool = False,
    policy: PolicyFile | None = None,
    stacks: StackSamples | None = None,
    unfold: bool = False,
    power: Sequence[GpuEnergy] = (),
) -> Analysis:
    """Return the analysis of a trace: everything counted and attributed.

    All counts come from the rows of one table each, never from a join.

    launched_only: whether to leave out what ranges adopted from helper threads or captured into graphs, as NVIDIA does.
    policy: the attention backends that were measured to be the fastest, for the finding attention-backend.
    stacks: samples of the program's threads, which give findings their lines of code.
    unfold: see tabulate_ranges.
    power: what the GPUs' energy counters said during the recording.
    """
    options = SummaryOptions(launched_only, policy, stacks, unfold, power)
    return run_summary(tables, options).analysis


@dataclass(frozen=True)
class SummaryOptions:
    """What is wanted of a summary; see summarize."""

    launched_only: bool = False
    policy: PolicyFile | None = None
    stacks: StackSamples | None = None
    unfold: bool = False
    power: Sequence[GpuEnergy] = ()
    # What the recorder of operators wrote, by process and number.
    operator_facts: Facts = field(default_factory=dict)
    # The launches of the trace by kernel and grid, with what ncu counted of one of each.
    launches: Sequence[CountedLaunches] = ()
    # What the GPU reached, as its capture measured it.
    ceilings: Mapping[str, Any] = field(default_factory=dict)
    # The part of the trace to analyze; None for all of it.
    part: WantedPart | None = None
    # The steps of the program without a profiler, where they were measured.
    unrecorded: UnrecordedSteps | None = None


@dataclass(frozen=True)
class Summary:
    """The analysis of a trace, and if it is wanted, which range each launch belongs to and what ranges caused."""

    analysis: Analysis
    attribution: Attribution | None = None
    caused: CausedWork | None = None


def run_summary(tables: Tables, options: SummaryOptions, *, keeps_attribution: bool = False) -> Summary:
    """Run the stages of a summary. To keep the attribution takes as much memory as a third of the calls."""
    wanted = ("analysis", "attribution", "caused") if keeps_attribution else ("analysis",)
    events = len(tables.work) + (0 if tables.calls is None else len(tables.calls))
    is_large = events >= _MANY_EVENTS
    given = {"tables": tables, "options": options}
    if options.part is None:
        return Summary(**run_stages(STAGES, given, wanted, is_large=is_large).results)
    whole = run_stages(
        needed_stages(STAGES, given, _FOR_PART), given, (*_FOR_PART, "tables"), is_large=is_large
    ).results
    given = _cut_to_part(whole, options)
    run = run_stages(needed_stages(STAGES, given, wanted), given, wanted, is_large=is_large)
    return Summary(**{**run.results, "analysis": _conclude_part(run.results["analysis"], whole)})


_FINDINGS_OF_A_STEP = "they are about all steps together, and one step was read"
# What an analysis of a part needs of the whole trace.
_FOR_PART = (
    "names", "attribution", "caused", "memory", "sampled", "judged", "blamed", "explained", "findings", "part",
)  # fmt: skip


def _cut_to_part(whole: Mapping[str, Any], options: SummaryOptions) -> dict[str, Any]:
    """Return what the stages of a part need, so that each counts the part alone."""
    tables, part, explained = whole["tables"], whole["part"], whole["explained"]
    attribution = cut_attribution(whole["attribution"], part)
    caused = whole["caused"]
    if explained.idle is not None:
        idle, notes = keep_part(tables, attribution.attributed.ranges, whole["blamed"], part)
        times, step = explained.step_times, part.facts.step
        times = None if times is None or step is None or part.facts.range is not None else times.alone(step)
        explained = replace(explained, idle=idle, notes=notes, step_times=times)
    if part.facts.step is not None:
        explained = replace(explained, no_findings=explained.no_findings or _FINDINGS_OF_A_STEP)
    return {
        "tables": cut_tables(tables, part),
        "options": options,
        "names": whole["names"],
        "attribution": attribution,
        "ranges": attribution.attributed.ranges,
        "caused": None if caused is None else caused.of_part(part.ranges, part.work),
        "memory": whole["memory"],
        "memory_owners": None,
        "phases": None,
        "sampled": whole["sampled"],
        "judged": whole["judged"],
        "explained": explained,
        "findings": whole["findings"],
    }


def _conclude_part(analysis: Analysis, whole: Mapping[str, Any]) -> Analysis:
    """Return the analysis of a part with what it is, and with what only the part itself tells."""
    part: Part = whole["part"]
    memory: DeviceMemory | None = whole["memory"]
    peaks = None if memory is None else memory.peaks_within(part.start_ns, part.end_ns)
    lost = analysis.coverage.launches_without_gpu_record
    if lost is not None:
        lost = int(whole["attribution"].launch_calls.lost[part.calls].sum())
    return replace(
        analysis,
        coverage=replace(analysis.coverage, launches_without_gpu_record=lost),
        totals=replace(analysis.totals, peak_vram_bytes=peaks),
        step_work=None if analysis.operators is None else StepWork(unknown_because="only a part of the trace was read"),
        part=part.facts,
    )


@dataclass(frozen=True)
class FoundFindings:
    """The findings of a trace and its steps, and why there are no findings; "" where there are."""

    findings: Findings | None
    steps: Steps | None
    unknown_because: str


def find_findings(tables: Tables, names: Names, launched: Attribution) -> FoundFindings:
    """Return the findings of a trace without the rest of its analysis. launched: what `attribute` returned of it."""
    given = {"tables": tables, "options": SummaryOptions(), "names": names, "launched": launched, "part": None}
    wanted = ("findings", "explained", "steps")
    run = run_stages(needed_stages(STAGES, given, wanted), given, wanted, is_large=False)
    explained: Explained = run.results["explained"]
    return FoundFindings(run.results["findings"], run.results["steps"], explained.no_findings)


def _ranges(launched: Attribution) -> pd.DataFrame:
    return launched.attributed.ranges


def _memory(launched: Attribution) -> DeviceMemory | None:
    return launched.memory


def _settle(tables: Tables, launched: Attribution, steps: Steps | None) -> Attribution:
    """Return the attribution with the warm-up that the steps of the trace have."""
    return replace(launched, attributed=settle_steps(tables, launched.attributed, steps))


def _find_caused(tables: Tables, attribution: Attribution, options: SummaryOptions) -> CausedWork | None:
    attributed = attribution.attributed
    return None if options.launched_only else find_caused(tables, attributed.ranges, attributed.structure)


def _find_part(
    tables: Tables, attribution: Attribution, caused: CausedWork | None, steps: Steps | None, options: SummaryOptions
) -> Part | None:
    return None if options.part is None else find_part(tables, attribution.attributed, caused, steps, options.part)


def _evidence(
    tables: Tables,
    attribution: Attribution,
    names: Names,
    caused: CausedWork | None,
    sampled: tuple[GpuMetrics | None, list[Note]],
    options: SummaryOptions,
) -> RangeEvidence:
    return RangeEvidence(
        tables, attribution.attributed, names, attribution.memory, attribution.replays, attribution.launch_calls,
        sampled[0], caused, by_device(options.power, tables.devices),
    )  # fmt: skip


def _tabulate_ranges(evidence: RangeEvidence, measured_ranges: MeasuredRanges, options: SummaryOptions) -> RangeSummary:
    return tabulate_ranges(evidence, measured_ranges, unfold=options.unfold)


def _settle_peak(tables: Tables, options: SummaryOptions) -> Peak | None:
    return settle_peak(tables.devices[0].name if tables.devices else None, options.ceilings)


def _find_operators(
    tables: Tables, names: Names, options: SummaryOptions, peak: Peak | None, steps: Steps | None
) -> Operators | None:
    return find_operators(tables, names, options.operator_facts, peak, steps)


def _needs(
    tables: Tables, names: Names, operators: Operators | None, options: SummaryOptions, peak: Peak | None
) -> KernelNeeds | None:
    of_operators = None if operators is None else operators.needs
    return join_needs(of_operators, needs_of_counted(tables.work, names, options.launches, peak))


def _tabulate_work(
    tables: Tables,
    names: Names,
    attribution: Attribution,
    caused: CausedWork | None,
    needs: KernelNeeds | None,
    in_optimizer: Bools | None,
) -> pd.DataFrame:
    return tabulate_work(tables, names, attribution.attributed, caused, needs, in_optimizer)


def _list_owners(memory: DeviceMemory | None, ranges: pd.DataFrame) -> pd.DataFrame | None:
    """Return the owners of the memory of a whole trace; a part of one has none."""
    return list_owners(memory, ranges)


def _counted_work(tables: Tables, whole: Outline, work: pd.DataFrame) -> pd.DataFrame | None:
    return work if whole.is_counted and not tables.is_of_processor else None


def _outline(
    tables: Tables,
    judged: Judged,
    totals: Totals,
    sampled: tuple[GpuMetrics | None, list[Note]],
    range_summary: RangeSummary,
) -> Outline:
    whole = outline(tables, judged, totals, sampled, range_summary.traffic)
    _make_work_unknown(tables, whole, range_summary)
    return whole


def _conclude(
    whole: Outline,
    coverage: Coverage,
    kernels: pd.DataFrame,
    api: pd.DataFrame,
    streams: pd.DataFrame,
    memops: pd.DataFrame,
    range_summary: RangeSummary,
    collectives: tuple[pd.DataFrame, list[Note]],
    timeline: Timeline,
    attention: pd.DataFrame,
    memory_owners: pd.DataFrame | None,
    phases: pd.DataFrame | None,
    explained: Explained,
    findings: Findings | None,
    counted_work: pd.DataFrame | None,
    operators: Operators | None,
    layers: pd.DataFrame | None,
    os_calls: pd.DataFrame | None,
    peak: Peak | None,
) -> Analysis:
    return Analysis(
        trace=whole.trace,
        devices=whole.devices,
        coverage=replace(coverage, launches_without_gpu_record=whole.lost),
        totals=whole.totals,
        kernels=kernels,
        ranges=range_summary.by_name,
        range_instances=range_summary.instances,
        range_kernels=range_summary.kernels,
        caused_kernels=range_summary.caused,
        range_tree=range_summary.tree,
        api=api,
        range_api=range_summary.range_api,
        gpu_use=range_summary.gpu_use,
        streams=streams,
        energy=range_summary.energy,
        collectives=collectives[0],
        memops=memops,
        timeline=timeline,
        notes=(*whole.notes, *range_summary.slow, *collectives[1], *explained.notes),
        idle=explained.idle,
        findings=findings,
        no_findings=explained.no_findings,
        step_times=explained.step_times,
        work=counted_work,
        floor_source="" if peak is None else peak.source,
        operators=None if operators is None else operators.table,
        step_work=None if operators is None else operators.step,
        layers=layers,
        os_calls=os_calls,
        losses=whole.losses,
        lost_kernels=whole.is_lost,
        attention=attention,
        memory_owners=memory_owners,
        phases=phases,
    )


def list_rows(tables: Tables, *, launched_only: bool = False) -> TraceRows:
    """Return the rows of a trace and the notes about it as a whole, without summing up what its ranges hold.

    launched_only: whether to leave unknown which range adopted or captured work.
    """
    found = attribute(tables, measured_only=True)
    ranges = found.attributed.ranges
    caused = None if launched_only else find_caused(tables, ranges, found.attributed.structure)
    # The only totals that a note needs are those of migrations.
    migrates = bool((tables.work.kind_of == MIGRATION).any())
    totals = count_totals(tables, found) if migrates else Totals(*[None] * 9)
    whole = outline(tables, judge(tables, found), totals, live_metrics(tables))
    timeline = make_timeline(tables, kernel_names(tables), ranges, found.memory, caused)
    return TraceRows(whole.trace, whole.devices, timeline, whole.notes)


@dataclass(frozen=True)
class Explained:
    """Why the GPU was idle, and how long steps took. None is unknown."""

    idle: Idle | None = None
    notes: tuple[Note, ...] = ()
    step_times: StepTimes | None = None
    # Why there are no findings; "" where there are, or where no program used a GPU.
    no_findings: str = ""


@dataclass(frozen=True)
class Issued:
    """What the calls of a trace issued."""

    # The number of launches.
    launches: int
    # The calls whose work is not in the trace; None without calls.
    lost: Int64s | None
    # Whether calls replayed graphs of which no work is in the trace.
    has_silent: bool


@dataclass(frozen=True)
class Replayed:
    """The steps to replay, and the ledger of idle time with the pieces alone that findings look at."""

    graph: ExecutionGraph
    ledger: Ledger


def _issued(tables: Tables, attribution: Attribution) -> Issued:
    lost = None if tables.calls is None else np.flatnonzero(attribution.launches & ~attribution.launching)
    if lost is not None and len(lost):  # a graph may consist of copies and fills alone
        lost = lost[~np.isin(lost, tables.launch[tables.work.kernels :])]
    return Issued(int(attribution.launches.sum()), lost, len(attribution.replays[1]) > 0)


def _blame(tables: Tables, issued: Issued, judged: Judged) -> BlamedIdle | None:
    """Return the causes of idle time; None where the trace lacks work."""
    if tables.is_of_processor or not judged.loss.is_counted or issued.has_silent:
        return None
    return blame_idle(tables, issued.lost, doubt_of(tables, _missing_anywhere(judged.losses)))


def _keep_ledger(tables: Tables, ranges: pd.DataFrame, blamed: BlamedIdle | None) -> Ledger | None:
    return None if blamed is None else keep_ledger(tables, ranges, blamed)


def _explain(
    tables: Tables,
    issued: Issued,
    judged: Judged,
    steps: Steps | None,
    ledger: Ledger | None,
    in_optimizer: Bools | None,
) -> Explained:
    if tables.is_of_processor:
        return Explained()
    if ledger is None:
        return Explained(no_findings=_no_work_to_explain(tables, is_lost=judged.loss.is_lost))
    lacks = _lacks_for_findings(tables, issued.launches, judged.loss.launches_without_work)
    # Steps whose work is missing would end too early, and what may be missing anywhere may be missing in each.
    is_whole = not _missing_anywhere(judged.losses) and (not lacks or tables.calls is None)
    times = time_steps(tables, steps, time_idle(tables, steps, ledger), in_optimizer) if is_whole else None
    return Explained(ledger.idle, ledger.notes, times, ledger.doubt or lacks or explain_pace(steps, times, ledger))


def _split_phases(
    told_phases: pd.DataFrame | None, tables: Tables, ranges: pd.DataFrame, steps: Steps | None, ledger: Ledger | None
) -> pd.DataFrame | None:
    return (
        told_phases
        if told_phases is None or ledger is None
        else split_phases(told_phases, tables, ranges, steps, ledger)
    )


def _replay(tables: Tables, steps: Steps | None, ledger: Ledger | None, explained: Explained) -> Replayed | None:
    """Return what findings look at; None where there are none. All pieces take as much memory as the trace."""
    if ledger is None or steps is None or explained.no_findings:
        return None
    graph = build_graph(tables, tables.launch, ledger.classes, steps)
    return None if graph is None else Replayed(graph, within_graph(ledger, graph))


def _list_findings(
    tables: Tables,
    ranges: pd.DataFrame,
    steps: Steps | None,
    replayed: Replayed | None,
    options: SummaryOptions,
    part: Part | None,
    operators: Operators | None,
) -> Findings | None:
    if steps is None or replayed is None or (part is not None and part.facts.step is not None):
        return None
    places = None if part is None else part.places
    return list_findings(
        tables, ranges, replayed.ledger, steps, replayed.graph, options.policy, options.stacks, places, operators,
        options.unrecorded,
    )  # fmt: skip


def why_not_explained(tables: Tables, found: Attribution) -> str:
    """Return why neither findings nor a replay of the trace would be true; "" where they would be."""
    migrates = bool((tables.work.kind_of == MIGRATION).any())
    totals = count_totals(tables, found) if migrates else Totals(*[None] * 9)
    whole = outline(tables, judge(tables, found), totals, live_metrics(tables))
    if not whole.is_counted or len(found.replays[1]):
        return _no_work_to_explain(tables, is_lost=whole.is_lost)
    return doubt_of(tables, _missing_anywhere(whole.losses)) or _lacks_for_findings(
        tables, int(found.launches.sum()), whole.lost
    )


def _missing_anywhere(losses: Sequence[Loss]) -> str:
    return next((loss.anywhere for loss in losses if loss.anywhere), "")


def _no_work_to_explain(tables: Tables, *, is_lost: bool) -> str:
    """Return why nothing can be found in a trace without all its work; "" where no program used a GPU."""
    if tables.launch.size:
        return "the trace lacks work of the GPU"
    return "the profiler recorded no work of the GPU" if is_lost else ""


def _lacks_for_findings(tables: Tables, launches: int, lost: int | None) -> str:
    """Return what a replay of the trace would lack; "" where it lacks nothing.

    launches: the number of launches.
    lost: how many launches have no kernel; None where that is unknown.
    """
    if tables.calls is None:
        return "no CUDA API calls were recorded" if len(tables.work) else ""
    if lost is not None and lost > MUCH_LOST * launches:
        return f"{lost:,} of {launches:,} launches have no kernel in the trace"
    return ""


def _make_work_unknown(tables: Tables, whole: Outline, summary: RangeSummary) -> None:
    """Empty the columns of ranges that depend on GPU work, where it is not known; keep known numbers of launches."""
    # Without calls, no work belongs to a range.
    if whole.is_counted and (tables.calls is not None or not len(tables.work)):
        return
    launches = ("launch_count", "graph_launch_count", "lost_launch_count") if whole.totals.launch_count else ()
    gpu = [column.name for column in RANGES.columns if column.of_work and column.name not in launches]
    unknown = pd.array([pd.NA] * len(summary.by_name), dtype="Int64")
    summary.by_name[gpu] = pd.DataFrame(dict.fromkeys(gpu, unknown))
    summary.tree[[column.name for column in RANGE_TREE.columns if column.of_work]] = pd.NA
    summary.instances[[column.name for column in RANGE_INSTANCES.columns if column.of_work]] = pd.NA


def _coverage(tables: Tables, attribution: Attribution, caused: CausedWork | None) -> Coverage:
    kernels, launch = tables.work.kernels, tables.launch
    launched = attribution.attributed.inside(len(launch))[:kernels]
    adopted, captured = (np.zeros(kernels, bool),) * 2 if caused is None else (w[:kernels] for w in caused.inside())
    outside = np.flatnonzero(~(launched | adopted | captured))
    with_call = outside[launch[outside] >= 0]
    reasons = {"no launch record": len(outside) - len(with_call)}
    reasons |= _launched_only(tables, attribution, with_call) if caused is None else caused.reasons_of(with_call)
    total = int(attribution.launch_calls.launches.sum()) if tables.calls is not None else None
    return Coverage(
        kernels=kernels,
        attributed_kernels=kernels - len(outside),
        launches=total,
        launches_without_gpu_record=None,
        reasons={reason: count for reason, count in reasons.items() if count},
        adopted_kernels=int((adopted & ~launched).sum()),
        captured_kernels=int((captured & ~adopted & ~launched).sum()),
        graph_kernels=int(tables.work.in_graph_of[tables.work.variant[:kernels]].sum()),
        graph_reasons={} if caused is None else caused.graph_reasons(),
    )


def _launched_only(tables: Tables, found: Attribution, outside: Ints) -> dict[str, int]:
    """Return why no range launched these kernels, whether or not a range waited for them."""
    other = attribute_work(
        order_work(tables.launch[outside], tables.calls, ["process"])["process"], found.attributed.ranges, "PushPop"
    )
    elsewhere = int(covered(other).sum()) if len(outside) else 0
    return {
        "launched by a thread without a range while another thread had one": elsewhere,
        "launched outside every range": len(outside) - elsewhere,
    }


def _kernels(tables: Tables, names: Names) -> pd.DataFrame:
    duration, variant = kernels_and_graphs(tables.work)
    table = summarize_durations(duration, variant, names.of_variant)
    number = table.index.to_numpy()
    total = table["total_ns"].sum()
    table["share_pct"] = 100.0 * table["total_ns"] / total if total else 0.0
    table["name"], table["short_name"] = names.texts[number], names.short[number]
    table["category"], table["label"] = names.category[number], names.label[number]
    table["unit"] = [kind_of(str(text)).unit for text in table["name"]]
    return table[list(KERNEL_COLUMNS)].reset_index(drop=True)


def _api(tables: Tables) -> pd.DataFrame:
    calls = tables.calls
    if calls is None:
        return pd.DataFrame(columns=list(API_COLUMNS))
    names = call_names(tables, plain_call_name)
    table = summarize_durations(calls.duration_ns, calls.variant, names.of_variant)
    table["name"] = names.texts[table.index.to_numpy()]
    return table.rename(columns={"instances": "calls"})[list(API_COLUMNS)].reset_index(drop=True)


def _os_calls(tables: Tables) -> pd.DataFrame | None:
    """Return the calls of the OS runtime by function; None where they are unknown."""
    calls = tables.os_calls
    if calls is None or not len(calls):
        return None
    number, identifiers = pd.factorize(calls["name_id"])
    table = summarize_durations(
        (calls["end_ns"] - calls["start_ns"]).to_numpy(np.int64), number, np.arange(len(identifiers))
    )
    table["threads"] = calls["global_tid"].groupby(number).nunique().reindex(table.index)
    table["name"] = [str(tables.strings.get(identifiers[at], f"<string {identifiers[at]}>")) for at in table.index]
    return table.rename(columns={"instances": "calls"})[list(OS_CALLS.names)].reset_index(drop=True)


def _memops(tables: Tables) -> pd.DataFrame:
    work = tables.work
    others = slice(work.kernels, None)
    kind = work.kinds(others)
    chosen = (kind == COPY) | (kind == FILL) | (kind == MIGRATION)
    if not chosen.any():
        return pd.DataFrame(columns=list(MEMOP_COLUMNS))
    rows = pd.DataFrame(
        {
            # No copy has the kind -1, so it stands for fills.
            "code": np.where(kind == FILL, -1, work.copy_kind)[chosen],
            "duration": work.duration_ns[others][chosen].astype(np.int64),
            "bytes": work.bytes[chosen],
            "pageable": work.host_kind[chosen] == 0,
            "pinned": work.host_kind[chosen] == 1,
        }
    )
    table = rows.groupby("code", sort=False).agg(
        count=("bytes", "size"),
        total_ns=("duration", "sum"),
        total_bytes=("bytes", "sum"),
        avg_bytes=("bytes", "mean"),
        max_bytes=("bytes", "max"),
        pageable_count=("pageable", "sum"),
        pinned_count=("pinned", "sum"),
    )
    table["bytes_per_s"] = table["total_bytes"] / (table["total_ns"].where(table["total_ns"] > 0) / 1e9)
    is_unknown = (table["pageable_count"] + table["pinned_count"] == 0).to_numpy(dtype=bool)
    for column in ("pageable_count", "pinned_count"):
        table[column] = table[column].astype("Int64").mask(is_unknown)
    table["operation"] = [FILL_NAME if code == -1 else copy_name(code) for code in table.index.tolist()]
    return table.sort_values("total_ns", ascending=False, kind="stable").reset_index()[list(MEMOP_COLUMNS)]


# What needs least runs beside what all else waits for. Findings begin once what takes most memory is done.
STAGES: tuple[Stage, ...] = (
    Stage("names", kernel_names, ("tables",)),
    Stage("api", _api, ("tables",), beside=True),
    Stage("os_calls", _os_calls, ("tables",)),
    Stage("kernels", _kernels, ("tables", "names"), beside=True),
    Stage("streams", tabulate_streams, ("tables",), beside=True),
    Stage("launched", attribute, ("tables",)),
    Stage("ranges", _ranges, ("launched",)),
    Stage("memory", _memory, ("launched",)),
    Stage("steps", find_steps, ("tables", "ranges")),
    Stage("attribution", _settle, ("tables", "launched", "steps")),
    Stage("totals", count_totals, ("tables", "attribution"), beside=True),
    Stage("attention", list_attention, ("tables", "ranges"), beside=True),
    Stage("told_phases", list_phases, ("tables", "ranges", "steps"), beside=True),
    Stage("judged", judge, ("tables", "attribution")),
    Stage("caused", _find_caused, ("tables", "attribution", "options")),
    Stage("part", _find_part, ("tables", "attribution", "caused", "steps", "options")),
    Stage("coverage", _coverage, ("tables", "attribution", "caused"), beside=True),
    Stage("peak", _settle_peak, ("tables", "options")),
    Stage("operators", _find_operators, ("tables", "names", "options", "peak", "steps"), beside=True),
    Stage("in_optimizer", find_optimizer_kernels, ("tables", "names", "operators"), beside=True),
    Stage("needs", _needs, ("tables", "names", "operators", "options", "peak"), beside=True),
    Stage("work", _tabulate_work, ("tables", "names", "attribution", "caused", "needs", "in_optimizer"), beside=True),
    Stage("layers", tabulate_layers, ("tables", "memory", "needs"), beside=True),
    Stage("sampled", live_metrics, ("tables",)),
    Stage("issued", _issued, ("tables", "attribution")),
    Stage("evidence", _evidence, ("tables", "attribution", "names", "caused", "sampled", "options")),
    Stage("measured_ranges", measure_ranges, ("evidence",)),
    Stage("blamed", _blame, ("tables", "issued", "judged"), beside=True),
    Stage("ledger", _keep_ledger, ("tables", "ranges", "blamed"), beside=True),
    Stage("explained", _explain, ("tables", "issued", "judged", "steps", "ledger", "in_optimizer"), beside=True),
    Stage("phases", _split_phases, ("told_phases", "tables", "ranges", "steps", "ledger"), beside=True),
    Stage("replayed", _replay, ("tables", "steps", "ledger", "explained"), beside=True),
    Stage(
        "findings",
        _list_findings,
        ("tables", "ranges", "steps", "replayed", "options", "part", "operators"),
        beside=True,
    ),
    Stage("range_summary", _tabulate_ranges, ("evidence", "measured_ranges", "options")),
    Stage("whole", _outline, ("tables", "judged", "totals", "sampled", "range_summary")),
    Stage("counted_work", _counted_work, ("tables", "whole", "work")),
    Stage("collectives", tabulate_collectives, ("tables", "names")),
    Stage("memops", _memops, ("tables",)),
    Stage("timeline", make_timeline, ("tables", "names", "ranges", "memory", "caused")),
    Stage("memory_owners", _list_owners, ("memory", "ranges")),
    Stage(
        "analysis",
        _conclude,
        (
            "whole", "coverage", "kernels", "api", "streams", "memops", "range_summary", "collectives", "timeline",
            "attention", "memory_owners", "phases", "explained", "findings", "counted_work", "operators", "layers",
            "os_calls", "peak",
        ),
    ),
)  # fmt: skip
