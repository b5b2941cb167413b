"""Make the table of the CUDA API calls in which the threads of each range spent their time."""

from __future__ import annotations

import numpy as np
import pandas as pd

from nsysprof.analysis.attribution.attribute import SCOPES, attribute_work, merge, order_work
from nsysprof.analysis.attribution.work_stretches import running_sum
from nsysprof.analysis.ranges.counted_calls import CalledFunctions, CountedCalls
from nsysprof.analysis.ranges.range_evidence import RangeEvidence
from nsysprof.arrays import find_places
from nsysprof.results.column_registry.analysis_columns import RANGE_API
from nsysprof.results.column_registry.csv_table import empty_table
from nsysprof.trace.schema import PID_MASK, Calls, Int64s, Ints, Rows

_CALLS_AT_ONCE = 1 << 22
_FEW_OWNERS = 8
# The family, and from which place up to which other one it has the calls of an order.
Stretches = tuple[Int64s, Int64s, Int64s]


def range_api_table(
    evidence: RangeEvidence,
    families: tuple[pd.DataFrame, Int64s],
    functions: CalledFunctions,
    counted: CountedCalls | None = None,
) -> pd.DataFrame:
    """Return the rows of range_api.csv, the longest total first.

    A call inside nested ranges of one name counts once.

    families: the names of ranges with their counters folded, and the position of each group's name among them.
    functions: the functions to list.
    counted: the result of count_calls.
    """
    calls, ranges = evidence.tables.calls, evidence.attributed.ranges
    if calls is None or len(calls) == 0 or len(ranges) == 0:
        return empty_table(RANGE_API)
    keys, family = families
    of_instance = family[evidence.group]
    if counted is None:
        count, total = _sum_by_family(calls, functions.of_variant, functions.chosen, ranges, of_instance, len(keys))
    else:
        count, total = counted.calls, counted.total_ns
    parts = []
    for function, name in enumerate(functions.chosen):
        owner = np.flatnonzero(count[function])
        sums = {"calls": count[function][owner], "total_ns": total[function][owner]}
        parts.append(pd.DataFrame({"family": owner, "name": functions.texts[name], **sums}))
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


def _sum_by_family(
    calls: Calls, number: Ints, functions: list[int], ranges: pd.DataFrame, of_instance: Int64s, families: int
) -> tuple[Int64s, Int64s]:
    """Return how many calls of each function each family encloses, and their total time (ns): (functions, families).

    Unless there are many threads, their calls are looked at one thread after the other, and not all at once: that takes
    less memory. Each call is within the same ranges whichever others are looked at.
    """
    count, total = np.zeros((2, len(functions), families), np.int64)
    for style, scope in SCOPES.items():
        mask = -1 if scope == "thread" else PID_MASK
        chosen = (ranges["style"] == style).to_numpy(dtype=bool)
        owners = np.unique(ranges["global_tid"].to_numpy(dtype=np.int64)[chosen] & mask)
        for some in np.split(owners, len(owners)) if 0 < len(owners) <= _FEW_OWNERS else [owners]:
            its = np.isin(calls.tid_of & mask, some)
            for low in range(0, len(calls), _CALLS_AT_ONCE):
                part = slice(low, low + _CALLS_AT_ONCE)
                rows = np.flatnonzero(its[calls.variant[part]]).astype(np.int32) + np.int32(low)
                if len(rows) == 0:
                    continue
                found = attribute_work(order_work(rows, calls, [scope])[scope], ranges, style)
                stretches = merge(of_instance[found.instance], found.low, found.high)
                _add_functions(count, total, rows[found.order], calls, number, functions, stretches)
    return count, total


def _add_functions(
    count: Int64s, total: Int64s, rows: Rows, calls: Calls, number: Ints, functions: list[int], stretches: Stretches
) -> None:
    """Add what the calls of each function within the stretches are to both sums."""
    of_row, owner = number[calls.variant[rows]], stretches[0]
    low, high = (place.astype(np.int32) for place in stretches[1:])
    for place, function in enumerate(functions):
        mine = np.flatnonzero(of_row == function).astype(np.int32)
        if len(mine) == 0:
            continue
        sums = running_sum(calls.duration_ns[rows[mine]])
        first, last = find_places(mine, low), find_places(mine, high)
        np.add.at(count[place], owner, last - first)
        np.add.at(total[place], owner, sums[last] - sums[first])
