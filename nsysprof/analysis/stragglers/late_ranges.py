"""Name the ranges in which a late rank falls behind, and the ranges that not all ranks have equally often."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

import numpy as np
import pandas as pd

from nsysprof.analysis.stragglers.late_ranks import Late
from nsysprof.results.column_registry.column import Dtype
from nsysprof.results.column_registry.rank_columns import STRAGGLERS

_RANGES_EACH = 3
_LEAST_SHARE = 0.1
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
    for each in late:
        on_gpu = _excess(each.rank, rank_ranges, "compute_ns")
        on_host = _excess(each.rank, rank_ranges[rank_ranges["comm_ns"] == 0], "host_ns")
        where, found = "GPU", on_gpu
        if each.about_ns is not None and on_gpu["excess_ns"].sum() < 0.5 * each.about_ns:
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
