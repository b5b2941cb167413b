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
from nsysprof.ranks.collective_waits.job_replay import RecordedJob, read_job, replay
from nsysprof.results.rank_results import RankRow
from nsysprof.trace.schema import Int64s


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
    ranks, edges = len(waited), judged_parts(len(job.end_ns))
    if not has_enough_parts(edges):
        return None
    unchanged = replay(job, job.chains, np.arange(ranks)[None, :])[0]
    recorded = np.diff(job.end_ns[edges[[0, -1]]])[0]
    replayed = np.diff(unchanged[edges[[0, -1]]])[0]
    if not is_reproduced(recorded, replayed):
        return None
    changed = replay(job, job.uncontended, typical_others(waited))
    # Where only stretches of a long job were kept, they represent the rest.
    steps = np.diff(job.end_ns)[edges[0] : edges[-1]]
    seen = steps[~job.fresh[edges[0] + 1 : edges[-1] + 1]].sum()
    gained = np.diff((unchanged - changed)[:, edges], axis=1) * (recorded / max(1.0, seen))
    return Gains(gained, float(recorded), float(replayed))
