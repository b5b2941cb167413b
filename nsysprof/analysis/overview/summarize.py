"""Summarize the tables of a trace into its Analysis: all tables, facts, notes and findings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from nsysprof.analysis.attribution.attribute import attribute_work, covered, order_work
from nsysprof.analysis.attribution.caused_work import CausedWork, find_caused
from nsysprof.analysis.attribution.duration_statistics import summarize_durations
from nsysprof.analysis.attribution.gpu_time import kernels_and_graphs
from nsysprof.analysis.busy_time.work_ledger import tabulate_work
from nsysprof.analysis.findings.attention_calls import list_attention
from nsysprof.analysis.findings.list_findings import list_findings, within_graph
from nsysprof.analysis.idle_time.ledger import doubt_of, keep_ledger
from nsysprof.analysis.kernel_names.variant_names import (
    FILL_NAME,
    Names,
    call_names,
    copy_name,
    kernel_names,
    plain_call_name,
)
from nsysprof.analysis.overview.beside import Beside, beside
from nsysprof.analysis.overview.health import MUCH_LOST
from nsysprof.analysis.overview.memory_owners import list_owners
from nsysprof.analysis.overview.streams import tabulate_streams
from nsysprof.analysis.overview.timeline import make_timeline
from nsysprof.analysis.overview.trace_overview import (
    Attribution,
    Judged,
    Outline,
    attribute,
    count_totals,
    is_of_processor,
    judge,
    live_metrics,
    outline,
)
from nsysprof.analysis.ranges.range_evidence import RangeEvidence
from nsysprof.analysis.ranges.summarize_ranges import RangeSummary, summarize_ranges
from nsysprof.analysis.replay.execution_graph import build_graph
from nsysprof.analysis.steps.find_steps import Steps, find_steps
from nsysprof.analysis.steps.settle_steps import settle_steps
from nsysprof.analysis.steps.step_times import time_idle, time_steps
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
    Totals,
    TraceRows,
)
from nsysprof.results.column_registry.analysis_columns import RANGE_INSTANCES, RANGE_TREE, RANGES
from nsysprof.results.findings import Findings, Idle, StackSamples
from nsysprof.results.power_samples import GpuEnergy
from nsysprof.trace.gpu_metrics_schema import GpuMetrics
from nsysprof.trace.schema import COPY, FILL, MIGRATION, Calls, Int64s, Ints, Tables, Work


def summarize(
    tables: Tables,
    *,
    launched_only: bool = False,
    policy: PolicyFile | None = None,
    stacks: StackSamples | None = None,
    unfold: bool = False,
    power: Sequence[GpuEnergy] = (),
    alone: bool = False,
    release: Callable[[], None] = lambda: None,
    when_attributed: Callable[[Attribution, CausedWork | None], object] = lambda *_: None,
) -> Analysis:
    """Return the analysis of a trace: everything counted and attributed.

    All counts come from the rows of one table each, never from a join.

    launched_only: whether to leave out what ranges adopted from helper threads or captured into graphs, as NVIDIA does.
    policy: the attention backends that were measured to be the fastest, for the finding attention-backend.
    stacks: samples of the program's threads, which give findings their lines of code.
    unfold: see summarize_ranges.
    power: what the GPUs' energy counters said during the recording.
    alone: whether no two parts may run, and hold their memory, at the same time.
    release: returns memory to the system that this process has freed and kept.
    when_attributed: is called once, with which range each launch belongs to, and with what ranges caused.
    """
    release()
    with beside(alone=alone) as second:
        # What needs least runs beside what all else waits for.
        names = kernel_names(tables)
        first = _start_first(second, tables, names)
        found, steps = _attribute(tables)
        attributed, ranges, memory = found.attributed, found.attributed.ranges, found.memory
        totals, attention = second.start(count_totals, tables, found), second.start(list_attention, tables, ranges)
        judged = judge(tables, found)
        release()
        caused = None if launched_only else find_caused(tables, ranges, attributed.structure)
        when_attributed(found, caused)
        release()
        coverage = second.start(_coverage, tables, found, caused)
        work = second.start(tabulate_work, tables, names, attributed, caused)
        sampled = live_metrics(tables)
        facts = ranges, _issued(tables, found), steps, judged, policy, stacks, release
        explained: list[Future[_Explained]] = []
        summary = summarize_ranges(
            _evidence(tables, found, names, caused, sampled[0], power),
            unfold=unfold,
            when_light=lambda: explained.append(second.start(_explain, tables, *facts)),
        )
        covered_by, work_table = coverage.result(), work.result()
        del found, attributed, coverage, work  # with the work of ranges, as large as a third of the calls
        release()
        whole = outline(tables, judged, totals.result(), sampled, summary.traffic)
        _make_work_unknown(tables, whole, summary)
        collectives, of_collectives = tabulate_collectives(tables, names)
        why = explained[0].result()
    return Analysis(
        trace=whole.trace,
        devices=whole.devices,
        coverage=replace(covered_by, launches_without_gpu_record=whole.lost),
        totals=whole.totals,
        kernels=first[1].result(),
        ranges=summary.by_name,
        range_instances=summary.instances,
        range_kernels=summary.kernels,
        caused_kernels=summary.caused,
        range_tree=summary.tree,
        api=first[0].result(),
        range_api=summary.range_api,
        gpu_use=summary.gpu_use,
        streams=first[2].result(),
        energy=summary.energy,
        collectives=collectives,
        memops=_memops(tables.work),
        timeline=make_timeline(tables, names, ranges, memory, caused),
        notes=(*whole.notes, *summary.slow, *of_collectives, *why.notes),
        idle=why.idle,
        findings=why.findings,
        no_findings=why.no_findings,
        step_times=why.step_times,
        work=work_table if whole.is_counted and not is_of_processor(tables) else None,
        losses=whole.losses,
        lost_kernels=whole.is_lost,
        attention=attention.result(),
        memory_owners=list_owners(memory, ranges),
    )


def _start_first(second: Beside, tables: Tables, names: Names) -> tuple[Future[pd.DataFrame], ...]:
    """Return the tables of API calls, kernels and streams that a second thread makes."""
    return (
        second.start(_api, tables, tables.calls),
        second.start(_kernels, tables.work, names),
        second.start(tabulate_streams, tables),
    )


def _attribute(tables: Tables) -> tuple[Attribution, Steps | None]:
    """Return what attribute does, with the warm-up that the steps of the trace have, and these."""
    found = attribute(tables)
    steps = find_steps(tables, found.attributed.ranges)
    return replace(found, attributed=settle_steps(tables, found.attributed, steps)), steps


def _evidence(
    tables: Tables,
    found: Attribution,
    names: Names,
    caused: CausedWork | None,
    metrics: GpuMetrics | None,
    power: Sequence[GpuEnergy],
) -> RangeEvidence:
    energy = by_device(power, tables.devices)
    return RangeEvidence(
        tables, found.attributed, names, found.memory, found.replays, found.launch_calls, metrics, caused, energy
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
class _Explained:
    """Why the GPU was idle, what to change, and how long steps took. None is unknown."""

    idle: Idle | None = None
    notes: tuple[Note, ...] = ()
    findings: Findings | None = None
    step_times: StepTimes | None = None
    # Why there are no findings; "" where there are, or where no program used a GPU.
    no_findings: str = ""


@dataclass(frozen=True)
class _Issued:
    """What the calls of a trace issued."""

    # The number of launches.
    launches: int
    # The calls whose work is not in the trace; None without calls.
    lost: Int64s | None
    # Whether calls replayed graphs of which no work is in the trace.
    has_silent: bool


def _issued(tables: Tables, found: Attribution) -> _Issued:
    lost = None if tables.calls is None else np.flatnonzero(found.launches & ~found.launching)
    if lost is not None and len(lost):  # a graph may consist of copies and fills alone
        lost = lost[~np.isin(lost, tables.launch[tables.work.kernels :])]
    return _Issued(int(found.launches.sum()), lost, len(found.replays[1]) > 0)


def _explain(
    tables: Tables,
    ranges: pd.DataFrame,
    issued: _Issued,
    steps: Steps | None,
    judged: Judged,
    policy: PolicyFile | None,
    stacks: StackSamples | None,
    release: Callable[[], None],
) -> _Explained:
    if is_of_processor(tables):
        return _Explained()
    if not judged.loss.is_counted or issued.has_silent:
        return _Explained(no_findings=_no_work_to_explain(tables, is_lost=judged.loss.is_lost))
    release()
    doubt = doubt_of(tables, _missing_anywhere(judged.losses))
    ledger = keep_ledger(tables, ranges, issued.lost, doubt, release)
    release()
    unknown = ledger.doubt or _lacks_for_findings(tables, issued.launches, judged.loss.launches_without_work)
    step_times = time_steps(tables, steps, time_idle(steps, ledger))
    idle, told, findings = ledger.idle, ledger.notes, None
    graph = None if unknown or steps is None else build_graph(tables, tables.launch, ledger.classes, steps)
    if graph is not None and steps is not None:
        ledger = within_graph(ledger, graph)  # all pieces take as much memory as the trace
        release()
        findings = list_findings(tables, ranges, ledger, steps, graph, policy, stacks)
    return _Explained(idle, told, findings, step_times, unknown)


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


def _coverage(tables: Tables, found: Attribution, caused: CausedWork | None) -> Coverage:
    kernels, launch = tables.work.kernels, tables.launch
    launched = found.attributed.inside(len(launch))[:kernels]
    adopted, captured = (np.zeros(kernels, bool),) * 2 if caused is None else (w[:kernels] for w in caused.inside())
    outside = np.flatnonzero(~(launched | adopted | captured))
    with_call = outside[launch[outside] >= 0]
    reasons = {"no launch record": len(outside) - len(with_call)}
    reasons |= _launched_only(tables, found, with_call) if caused is None else caused.reasons_of(with_call)
    total = int(found.launch_calls.launches.sum()) if tables.calls is not None else None
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


def _kernels(work: Work, names: Names) -> pd.DataFrame:
    duration, variant = kernels_and_graphs(work)
    table = summarize_durations(duration, variant, names.of_variant)
    number = table.index.to_numpy()
    total = table["total_ns"].sum()
    table["share_pct"] = 100.0 * table["total_ns"] / total if total else 0.0
    table["name"], table["short_name"] = names.texts[number], names.short[number]
    table["category"], table["label"] = names.category[number], names.label[number]
    table["unit"] = [kind_of(str(text)).unit for text in table["name"]]
    return table[list(KERNEL_COLUMNS)].reset_index(drop=True)


def _api(tables: Tables, calls: Calls | None) -> pd.DataFrame:
    if calls is None:
        return pd.DataFrame(columns=list(API_COLUMNS))
    names = call_names(tables, plain_call_name)
    table = summarize_durations(calls.duration_ns, calls.variant, names.of_variant)
    table["name"] = names.texts[table.index.to_numpy()]
    return table.rename(columns={"instances": "calls"})[list(API_COLUMNS)].reset_index(drop=True)


def _memops(work: Work) -> pd.DataFrame:
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
