"""Replay a job to see what its ranks cost it: with each rank like its peers, from the arrivals at collectives.

A rank arrives at a collective when three things are done: its host has launched it, the work launched before it is
finished, and the collective before it on the same stream has ended. All ranks leave together, when the last one has
arrived and the data are moved. Hosts and GPUs also wait for collectives: a host in a synchronising call or because of a
full queue, a GPU for an event. What lies between two waits takes as long as was recorded. So a delay of a host that
happened once is counted once, and lateness that the others would have spent waiting anyway costs nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np

from nsysprof.analysis.stragglers.late_ranks import (
    COLLECTIVES,
    NOT_REPLAYED,
    OWN_WORK,
    Gains,
    Late,
    choose_replayed,
    half_width,
    has_enough_parts,
    is_reproduced,
    judge_gains,
    judged_parts,
    late_by_work,
    measure_waits,
    typical_others,
)
from nsysprof.ranks.collective_waits.collectives import SAME_NS, Arrivals, Matched
from nsysprof.results.rank_results import RankRow
from nsysprof.results.samples import median_interval
from nsysprof.trace.schema import NULL, Bools, Floats, Int64s


@dataclass(frozen=True)
class LikePeers:
    """How long the judged part of a job would take with one rank like the typical other one (ns).

    The 95 % interval is part of it.

    recorded_ns, replayed_ns: how long it took, and how long its unchanged replay takes.
    has_whole_steps: whether steps were found in it. Otherwise the interval does not hold.
    """

    recorded_ns: int
    replayed_ns: int
    job_ns: int
    low_ns: int
    high_ns: int
    has_whole_steps: bool


def replay_like_peers(arrived: Arrivals, rank: int) -> LikePeers | None:
    """Return how long the job would take with this rank like its peers; None where it cannot be replayed.

    rank: a position in arrived.ranks.
    """
    waits = arrived.begin_ns.max(axis=0) - arrived.begin_ns
    waited_for = np.bincount(np.argmax(arrived.begin_ns, axis=0), weights=waits.sum(axis=0), minlength=len(waits))
    replayed = sorted({*choose_replayed(waited_for.astype(float)), rank})
    job = read_job(arrived, replayed)
    gains = None if job is None else _gains(job, waits[replayed].sum(axis=1))
    if gains is None:
        return None
    gain = gains.of_rank[replayed.index(rank)]
    saved, error = float(gain.sum()), half_width(gain)
    job_ns, low, high = (round(gains.replayed_ns - less_ns) for less_ns in (saved, saved + error, saved - error))
    return LikePeers(
        round(gains.recorded_ns), round(gains.replayed_ns), max(0, job_ns), max(0, low), high, gains.has_whole_steps
    )


def judged_collectives(arrived: Arrivals) -> tuple[int, int] | None:
    """Return the two collectives between whose ends a job is judged; None where it cannot be replayed.

    They are counted in the order of launch.
    """
    job = read_job(arrived, list(range(len(arrived.ranks))))
    if job is None:
        return None
    parts = _parts(job)
    return int(parts[0, 0]), int(parts[-1, 1])


def _parts(job: RecordedJob) -> Int64s:
    return judged_parts(len(job.end_ns), job.period, np.flatnonzero(job.fresh).tolist())


def find_late(evidence: str, arrived: Arrivals | None, rows: Sequence[RankRow]) -> tuple[str, list[Late]]:
    """Return the evidence that was finally used, and the ranks that cost the job time, worst first.

    evidence: the result of choose_evidence.
    """
    if arrived is not None:
        return _late_by_arrival(arrived)
    return evidence, late_by_work(rows) if evidence == OWN_WORK else []


def _late_by_arrival(arrived: Arrivals) -> tuple[str, list[Late]]:
    waits = measure_waits(arrived.begin_ns, arrived.duration_ns, arrived.exposed_ns, arrived.weight)
    replayed = choose_replayed(waits.waited_for)
    job = read_job(arrived, replayed)
    gains = None if job is None else _gains(job, waits.waits[replayed].sum(axis=1))
    if gains is None:
        return NOT_REPLAYED, []
    return COLLECTIVES, judge_gains(arrived.ranks, waits, replayed, gains)


def _gains(job: RecordedJob, waited: Int64s) -> Gains | None:
    """Return what the job would gain with each rank like the typical other one.

    None where the job is too short, or where its replay does not reproduce the recorded time.

    waited: how long each rank waited in all; the typical rank has the median.
    """
    ranks, parts = len(waited), _parts(job)
    if not has_enough_parts(parts):
        return None
    unchanged = replay(job, job.chains, np.arange(ranks)[None, :])[0]
    seen, replayed = (float(_over(parts, ends).sum()) for ends in (job.end_ns, unchanged))
    if not is_reproduced(seen, replayed):
        return None
    chains, stayed = add_usual_work(job, typical_others(waited), parts)
    itself, own_order, copied = (number * ranks + np.arange(ranks) for number in range(3))
    like = [np.where(np.eye(ranks, dtype=bool), changed, itself) for changed in (own_order, copied)]
    in_order, at_once = _over(parts, unchanged - replay(job, chains, np.concatenate(like))).reshape(2, ranks, -1)
    # What parts differ by has the error of the mean only where two ranks' work of the same moment is compared.
    # Some of a rank's work is moved to its own place by chance, where no rank waits.
    moved = 1 - np.minimum(stayed, _MOST_STAYED)[:, None]
    gained = at_once + (in_order - at_once).mean(axis=1, keepdims=True) / moved
    # Where only stretches of a long job were kept, they represent the rest.
    recorded = float(job.end_ns[parts[-1, 1]] - job.end_ns[parts[0, 0]])
    scale = recorded / seen
    return Gains(gained * scale, recorded, replayed * scale, has_whole_steps(job, parts))


def _over(parts: Int64s, ends: Floats) -> Floats:
    """Return how long each part takes (ns). ends: when each collective ends, in any number of variants."""
    durations: Floats = ends[..., parts[:, 1]] - ends[..., parts[:, 0]]
    return durations


# A host that waited less than this (ns) between two collectives continued without waiting.
_LEAST_WAIT_NS = 20_000
# Computing beside a waiting collective is slower. How much slower is measured where this share of it runs beside one,
# and believed with this confidence.
_LEAST_OVERLAP, _SURE = 0.1, 0.99
# A job's steps have so many collectives that it has at least this many of them. Of numbers whose collectives repeat
# about equally well, the smallest is taken. No interval differs by more than this (logarithm).
_LEAST_STEPS, _AS_GOOD, _MOST_DIFFERENT = 6, 1.2, 1.0
# Parts of a job have whole steps where no kind of collective is rarer in one than in another by more than this share,
# and where intervals that are so many times as long as a step before are less than this share (%) of all time.
_UNEVEN, _MUCH_LONGER, _LONGER_PCT = 0.25, 1.5, 2.0
# At most this share of a rank's work is moved to its own place by chance, because there are two places or more.
_MOST_STAYED = 0.5
# The values that are read for each collective: points in time, which need one clock for all ranks, and durations, which
# do not.
_POINTS = ("start_ns", "end_ns", "launch_ns", "wait_end_ns", "done_ns", "resumed_ns", "started_ns")
_AMOUNTS = ("waited_ns", "wait_computed_ns", "computed_ns", "resumed_computed_ns", "started_computed_ns")


@dataclass(frozen=True)
class Chains:
    """What each rank does between collectives, as arrays (ranks, collectives) in the order of launch (ns)."""

    # Host: its own time since the launch before. Where it waited: the collective that had ended by then (or -1), and
    # how long after that end it launched this one; and the same relative to the GPU's work at the collective before.
    host_ns: Floats
    host_after: Int64s
    host_after_ns: Floats
    host_after_gpu_ns: Floats
    # GPU: computing since the collective before. How long after the host's launch of the collective this ends where the
    # GPU had waited for the host (else -inf). The collective after which the GPU continued (or -1), and how long after
    # it the work is done.
    busy_ns: Floats
    after_launch_ns: Floats
    gpu_after: Int64s
    gpu_after_ns: Floats
    # Whether the collective needs that work to be done; the shortest time from launch to begin (ranks, 1); and the time
    # that remains unexplained.
    needs_work: Bools
    latency_ns: Floats
    unexplained_ns: Floats


@dataclass(frozen=True)
class RecordedJob:
    """The collectives of a job. Every array outside `chains` has one value per collective."""

    chains: Chains
    # The chains as they would be if no rank had computed beside a waiting collective.
    uncontended: Chains
    # When each collective ended (ns), how long it took once all ranks had arrived, and the one before it on its stream
    # (or -1).
    end_ns: Floats
    transfer_ns: Floats
    previous: Int64s
    # Where it is unknown what came directly before. There it ends as recorded, plus the lateness accumulated so far.
    fresh: Bools
    # How many collectives a step has; 1 where they do not repeat. Equal for collectives that may be the same in two
    # steps; and whether all sequences have equally many collectives.
    period: int
    kind: Int64s
    is_even: bool
    # When each rank launched it, and when the work before it was done (ranks, collectives).
    launch_ns: Floats
    done_ns: Floats


def read_job(arrived: Arrivals, ranks: list[int]) -> RecordedJob | None:
    """Return the job of these ranks; None where launches are unknown.

    ranks: positions in arrived.ranks.
    """
    chosen = [arrived.matched[rank] for rank in ranks]
    first = chosen[0].collectives
    launches = [matched.collectives.launch_ns[matched.rows] for matched in chosen]
    if any((launch == NULL).any() for launch in launches):
        return None
    order = np.argsort(launches[0], kind="stable")
    sequence, ordinal = first.of[chosen[0].rows][order], first.ordinal[chosen[0].rows][order]
    stream = first.streams[sequence]

    recorded = [_on_one_clock(matched, order) for matched in chosen]
    previous = _previous(stream)
    before = _previous(sequence)
    fresh = before >= 0
    fresh[fresh] = ordinal[fresh] != ordinal[before[fresh]] + 1
    begin, end, launch, done = (
        np.array([values[name] for values in recorded]) for name in ("start_ns", "end_ns", "launch_ns", "done_ns")
    )
    parts = [_chain(values, previous) for values in recorded]
    chains = Chains(**{name: np.array([part[name] for part in parts]) for name in parts[0]})
    ended = end.max(axis=0)
    kind = 2 * sequence + (chains.host_after[0] >= 0)
    period = find_period(kind, ended, fresh)
    return RecordedJob(
        chains=chains,
        uncontended=_without_contention(chains, begin, end, done, 1 if fresh.any() else period),
        end_ns=ended.astype(float),
        transfer_ns=np.maximum(ended - begin.max(axis=0), 0).astype(float),
        previous=previous,
        fresh=fresh,
        period=period,
        kind=kind,
        is_even=len(np.unique(first.counts[np.unique(sequence)])) <= 1,
        launch_ns=launch.astype(float),
        done_ns=done.astype(float),
    )


def _on_one_clock(matched: Matched, order: Int64s) -> dict[str, Int64s]:
    """Return the values that a rank recorded for each collective, in `order`, with times on the reference's clock."""
    recorded = {}
    for name in _POINTS + _AMOUNTS:
        values = getattr(matched.collectives, name)[matched.rows][order]
        recorded[name] = np.where(values == NULL, NULL, values + matched.offset_ns) if name in _POINTS else values
    return recorded


