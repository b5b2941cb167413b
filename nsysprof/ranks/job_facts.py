"""Collect from the trace of one rank what findings about the whole job need: its steps, findings and communication."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from nsysprof.analysis.kernel_names.variant_names import Names
from nsysprof.analysis.overview.summarize import find_findings
from nsysprof.analysis.overview.trace_overview import Attribution
from nsysprof.analysis.steps.find_steps import Steps
from nsysprof.analysis.traffic.collectives import identify_collectives, note_unknown_sizes
from nsysprof.notes import Note
from nsysprof.ranks.innermost import innermost_ranges
from nsysprof.ranks.overlap import Overlap, cover
from nsysprof.results.findings import Finding
from nsysprof.trace.schema import Int64s, Tables, Work

# More steps than these are not kept one by one.
_MOST_STEPS = 2_000
# This share of passes must reduce equally often.
_MOSTLY = 0.9
# Kernels of these kinds do not tell passes apart.
_NO_PASS = ("optimizer", "communication", "fill", "random", "copy", "layout", "wait")
_REDUCTIONS = ("AllReduce", "ReduceScatter")
# Kernels of one optimizer step follow each other within this time (ns), even where it launches one for each parameter.
_OPTIMIZER_GAP_NS = 2_000_000


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
class JobFacts:
    """What the trace of one rank says for the job. Times are in ns.

    per: what steps are, as in Findings; "" where no steps are known.
    walls_ns, own_ns: of each steady step, its time, and the part in which the rank did not only communicate.
    computed_ns: of each steady step, the time in which kernels computed.
    rounds, optimizer_steps: how often gradients were reduced, and how often an optimizer ran, in the steady steps; 0 is
        unknown.
    reduced_ns: the exposed and the hidden time of those reductions a step.
    at_end_ns: the exposed time of the last collective of each step, as a mean.
    """

    per: str = ""
    walls_ns: tuple[int, ...] = ()
    own_ns: tuple[int, ...] = ()
    computed_ns: tuple[int, ...] = ()
    communication: tuple[CommunicationRow, ...] = ()
    rounds: int = 0
    optimizer_steps: int = 0
    reduced_ns: tuple[int, int] = (0, 0)
    at_end_ns: int = 0
    findings: tuple[Finding, ...] = ()
    unknown_because: str = ""
    board: str = field(default="")
    # Why sizes of messages are unknown.
    notes: tuple[Note, ...] = ()


def collect_facts(tables: Tables, names: Names, attribution: Attribution, overlap: Overlap) -> JobFacts:
    """Return what the trace of one rank says for the job."""
    found = find_findings(tables, names, attribution)
    board = tables.devices[0].name if tables.devices else ""
    items = () if found.findings is None else found.findings.items
    facts = JobFacts(findings=items, unknown_because=found.unknown_because, board=board)
    if found.steps is None or not found.steps.are_known or found.steps.count < 2:
        return facts
    bounds = found.steps.bounds_ns[: _MOST_STEPS + 1]
    return _with_communication(facts, tables, names, attribution, overlap, found.steps, bounds)


def _with_communication(
    facts: JobFacts,
    tables: Tables,
    names: Names,
    attribution: Attribution,
    overlap: Overlap,
    steps: Steps,
    bounds: Int64s,
) -> JobFacts:
    work, count = tables.work, len(bounds) - 1
    kept = (work.start_ns[overlap.comm_rows] >= bounds[0]) & (work.start_ns[overlap.comm_rows] < bounds[-1])
    rows, exposed = overlap.comm_rows[kept], overlap.exposed_of[kept]
    step = np.searchsorted(bounds, work.start_ns[rows], side="right") - 1
    walls = np.diff(bounds)
    exposed_by_step = np.bincount(step, weights=exposed, minlength=count).astype(np.int64)
    table, notes = _tabulate(tables, names, attribution, rows, exposed, count)
    reductions = np.isin(table["kind"].to_numpy(), _REDUCTIONS)
    hidden = work.duration_ns[rows].astype(np.int64) - exposed
    last = pd.Series(exposed).groupby(step).last().sum() if len(rows) else 0
    inside = (work.start_ns[: work.kernels] >= bounds[0]) & (work.start_ns[: work.kernels] < bounds[-1])
    is_optimizer = (names.category == "optimizer")[names.numbers(work.variant[: work.kernels])]
    optimizer_ns = _optimizer_steps_ns(work.start_ns[: work.kernels][inside & is_optimizer])
    passes = _passes_ns(work, names, optimizer_ns, bounds) if len(optimizer_ns) > 1 else optimizer_ns[:0]
    return JobFacts(
        per=steps.per,
        walls_ns=tuple(walls.tolist()),
        computed_ns=tuple(_computed(tables, names, bounds).tolist()),
        own_ns=tuple((walls - np.minimum(exposed_by_step, walls)).tolist()),
        communication=_rows(table, count),
        rounds=_count_rounds(work, rows[reductions], passes),
        optimizer_steps=len(optimizer_ns),
        reduced_ns=(int(exposed[reductions].sum()) // count, int(hidden[reductions].sum()) // count),
        at_end_ns=int(last) // count,
        findings=facts.findings,
        unknown_because=facts.unknown_because,
        board=facts.board,
        notes=notes,
    )


def _computed(tables: Tables, names: Names, bounds: Int64s) -> Int64s:
    """Return how long kernels computed in each step (ns)."""
    work = tables.work
    computes = (names.category != "communication")[names.numbers(work.variant[: work.kernels])]
    rows = np.flatnonzero(computes)
    return np.diff(cover(work.start_ns[rows], work.ends_ns(rows)).until(bounds))


def _tabulate(
    tables: Tables, names: Names, attribution: Attribution, rows: Int64s, exposed: Int64s, steps: int
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
            "rate": [
                np.nan if c.bus_bytes is None else c.bus_bytes / (max(time, 1) / 1e9)
                for c, time in zip(collectives, duration.tolist(), strict=True)
            ],
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


def _passes_ns(work: Work, names: Names, optimizer_ns: Int64s, bounds: Int64s) -> Int64s:
    """Return a time in each forward and backward pass: starts of a kernel that runs once in each.

    Such kernels, of the loss or the embedding, run least often, and equally often between any two optimizer steps.

    optimizer_ns: when each step of the optimizer began.
    """
    number, start = names.numbers(work.variant[: work.kernels]), work.start_ns[: work.kernels]
    inside = (start >= bounds[0]) & (start < bounds[-1]) & ~np.isin(names.category[number], _NO_PASS)
    number, start = number[inside], start[inside]
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
