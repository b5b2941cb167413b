"""Count the kernels that a range launched itself and not in an inner range."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from nsysprof.analysis.attribution.attribute import expand
from nsysprof.analysis.attribution.duration_statistics import sum_by
from nsysprof.analysis.attribution.nesting import nesting_levels
from nsysprof.analysis.ranges.range_evidence import RangeEvidence
from nsysprof.trace.schema import Int64s

_ROWS_AT_ONCE = 1 << 21


def count_exclusive(evidence: RangeEvidence, inclusive: Mapping[str, Int64s]) -> dict[str, Int64s]:
    """Return by group the number and total time (ns) of kernels whose innermost push/pop range is of the group.

    inclusive: the same numbers for all kernels that the group launched.
    """
    segments, groups, work = evidence.attributed.segments["PushPop"], evidence.groups, evidence.work
    level = nesting_levels(evidence.attributed.ranges)[segments.instance]
    if not level.any():
        return {f"exclusive_{column}": inclusive[column] for column in ("kernel_count", "kernel_total_ns")}
    innermost = np.full(len(segments.order), -1, dtype=np.int32)
    # Levels are written from the outermost to the innermost, so that inner ranges overwrite outer ones. Ranges of one
    # level of a thread do not overlap.
    for depth in range(int(level.max()) + 1 if len(level) else 0):
        chosen = level == depth
        which, position = expand(segments.low[chosen], segments.high[chosen])
        innermost[position] = segments.instance[chosen].astype(np.int32)[which]
    group_of = evidence.group.astype(np.int32)
    count, total = np.zeros(groups, np.int64), np.zeros(groups, np.int64)
    for begin in range(0, len(innermost), _ROWS_AT_ONCE):
        some = innermost[begin : begin + _ROWS_AT_ONCE]
        row = segments.order[begin : begin + _ROWS_AT_ONCE]
        kernel = (some >= 0) & (row < work.kernels)
        group, row = group_of[some[kernel]], row[kernel]
        count += np.bincount(group, minlength=groups)
        total += sum_by(group, work.duration_ns[row], groups)
    return {"exclusive_kernel_count": count, "exclusive_kernel_total_ns": total}
