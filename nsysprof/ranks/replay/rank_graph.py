"""Turn the last steps of one rank into a graph whose collectives can be joined to those of other ranks."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from nsysprof.analysis.findings.situation import Situation, look_at, threads_of_calls
from nsysprof.analysis.findings.tracing_cost import estimate_tracing_cost, without_tracing
from nsysprof.analysis.idle_time.call_classes import classify_calls
from nsysprof.analysis.replay.execution_graph import ExecutionGraph, build_graph
from nsysprof.analysis.replay.replay import no_change
from nsysprof.analysis.steps.find_steps import Steps, find_steps
from nsysprof.analysis.traffic.collectives import identify_collectives, reduces_fp32
from nsysprof.ranks.job_facts import REDUCTIONS, find_passes, reduce_gradients
from nsysprof.trace.schema import Bools, Int64s, Tables

# All ranks end these together. A send and its receive involve two ranks, and the leaves of a tree may end early.
_TOGETHER = ("AllReduce", "AllGather", "ReduceScatter")
# At most so many steps are replayed, and no more calls and pieces of work than this. The first prepares the state.
_MOST_STEPS, _MOST_EVENTS = 8, 80_000
# A stream that waits for another one goes on within this time (ns).
_WAIT_NS = 2_000


@dataclass(frozen=True)
class RankGraph:
    """The last steps of a rank. Times are in ns, by the clock of the rank.

    step_calls: the first call of each step, and how many calls there are.
    start_ns: when each piece of work began.
    collectives: one row per collective that all ranks end together: `work` (its position), `sequence`, `ordinal` (as
        counted from the end of the trace), `kind`, `bytes` (NaN where unknown), `pass` (-1 where unknown),
        `is_needed`: whether an optimizer step follows in its pass, and `is_fp32`: whether it adds up fp32.
    segment: of each call, between which two launches of computation on its thread it is.
    segment_ns: the host's time in each segment.
    issues_main: which calls end a segment, because they issue computation.
    usual_ns: the usual time of a segment without communication.
    bare_gap_ns, bare_cost_ns: the host's times without the profiler.
    has_passes: whether forward and backward passes are known.
    """

    graph: ExecutionGraph
    step_calls: Int64s
    start_ns: Int64s
    collectives: pd.DataFrame
    segment: Int64s
    segment_ns: Int64s
    issues_main: Bools
    usual_ns: int
    bare_gap_ns: Int64s
    bare_cost_ns: Int64s
    has_passes: bool
    steps: Steps

    @property
    def end_ns(self) -> Int64s:
        """Return when each piece of work ended."""
        return self.start_ns + self.graph.duration_ns

    @property
    def call(self) -> Int64s:
        """Return the call of each piece of work."""
        return np.repeat(np.arange(len(self.graph.row)), np.diff(self.graph.first_work))


def read_rank_graph(tables: Tables, ranges: pd.DataFrame, last_steps: int = 0) -> RankGraph | None:
    """Return the last steps of a rank; None where steps or collectives are unknown.

    last_steps: how many, as on the other ranks; 0 takes as many as are worth it.
    """
    steps = find_steps(tables, ranges)
    if steps is None or not steps.are_known or steps.count < 2 or tables.calls is None:
        return None
    last_steps = min(last_steps or _count_steps(tables, steps), steps.count)
    classes = classify_calls(tables, tables.launch)
    graph = build_graph(tables, tables.launch, classes, steps, last_steps)
    if graph is None or last_steps < 2:
        return None
    situation = look_at(tables, graph, classes, ranges, steps)
    collectives, has_passes = _list_collectives(tables, situation, steps)
    if len(collectives) == 0:
        return None
    graph = _after_gradients(graph, tables.work.start_ns[graph.work_row], collectives, _busiest_stream(situation))
    starts = tables.calls.start_ns[graph.row]
    step_calls = np.searchsorted(starts, steps.starts_ns[-1 - last_steps : -1], "left")
    segments = _segments(tables, situation)
    bare = without_tracing(situation, no_change(graph), estimate_tracing_cost(situation))
    return RankGraph(
        graph, np.append(step_calls, len(graph.row)), tables.work.start_ns[graph.work_row], collectives, *segments,
        bare.gap_ns, bare.cost_ns, has_passes, steps,
    )  # fmt: skip


def _count_steps(tables: Tables, steps: Steps) -> int:
    """Return how many steps are worth a replay."""
    assert tables.calls is not None
    begin, end = steps.bounds_ns[0], steps.bounds_ns[-1]
    events = sum(int(((rows.start_ns >= begin) & (rows.start_ns < end)).sum()) for rows in (tables.calls, tables.work))
    return max(2, min(_MOST_STEPS, steps.count, _MOST_EVENTS * steps.count // max(1, events)))


def _list_collectives(tables: Tables, situation: Situation, steps: Steps) -> tuple[pd.DataFrame, bool]:
    """Return the collectives of the graph, and whether passes are known."""
    graph, work, names = situation.graph, tables.work, situation.names
    every = np.flatnonzero((names.category == "communication")[names.numbers(work.variant[: work.kernels])])
    every = every[np.argsort(work.start_ns[every], kind="stable")]
    texts = [str(text) for text in names.texts[names.numbers(work.variant[every])]]
    identified = identify_collectives(tables, every, texts)
    table = pd.DataFrame({"kind": [collective.operation for collective in identified]})
    table["bytes"] = [np.nan if size is None else float(size) for size in (c.message_bytes for c in identified)]
    table["is_fp32"] = list(map(reduces_fp32, texts))
    # Streams are numbered in the order of their first collective, because ranks number theirs unlike each other.
    _, stream = np.unique(work.streams_of[work.variant[every]], axis=0, return_inverse=True)
    table["sequence"] = [
        f"{kind}#{code}" for kind, code in zip(table["kind"], pd.factorize(stream.ravel())[0], strict=True)
    ]
    table["ordinal"] = table.groupby("sequence").cumcount(ascending=False)
    optimizer_ns, passes_ns = find_passes(work, names, int(steps.bounds_ns[0]), int(steps.bounds_ns[-1]))
    table["pass"] = np.searchsorted(passes_ns, work.start_ns[every], "right") - 1
    has_step = np.bincount(np.searchsorted(passes_ns, optimizer_ns, "right"), minlength=len(passes_ns) + 1) > 0
    has_step[0] = True  # before the first known pass
    is_reduction = table["kind"].isin(REDUCTIONS).to_numpy(dtype=bool)
    of_gradients = reduce_gradients(work, names, every, is_reduction, passes_ns)
    table["is_needed"] = ~(is_reduction & of_gradients) | has_step[table["pass"].to_numpy() + 1]
    by_row = np.argsort(graph.work_row, kind="stable")
    at = np.minimum(np.searchsorted(graph.work_row[by_row], every), len(by_row) - 1)
    table["work"] = by_row[at]
    inside = (graph.work_row[by_row[at]] == every) & table["kind"].isin(_TOGETHER).to_numpy()
    return table[inside].sort_values("work", kind="stable").reset_index(drop=True), len(passes_ns) > 0


def _computes(situation: Situation) -> Bools:
    computes: Bools = ~np.isin(situation.category, ("communication", ""))
    return computes


def _busiest_stream(situation: Situation) -> int:
    """Return the stream that computes for most of the time."""
    graph, computes = situation.graph, _computes(situation)
    return int(np.bincount(graph.stream[computes], weights=graph.duration_ns[computes], minlength=1).argmax())


def _after_gradients(
    graph: ExecutionGraph, start_ns: Int64s, collectives: pd.DataFrame, busiest: int
) -> ExecutionGraph:
    """Return the graph in which reductions follow the computation that was issued before them.

    A graph knows of a wait between streams only where it decided when work began.
    """
    works = collectives.loc[collectives["kind"].isin(REDUCTIONS), "work"].to_numpy()
    main = np.flatnonzero(graph.stream == busiest)
    if not len(main):
        return graph
    before = np.searchsorted(main, works) - 1
    latest = main[np.maximum(before, 0)]
    waited_ns = start_ns[works] - start_ns[latest] - graph.duration_ns[latest]
    follows = (before >= 0) & (waited_ns >= 0) & (graph.other[works] < 0) & (graph.stream[works] != busiest)
    other, other_ns = graph.other.copy(), graph.other_ns.copy()
    other[works[follows]] = latest[follows]
    other_ns[works[follows]] = np.minimum(waited_ns[follows], _WAIT_NS)
    return replace(graph, other=other, other_ns=other_ns)


def _segments(tables: Tables, situation: Situation) -> tuple[Int64s, Int64s, Bools, int]:
    """Return segment, segment_ns, issues_main and usual_ns of a rank.

    A segment begins after a call that issues computation to the busiest stream, and ends with the next one.
    """
    graph = situation.graph
    is_main = np.zeros(len(graph.row), dtype=bool)
    is_main[situation.call[_computes(situation) & (graph.stream == _busiest_stream(situation))]] = True
    communicates = np.zeros(len(graph.row), dtype=bool)
    communicates[situation.call[situation.category == "communication"]] = True
    segment, count = np.zeros(len(graph.row), dtype=np.int64), 0
    thread = threads_of_calls(tables, graph)
    for tid in np.unique(thread).tolist():
        mine = np.flatnonzero(thread == tid)
        ends = np.cumsum(is_main[mine]) - is_main[mine]
        segment[mine] = count + ends
        count += int(ends[-1]) + 1
    # The launch that ends a segment is not part of its time.
    host = np.maximum(graph.gap_ns, 0) + np.where(is_main, 0, graph.cost_ns)
    segment_ns = np.bincount(segment, weights=host, minlength=count).astype(np.int64)
    plain = np.bincount(segment, weights=communicates, minlength=count) == 0
    usual = int(np.median(segment_ns[plain])) if plain.any() else 0
    return segment, segment_ns, is_main, usual
