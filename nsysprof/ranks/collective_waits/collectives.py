"""Find NCCL's collectives in traces, and convert the times of all ranks to one clock by their common ends.

Ranks on one host share its clock, so the starts of their sessions show how their times differ. Between hosts, the ends
of NCCL's collectives show it. Where neither is known, a rank has no clock.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from nsysprof.analysis.idle_time.call_classes import HELD_NOTHING, LAUNCH, classify_calls
from nsysprof.analysis.idle_time.full_queues import find_full_queues
from nsysprof.analysis.kernel_names.variant_names import Names
from nsysprof.ranks.overlap import Cover, Overlap, cover
from nsysprof.results.rank_results import MOST_RESIDUAL_NS, ClockFit, RankRow
from nsysprof.trace.schema import MIGRATION, NULL, Bools, Calls, Int64s, Ints, Tables, Work

# Work that starts this long (ns) after its launch waited for other work, not for the host.
QUEUED_NS = 30_000
# An end and a begin on two streams count as simultaneous up to this difference (ns).
SAME_NS = 2_000
# All ranks end these operations together. The root of a broadcast and the leaves of a reduce may end early, and
# SendRecv involves only two ranks.
_TOGETHER = re.compile(r"^nccl(Dev)?Kernel_?(AllReduce|AllGather|ReduceScatter)", re.IGNORECASE)
# The most collectives to keep of one sequence, in stretches of neighbours, because a replay needs to know what directly
# follows what. The choice depends only on their number, so all ranks choose the same ones.
MOST, STRETCHES = 1024, 16


@dataclass(frozen=True)
class RankProgress:
    """How far a rank's host and GPU were at each collective; one value per collective, in order."""

    # When the call that launched the collective began; NULL where unknown.
    launch_ns: Int64s
    # The state of the host at that time: how long it had waited for the GPU in all earlier calls, when the last of
    # these calls ended, and how much the GPU had computed by then.
    waited_ns: Int64s
    wait_end_ns: Int64s
    wait_computed_ns: Int64s
    # When the work launched before the collective was done, and how much the GPU had computed by then.
    done_ns: Int64s
    computed_ns: Int64s
    # The same at two earlier moments, the last ones before done_ns at which the GPU continued after idle time: because
    # a collective had ended, and because the host had launched something.
    resumed_ns: Int64s
    resumed_computed_ns: Int64s
    started_ns: Int64s
    started_computed_ns: Int64s


def measure_progress(tables: Tables, is_comm: Bools, rows: Int64s) -> RankProgress:
    """Return the rank's progress at each collective.

    is_comm: for each kernel, whether it belongs to NCCL.
    rows: the collectives, as rows of tables.work.
    """
    work, calls, launch = tables.work, tables.calls, tables.launch
    if calls is None or len(rows) == 0:
        unknown = np.full(len(rows), NULL, dtype=np.int64)
        return RankProgress(*[unknown] * 10)
    launched = np.where(launch[rows] >= 0, calls.start_ns[launch[rows]], NULL)
    wait_start, wait_end = _waits(tables, calls, launch)
    waits = np.searchsorted(wait_end, launched, "right")
    waited = _before(np.cumsum(wait_end - wait_start), waits, 0)
    last_wait = _before(wait_end, waits, NULL)
    own, own_launch = _own_work(work, calls, launch, is_comm)
    own_end = work.ends_ns(own)
    order = np.argsort(own_launch, kind="stable")
    before = np.searchsorted(own_launch[order], launched, "left")
    done = _before(np.maximum.accumulate(own_end[order]), before, NULL)
    computing = cover(work.start_ns[own], own_end)
    by_collective, by_host = _resumptions(computing, work.start_ns[own], own_launch, _comm_ends(work, is_comm))
    resumed = _before(by_collective, np.searchsorted(by_collective, done, "left"), NULL)
    started = _before(by_host, np.searchsorted(by_host, done, "left"), NULL)
    return RankProgress(
        launched, waited, last_wait, computing.until(last_wait), done, computing.until(done),
        resumed, computing.until(resumed), started, computing.until(started),
    )  # fmt: skip