def _chain(at: dict[str, Int64s], previous: Int64s) -> dict[str, Floats | Int64s | Bools]:
    """Return what a rank does between collectives, as the fields of Chains.

    at: what it recorded at each collective.
    """
    begin, end, launch, done, computed = (at[f"{name}_ns"] for name in ("start", "end", "launch", "done", "computed"))
    wait_end, resumed, started = at["wait_end_ns"], at["resumed_ns"], at["started_ns"]
    last_done, last_computed = (np.concatenate((ends[:1], ends[:-1])) for ends in (done, computed))
    waited = np.diff(at["waited_ns"], prepend=at["waited_ns"][:1])
    host_after = np.where(waited > _LEAST_WAIT_NS, _last_ended(end, wait_end), -1)
    # A wait ends when the collective has ended and the work is done, or a fixed time later for another reason.
    more_computed = np.maximum(at["wait_computed_ns"] - last_computed, 0)
    work_done = last_done + more_computed
    for_work = work_done <= wait_end + SAME_NS
    awaited = np.maximum(end[host_after], np.where(for_work, work_done, NULL))
    since_wait = launch - np.minimum(awaited, wait_end)
    gpu_after = np.where(resumed > last_done, _last_ended(end, resumed + SAME_NS), -1)
    since_end = computed - at["resumed_computed_ns"] + np.maximum(resumed - end[gpu_after], 0)
    # A launch before the host's wait does not determine a launch after it.
    tied = (started > last_done) & (started > resumed) & (started >= wait_end)
    latency = float(np.percentile(np.maximum(begin - launch, 0), 1))
    needs_work = done <= begin + SAME_NS
    bound = np.maximum(launch + latency, np.where(needs_work, done, -np.inf))
    bound = np.maximum(bound, np.where(previous >= 0, end[previous], -np.inf))
    return {
        "host_ns": np.maximum(np.diff(launch, prepend=launch[:1]) - waited, 0.0),
        "host_after": host_after,
        "host_after_ns": since_wait.astype(float),
        "host_after_gpu_ns": np.where(for_work, more_computed + since_wait, -np.inf),
        "busy_ns": np.maximum(computed - last_computed, 0.0),
        "after_launch_ns": np.where(tied, started - launch + computed - at["started_computed_ns"], -np.inf),
        "gpu_after": gpu_after,
        "gpu_after_ns": since_end.astype(float),
        "needs_work": needs_work,
        "latency_ns": np.array([latency]),
        "unexplained_ns": np.maximum(begin - bound, 0.0),
    }


