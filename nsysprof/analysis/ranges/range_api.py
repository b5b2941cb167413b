"""Make the table of the CUDA API calls in which the threads of each range spent their time."""

from __future__ import annotations

import numpy as np
import pandas as pd

from nsysprof.analysis.attribution.attribute import attribute_work, merge, order_work
from nsysprof.analysis.kernel_names.variant_names import call_names, plain_call_name
from nsysprof.analysis.ranges.range_evidence import RangeEvidence
from nsysprof.results.column_registry.analysis_columns import RANGE_API
from nsysprof.results.column_registry.csv_table import empty_table
from nsysprof.trace.schema import Calls, Int64s, Ints

_SCOPES = {"PushPop": "thread", "StartEnd": "process"}
# The most functions to list. Each costs a pass over the ranges, and no program spends much time in more functions.
_MOST_FUNCTIONS = 64


def range_api_table(evidence: RangeEvidence, families: tuple[pd.DataFrame, Int64s]) -> pd.DataFrame:
    """Return the rows of range_api.csv, the longest total first.

    A call inside nested ranges of one name counts once.

    families: the names of ranges with their counters folded, and the position of each group's name among them.
    """
    calls, ranges = evidence.tables.calls, evidence.attributed.ranges
    if calls is None or len(calls) == 0 or len(ranges) == 0:
        return empty_table(RANGE_API)
    keys, family = families
    of_instance = family[evidence.group]
    names = call_names(evidence.tables, plain_call_name)
    number = names.of_variant.astype(np.int64)
    parts = []
    for name in _largest(calls, number, len(names.texts)):
        rows = np.flatnonzero((number == name)[calls.variant]).astype(np.int32)
        owner, count, total = _sum_by_family(rows, calls, ranges, of_instance, len(keys))
        parts.append(pd.DataFrame({"family": owner, "name": names.texts[name], "calls": count, "total_ns": total}))
    table = pd.concat(parts, ignore_index=True)
    wall = np.bincount(of_instance, (ranges["end_ns"] - ranges["start_ns"]).to_numpy(dtype=np.float64), len(keys))
    place = table["family"].to_numpy(dtype=np.int64)
    for column in ("range", "style", "domain"):
        table[column] = keys[column].to_numpy(dtype=object)[place]
    share = 100 * table["total_ns"].to_numpy(dtype=np.float64) / np.where(wall > 0, wall, np.nan)[place]
    # Calls of several threads may add up to more than the range.
    table["wall_pct"] = np.where((table["style"] == "PushPop").to_numpy(dtype=bool), share, np.nan)
    table = table.sort_values("total_ns", ascending=False, kind="stable").reset_index(drop=True)
    return table[list(RANGE_API.names)]


def _largest(calls: Calls, number: Int64s, count: int) -> list[int]:
    """Return the numbers of the functions with the most total time."""
    total = np.bincount(number[calls.variant], calls.duration_ns, count)
    called = np.flatnonzero(np.bincount(number[calls.variant], minlength=count))
    found: list[int] = called[np.argsort(-total[called], kind="stable")][:_MOST_FUNCTIONS].tolist()
    return found


def _sum_by_family(
    rows: Ints, calls: Calls, ranges: pd.DataFrame, of_instance: Int64s, families: int
) -> tuple[Int64s, Int64s, Int64s]:
    """Return the families that enclose any of these calls, how many calls each encloses, and their total time (ns)."""
    ordered = order_work(rows, calls)
    count, total = np.zeros(families, np.int64), np.zeros(families, np.int64)
    for style, scope in _SCOPES.items():
        found = attribute_work(ordered[scope], ranges, style)
        if len(found.instance) == 0:
            continue
        sums = np.concatenate(([0], np.cumsum(calls.duration_ns[rows[found.order]], dtype=np.int64)))
        owner, low, high = merge(of_instance[found.instance], found.low, found.high)
        np.add.at(count, owner, high - low)
        np.add.at(total, owner, sums[high] - sums[low])
    known = np.flatnonzero(count)
    return known, count[known], total[known]
