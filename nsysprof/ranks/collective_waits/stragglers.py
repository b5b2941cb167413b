"""Find the ranks that the others wait for, and the ranges in which they fall behind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np
import pandas as pd

from nsysprof.analysis.sampling.student_t import t_isf, t_sf
from nsysprof.ranks.collective_waits.clocks import Arrivals
from nsysprof.ranks.collective_waits.job_replay import RecordedJob, read_job, replay
from nsysprof.results.column_registry.column import Dtype
from nsysprof.results.column_registry.rank_columns import STRAGGLERS
from nsysprof.results.rank_results import (
    REPLAY_ERROR_PCT,
    STRAGGLER_ALPHA,
    STRAGGLER_COST_PCT,
    STRAGGLER_EXCESS_PCT,
    RankRow,
)
from nsysprof.trace.schema import Floats, Int64s

_RANGES_EACH = 3
_LEAST_SHARE = 0.1
OUTSIDE = "(no range)"
COLLECTIVES, OWN_WORK, NOT_REPLAYED = "collectives", "own work", "not replayed"
# A job is judged in this many parts with equal numbers of collectives. The first part is warm-up and is left out.
_PARTS, _LEAST_PARTS = 16, 5
# The most ranks to replay. In a larger job, half of them are those that the others waited for longest.
_REPLAYED, _JUDGED = 32, 16


@dataclass(frozen=True)
class Late:
    """By how much a rank was late."""

    rank: int
    # How lateness was measured: see choose_evidence.
    evidence: str
    # How long the others waited (ns) in the collectives at which this rank was the last.
    late_ns: int
    late_pct: float
    # The part of this time during which their GPUs were certainly idle. The rest may overlap with computation.
    exposed_late_ns: int | None
    exposed_late_pct: float | None
    # At how many collectives it was the last to arrive, and how many there were.
    last_in: int | None
    collectives: int | None
    # How much less time the job would take if this rank were like the others, by replay: with the 95 % interval, and as
    # a share.
    cost_ns: int | None = None
    cost_low_ns: int | None = None
    cost_high_ns: int | None = None
    cost_pct: float | None = None


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
    replayed = sorted({*_choose(waited_for.astype(float)), rank})
    job = read_job(arrived, replayed)
    gains = None if job is None else _gains(job, waits[replayed].sum(axis=1))
    if gains is None:
        return None
    gain = gains.of_rank[replayed.index(rank)]
    saved, error = float(gain.sum()), _half_width(gain)
    job_ns, low, high = (round(gains.replayed_ns - each) for each in (saved, saved + error, saved - error))
    return LikePeers(round(gains.recorded_ns), round(gains.replayed_ns), max(0, job_ns), max(0, low), high)


def typical(values: Sequence[float]) -> float:
    """Return the lower median: of two ranks it is the smaller value, because the other one may be the straggler."""
    return float(np.sort(np.asarray(values, dtype=float))[(len(values) - 1) // 2])


def uneven_ranges(rank_ranges: pd.DataFrame) -> pd.DataFrame:
    """Return the ranges that all ranks have, but not equally often.

    Each row has the range, the fewest and the most instances, and a rank with each of these.
    """
    ranks = rank_ranges["rank"].nunique()
    rows = []
    for _, of_name in rank_ranges.groupby(["range", "style", "domain"], sort=False):
        name, rank, count = (of_name[column].tolist() for column in ("range", "rank", "instances"))
        if len(set(rank)) == ranks and min(count) < max(count):
            least, most = count.index(min(count)), count.index(max(count))
            rows.append((name[0], count[least], rank[least], count[most], rank[most]))
    return pd.DataFrame(rows, columns=["range", "least", "least_rank", "most", "most_rank"])


def choose_evidence(arrived: Arrivals | None, rows: Sequence[RankRow], uneven: pd.DataFrame) -> str:
    """Return the evidence by which ranks are judged.

    Arrivals at collectives are preferred. Without them, ranks are judged by how long they work, provided that all of
    them recorded the same ranges.

    uneven: the result of uneven_ranges.
    """
    if arrived is not None:
        return COLLECTIVES
    known = [row.rank for row in rows if row.compute_ns is not None]
    return OWN_WORK if len(known) > 1 and uneven.empty else ""


def find_late(evidence: str, arrived: Arrivals | None, rows: Sequence[RankRow]) -> tuple[str, list[Late]]:
    """Return the evidence that was finally used, and the ranks that cost the job time, worst first.

    evidence: the result of choose_evidence.
    """
    if arrived is not None:
        return _late_by_arrival(arrived)
    return evidence, _late_by_work(rows) if evidence == OWN_WORK else []


def _late_by_arrival(arrived: Arrivals) -> tuple[str, list[Late]]:
    begin, count = arrived.begin_ns, arrived.begin_ns.shape[1]
    last = np.argmax(begin, axis=0)
    waits = begin.max(axis=0) - begin
    # A collective first waits and then transfers, so exposed time beyond the transfer was waiting.
    exposed = np.clip(arrived.exposed_ns - (arrived.duration_ns - waits), 0, waits)
    # The first collective waits for whichever rank started last, which says nothing about the work.
    first = np.argmin(begin.min(axis=0))
    weight = np.where(np.arange(count) == first, 0, arrived.weight)
    wait, bare = (np.sort(each, axis=0)[len(arrived.ranks) // 2] * weight for each in (waits, exposed))
    span = max(1, int(begin.max() - begin.min(axis=0)[np.arange(count) != first].min(initial=begin.max())))
    waited_for = np.bincount(last, weights=wait, minlength=len(arrived.ranks)).astype(float)
    replayed = _choose(waited_for)
    job = read_job(arrived, replayed)
    gains = None if job is None else _gains(job, waits[replayed].sum(axis=1))
    if gains is None:
        return NOT_REPLAYED, []
    found = []
    for number, (rank, gain) in enumerate(zip(replayed, gains.of_rank, strict=True)):
        others = np.median(np.delete(gains.of_rank, number, axis=0), axis=0)
        share = 100 * gain.sum() / gains.recorded_ns
        if share < STRAGGLER_COST_PCT or not _persists(gain - others, len(arrived.ranks)):
            continue
        mine = last == rank
        late, bare_late = float(wait[mine].sum()), float(bare[mine].sum())
        cost, error = gain.sum(), _half_width(gain)
        found.append(
            Late(
                arrived.ranks[rank], COLLECTIVES, round(late), 100 * late / span, round(bare_late),
                100 * bare_late / span, int(mine.sum()), count,
                round(cost), round(max(0.0, cost - error)), round(cost + error), float(share),
            )
        )  # fmt: skip
    return COLLECTIVES, sorted(found, key=lambda each: -(each.cost_ns or 0))


def _choose(waited_for: Floats) -> list[int]:
    """Return the positions of the ranks to replay: all, or those that were waited for longest and some others."""
    order: list[int] = np.argsort(-waited_for, kind="stable").tolist()
    if len(order) <= _REPLAYED:
        return sorted(order)
    rest = sorted(order[_JUDGED:])
    return order[:_JUDGED] + rest[:: -(-len(rest) // (_REPLAYED - _JUDGED))]


@dataclass(frozen=True)
class _Gains:
    """What a job would gain with each rank like the typical other one (ns): (ranks, parts), and the time judged."""

    of_rank: Floats
    recorded_ns: float
    replayed_ns: float


def _gains(job: RecordedJob, waited: Int64s) -> _Gains | None:
    """Return what the job would gain with each rank like the typical other one.

    None where the job is too short, or where its replay does not reproduce the recorded time.

    waited: how long each rank waited in all; the typical rank has the median.
    """
    ranks, edges = len(waited), judged_parts(len(job.end_ns))
    if len(edges) <= _LEAST_PARTS:
        return None
    like = np.tile(np.arange(ranks), (ranks, 1))
    for rank in range(ranks):
        others = np.delete(np.arange(ranks), rank)
        like[rank, rank] = others[np.argsort(waited[others], kind="stable")[(len(others) - 1) // 2]]
    unchanged = replay(job, job.chains, np.arange(ranks)[None, :])[0]
    recorded = np.diff(job.end_ns[edges[[0, -1]]])[0]
    replayed = np.diff(unchanged[edges[[0, -1]]])[0]
    if recorded <= 0 or abs(replayed - recorded) > REPLAY_ERROR_PCT / 100 * recorded:
        return None
    changed = replay(job, job.uncontended, like)
    # Where only stretches of a long job were kept, they represent the rest.
    steps = np.diff(job.end_ns)[edges[0] : edges[-1]]
    seen = steps[~job.fresh[edges[0] + 1 : edges[-1] + 1]].sum()
    gained = np.diff((unchanged - changed)[:, edges], axis=1) * (recorded / max(1.0, seen))
    return _Gains(gained, float(recorded), float(replayed))


def judged_parts(count: int) -> Int64s:
    """Return at which of `count` collectives the judged parts of a job begin and end, without the first part."""
    parts = min(_PARTS, count - 1)
    return np.linspace(0, count - 1, parts + 1).astype(np.int64)[1:]


def _persists(more: Floats, ranks: int) -> bool:
    """Return whether a rank costs more than the others in most parts, and not by chance.

    It must cost more than the others, because every rank that is sometimes last costs something. The error is shared by
    all ranks.
    """
    spread = more.std(ddof=1)
    if spread == 0:
        return bool(more.mean() > 0)
    t = more.mean() / (spread / np.sqrt(len(more)))
    return bool(t_sf(float(t), len(more) - 1) * ranks <= STRAGGLER_ALPHA)


def _half_width(gain: Floats) -> float:
    """Return half the width of the 95 % interval of the sum over the parts."""
    return float(t_isf(0.025, len(gain) - 1) * gain.std(ddof=1) * np.sqrt(len(gain)))


def _late_by_work(rows: Sequence[RankRow]) -> list[Late]:
    known = {row.rank: row.compute_ns for row in rows if row.rank is not None and row.compute_ns is not None}
    usual = typical(list(known.values()))
    found = [
        Late(rank, OWN_WORK, int(own - usual), 100 * (own - usual) / usual, None, None, None, None)
        for rank, own in known.items()
        if usual and 100 * (own - usual) / usual >= STRAGGLER_EXCESS_PCT
    ]
    return sorted(found, key=lambda each: -each.late_ns)


def name_ranges(late: Sequence[Late], rank_ranges: pd.DataFrame) -> pd.DataFrame:
    """Return for each late rank the ranges in which it takes longer than is typical, the largest excess first.

    Normally the GPU time of a range is compared. Where it explains less than half of what the rank costs, and the
    host's excess is larger, the wall time without nested ranges is compared instead. Ranges that launched communication
    are then left out, because a rank waits for others there.

    rank_ranges: one row per (rank, range).
    """
    rows: list[dict[str, object]] = []
    for each in late:
        on_gpu = _excess(each.rank, rank_ranges, "compute_ns")
        on_host = _excess(each.rank, rank_ranges[rank_ranges["comm_ns"] == 0], "host_ns")
        where, found = "GPU", on_gpu
        if each.cost_ns is not None and on_gpu["excess_ns"].sum() < 0.5 * each.cost_ns:
            more = on_host["excess_ns"].sum() > on_gpu["excess_ns"].sum()
            where, found = ("host", on_host) if more else (where, found)
        worst = found["excess_ns"].max() if len(found) else 0
        named = found[found["excess_ns"] >= _LEAST_SHARE * worst].head(_RANGES_EACH)
        facts = asdict(each)
        if named.empty:
            rows.append({**facts, "range": OUTSIDE, "style": "", "domain": "", "where": ""})
        rows += [facts | {"where": where} | {str(k): v for k, v in line.items()} for line in named.to_dict("records")]
    table = pd.DataFrame(rows, columns=list(STRAGGLERS.names))
    return table.astype(dict.fromkeys(STRAGGLERS.of_dtype(Dtype.INTEGER), "Int64"))


def _excess(rank: int, rank_ranges: pd.DataFrame, column: str) -> pd.DataFrame:
    """Return the ranges in which the rank has a larger `column` than is typical of the ranks."""
    keys = ["range", "style", "domain"]
    wide = rank_ranges.pivot_table(index=keys, columns="rank", values=column, aggfunc="sum", fill_value=0, sort=False)
    if rank not in wide.columns or wide.empty:
        return pd.DataFrame(columns=[*keys, "own_ns", "typical_ns", "excess_ns", "excess_pct"])
    usual = np.sort(wide.to_numpy(dtype=float), axis=1)[:, (wide.shape[1] - 1) // 2]
    own = wide[rank].to_numpy(dtype=float)
    table = wide.index.to_frame(index=False)
    table["own_ns"], table["typical_ns"] = own.round().astype(np.int64), usual.round().astype(np.int64)
    table["excess_ns"] = table["own_ns"] - table["typical_ns"]
    table["excess_pct"] = [100 * (a - b) / b if b else None for a, b in zip(own, usual, strict=True)]
    return table[table["excess_ns"] > 0].sort_values("excess_ns", ascending=False, kind="stable")
