"""Compute the columns of DRAM traffic while the work of each range ran."""

from __future__ import annotations

import numpy as np
import pandas as pd

from nsysprof.analysis.ranges.range_evidence import RangeEvidence
from nsysprof.analysis.traffic.dram import DramTraffic, dram_in_groups
from nsysprof.trace.schema import Int64s

_COLUMNS = ("dram_read_bytes", "dram_write_bytes", "dram_read_error_bytes", "dram_write_error_bytes")


def add_traffic(table: pd.DataFrame, evidence: RangeEvidence, first_ns: Int64s, last_ns: Int64s) -> DramTraffic | None:
    """Write the columns of DRAM traffic, and return the traffic of the groups with work; None without counters.

    first_ns, last_ns: when the work of each instance began and ended.
    """
    found = _measure(evidence, first_ns, last_ns)
    for column in _COLUMNS:
        table[column] = pd.array([pd.NA] * len(table), dtype="Int64")
        if found is not None:
            groups, traffic = found
            known = traffic.known
            table.loc[groups[known], column] = getattr(traffic, column.removeprefix("dram_"))[known]
    return None if found is None else found[1]


def _measure(evidence: RangeEvidence, first_ns: Int64s, last_ns: Int64s) -> tuple[Int64s, DramTraffic] | None:
    """Return the groups that have work, and their DRAM traffic while it ran."""
    chosen = np.flatnonzero(last_ns > first_ns)
    if evidence.metrics is None or len(chosen) == 0:
        return None
    groups, number = np.unique(evidence.group[chosen], return_inverse=True)
    pid = evidence.attributed.ranges["global_pid"].to_numpy(dtype=np.int64)[chosen]
    used = np.unique(evidence.work.variants[:, 1:3], axis=0)
    start, end = first_ns[chosen], last_ns[chosen]
    return groups, dram_in_groups(evidence.metrics, start, end, number, len(groups), pid, used)
