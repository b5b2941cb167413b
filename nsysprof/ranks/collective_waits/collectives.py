"""Find NCCL's collectives in a trace. All ranks end a collective together, which ties their clocks to each other."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from nsysprof.analysis.idle_time.call_classes import HELD_NOTHING, LAUNCH, classify_calls
from nsysprof.analysis.idle_time.full_queues import find_full_queues
from nsysprof.analysis.kernel_names.variant_names import Names
from nsysprof.ranks.overlap import Cover, Overlap, cover
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
