"""Collect from the trace of one rank what findings about the whole job need: its steps, findings and communication."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from nsysprof.analysis.kernel_names.variant_names import Names
from nsysprof.analysis.overview.summarize import find_findings
from nsysprof.analysis.overview.trace_overview import Attribution
from nsysprof.analysis.traffic.collectives import bus_rates, identify_collectives, note_unknown_sizes
from nsysprof.notes import Note
from nsysprof.ranks.collective_waits.step_views import StepView, view_steps
from nsysprof.ranks.overlap import Overlap, cover, innermost_ranges
from nsysprof.results.findings import Finding
from nsysprof.results.roof import link_bytes_per_s as datasheet_link
from nsysprof.trace.schema import Bools, Int64s, Ints, Tables, Work

# More steps than these are not kept one by one.
_MOST_STEPS = 2_000
# This share of passes must reduce equally often.
_MOSTLY = 0.9
# Kernels of these kinds do not tell passes apart.
_NO_PASS = ("optimizer", "communication", "fill", "random", "copy", "layout", "wait")
REDUCTIONS = ("AllReduce", "ReduceScatter")
# Kernels of one optimizer step follow each other within this time (ns), even where it launches one for each parameter.
_OPTIMIZER_GAP_NS = 2_000_000
# Gradients are reduced in backward passes: so much of the computation of each pass, its forward at least, runs without
# a reduction. With activation checkpoints a forward is a quarter of a pass.
_FORWARD_SHARE = 0.2
# So many of the sends and receives (percent) are quick: both neighbours were there.
_QUICK_PCT = 10


@dataclass(frozen=True)
class CommunicationRow:
    """The collectives of one kind in one range, as means over the steady steps."""

    range: str
    kind: str
    library: str
    calls: float
    # None where a size is unknown.
    message_bytes: int | None
    bus_bytes_per_s: float | None
    hidden_ns: int
    exposed_ns: int


@dataclass(frozen=True)
class Exchanges:
    """The kernels that send to neighbours and receive from them, as stages of a pipeline do.

    calls, exposed_ns: how many they are in a step, and for how long nothing computes beside them.
    quick_ns: what the quickest ones take, which hardly wait.
    """

    calls: float
    exposed_ns: int
    quick_ns: int


@dataclass(frozen=True)
class JobFacts:
    """What the trace of one rank says for the job. Times are in ns.

    per: what steps are, as in Findings; "" where no steps are known.
    walls_ns, own_ns: of each steady step, its time, and the part in which the rank did not only communicate.
    computed_ns: of each steady step, the time in which kernels computed.
    passes, rounds, optimizer_steps: how many forward and backward passes there were, how often gradients were reduced,
        and how often an optimizer ran, in the steady steps; 0 is unknown.
    reduced_ns: the exposed and the hidden time of those reductions a step.
    at_end_ns: the exposed time of the last collective of each step, as a mean.
    exchanges: the sends and receives; None without any.
    """

    per: str = ""
    walls_ns: tuple[int, ...] = ()
    own_ns: tuple[int, ...] = ()
    computed_ns: tuple[int, ...] = ()
    communication: tuple[CommunicationRow, ...] = ()
    passes: int = 0
    rounds: int = 0
    optimizer_steps: int = 0
    reduced_ns: tuple[int, int] = (0, 0)
    at_end_ns: int = 0
    findings: tuple[Finding, ...] = ()
    unknown_because: str = ""
    # What a link between two GPUs carries (bytes/s): as the capture measured it, else by the datasheet of the board.
    link_bytes_per_s: float | None = None
    # Why sizes of messages are unknown.
    notes: tuple[Note, ...] = ()
    exchanges: Exchanges | None = None
    # The last steps, the last one first.
    views: tuple[StepView, ...] = ()

    @property
    def has_steps(self) -> bool:
        """Return whether steps are known."""
        return bool(self.walls_ns)

    @property
    def step_ns(self) -> float:
        """Return how long a step takes, as a mean. Needs steps."""
        return sum(self.walls_ns) / len(self.walls_ns)


def collect_facts(
    tables: Tables, names: Names, attribution: Attribution, overlap: Overlap, link_bytes_per_s: float | None = None
) -> JobFacts:
    """Return what the trace of one rank says for the job.

    link_bytes_per_s: what a link between two GPUs carries, where the capture measured it.
    """
    link = link_bytes_per_s or (datasheet_link(tables.devices[0].name) if tables.devices else None)
    found = find_findings(tables, names, attribution)
    items = () if found.findings is None else found.findings.items
    facts = JobFacts(findings=items, unknown_because=found.unknown_because, link_bytes_per_s=link)
    if found.steps is None or not found.steps.are_known or found.steps.count < 2:
        return facts
    bounds = found.steps.bounds_ns[: _MOST_STEPS + 1]
    return _of_steps(replace(facts, per=found.steps.per), tables, names, attribution, overlap, bounds)


def _of_steps(
    facts: JobFacts, tables: Tables, names: Names, attribution: Attribution, overlap: Overlap, bounds: Int64s
) -> JobFacts:
    """Add what is known of the steady steps. bounds: when each began, and when the last one ended."""
    work, count = tables.work, len(bounds) - 1
    kept = (work.start_ns[overlap.comm_rows] >= bounds[0]) & (work.start_ns[overlap.comm_rows] < bounds[-1])
    rows, exposed = overlap.comm_rows[kept], overlap.exposed_of[kept]
    step = np.searchsorted(bounds, work.start_ns[rows], side="right") - 1
    walls = np.diff(bounds)
    exposed_by_step = np.bincount(step, weights=exposed, minlength=count).astype(np.int64)
    table, notes = _tabulate(tables, names, attribution, rows, exposed)
    duration = work.duration_ns[rows].astype(np.int64)
    hidden = duration - exposed
    last = pd.Series(exposed).groupby(step).last().sum() if len(rows) else 0
    number = names.numbers(work.variant[: work.kernels])
    optimizer_ns, passes = find_passes(work, names, int(bounds[0]), int(bounds[-1]))
    is_reduction = np.isin(table["kind"].to_numpy(), REDUCTIONS)
    reductions = reduce_gradients(work, names, rows, is_reduction, passes)
    computes = np.flatnonzero((names.category != "communication")[number])
    computed = np.diff(cover(work.start_ns[computes], work.ends_ns(computes)).until(bounds))
    return replace(
        facts,
        walls_ns=tuple(walls.tolist()),
        computed_ns=tuple(computed.tolist()),
        own_ns=tuple((walls - np.minimum(exposed_by_step, walls)).tolist()),
        communication=_rows(table, count),
        passes=len(passes),
        rounds=_count_rounds(work, rows[reductions], passes),
        optimizer_steps=len(optimizer_ns),
        reduced_ns=(int(exposed[reductions].sum()) // count, int(hidden[reductions].sum()) // count),
        at_end_ns=int(last) // count,
        notes=notes,
        exchanges=_exchanges(table["kind"].to_numpy() == "SendRecv", duration, exposed, count),
        views=view_steps(tables, names, attribution.attributed.ranges, overlap, bounds),
    )


def _exchanges(is_exchange: Bools, duration: Int64s, exposed: Int64s, steps: int) -> Exchanges | None:
    if not is_exchange.any():
        return None
    quick = int(np.percentile(duration[is_exchange], _QUICK_PCT, method="lower"))
    return Exchanges(float(is_exchange.sum() / steps), int(exposed[is_exchange].sum()) // steps, quick)


def _tabulate(
    tables: Tables, names: Names, attribution: Attribution, rows: Int64s, exposed: Int64s
) -> tuple[pd.DataFrame, tuple[Note, ...]]:
    """Return one row per collective, and why sizes are unknown: range, kind, library, bytes, rate and times."""
    work, ranges = tables.work, attribution.attributed.ranges
    texts = [str(text) for text in names.texts[names.numbers(work.variant[rows])]]
    collectives = identify_collectives(tables, rows, texts)
    owner = np.full(len(rows), -1)
    if len(ranges) and len(rows):
        launch = np.full(len(work), -1, dtype=np.int64)
        launch[rows] = tables.launch[rows]
        owner = innermost_ranges(tables, launch, ranges)[rows]
    of_range = ranges["name"].tolist() if len(ranges) else []
    duration = work.duration_ns[rows].astype(np.int64)
    table = pd.DataFrame(
        {
            "range": [of_range[place] if place >= 0 else "" for place in owner.tolist()],
            "kind": [collective.operation for collective in collectives],
            "library": ["NCCL" if "nccl" in text.lower() else "" for text in texts],
            "bytes": [np.nan if c.message_bytes is None else float(c.message_bytes) for c in collectives],
            "rate": bus_rates(collectives, duration),
            "hidden": duration - exposed,
            "exposed": exposed,
        }
    )
    return table, tuple(note_unknown_sizes(collectives))


def _rows(table: pd.DataFrame, steps: int) -> tuple[CommunicationRow, ...]:
    """Return the sums over collectives by range, kind and library, a step."""
    groups = []
    for (name, kind, library), some in table.groupby(["range", "kind", "library"], sort=False):
        size, rate = some["bytes"].sum(min_count=len(some)), some["rate"].median()
        groups.append(
            CommunicationRow(
                str(name),
                str(kind),
                str(library),
                len(some) / steps,
                None if pd.isna(size) else round(float(size) / steps),
                None if pd.isna(rate) else float(rate),
                int(some["hidden"].sum()) // steps,
                int(some["exposed"].sum()) // steps,
            )
        )
    return tuple(sorted(groups, key=lambda row: -(row.hidden_ns + row.exposed_ns)))


def reduce_gradients(work: Work, names: Names, rows: Int64s, is_reduction: Bools, passes_ns: Int64s) -> Bools:
    """Return which collectives reduce gradients, by their stream, and not the activations of tensor parallelism.

    Those of activations run all through a pass, gradients are reduced in its backward alone. Where passes are unknown,
    none is.

    rows: the rows of work of the collectives. is_reduction: which of them reduce. passes_ns: a time in each pass.
    """
    is_of_gradients = np.zeros(len(rows), dtype=bool)
    if len(passes_ns) < 2:
        return is_of_gradients
    computes = np.sort(work.start_ns[: work.kernels][
        (names.category != "communication")[names.numbers(work.variant[: work.kernels])]
    ])  # fmt: skip
    in_pass = np.diff(np.searchsorted(computes, passes_ns))
    _, stream = np.unique(work.streams_of[work.variant[rows]], axis=0, return_inverse=True)
    for number in np.unique(stream.ravel()).tolist():
        mine = (stream.ravel() == number) & is_reduction
        place = np.sort(np.searchsorted(computes, work.start_ns[rows[mine]]))
        pauses = np.diff(place, prepend=0, append=len(computes)) >= _FORWARD_SHARE * float(np.median(in_pass))
        is_of_gradients |= mine & bool(pauses.sum() >= _MOSTLY * len(in_pass))
    return is_of_gradients


def _count_rounds(work: Work, reductions: Int64s, passes_ns: Int64s) -> int:
    """Return how often gradients were reduced: once in each backward pass; 0 where passes differ in that.

    reductions: the rows of work that reduce. passes_ns: a time in each pass.
    """
    if len(passes_ns) < 2 or not len(reductions):
        return 0
    within = np.searchsorted(passes_ns, work.start_ns[reductions], side="right")
    counts = np.bincount(within, minlength=len(passes_ns) + 1)[1:-1]  # the first and the last pass may be cut
    usual = int(np.median(counts))
    return len(passes_ns) if usual > 0 and float((counts == usual).mean()) >= _MOSTLY else 0


def find_passes(work: Work, names: Names, begin_ns: int, end_ns: int) -> tuple[Int64s, Int64s]:
    """Return when each optimizer step began, and a time in each forward and backward pass, both of the GPU.

    Both are empty where they are unknown.
    """
    number, start = names.numbers(work.variant[: work.kernels]), work.start_ns[: work.kernels]
    inside = (start >= begin_ns) & (start < end_ns)
    optimizer_ns = _optimizer_steps_ns(start[inside & (names.category == "optimizer")[number]])
    if len(optimizer_ns) < 2:
        return optimizer_ns, optimizer_ns[:0]
    tells = inside & ~np.isin(names.category, _NO_PASS)[number]
    return optimizer_ns, _passes_ns(number[tells], start[tells], optimizer_ns)


def _passes_ns(number: Ints, start: Int64s, optimizer_ns: Int64s) -> Int64s:
    """Return a time in each forward and backward pass: starts of a kernel that runs once in each.

    Such kernels, of the loss or the embedding, run least often, and equally often between any two optimizer steps.

    number, start: the name of each kernel that may tell passes apart, and when it began.
    optimizer_ns: when each step of the optimizer began.
    """
    counts = np.bincount(number)
    by_times: dict[int, list[int]] = {}
    for name in np.flatnonzero(counts).tolist():
        times = counts[name] / len(optimizer_ns)
        if times >= 1 and times == round(times):
            by_times.setdefault(round(times), []).append(name)
    for times in sorted(by_times):
        for name in by_times[times]:
            begins = np.sort(start[number == name])
            between = np.bincount(np.searchsorted(optimizer_ns, begins), minlength=len(optimizer_ns) + 1)[1:-1]
            if len(by_times[times]) > 1 and (between == times).all():
                return begins
    return np.zeros(0, dtype=np.int64)


def _optimizer_steps_ns(start_ns: Int64s) -> Int64s:
    """Return when each step of the optimizer began. start_ns: of its kernels."""
    ordered = np.sort(start_ns)
    return ordered[np.diff(ordered, prepend=ordered[:1] - 2 * _OPTIMIZER_GAP_NS) > _OPTIMIZER_GAP_NS]
