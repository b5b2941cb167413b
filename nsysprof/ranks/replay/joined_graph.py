"""Turn the last steps of each rank into a graph, and join the graphs: the ranks end each collective together.

A collective becomes three kinds of work: each rank's arrival, one transfer that begins when the last rank has arrived,
and each rank's leaving. So the loop that replays one trace replays a job: a rank that saves time before a collective
waits there for the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from nsysprof.analysis.findings.candidates import estimate_tracing_cost, without_tracing
from nsysprof.analysis.findings.situation import Situation, look_at, threads_of_calls
from nsysprof.analysis.idle_time.call_classes import classify_calls
from nsysprof.analysis.replay.replay import ExecutionGraph, build_graph, no_change
from nsysprof.analysis.steps.find_steps import Steps, find_steps
from nsysprof.analysis.traffic.collectives import identify_collectives, reduces_fp32
from nsysprof.ranks.job_facts import REDUCTIONS, find_passes, reduce_gradients
from nsysprof.results.rank_results import MOST_RESIDUAL_NS
from nsysprof.trace.schema import Bools, Int64s, Tables

# All ranks end these together. A send and its receive involve two ranks, and the leaves of a tree may end early.
_TOGETHER = ("AllReduce", "AllGather", "ReduceScatter")
# At most so many steps are replayed, and no more calls and pieces of work than this. The first prepares the state.
_MOST_STEPS, _MOST_EVENTS = 8, 80_000
# A stream that waits for another one goes on within this time (ns).
_WAIT_NS = 2_000

# Work with this time after its call follows only its stream and other work (ns).
FAR_NS = 1 << 60
# At least this share of the collectives of each rank must be those of all ranks.
_LEAST_SHARED = 0.9


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
    table["is_needed"] = ~of_gradients | has_step[table["pass"].to_numpy() + 1]
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


@dataclass(frozen=True)
class SharedCollectives:
    """The collectives that all ranks have in the replayed steps, in the order in which the first rank launches them.

    row: the row of each in the collectives of each rank (ranks, collectives).
    offset_ns: what turns the times of each rank into those of the first.
    arrived_ns, ended_ns: when each rank began and ended each of them, by the clock of the first (ranks, collectives).
    """

    row: Int64s
    offset_ns: Int64s
    arrived_ns: Int64s
    ended_ns: Int64s

    @property
    def transfer_ns(self) -> Int64s:
        """Return how long each took once all ranks had arrived."""
        transfer: Int64s = np.maximum(self.ended_ns.max(axis=0) - self.arrived_ns.max(axis=0), 0)
        return transfer


def share_collectives(ranks: Sequence[RankGraph]) -> SharedCollectives | None:
    """Return the collectives that all ranks have and end together; None where they are too few, or do not."""
    keys = [list(zip(rank.collectives["sequence"], rank.collectives["ordinal"], strict=True)) for rank in ranks]
    everywhere = set.intersection(*map(set, keys))
    if len(everywhere) < 2 or len(everywhere) < _LEAST_SHARED * min(map(len, keys)):
        return None
    shared = [key for key in keys[0] if key in everywhere]
    row = []
    for of_rank in keys:
        place = {key: number for number, key in enumerate(of_rank)}
        row.append([place[key] for key in shared])
    rows = np.array(row, dtype=np.int64)
    works = [rank.collectives["work"].to_numpy()[mine] for rank, mine in zip(ranks, rows, strict=True)]
    ended = np.array([rank.end_ns[work] for rank, work in zip(ranks, works, strict=True)])
    offset = np.median(ended[0] - ended, axis=1).astype(np.int64)
    if np.median(np.abs(ended + offset[:, None] - ended[0]), axis=1).max() > MOST_RESIDUAL_NS:
        return None
    arrived = np.array([rank.start_ns[work] for rank, work in zip(ranks, works, strict=True)])
    return SharedCollectives(rows, offset, arrived + offset[:, None], ended + offset[:, None])


@dataclass(frozen=True)
class _Place:
    """Where the calls and the work of one rank are in the joined graph.

    call, work: their places. A last element, -1, stands for none.
    leaving: the places of the work that others follow, which differ for joined collectives.
    """

    call: Int64s
    work: Int64s
    leaving: Int64s


def join_graphs(
    ranks: Sequence[RankGraph],
    graphs: Sequence[ExecutionGraph],
    shared: SharedCollectives,
    transfer_ns: Int64s,
    joined: Int64s,
) -> ExecutionGraph:
    """Return the graph of the last common steps of all ranks; the first of them only prepares the state.

    graphs: the graph of each rank, as recorded or changed.
    transfer_ns: how long each shared collective takes once all ranks have arrived.
    joined: which of the shared collectives to join, in order. Others take the time that they have in `graphs`.
    """
    works = np.array([rank.collectives["work"].to_numpy()[row] for rank, row in zip(ranks, shared.row, strict=True)])
    works, count = works[:, joined], len(ranks)
    steps = min(len(rank.step_calls) for rank in ranks) - 1
    slots, first_slot, of_joined = _slots(ranks, works, steps)
    # Each collective is a call behind the calls of its slot that takes no time and issues its work.
    slot = np.concatenate((*slots, of_joined))
    order = np.argsort(slot, kind="stable")
    sizes = np.concatenate([*(np.diff(graph.first_work) for graph in graphs), np.full(len(joined), 2 * count + 1)])
    first_work = np.concatenate(([0], np.cumsum(sizes[order])))
    at = np.empty(len(order), dtype=np.int64)
    at[order] = np.arange(len(order))
    edges = np.cumsum([len(of_rank) for of_rank in slots])
    *of_ranks, of_collectives = np.split(at, edges)
    begins = first_work[of_collectives]
    joint = _Joint(len(order), int(first_work[-1]))
    offsets = shared.offset_ns.tolist()
    origin = min(rank.graph.begin_ns + offset for rank, offset in zip(ranks, offsets, strict=True))
    leave_ns = (shared.ended_ns - shared.ended_ns.max(axis=0))[:, joined]
    free: list[Int64s] = []
    arrived = []
    for number, (rank, graph, call) in enumerate(zip(ranks, graphs, of_ranks, strict=True)):
        streams, shift = sum(map(len, free)), rank.graph.begin_ns + offsets[number] - origin
        leaving = begins + count + 1 + number
        place = _place(graph, call, first_work, works[number], leaving)
        joint.put_rank(graph, place, shift, streams)
        joint.put_leaving(leaving, streams + graph.stream[works[number]], begins + count, leave_ns[number])
        arrived.append(place.work[works[number]])
        joint.work["duration_ns"][arrived[-1]] = 0
        free.append(graph.stream_free_ns + shift)
    # Transfers of one stream of the first rank follow each other.
    _, of_stream = np.unique(graphs[0].stream[works[0]], return_inverse=True)
    joint.put_transfers(begins, np.array(arrived), sum(map(len, free)) + of_stream, transfer_ns[joined])
    free.append(np.full(int(of_stream.max(initial=0)) + 1, -FAR_NS))
    columns: dict[str, Any] = {
        **joint.call, **joint.follow_earlier(np.repeat(np.arange(len(order)), np.diff(first_work))), "steps": steps,
        "first_calls": int((slot <= first_slot).sum()), "first_step": 0, "first_work": first_work,
        "stream_free_ns": np.concatenate(free),
    }  # fmt: skip
    return replace(graphs[0], **columns)


def _place(graph: ExecutionGraph, call: Int64s, first_work: Int64s, joined: Int64s, leaving: Int64s) -> _Place:
    """Return where a rank is in the joined graph.

    call: the places of its calls. first_work: the first work of each call of the joined graph.
    joined: its work that is joined, and the places where it leaves.
    """
    owner = np.repeat(np.arange(len(call)), np.diff(graph.first_work))
    work = first_work[call][owner] + np.arange(len(owner)) - graph.first_work[:-1][owner]
    followed = work.copy()
    followed[joined] = leaving
    return _Place(*(np.append(values, -1) for values in (call, work, followed)))


def _slots(ranks: Sequence[RankGraph], works: Int64s, steps: int) -> tuple[list[Int64s], int, Int64s]:
    """Return the slots of the calls of each rank, of the end of the first step, and of collectives.

    All ranks issue the work of a slot before any rank goes on to the next one.
    """
    launching = np.array([rank.call[work] for rank, work in zip(ranks, works, strict=True)]) + 1
    bounds = np.array([rank.step_calls[-steps - 1 :] for rank in ranks])
    # A step ends behind the collectives that all ranks have launched by then.
    before = np.array([int((launching <= bounds[:, [step]]).all(axis=0).sum()) for step in range(steps + 1)])
    all_ends = np.insert(launching, before, bounds, axis=1)
    ends = np.maximum.accumulate(all_ends, axis=1)
    slots = [
        np.searchsorted(of_rank, np.arange(len(rank.graph.row)), "right")
        for of_rank, rank in zip(ends, ranks, strict=True)
    ]
    is_bound = np.insert(np.zeros(launching.shape[1], dtype=bool), before, True)
    return slots, int(np.flatnonzero(is_bound)[1]), np.flatnonzero(~is_bound)


def _filled(count: int, value: int, names: Sequence[str]) -> dict[str, Int64s]:
    return {name: np.full(count, value, dtype=np.int64) for name in names}


class _Joint:
    """The columns of the joined graph."""

    def __init__(self, calls: int, works: int) -> None:
        self.call = _filled(calls, 0, ("gap_ns", "cost_ns", "return_ns"))
        self.call |= _filled(calls, -1, ("row", "follows", "also_after", "waits_for"))
        self.work = _filled(works, 0, ("stream", "stream_ns", "other_ns", "duration_ns"))
        self.work |= _filled(works, -1, ("work_row", "other", "engine"))
        self.work |= _filled(works, -FAR_NS, ("issue_ns",))

    def put_rank(self, graph: ExecutionGraph, place: _Place, shift_ns: int, first_stream: int) -> None:
        """Put the calls and the work of a rank in their places."""
        call, work = place.call[:-1], place.work[:-1]
        self.call["gap_ns"][call] = graph.gap_ns + np.where(graph.follows < 0, shift_ns, 0)
        for name in ("row", "cost_ns", "return_ns"):
            self.call[name][call] = getattr(graph, name)
        for name in ("follows", "also_after"):
            self.call[name][call] = place.call[getattr(graph, name)]
        self.call["waits_for"][call] = place.leaving[graph.waits_for]
        self.work["stream"][work] = graph.stream + first_stream
        for name in ("work_row", "issue_ns", "stream_ns", "other_ns", "duration_ns"):
            self.work[name][work] = getattr(graph, name)
        for name in ("other", "engine"):
            self.work[name][work] = place.leaving[getattr(graph, name)]

    def put_leaving(self, at: Int64s, stream: Int64s, transfer: Int64s, leave_ns: Int64s) -> None:
        """Put the ends of collectives on a rank, which follow the transfers."""
        self.work["stream"][at] = stream
        self.work["other"][at] = transfer
        self.work["other_ns"][at] = leave_ns

    def put_transfers(self, begins: Int64s, arrived: Int64s, stream: Int64s, transfer_ns: Int64s) -> None:
        """Put the transfers, each behind all arrivals (ranks, collectives)."""
        count = len(arrived)
        for place in range(count + 1):
            self.work["stream"][begins + place] = stream
        for place, of_rank in enumerate(arrived):
            self.work["other"][begins + place] = of_rank
        self.work["duration_ns"][begins + count] = transfer_ns

    def follow_earlier(self, owner: Int64s) -> dict[str, Int64s]:
        """Return the columns of work without what would follow later work, and clear it from those of calls.

        owner: the call of each piece of work. Ranks that launch collectives in unlike orders have such cases.
        """
        here = np.arange(len(owner))
        for name in ("other", "engine"):
            self.work[name] = np.where(self.work[name] < here, self.work[name], -1)
        waits = self.call["waits_for"]
        issued = owner[np.maximum(waits, 0)] <= np.arange(len(waits))
        self.call["waits_for"] = np.where((waits >= 0) & issued, waits, -1)
        return self.work
