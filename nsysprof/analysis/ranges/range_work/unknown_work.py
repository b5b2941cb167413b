"""Find ranges whose GPU work cannot be known: replayed graphs hide it, or the profiler lost it."""

from __future__ import annotations

import numpy as np
import pandas as pd

from nsysprof.analysis.attribution.attributed_ranges import instances_of_calls
from nsysprof.analysis.attribution.calls import capture_windows
from nsysprof.analysis.ranges.range_evidence import RangeEvidence
from nsysprof.analysis.ranges.range_launches import RangeLaunches
from nsysprof.trace.schema import PID_MASK, Bools, Int64s

_NO_KERNELS = ["kernel_count", "kernel_total_ns", "exclusive_kernel_count", "exclusive_kernel_total_ns"]
_NO_WORK = [*_NO_KERNELS, "gpu_busy_ns", "all_busy_ns", "projected_ns"]
_ALL = ["all_busy_ns", "caused_memcpy_bytes", "caused_memset_bytes"]
_CAPTURED = ["captured_kernel_count", "captured_kernel_total_ns"]


def find_opaque(evidence: RangeEvidence) -> tuple[Bools, Bools]:
    """Return for each instance whether replayed graphs make its kernels unknown, and whether all its GPU work."""
    found = np.zeros((2, len(evidence.group)), dtype=bool)
    for mask, calls in zip(found, evidence.replays, strict=True):
        mask[instances_of_calls(evidence.tables, evidence.attributed, calls)] = True
    return found[0], found[1]


def blank_unknown(
    table: pd.DataFrame, evidence: RangeEvidence, opaque: tuple[Bools, Bools], launches: RangeLaunches
) -> None:
    """Blank the columns of the table of ranges that cannot be known, as far as it has them.

    These are kernels of graphs that were recorded as wholes, and work that left no record.
    """
    kernels, work = (np.bincount(evidence.group[mask], minlength=len(table)) > 0 for mask in opaque)
    table.loc[kernels, _present(_NO_KERNELS, table)] = pd.NA
    table.loc[work | launches.is_lost, _present(_NO_WORK, table)] = pd.NA
    if _hides_kernels(evidence):
        table.loc[_capturing_groups(evidence), _present([*_CAPTURED, *_ALL], table)] = pd.NA


def blank_instances(
    instances: pd.DataFrame, evidence: RangeEvidence, opaque: tuple[Bools, Bools], launches: RangeLaunches
) -> None:
    """Blank in the table of instances what blank_unknown blanks in the table of ranges."""
    order = evidence.listed
    instances.loc[opaque[0][order], _present(_NO_KERNELS, instances)] = pd.NA
    lost = (opaque[1] | launches.is_lost_instance)[order]
    instances.loc[lost, [*_present(_NO_WORK, instances), "gpu_idle_ns"]] = pd.NA
    if _hides_kernels(evidence):
        instances.loc[np.isin(evidence.group[order], _capturing_groups(evidence)), _CAPTURED] = pd.NA


def _present(columns: list[str], table: pd.DataFrame) -> list[str]:
    return [column for column in columns if column in table]


def _hides_kernels(evidence: RangeEvidence) -> bool:
    """Return whether any graph was replayed whose kernels are unknown."""
    return any(len(calls) for calls in evidence.replays)


def _capturing_groups(evidence: RangeEvidence) -> Int64s:
    """Return the groups of ranges during which their process captured a stream. They may have created nodes."""
    tables, ranges = evidence.tables, evidence.attributed.ranges
    begin, end, pid = (ranges[column].to_numpy(dtype=np.int64) for column in ("start_ns", "end_ns", "global_pid"))
    found = np.zeros(len(ranges), dtype=bool)
    for start, stop, tid in capture_windows(tables, tables.calls) if tables.calls is not None else ():
        found |= (begin < stop) & (end > start) & (pid == tid & PID_MASK)
    return np.unique(evidence.group[found])
