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
    add_jitter,
    choose_replayed,
    half_width,
    has_enough_parts,
    is_reproduced,
    judge_gains,
    judged_parts,
    late_by_work,
    measure_waits,
    typical_others,
    typical_pairs,
)
from nsysprof.ranks.collective_waits.clocks import Arrivals
from nsysprof.ranks.collective_waits.job_replay import RecordedJob, add_later_work, read_job, replay
from nsysprof.results.rank_results import REPLAY_ERROR_PCT, RankRow
from nsysprof.trace.schema import Floats, Int64s

# Where parts have one step each, a rank does what the other one of two did this share of the job later.
_APART = 8


@dataclass(frozen=True)
class LikePeers:
    """How long the judged part of a job would take with one rank like the typical other one (ns).

    The 95 % interval is part of it.

    recorded_ns, replayed_ns: how long it took, and how long its unchanged replay takes.
    """

    recorded_ns: int
    replayed_ns: int
    job_ns: int
    low_ns: int
    high_ns: int


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
    job_ns, low, high = (round(gains.replayed_ns - each) for each in (saved, saved + error, saved - error))
    return LikePeers(round(gains.recorded_ns), round(gains.replayed_ns), max(0, job_ns), max(0, low), high)


def judged_collectives(arrived: Arrivals) -> tuple[int, int] | None:
    """Return the two collectives between whose ends a job is judged; None where it cannot be replayed.

    They are counted in the order of launch.
    """
    job = read_job(arrived, list(range(len(arrived.ranks))))
    if job is None:
        return None
    edges = judged_parts(len(job.end_ns), job.period)
    return int(edges[0]), int(edges[-1])


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
    ranks, edges = len(waited), judged_parts(len(job.end_ns), job.period)
    if not has_enough_parts(edges):
        return None
    unchanged = replay(job, job.chains, np.arange(ranks)[None, :])[0]
    recorded = np.diff(job.end_ns[edges[[0, -1]]])[0]
    replayed = np.diff(unchanged[edges[[0, -1]]])[0]
    if not is_reproduced(recorded, replayed):
        return None
    like = typical_others(waited)
    changed = replay(job, job.uncontended, like)
    # Where only stretches of a long job were kept, they represent the rest.
    steps = np.diff(job.end_ns)[edges[0] : edges[-1]]
    seen = steps[~job.fresh[edges[0] + 1 : edges[-1] + 1]].sum()
    scale = recorded / max(1.0, seen)
    gained = np.diff((unchanged - changed)[:, edges], axis=1) * scale
    if ranks == 2:
        gained -= _jitter_of_two(job, like, edges, changed)
    else:
        pairs = replay(job, job.uncontended, typical_pairs(like).reshape(-1, ranks))
        of_pairs = np.diff((unchanged - pairs)[:, edges], axis=1) * scale
        gained = add_jitter(gained, of_pairs.reshape(ranks, -1, gained.shape[1]))
    return Gains(gained, float(recorded), float(replayed))


def _jitter_of_two(job: RecordedJob, like: Int64s, edges: Int64s, copied: Floats) -> Floats:
    """Return how much longer a job of two ranks takes if one does what the other does some steps later (ns).

    It is an array (ranks, parts). A rank that does what the other does at the same moment never waits for it. It is 0
    where steps cannot be told, and where they differ too much from each other to stand for each other.

    copied: when collectives end if one does what the other does at the same moment (ranks, collectives).
    """
    steps, of_part = ((each // job.period).item() for each in (edges[-1] - edges[0], edges[1] - edges[0]))
    if job.fresh.any() or steps < 2:
        return np.zeros((2, len(edges) - 1))
    # Within a part where that is possible: parts then have no step in common, and differ by as much as it seems.
    parts, by = (edges, of_part // 2) if of_part > 1 else (edges[[0, -1]], max(1, steps // _APART))
    chains = add_later_work(job.uncontended, parts, by * job.period)
    later = replay(job, chains, np.where(np.eye(2, dtype=bool), like + 2, like))
    more: Floats = np.diff((later - copied)[:, edges], axis=1)
    whole = np.diff(copied[:, edges[[0, -1]]], axis=1)
    return np.where(np.abs(more.sum(axis=1, keepdims=True)) <= REPLAY_ERROR_PCT / 100 * whole, more, 0.0)
