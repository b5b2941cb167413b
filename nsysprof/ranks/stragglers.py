"""Who the others wait for, and in which range it falls behind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np
import pandas as pd

from nsysprof.rank_results import RankRow
from nsysprof.ranks.clocks import Arrivals

STRAGGLER_COLUMNS = (
    "rank", "evidence", "late_ns", "late_pct", "exposed_late_ns", "exposed_late_pct", "last_in", "collectives", "range",
    "style", "domain", "where", "own_ns", "typical_ns", "excess_ns", "excess_pct",
)  # fmt: skip
# A rank is named where the others waited for it this much of the time, or it worked so much longer than they.
_LEAST_WAIT_PCT, _LEAST_EXCESS_PCT = 1.0, 5.0
_RANGES_EACH = 3
_LEAST_SHARE = 0.1
OUTSIDE = "(no range)"
COLLECTIVES, OWN_WORK = "collectives", "own work"


@dataclass(frozen=True)
class Late:
    """How late a rank was: the others waited late_ns for it in the collectives in which it was last of all.

    exposed_late_ns: of that, what their GPUs were idle for at least; the rest may be hidden behind computation.
    """

    rank: int
    evidence: str
    late_ns: int
    late_pct: float
    exposed_late_ns: int | None
    exposed_late_pct: float | None
    last_in: int | None
    collectives: int | None


def typical(values: Sequence[float]) -> float:
    """The lower median: of two ranks the smaller, since one of them may be the straggler."""
    return float(np.sort(np.asarray(values, dtype=float))[(len(values) - 1) // 2])


def uneven_ranges(rank_ranges: pd.DataFrame) -> pd.DataFrame:
    """The ranges that all ranks have, but not equally often: range, least and most instances, and a rank of each."""
    ranks = rank_ranges["rank"].nunique()
    rows = []
    for _, of_name in rank_ranges.groupby(["range", "style", "domain"], sort=False):
        name, rank, count = (of_name[column].tolist() for column in ("range", "rank", "instances"))
        if len(set(rank)) == ranks and min(count) < max(count):
            least, most = count.index(min(count)), count.index(max(count))
            rows.append((name[0], count[least], rank[least], count[most], rank[most]))
    return pd.DataFrame(rows, columns=["range", "least", "least_rank", "most", "most_rank"])


def choose_evidence(arrived: Arrivals | None, rows: Sequence[RankRow], uneven: pd.DataFrame) -> str:
    """By what ranks are judged: when they come to collectives, else how long they work where all recorded the same.

    uneven: what uneven_ranges found.
    """
    if arrived is not None:
        return COLLECTIVES
    known = [row.rank for row in rows if row.compute_ns is not None]
    return OWN_WORK if len(known) > 1 and uneven.empty else ""


def find_late(evidence: str, arrived: Arrivals | None, rows: Sequence[RankRow]) -> list[Late]:
    """The ranks that keep the others waiting, worst first. evidence: what choose_evidence says."""
    if arrived is not None:
        return _late_by_arrival(arrived)
    return _late_by_work(rows) if evidence == OWN_WORK else []


def _late_by_arrival(arrived: Arrivals) -> list[Late]:
    begin, count = arrived.begin_ns, arrived.begin_ns.shape[1]
    last = np.argmax(begin, axis=0)
    waits = begin.max(axis=0) - begin
    # A collective waits first and transfers then: what was exposed beyond the transfer was exposed waiting.
    exposed = np.clip(arrived.exposed_ns - (arrived.duration_ns - waits), 0, waits)
    # The first collective waits for whoever started last, which says nothing of the work.
    first = np.argmin(begin.min(axis=0))
    weight = np.where(np.arange(count) == first, 0, arrived.weight)
    wait, bare = (np.sort(each, axis=0)[len(arrived.ranks) // 2] * weight for each in (waits, exposed))
    span = max(1, int(begin.max() - begin.min(axis=0)[np.arange(count) != first].min(initial=begin.max())))
    found = []
    for number, rank in enumerate(arrived.ranks):
        mine = last == number
        late, cost = float(wait[mine].sum()), float(bare[mine].sum())
        # What is hidden behind computation costs nothing: some rank is last in every collective.
        if 100 * cost / span >= _LEAST_WAIT_PCT:
            percents = 100 * late / span, 100 * cost / span
            found.append(
                Late(rank, COLLECTIVES, round(late), percents[0], round(cost), percents[1], int(mine.sum()), count)
            )
    return sorted(found, key=lambda each: (-(each.exposed_late_ns or 0), -each.late_ns))


def _late_by_work(rows: Sequence[RankRow]) -> list[Late]:
    known = {row.rank: row.compute_ns for row in rows if row.rank is not None and row.compute_ns is not None}
    usual = typical(list(known.values()))
    found = [
        Late(rank, OWN_WORK, int(own - usual), 100 * (own - usual) / usual, None, None, None, None)
        for rank, own in known.items()
        if usual and 100 * (own - usual) / usual >= _LEAST_EXCESS_PCT
    ]
    return sorted(found, key=lambda each: -each.late_ns)


def name_ranges(late: Sequence[Late], rank_ranges: pd.DataFrame) -> pd.DataFrame:
    """For each late rank the ranges in which it takes longer than is typical, the largest excess first.

    rank_ranges: one row a (rank, range). GPU time counts where ranges differ in it; where it explains less than half of
    what the others' GPUs idled, and the host exceeds it, wall time without nested ranges does, of ranges that launched
    no communication: there a rank waits for others.
    """
    rows: list[dict[str, object]] = []
    for each in late:
        on_gpu = _excess(each.rank, rank_ranges, "compute_ns")
        on_host = _excess(each.rank, rank_ranges[rank_ranges["comm_ns"] == 0], "host_ns")
        where, found = "GPU", on_gpu
        if each.exposed_late_ns is not None and on_gpu["excess_ns"].sum() < 0.5 * each.exposed_late_ns:
            more = on_host["excess_ns"].sum() > on_gpu["excess_ns"].sum()
            where, found = ("host", on_host) if more else (where, found)
        worst = found["excess_ns"].max() if len(found) else 0
        named = found[found["excess_ns"] >= _LEAST_SHARE * worst].head(_RANGES_EACH)
        facts = asdict(each)
        if named.empty:
            rows.append({**facts, "range": OUTSIDE, "style": "", "domain": "", "where": ""})
        rows += [facts | {"where": where} | {str(k): v for k, v in line.items()} for line in named.to_dict("records")]
    table = pd.DataFrame(rows, columns=list(STRAGGLER_COLUMNS))
    integers = ("late_ns", "exposed_late_ns", "last_in", "collectives", "own_ns", "typical_ns", "excess_ns")
    return table.astype(dict.fromkeys(integers, "Int64"))


def _excess(rank: int, rank_ranges: pd.DataFrame, column: str) -> pd.DataFrame:
    """Ranges in which the rank has more of `column` than is typical of the ranks."""
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
