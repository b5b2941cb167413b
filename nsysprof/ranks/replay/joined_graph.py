"""Join the graphs of all ranks into one, in which the ranks end each collective together.

A collective becomes three kinds of work: each rank's arrival, one transfer that begins when the last rank has arrived,
and each rank's leaving. So the loop that replays one trace replays a job: a rank that saves time before a collective
waits there for the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from nsysprof.analysis.replay.execution_graph import ExecutionGraph
from nsysprof.ranks.replay.rank_graph import RankGraph
from nsysprof.results.rank_results import MOST_RESIDUAL_NS
from nsysprof.trace.schema import Int64s

# Work with this time after its call follows only its stream and other work (ns).
FAR_NS = 1 << 60
# At least this share of the collectives of each rank must be those of all ranks.
_LEAST_SHARED = 0.9


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