def _before(values: Int64s, count: Int64s, otherwise: int) -> Int64s:
    """Return, for each count, the last of the first `count` values; `otherwise` where the count is 0."""
    if len(values) == 0:
        return np.full(len(count), otherwise, dtype=np.int64)
    last: Int64s = np.where(count > 0, values[np.maximum(count, 1) - 1], otherwise)
    return last


def _waits(tables: Tables, calls: Calls, launch: Ints) -> tuple[Int64s, Int64s]:
    """Return start and end of the calls in which the host waited for the GPU, in order of their ends."""
    classes = classify_calls(tables, launch)
    start, end = calls.start_ns, calls.ends_ns()
    known = launch >= 0
    # Both are nearly in order, which a stable sort is quick with.
    issued = np.sort(start[launch[known]], kind="stable")
    ended = np.sort(tables.work.ends_ns()[known], kind="stable")
    waits = classes.held != HELD_NOTHING
    waits[find_full_queues(start, end, classes.of() == LAUNCH, np.searchsorted(issued, start), ended)] = True
    rows = np.flatnonzero(waits)
    rows = rows[np.argsort(end[rows], kind="stable")]
    return start[rows], end[rows]


def _own_work(work: Work, calls: Calls, launch: Ints, is_comm: Bools) -> tuple[Int64s, Int64s]:
    """Return the rows of a rank's own work (no communication, no migrations), and when each was launched."""
    own = work.kinds() != MIGRATION
    own[: work.kernels] &= ~is_comm
    rows = np.flatnonzero(own).astype(np.int64)
    launched = np.where(launch[rows] >= 0, calls.start_ns[launch[rows]], work.start_ns[rows])
    return rows, launched


def _comm_ends(work: Work, is_comm: Bools) -> Int64s:
    ends: Int64s = np.sort(work.ends_ns(np.flatnonzero(is_comm).astype(np.int64)), kind="stable")
    return ends


def _resumptions(computing: Cover, start_ns: Int64s, launch_ns: Int64s, comm_end_ns: Int64s) -> tuple[Int64s, Int64s]:
    """Return when the GPU continued after idle time: because a collective ended then, and because of a launch.

    start_ns, launch_ns: start and launch of each piece of the rank's own work.
    """
    if len(start_ns) == 0:
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    idle_from = np.concatenate((computing.start_ns[:1], computing.end_ns[:-1]))
    ended = _before(comm_end_ns, np.searchsorted(comm_end_ns, computing.start_ns + SAME_NS, "right"), NULL)
    order = np.argsort(start_ns, kind="stable")
    launched = launch_ns[order[np.searchsorted(start_ns[order], computing.start_ns)]]
    by_collective = (ended >= idle_from - SAME_NS) & (launched < ended)
    by_host = ~by_collective & (computing.start_ns - launched <= QUEUED_NS)
    return computing.start_ns[by_collective], computing.start_ns[by_host]


def is_together(kernel: str) -> bool:
    """Return whether all ranks end the collective of a kernel together."""
    return _TOGETHER.match(kernel) is not None


@dataclass(frozen=True)
class Collectives(RankProgress):
    """The collectives of a trace as sequences, and the rank's progress at each.

    A sequence is all launches of one kernel on one of NCCL's streams.
    """

    # One per sequence, `kernel#stream`; streams are numbered in the order of their first use.
    names: tuple[str, ...]
    # One per sequence: the number of its stream.
    streams: Int64s
    # One per sequence: how many collectives it has, including those that were not kept.
    counts: Int64s
    # One per kept collective: its sequence, and its number within the sequence.
    of: Int64s
    ordinal: Int64s
    start_ns: Int64s
    end_ns: Int64s
    # How long nothing else computed on the device while the collective ran (ns).
    exposed_ns: Int64s