def _previous(group: Int64s) -> Int64s:
    """Return for each value the position of the previous equal one, or -1."""
    previous = np.full(len(group), -1, dtype=np.int64)
    for value in np.unique(group):
        rows = np.flatnonzero(group == value)
        previous[rows[1:]] = rows[:-1]
    return previous


def _last_ended(end_ns: Int64s, time_ns: Int64s) -> Int64s:
    """Return for each collective the last one that had ended by the given time; -1 where none had."""
    order = np.argsort(end_ns, kind="stable")
    at = np.searchsorted(end_ns[order], time_ns, "right") - 1
    last = np.where(at >= 0, order[np.maximum(at, 0)], -1)
    return np.where(last < np.arange(len(end_ns)), last, -1)


def find_period(kind: Int64s, end_ns: Int64s, fresh: Bools) -> int:
    """Return how many collectives a step has: after so many, kinds and times between ends are the same again.

    It is 1 where they do not repeat.

    kind: equal for collectives that may be the same one in two steps.
    end_ns: when each collective ended (ns).
    fresh: where it is unknown what came directly before. Only collectives of one stretch are compared.
    """
    time = np.log(np.maximum(np.diff(end_ns, prepend=end_ns[:1]), 1_000))
    stretch = np.cumsum(fresh)
    most = min(len(kind) // _LEAST_STEPS, int(np.bincount(stretch, minlength=1).max()) // 2)
    unlike = []
    for lag in range(1, most + 1):
        differ = np.minimum(np.abs(time[lag:] - time[:-lag]), _MOST_DIFFERENT)
        alike = (stretch[lag:] == stretch[:-lag]) & ~fresh[:-lag]
        distances = np.where(kind[lag:] == kind[:-lag], differ, 2.0)[alike]
        unlike.append(distances.mean() if len(distances) else np.inf)
    return 1 + int(np.argmax(np.array(unlike) <= _AS_GOOD * min(unlike))) if unlike else 1


def has_whole_steps(job: RecordedJob, parts: Int64s) -> bool:
    """Return whether the parts of a job have whole steps, where only stretches of it were kept.

    A step may have more collectives than half a stretch. No number of collectives after which all is the same again is
    found then, or a wrong one, and what happens once in a step is in some parts more often than in others. Stretches of
    sequences that have unequally many collectives are not about the same time.

    parts: the result of judged_parts.
    """
    if not job.fresh.any():
        return True
    if not job.is_even:
        return False
    counts = np.array([[(job.kind[a + 1 : b + 1] == kind).sum() for kind in np.unique(job.kind)] for a, b in parts])
    if (np.ptp(counts, axis=0) > _UNEVEN * counts.max(axis=0)).any():
        return False
    interval, lag = np.diff(job.end_ns, prepend=job.end_ns[:1]), job.period
    now = np.concatenate([interval[a + 1 + lag : b + 1] for a, b in parts])
    before = np.concatenate([interval[a + 1 : b + 1 - lag] for a, b in parts])
    longer = now > _MUCH_LONGER * before
    return bool((now - before)[longer].sum() <= _LONGER_PCT / 100 * now.sum())


def _without_contention(chains: Chains, begin: Int64s, end: Int64s, done: Int64s, period: int) -> Chains:
    """Return the chains with undisturbed computing: as fast as it usually is on the rank that waited least.

    A waiting collective occupies SMs and slows the kernels beside it: on two H200s by a fifth.

    period: after how many collectives the same computing comes again.
    """
    all_here = begin.max(axis=0)
    overlap = np.array([_waited_between(*row, all_here) for row in zip(begin, end, done, strict=True)])
    is_beside = overlap > _LEAST_OVERLAP * chains.busy_ns
    least = chains.busy_ns[np.argmin(overlap, axis=0), np.arange(begin.shape[1])]
    is_beside &= (chains.busy_ns > 0) & (least > 0)
    slowdown = np.zeros(chains.busy_ns.shape)
    ratio = np.log(np.where(is_beside, chains.busy_ns, 1.0) / np.where(is_beside, least, 1.0))
    for phase in range(period):
        slowdown[:, phase::period] = _usual_slowdown(ratio[:, phase::period][is_beside[:, phase::period]])
    lost = np.where(is_beside, chains.busy_ns * (1 - np.exp(-slowdown)), 0.0)
    return replace(chains, busy_ns=chains.busy_ns - lost, gpu_after_ns=np.maximum(chains.gpu_after_ns - lost, 0))


def _usual_slowdown(ratios: Floats) -> float:
    """Return the median of logarithms of slowdowns; 0 where it may be chance.

    The median of a whole job leaves ranks what they differ by from step to step. If each piece of work took the time of
    the quicker rank, ranks would hardly vary, and a job of ranks that do not vary is too quick.
    """
    bounds = median_interval(np.rint(1e6 * ratios).astype(np.int64).tolist(), _SURE)
    return float(np.median(ratios)) if bounds is not None and bounds[0] > 0 else 0.0


def _waited_between(begin: Int64s, end: Int64s, done: Int64s, all_here: Int64s) -> Floats:
    """Return how long a rank waited in collectives between the ends of each two successive pieces of work."""
    order = np.argsort(begin, kind="stable")
    until = np.maximum.accumulate(np.maximum(np.minimum(all_here, end), begin)[order])
    start = np.maximum(begin[order], np.concatenate((begin[order][:1], until[:-1])))
    total = np.concatenate(([0.0], np.cumsum(until - start)))
    times, values = np.stack((start, until), 1).ravel(), np.stack((total[:-1], total[1:]), 1).ravel()
    return np.diff(np.interp(done, times, values), prepend=np.interp(done[:1], times, values))


def add_usual_work(job: RecordedJob, usual: Int64s, parts: Int64s) -> tuple[Chains, Floats]:
    """Return the chains of all ranks, then for each rank those of the rank that it should be like, in two orders.

    Beside them is the share of each rank's work that has the same place in both orders.

    A rank that did what another one does at the same moment would never wait for it. So it first does the work of the
    other one in its own order: where its own work took longest, it does the longest work that the other one had at the
    same place of a step. Ranks that become slower together stay together, and ranks that vary by themselves vary so.
    After these are the chains in the order of the other one.

    usual: for each rank the one that it should be like.
    parts: the two collectives between whose ends work is moved (parts, 2).
    """
    chains = job.uncontended
    rows = np.arange(chains.busy_ns.shape[1])
    took = chains.host_ns + chains.busy_ns
    judged = np.concatenate([rows[start + 1 : end + 1] for start, end in parts.tolist()])
    # Where only stretches were kept, places are known within each of them alone.
    stretch = np.repeat(np.arange(len(parts)), np.diff(parts)[:, 0]) * job.fresh.any()
    source = np.tile(rows, (len(usual), 1))
    for rank, other in enumerate(usual.tolist()):
        step = job.period // (1 + _take_turns(job, took[rank, judged], took[other, judged], judged))
        place = job.kind[judged] * step + judged % step
        own, others = (judged[np.lexsort((took[chosen, judged], place, stretch))] for chosen in (rank, other))
        source[rank, own] = others
    both = {}
    for field in fields(chains):
        values = getattr(chains, field.name)
        moved = values[usual] if values.shape[1] == 1 else values[usual[:, None], source]
        if field.name in ("host_after", "gpu_after"):
            moved = np.where(moved >= 0, np.maximum(moved + rows - source, -1), -1)
        both[field.name] = np.concatenate((values, moved, values[usual]))
    # By how much two ranks differ, one of them waits.
    differ = np.abs(took - took[usual])[:, judged] + 1
    return Chains(**both), np.average(source[:, judged] == judged, axis=1, weights=differ)


def _take_turns(job: RecordedJob, own_ns: Floats, other_ns: Floats, judged: Int64s) -> bool:
    """Return whether the two halves of what repeats are two steps, in which two ranks are the slower one in turn.

    Both halves then have the same collectives, and one rank works longer in the first half where the other one does in
    the second.

    own_ns, other_ns: the work of two ranks before each judged collective.
    """
    half = job.period // 2
    kind = job.kind[judged]
    if job.period % 2 or len(kind) < 2 * job.period or (kind[half:] != kind[:-half]).any():
        return False
    times = len(judged) // job.period * job.period
    first_half = np.where(np.arange(times) % job.period < half, 1.0, -1.0)
    more = [(work_ns[:times] * first_half).reshape(-1, job.period).sum(axis=1) for work_ns in (own_ns, other_ns)]
    # So many standard errors are no chance.
    signs = [np.sign(part.mean()) * (abs(part.mean()) > 4 * part.std() / np.sqrt(len(part))) for part in more]
    return bool(signs[0] * signs[1] < 0)


def replay(job: RecordedJob, chains: Chains, behaves_like: Int64s) -> Floats:
    """Return when each collective ends in each variant of the job (ns), as an array (variants, collectives).

    behaves_like: for each variant and rank, the rank whose chains it has; (variants, ranks).
    """
    count = len(job.end_ns)
    ends = np.zeros((len(behaves_like), count))
    host = np.broadcast_to(job.launch_ns[:, 0], behaves_like.shape).copy()
    gpu = np.broadcast_to(job.done_ns[:, 0], behaves_like.shape).copy()
    latency = chains.latency_ns[:, 0][behaves_like]
    stretch = 0
    for k in range(count):
        if job.fresh[k]:
            late = (ends[:, k - 1] - job.end_ns[k - 1])[:, None]
            host, gpu, stretch = job.launch_ns[:, k] + late, job.done_ns[:, k] + late, k
            ends[:, k] = job.end_ns[k] + late[:, 0]
            continue
        host = host + chains.host_ns[behaves_like, k]
        after = chains.host_after[behaves_like, k]
        host = _after(host, ends, after, chains.host_after_ns[behaves_like, k], stretch)
        by_gpu = gpu + chains.host_after_gpu_ns[behaves_like, k]
        host = np.where(after >= stretch, np.maximum(host, by_gpu), host)
        gpu = np.maximum(gpu + chains.busy_ns[behaves_like, k], host + chains.after_launch_ns[behaves_like, k])
        gpu = _after(gpu, ends, chains.gpu_after[behaves_like, k], chains.gpu_after_ns[behaves_like, k], stretch)
        begin = host + latency
        begin = np.where(chains.needs_work[behaves_like, k], np.maximum(begin, gpu), begin)
        if job.previous[k] >= stretch:
            begin = np.maximum(begin, ends[:, job.previous[k]][:, None])
        ends[:, k] = (begin + chains.unexplained_ns[behaves_like, k]).max(axis=1) + job.transfer_ns[k]
    return ends


def _after(time: Floats, ends: Floats, after: Int64s, delay: Floats, stretch: int) -> Floats:
    """Return `time`, or the end of the collective `after` and a delay, whichever is later."""
    if not (after >= stretch).any():
        return time
    reached = np.take_along_axis(ends, np.maximum(after, 0), axis=1) + delay
    return np.where(after >= stretch, np.maximum(time, reached), time)
