"""Find what each collective of a rank waited for: its launch, the work before it, or the host's own waits."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nsysprof.analysis.idle_time.call_classes import HELD_NOTHING, LAUNCH, classify_calls
from nsysprof.analysis.idle_time.full_queues import find_full_queues
from nsysprof.arrays import find_places
from nsysprof.ranks.overlap import Cover, cover
from nsysprof.trace.schema import MIGRATION, NULL, Bools, Calls, Int64s, Ints, Tables, Work

# Work that starts this long (ns) after its launch waited for other work, not for the host.
QUEUED_NS = 30_000
# An end and a begin on two streams count as simultaneous up to this difference (ns).
SAME_NS = 2_000


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
    waits[find_full_queues(start, end, classes.of() == LAUNCH, find_places(issued, start), ended)] = True
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