def find_collectives(tables: Tables, is_comm: Bools, names: Names, overlap: Overlap) -> Collectives:
    """Return the collectives among the kernels of a trace.

    is_comm: for each kernel, whether it belongs to NCCL.
    overlap: the overlap of the same work, computed with all of NCCL's kernels as communication.
    """
    work = tables.work
    wanted = np.array([is_together(text) for text in names.short.tolist()], dtype=bool)
    number = names.numbers(work.variant[: work.kernels])
    rows = np.flatnonzero(wanted[number]) if len(wanted) else np.zeros(0, np.int64)
    rows = rows[np.argsort(work.start_ns[rows], kind="stable")]
    keys, sequence = _sequences(tables, rows, number[rows])
    labels, counts, of, ordinal, chosen = [], [], [], [], []
    in_sequence = np.argsort(sequence, kind="stable")
    edges = np.searchsorted(sequence[in_sequence], np.arange(len(keys) + 1))
    for position, (which, place) in enumerate(keys):
        mine = rows[in_sequence[edges[position] : edges[position + 1]]]
        labels.append(f"{names.short[which]}#{place}")
        counts.append(len(mine))
        kept = choose_kept(len(mine))
        of += [position] * len(kept)
        ordinal += kept
        chosen.append(mine[kept])
    at = np.concatenate([np.zeros(0, np.int64), *chosen])
    progress = measure_progress(tables, is_comm, at)
    return Collectives(
        **vars(progress),
        names=tuple(labels),
        streams=np.array([place for _, place in keys], dtype=np.int64),
        counts=np.array(counts, dtype=np.int64),
        of=np.array(of, dtype=np.int64),
        ordinal=np.array(ordinal, dtype=np.int64),
        start_ns=work.start_ns[at],
        end_ns=work.ends_ns(at),
        exposed_ns=overlap.exposed_of[np.searchsorted(overlap.comm_rows, at)],
    )


def _sequences(tables: Tables, rows: Int64s, names: Ints) -> tuple[list[tuple[int, int]], Int64s]:
    """Return (name, stream) of each sequence, and the sequence of each row; both are numbered by their first use.

    rows: collectives in order of start, as rows of tables.work.
    names: the name of each.
    """
    work = tables.work
    streams: dict[tuple[int, ...], int] = {}
    sequences: dict[tuple[int, int], int] = {}
    used, first, variant = np.unique(work.variant[rows], return_index=True, return_inverse=True)
    sequence_of = np.zeros(len(used), dtype=np.int64)
    for number in np.argsort(first).tolist():  # all collectives of a variant have one name and one stream
        stream = tuple(work.streams_of[used[number]].tolist())
        key = (int(names[first[number]]), streams.setdefault(stream, len(streams)))
        sequence_of[number] = sequences.setdefault(key, len(sequences))
    return list(sequences), sequence_of[variant]


