"""Replay a job to see what its ranks cost it: with each rank like its peers, from the arrivals at collectives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

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
from nsysprof.ranks.collective_waits.clocks import Arrivals
from nsysprof.ranks.collective_waits.job_replay import (
    RecordedJob,
    add_usual_work,
    has_whole_steps,
    read_job,
    replay,
)
from nsysprof.results.rank_results import RankRow
from nsysprof.trace.schema import Floats, Int64s


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
    chains = add_usual_work(job, typical_others(waited), parts)
    itself, own_order, copied = (number * ranks + np.arange(ranks) for number in range(3))
    like = [np.where(np.eye(ranks, dtype=bool), changed, itself) for changed in (own_order, copied)]
    in_order, at_once = _over(parts, unchanged - replay(job, chains, np.concatenate(like))).reshape(2, ranks, -1)
    # What parts differ by has the error of the mean only where two ranks' work of the same moment is compared.
    # One of the places to which a rank's work is moved by chance is its own, where no rank waits.
    places = max(2, int(parts[0, 1] - parts[0, 0] if job.fresh.any() else parts[-1, 1] - parts[0, 0]) // job.period)
    gained = at_once + places / (places - 1) * (in_order - at_once).mean(axis=1, keepdims=True)
    # Where only stretches of a long job were kept, they represent the rest.
    recorded = float(job.end_ns[parts[-1, 1]] - job.end_ns[parts[0, 0]])
    scale = recorded / seen
    return Gains(gained * scale, recorded, replayed * scale, has_whole_steps(job, parts))


def _over(parts: Int64s, ends: Floats) -> Floats:
    """Return how long each part takes (ns). ends: when each collective ends, in any number of variants."""
    durations: Floats = ends[..., parts[:, 1]] - ends[..., parts[:, 0]]
    return durations
