"""Judge which ranks the others wait for, by their arrivals at collectives and a replay, or else by their own work."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np
import pandas as pd

from nsysprof.analysis.sampling.student_t import t_isf, t_sf
from nsysprof.results.column_registry.column import Dtype
from nsysprof.results.column_registry.rank_columns import STRAGGLERS
from nsysprof.results.rank_results import (
    OUTLIER_PCT,
    OUTLIER_RANKS,
    OUTLIER_TIMES,
    REPLAY_ERROR_PCT,
    STRAGGLER_ALPHA,
    STRAGGLER_COST_PCT,
    STRAGGLER_EXCESS_OF_FEW_PCT,
    RankRow,
)
from nsysprof.trace.schema import Floats, Int64s

COLLECTIVES, OWN_WORK, NOT_REPLAYED = "collectives", "own work", "not replayed"
# A job is judged in about this many parts with equal numbers of collectives. The first part is warm-up and is left out.
_PARTS, _LEAST_PARTS = 16, 5
# The most ranks to replay. In a larger job, half of them are those that the others waited for longest.
_REPLAYED, _JUDGED = 32, 16
# The error of a cost is read from so many of the slowest waves of the parts. Fewer hold for deviations that last
# longer, and have wider intervals.
_WAVES = 3
# A straggler costs more than the others in at least this share of the parts.
_LEAST_PERSISTENT = 0.9
# The most ranges that are named for a late rank. Each has at least this share of the largest excess.
_RANGES_EACH, _LEAST_SHARE = 3, 0.1


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
    # The same where steps were not found, and the cost is unknown: good enough to tell where the rank loses time.
    about_ns: int | None = None


@dataclass(frozen=True)
class Waits:
    """How long ranks waited for each other in collectives (ns)."""

    # For each rank and collective: how long the rank waited.
    waits: Int64s
    # For each collective: the position of the rank that arrived last, how long the typical rank waited for it, and for
    # how much of that its GPU was certainly idle. Both times count the collectives that this one represents.
    last: Int64s
    wait_ns: Floats
    exposed_ns: Floats
    # For each rank: how long the others waited for it.
    waited_for: Floats
    # From the first arrival after the first collective to the last one.
    span_ns: int


@dataclass(frozen=True)
class Gains:
    """What a job would gain with each rank like the typical other one (ns): (ranks, parts), and the time judged."""

    of_rank: Floats
    recorded_ns: float
    replayed_ns: float
    # Whether parts have whole steps. Otherwise what happens once in a step counts too often or too rarely.
    has_whole_steps: bool = True


def typical(values: Sequence[float]) -> float:
    """Return the lower median: of two ranks it is the smaller value, because the other one may be the straggler."""
    return float(np.sort(np.asarray(values, dtype=float))[(len(values) - 1) // 2])


def choose_evidence(rows: Sequence[RankRow], uneven: pd.DataFrame, *, has_arrivals: bool) -> str:
    """Return the evidence by which ranks are judged.

    Arrivals at collectives are preferred. Without them, ranks are judged by how long they work, provided that all of
    them recorded the same ranges.

    uneven: the result of uneven_ranges.
    has_arrivals: whether the arrivals of all ranks at collectives are known on one clock.
    """
    if has_arrivals:
        return COLLECTIVES
    known = [row.rank for row in rows if row.compute_ns is not None]
    return OWN_WORK if len(known) > 1 and uneven.empty else ""


def measure_waits(begin_ns: Int64s, duration_ns: Int64s, exposed_ns: Int64s, weight: Floats) -> Waits:
    """Return how long ranks waited for each other.

    begin_ns, duration_ns, exposed_ns, weight: as in Arrivals, with one row per rank and one column per collective.
    """
    ranks, count = begin_ns.shape
    last = np.argmax(begin_ns, axis=0)
    waits = begin_ns.max(axis=0) - begin_ns
    # A collective first waits and then transfers, so exposed time beyond the transfer was waiting.
    exposed = np.clip(exposed_ns - (duration_ns - waits), 0, waits)
    # The first collective waits for whichever rank started last, which says nothing about the work.
    first = np.argmin(begin_ns.min(axis=0))
    weight = np.where(np.arange(count) == first, 0, weight)
    wait, bare = (np.sort(times_ns, axis=0)[ranks // 2] * weight for times_ns in (waits, exposed))
    later = begin_ns.min(axis=0)[np.arange(count) != first].min(initial=begin_ns.max())
    waited_for = np.bincount(last, weights=wait, minlength=ranks).astype(float)
    return Waits(waits, last, wait, bare, waited_for, max(1, int(begin_ns.max() - later)))


def choose_replayed(waited_for: Floats) -> list[int]:
    """Return the positions of the ranks to replay: all, or those that were waited for longest and some others."""
    order: list[int] = np.argsort(-waited_for, kind="stable").tolist()
    if len(order) <= _REPLAYED:
        return sorted(order)
    rest = sorted(order[_JUDGED:])
    return order[:_JUDGED] + rest[:: -(-len(rest) // (_REPLAYED - _JUDGED))]


def judged_parts(count: int, period: int = 1, begins: Sequence[int] = ()) -> Int64s:
    """Return the two of `count` collectives between whose ends each judged part of a job lies: (parts, 2).

    The warm-up is left out. Each part has the same number of whole steps: a rank that is slow once in a step would
    otherwise cost some parts more than others, and its cost would look less certain than it is.

    period: how many collectives a step has; 1 where they do not repeat.
    begins: where collectives are missing: the first ones after a gap. A part then lies within one stretch.
    """
    of_stretches = _parts_of_stretches(count, period, begins)
    if len(begins) and len(of_stretches) >= _LEAST_PARTS:
        return of_stretches
    last = count - 1
    steps = (last - last // _PARTS) // period
    if period == 1 or steps < _LEAST_PARTS or len(begins):
        edges = np.linspace(0, last, min(_PARTS, last) + 1).astype(np.int64)[1:]
    else:
        steps_per_part = -(-steps // (_PARTS - 1))
        edges = last - period * steps_per_part * np.arange(steps // steps_per_part, -1, -1, dtype=np.int64)
    return np.stack((edges[:-1], edges[1:]), axis=1)


def _parts_of_stretches(count: int, period: int, begins: Sequence[int]) -> Int64s:
    """Return one part for each stretch but the first, as `judged_parts` does; short stretches have none."""
    first = np.array([0, *begins], dtype=np.int64)
    last = np.append(first[1:] - 1, count - 1)
    steps = (last - first) // period
    usual = max(1, int(np.median(steps)))
    parts: Int64s = np.stack((last - usual * period, last), axis=1)[1:]
    return parts[steps[1:] >= usual]


def has_enough_parts(parts: Int64s) -> bool:
    """Return whether a job has enough judged parts for a test. parts: the result of judged_parts."""
    return len(parts) >= _LEAST_PARTS


def is_reproduced(recorded_ns: float, replayed_ns: float) -> bool:
    """Return whether the replay of a job takes as long as it did, so that its other answers can be trusted."""
    return recorded_ns > 0 and abs(replayed_ns - recorded_ns) <= REPLAY_ERROR_PCT / 100 * recorded_ns


def typical_others(waited: Int64s) -> Int64s:
    """Return for each rank the typical other one: the one with the median of how long each rank waited in all."""
    ranks = len(waited)
    usual = np.empty(ranks, dtype=np.int64)
    for rank in range(ranks):
        others = np.delete(np.arange(ranks), rank)
        usual[rank] = others[np.argsort(waited[others], kind="stable")[(len(others) - 1) // 2]]
    return usual


def judge_gains(ranks: Sequence[int], waits: Waits, replayed: Sequence[int], gains: Gains) -> list[Late]:
    """Return the ranks that cost the job time, worst first; what they cost is unknown where steps were not found.

    ranks: all ranks of the job.
    replayed: the positions in `ranks` to which the rows of gains.of_rank belong.
    """
    late_ranks = []
    for number, (rank, gain) in enumerate(zip(replayed, gains.of_rank, strict=True)):
        others = np.median(np.delete(gains.of_rank, number, axis=0), axis=0)
        share = 100 * gain.sum() / gains.recorded_ns
        more = gain - others
        # Ranks that are slow in turn are not stragglers. A part without whole steps may lack what is slow in each.
        in_few = gains.has_whole_steps and (more > 0).mean() < _LEAST_PERSISTENT
        if share < STRAGGLER_COST_PCT or in_few or not _is_more(more, len(ranks)):
            continue
        mine = waits.last == rank
        late, bare_late = float(waits.wait_ns[mine].sum()), float(waits.exposed_ns[mine].sum())
        cost, error = gain.sum(), half_width(gain)
        one = Late(
            ranks[rank], COLLECTIVES, round(late), 100 * late / waits.span_ns, round(bare_late),
            100 * bare_late / waits.span_ns, int(mine.sum()), len(waits.last), about_ns=round(cost),
        )  # fmt: skip
        if gains.has_whole_steps:
            one = replace(
                one, cost_ns=round(cost), cost_low_ns=round(max(0.0, cost - error)), cost_high_ns=round(cost + error),
                cost_pct=float(share),
            )  # fmt: skip
        late_ranks.append(one)
    return sorted(late_ranks, key=lambda straggler: -(straggler.about_ns or 0))


def _is_more(more: Floats, ranks: int) -> bool:
    """Return whether a rank costs more than the others on average, and not by chance.

    It must cost more than the others, because every rank that is sometimes last costs something. The error is shared by
    all ranks.
    """
    spread = more.std(ddof=1)
    if spread == 0:
        return bool(more.mean() > 0)
    t = more.mean() / (spread / np.sqrt(len(more)))
    return bool(t_sf(float(t), len(more) - 1) * ranks <= STRAGGLER_ALPHA)


def half_width(gain: Floats) -> float:
    """Return half the width of the 95 % interval of the sum over the parts.

    A deviation of a rank that lasts makes parts like their neighbours, so that what parts differ by says too little of
    what their sum varies by. That is seen in the slowest waves of the parts: their mean square is the variance of the
    sum, with as many degrees of freedom as there are waves (the equal-weighted cosine estimate; Lazarus, Lewis, Stock
    and Watson, 2018). Where parts are independent, the interval is exact.
    """
    parts = len(gain)
    waves = min(_WAVES, parts - 1)
    phase = np.pi * (np.arange(parts) + 0.5) / parts
    amplitudes = np.cos(np.outer(np.arange(1, waves + 1), phase)) @ gain * np.sqrt(2 / parts)
    return float(t_isf(0.025, waves) * np.sqrt(parts * np.mean(amplitudes**2)))


def late_by_work(rows: Sequence[RankRow]) -> list[Late]:
    """Return the ranks that compute for much longer than is typical, worst first.

    Of many ranks, they must be outliers. Of a few it is unknown how much ranks vary, so they must differ by more.
    """
    known = {row.rank: row.compute_ns for row in rows if row.rank is not None and row.compute_ns is not None}
    usual, ranks = typical(list(known.values())), list(known)
    least_pct, apart = STRAGGLER_EXCESS_OF_FEW_PCT, ranks
    if len(known) >= OUTLIER_RANKS:
        least_pct, apart = (
            OUTLIER_PCT,
            [ranks[place] for place in _far_away(np.array(list(known.values()), dtype=float))],
        )
    late_ranks = [
        Late(rank, OWN_WORK, int(known[rank] - usual), 100 * (known[rank] - usual) / usual, None, None, None, None)
        for rank in apart
        if usual and 100 * (known[rank] - usual) / usual >= least_pct
    ]
    return sorted(late_ranks, key=lambda straggler: -straggler.late_ns)


OUTSIDE = "(no range)"


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


def name_ranges(late: Sequence[Late], rank_ranges: pd.DataFrame) -> pd.DataFrame:
    """Return for each late rank the ranges in which it takes longer than is typical, the largest excess first.

    Normally the GPU time of a range is compared. Where it explains less than half of what the rank costs, and the
    host's excess is larger, the wall time without nested ranges is compared instead. Ranges that launched communication
    are then left out, because a rank waits for others there.

    rank_ranges: one row per (rank, range).
    """
    rows: list[dict[str, object]] = []
    for straggler in late:
        on_gpu = _excess(straggler.rank, rank_ranges, "compute_ns")
        on_host = _excess(straggler.rank, rank_ranges[rank_ranges["comm_ns"] == 0], "host_ns")
        where, excess = "GPU", on_gpu
        if straggler.about_ns is not None and on_gpu["excess_ns"].sum() < 0.5 * straggler.about_ns:
            more = on_host["excess_ns"].sum() > on_gpu["excess_ns"].sum()
            where, excess = ("host", on_host) if more else (where, excess)
        worst = excess["excess_ns"].max() if len(excess) else 0
        named = excess[excess["excess_ns"] >= _LEAST_SHARE * worst].head(_RANGES_EACH)
        facts = asdict(straggler)
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


# The quantities in which ranks are compared with each other, and their names in reports.
_COMPARED = {
    "compute_ns": "compute", "exposed_comm_ns": "exposed communication", "idle_ns": "idle", "api_total_ns": "API calls",
    "memcpy_bytes": "copied", "peak_vram_bytes": "peak VRAM", "kernel_count": "kernels",
}  # fmt: skip


def find_outliers(rows: Sequence[RankRow]) -> dict[int, str]:
    """Return the ranks that are far from the others, each with the quantities in which it is."""
    texts_by_rank: dict[int, list[str]] = {}
    for name, title in _COMPARED.items():
        known = {
            row.rank: getattr(row, name) for row in rows if row.rank is not None and getattr(row, name) is not None
        }
        if len(known) < OUTLIER_RANKS:
            continue
        values = np.array(list(known.values()), dtype=float)
        middle = typical(values.tolist())
        for number in _far_away(values):
            apart = values[number] - middle
            if middle > 0 and abs(apart) > OUTLIER_PCT / 100 * middle:
                texts_by_rank.setdefault(list(known)[number], []).append(f"{title} {100 * apart / middle:+.0f} %")
    return {rank: ", ".join(texts) for rank, texts in texts_by_rank.items()}


def _far_away(values: Floats) -> list[int]:
    """Return the positions of the values that are far from all others, at most a quarter of them.

    They are OUTLIER_TIMES times further from the usual value than any other. Normal values are never so, and of values
    with the tails of Student's t with 3 degrees of freedom few are: nothing is assumed of how values are distributed.
    """
    distance = np.abs(values - typical(values.tolist()))
    order = np.argsort(-distance, kind="stable")
    for count in range(max(1, len(values) // 4), 0, -1):
        if distance[order[count - 1]] > OUTLIER_TIMES * distance[order[count]]:
            return sorted(order[:count].tolist())
    return []