def choose_kept(count: int) -> list[int]:
    """Return the numbers of the collectives to keep of a sequence of `count`."""
    if count <= MOST:
        return list(range(count))
    size = MOST // STRETCHES
    starts = [number * (count - size) // (STRETCHES - 1) for number in range(STRETCHES)]
    return [kept for start in starts for kept in range(start, start + size)]


LEAST_ANCHORS = 8
# A rank with a clock, its collectives, and the offset (ns) that turns its times into those of the reference rank.
_Able = tuple[int, Collectives, int]


@dataclass(frozen=True)
class Matched:
    """The collectives of one rank that all ranks share."""

    collectives: Collectives
    # Which of its collectives are shared, and the offset (ns) that turns its times into those of the reference rank.
    rows: Int64s
    offset_ns: int


@dataclass(frozen=True)
class Arrivals:
    """When each rank began each collective that all of `ranks` share, on one clock.

    The arrays have one row per rank and one column per collective.
    """

    ranks: list[int]
    begin_ns: Int64s
    duration_ns: Int64s
    # How long nothing else computed on the rank's device during each collective (ns), as in Collectives.
    exposed_ns: Int64s
    # One value per collective: how many collectives of its sequence it represents.
    weight: npt.NDArray[np.float64]
    # One value per rank.
    matched: tuple[Matched, ...]


def _apart(mine: Collectives | None, other: Collectives | None) -> tuple[Int64s | None, str]:
    """Return how much later each collective ends by the other rank's clock than by this rank's (ns).

    Only sequences that both ranks have equally often are matched, the k-th collective with the k-th. Where nothing can
    be matched, return None and the reason.
    """
    if mine is None or other is None or len(mine.of) == 0 or len(other.of) == 0:
        return None, "it has no NCCL collective" if mine is None or len(mine.of) == 0 else "the other has none"
    lengths = dict(zip(other.names, other.counts.tolist(), strict=True))
    shared = [n for n, c in zip(mine.names, mine.counts.tolist(), strict=True) if lengths.get(n) == c]
    if not shared:
        return None, "its collectives differ from the other's, in kernels or in number"
    return other.end_ns[_rows(other, shared)] - mine.end_ns[_rows(mine, shared)], ""


def _rows(collectives: Collectives, names: list[str]) -> Int64s:
    """Return the rows of the collectives of these sequences, in order of name and ordinal."""
    place = np.array([names.index(name) if name in names else -1 for name in collectives.names])
    rows = np.flatnonzero(place[collectives.of] >= 0)
    ordered: Int64s = rows[np.lexsort((collectives.ordinal[rows], place[collectives.of[rows]]))]
    return ordered


def fit_clocks(rows: list[RankRow], collectives: Mapping[int, Collectives | None]) -> list[ClockFit]:
    """Return by how much each rank's clock differs from the reference's, in order of rank.

    The reference is the first rank that has collectives, or else the first rank. Ranks known to be on one host share
    its clock, so the starts of their sessions show how they differ. Other ranks are fitted to the ends of collectives:
    the median difference is the offset. Where the host is unknown and the collectives fit, these decide, because equal
    starts do not prove that the host is the same. A rank that cannot be fitted has no offset but a reason.

    rows: the traces that were read, with their ranks.
    collectives: the collectives of each rank; None or missing where it has none.
    """
    if not rows:
        return []
    anchored = [row for row in rows if (c := collectives.get(row.position)) is not None and len(c.of) >= LEAST_ANCHORS]
    reference = (anchored or rows)[0]
    return [_fit(row, reference, collectives) for row in rows]


def _fit(row: RankRow, reference: RankRow, collectives: Mapping[int, Collectives | None]) -> ClockFit:
    assert row.rank is not None
    if row.position == reference.position:
        return ClockFit(row.rank, "reference", 0, 0, None, None)
    apart, why = _apart(collectives.get(row.position), collectives.get(reference.position))
    starts = (row.session_start_utc_ns, reference.session_start_utc_ns)
    by_utc = None if starts[0] is None or starts[1] is None else starts[0] - starts[1]
    one_host = row.host is not None and row.host == reference.host
    if one_host and by_utc is not None:
        fit = ClockFit(row.rank, "utc", by_utc, 0, None, None)
        return fit if apart is None else _with_residual(fit, apart)
    if apart is None:
        host = "its host is unknown" if row.host is None or reference.host is None else "it ran on another host"
        if one_host:
            host = "its trace does not say when its session began"
        return ClockFit(row.rank, "none", None, 0, None, None, f"{host}, and {why}")
    offset = int(np.median(apart))
    fit = _with_residual(ClockFit(row.rank, "collectives", offset, 0, None, None), apart)
    if fit.anchors < LEAST_ANCHORS:
        return replace(fit, offset_ns=None, reason=f"{fit.anchors} matching collectives are too few")
    if fit.residual_ns is None or fit.residual_ns > MOST_RESIDUAL_NS:
        return replace(fit, offset_ns=None, reason="matching collectives do not end together: other work, or drift")
    return fit


def _with_residual(fit: ClockFit, apart: Int64s) -> ClockFit:
    assert fit.offset_ns is not None
    residual = np.abs(apart - fit.offset_ns)
    return replace(fit, anchors=len(residual), residual_ns=int(np.median(residual)), worst_ns=int(residual.max()))


def recorded_apart(rows: list[RankRow]) -> list[tuple[RankRow, RankRow]]:
    """Return the pairs of ranks whose GPU work did not overlap in time, judged by the starts of their sessions.

    Such traces do not belong to one job.
    """
    known = [
        (row.session_start_utc_ns + row.first_ns, row.session_start_utc_ns + row.last_ns, row)
        for row in rows
        if row.session_start_utc_ns is not None and row.first_ns is not None and row.last_ns is not None
    ]
    if not known:
        return []
    first_to_end = min(known, key=lambda span: span[1])
    last_to_begin = max(known, key=lambda span: span[0])
    # the clocks of two hosts may differ by some seconds
    apart = last_to_begin[0] - first_to_end[1] > 60 * 10**9
    return [(first_to_end[2], last_to_begin[2])] if apart else []


def arrivals(
    rows: list[RankRow], clocks: list[ClockFit], collectives: Mapping[int, Collectives | None]
) -> Arrivals | None:
    """Return when each rank began each collective that all ranks share; None where that is unknown.

    Ranks without a clock are left out. There must be at least two other ranks that share at least two collectives.
    Where the ranks recorded different parts of a sequence (--delay, --duration), its collectives are matched by when
    they ended. This needs clocks that were not themselves fitted to collectives.
    """
    clock = {fit.rank: fit for fit in clocks if fit.offset_ns is not None}
    able: list[_Able] = []
    for row in rows:
        mine = collectives.get(row.position)
        if row.rank in clock and mine is not None and len(mine.of):
            able.append((row.rank, mine, clock[row.rank].offset_ns or 0))
    if len(able) < 2:
        return None
    one_host = all(clock[rank].how in ("reference", "utc") for rank, _, _ in able)
    names = sorted(set.intersection(*(set(mine.names) for _, mine, _ in able)))
    parts = [at for name in names if (at := _matching(name, able, one_host=one_host)) is not None]
    if sum(len(at[0]) for at in parts) < 2:  # the first is not judged
        return None
    chosen = [np.concatenate(of_rank) for of_rank in zip(*parts, strict=True)]
    first = able[0][1]
    weight = (first.counts / np.bincount(first.of, minlength=len(first.counts)))[first.of[chosen[0]]]
    every = list(zip(chosen, able, strict=True))
    return Arrivals(
        ranks=[rank for rank, _, _ in able],
        begin_ns=np.array([mine.start_ns[at] + offset for at, (_, mine, offset) in every]),
        duration_ns=np.array([mine.end_ns[at] - mine.start_ns[at] for at, (_, mine, _) in every]),
        exposed_ns=np.array([mine.exposed_ns[at] for at, (_, mine, _) in every]),
        weight=weight,
        matched=tuple(Matched(mine, at, offset) for at, (_, mine, offset) in every),
    )


def _matching(name: str, able: list[_Able], *, one_host: bool) -> list[Int64s] | None:
    """Return for each rank the rows of the collectives of a sequence that all ranks share; None where unknown.

    The rows of all ranks are in one order.
    """
    at = [_rows(mine, [name]) for _, mine, _ in able]
    same = len({int(mine.counts[mine.names.index(name)]) for _, mine, _ in able}) == 1
    if not one_host:
        return at if same else None
    ends = [mine.end_ns[rows] + offset for rows, (_, mine, offset) in zip(at, able, strict=True)]
    if same and max(np.median(np.abs(rank_ends - ends[0])) for rank_ends in ends) <= MOST_RESIDUAL_NS:
        return at
    return [rows[kept] for rows, kept in zip(at, _ended_together(ends), strict=True)]


def _ended_together(ends_ns: list[Int64s]) -> list[Int64s]:
    """Return for each rank which of its collectives ended together with one of every other rank, in order.

    All ranks have the same number of them.
    """
    fewest = min(ends_ns, key=len)
    chosen = []
    together = np.ones(len(fewest), dtype=bool)
    for ends in ends_ns:
        right = np.clip(np.searchsorted(ends, fewest), 1, max(1, len(ends) - 1))
        left = right - 1
        right = np.minimum(right, len(ends) - 1)
        nearest = np.where(np.abs(ends[left] - fewest) <= np.abs(ends[right] - fewest), left, right)
        close = np.abs(ends[nearest] - fewest) <= MOST_RESIDUAL_NS
        together &= close & (np.bincount(nearest[close], minlength=len(ends))[nearest] == 1)
        chosen.append(nearest)
    return [nearest[together] for nearest in chosen]
