"""Who the others wait for, and in which range it falls behind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from nsysprof.rank_results import RankRow
from nsysprof.trace.schema import Int64s

STRAGGLER_COLUMNS = (
    "rank", "evidence", "late_ns", "late_pct", "last_in", "collectives", "range", "style", "domain", "where", "own_ns",
    "typical_ns", "excess_ns", "excess_pct",
)  # fmt: skip
# A rank is named where the others waited for it this much of the time, or it worked so much longer than they.
_LEAST_WAIT_PCT, _LEAST_EXCESS_PCT = 1.0, 5.0
_RANGES_EACH = 3
_LEAST_SHARE = 0.1
OUTSIDE = "(no range)"


@dataclass(frozen=True)
class Late:
    """How late a rank was: the others waited late_ns for it in the collectives in which it was last of all."""

    rank: int
    evidence: str
    late_ns: int
    late_pct: float
    last_in: int | None
    collectives: int | None


def typical(values: Sequence[float]) -> float:
    """The lower median: of two ranks the smaller, since one of them may be the straggler."""
    return float(np.sort(np.asarray(values, dtype=float))[(len(values) - 1) // 2])


def find_late(begins: tuple[Int64s, list[int]] | None, rows: Sequence[RankRow]) -> list[Late]:
    """The ranks that keep the others waiting, worst first. begins: as `arrivals` has them; without, by own work."""
    if begins is None:
        return _late_by_work(rows)
    times, ranks = begins
    last = np.argmax(times, axis=0)
    median = np.sort(times, axis=0)[(len(ranks) - 1) // 2]
    wait = times.max(axis=0) - median
    # The first collective waits for whoever started last, which says nothing of the work.
    first = np.argmin(times.min(axis=0))
    wait[first] = 0
    span = max(1, int(times.max() - times.min(axis=0)[np.arange(times.shape[1]) != first].min(initial=times.max())))
    found = []
    for number, rank in enumerate(ranks):
        mine = last == number
        late, percent = int(wait[mine].sum()), 100 * float(wait[mine].sum()) / span
        if percent >= _LEAST_WAIT_PCT:
            found.append(Late(rank, "collectives", late, percent, int(mine.sum()), times.shape[1]))
    return sorted(found, key=lambda each: -each.late_ns)


def _late_by_work(rows: Sequence[RankRow]) -> list[Late]:
    known = {row.rank: row.compute_ns for row in rows if row.rank is not None and row.compute_ns is not None}
    if len(known) < 2:
        return []
    usual = typical(list(known.values()))
    found = [
        Late(rank, "own work", int(own - usual), 100 * (own - usual) / usual, None, None)
        for rank, own in known.items()
        if usual and 100 * (own - usual) / usual >= _LEAST_EXCESS_PCT
    ]
    return sorted(found, key=lambda each: -each.late_ns)


def name_ranges(late: Sequence[Late], rank_ranges: pd.DataFrame) -> pd.DataFrame:
    """For each late rank the ranges in which it takes longer than is typical, the largest excess first.

    rank_ranges: one row a (rank, range). GPU time counts where ranges differ in it; where the excess is mostly on the
    host, wall time without nested ranges does, of ranges that launched no communication: there a rank waits for others.
    """
    rows: list[dict[str, object]] = []
    for each in late:
        on_gpu = _excess(each.rank, rank_ranges, "compute_ns")
        on_host = _excess(each.rank, rank_ranges[rank_ranges["comm_ns"] == 0], "host_ns")
        where, found = "GPU", on_gpu
        if each.evidence == "collectives" and on_gpu["excess_ns"].sum() < 0.5 * each.late_ns:
            more = on_host["excess_ns"].sum() > on_gpu["excess_ns"].sum()
            where, found = ("host", on_host) if more else (where, found)
        worst = found["excess_ns"].max() if len(found) else 0
        named = found[found["excess_ns"] >= _LEAST_SHARE * worst].head(_RANGES_EACH)
        facts = {
            "rank": each.rank, "evidence": each.evidence, "late_ns": each.late_ns, "late_pct": each.late_pct,
            "last_in": each.last_in, "collectives": each.collectives,
        }  # fmt: skip
        if named.empty:
            rows.append({**facts, "range": OUTSIDE, "style": "", "domain": "", "where": ""})
        rows += [facts | {"where": where} | {str(k): v for k, v in line.items()} for line in named.to_dict("records")]
    table = pd.DataFrame(rows, columns=list(STRAGGLER_COLUMNS))
    integers = ("late_ns", "last_in", "collectives", "own_ns", "typical_ns", "excess_ns")
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
