"""Sum up what the ranges of each name launched, a part at a time."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd

from nsysprof.analysis.attribution.attribute import expand, merge
from nsysprof.analysis.attribution.attributed_ranges import Attributed
from nsysprof.analysis.attribution.duration_statistics import sum_by, summarize_durations
from nsysprof.analysis.attribution.intervals import union_ns
from nsysprof.analysis.kernel_names.variant_names import Names
from nsysprof.analysis.ranges.name_kernels import name_kernels
from nsysprof.analysis.ranges.range_evidence import RangeEvidence
from nsysprof.errors import TraceForeignError
from nsysprof.results.analysis import RANGE_KERNEL_COLUMNS
from nsysprof.trace.schema import COPY, FILL, Bools, Int64s, Ints, Rows, Work

_COLUMNS = ("gpu_busy_ns", "kernel_total_ns", "kernel_count", "memcpy_bytes", "memset_bytes")
_ROWS_AT_ONCE = 1 << 21
# The most pairs of a range's name and a kernel's name: these for each piece of work, and some more. A program has about
# one for each launch where every step has a name of its own.
_MOST_PAIRS, _FREE_PAIRS = 16, 1 << 18


@dataclass(frozen=True)
class LaunchedWork:
    """What ranges launched: sums by group for each of several columns, and the kernels (RANGE_KERNEL_COLUMNS)."""

    sums: dict[str, Int64s]
    kernels: pd.DataFrame


def sum_launched(evidence: RangeEvidence, pool: Executor) -> LaunchedWork:
    """Return what the ranges of each group launched; work inside nested ranges of one group counts once.

    gpu_busy_ns is the union of the work on each device, added over devices. Raises TraceForeignError for a trace that
    was made to have a table of kernels by range many times its own size.
    """
    most = _MOST_PAIRS * len(evidence.work.start_ns) + _FREE_PAIRS
    sums = {column: np.zeros(evidence.groups, dtype=np.int64) for column in _COLUMNS}
    kernels = []
    for some, part in pool.map(partial(_summarize_part, evidence.work, evidence.names), _by_group(evidence.attributed)):
        kernels.append(part)
        if sum(map(len, kernels)) > most:
            raise TraceForeignError(
                "Each range of this trace holds the kernels of almost all others, under names of their own; no program "
                "does that.",
                "Export the report again, or record fewer ranges.",
            )
        for column, values in some.items():
            sums[column] += values
    if not kernels:
        return LaunchedWork(sums, pd.DataFrame(columns=list(RANGE_KERNEL_COLUMNS)))
    table = pd.concat(kernels).sort_values("group", kind="stable")
    return LaunchedWork(sums, name_kernels(table, evidence, RANGE_KERNEL_COLUMNS))


@dataclass(frozen=True)
class _WorkOfGroups:
    """The work that the ranges of each name launched, each piece once: group and row of work, sorted by group."""

    group: Rows
    row: Rows
    edges: Int64s

    def sums(self, values: Ints | Bools) -> Int64s:
        """Return the sum of `values`, one per entry, by group."""
        total = np.zeros(len(self.edges) - 1, dtype=np.int64)
        filled = np.flatnonzero(self.edges[1:] > self.edges[:-1])
        if len(filled):
            total[filled] = np.add.reduceat(values, self.edges[:-1][filled], dtype=np.int64)
        return total


@dataclass(frozen=True)
class _Part:
    """Stretches of `order` that become _WorkOfGroups when they are loaded, in the thread that needs them."""

    order: Rows
    group: Int64s
    low: Int64s
    high: Int64s
    groups: int

    def load(self) -> _WorkOfGroups:
        which, position = expand(self.low, self.high)
        owner = self.group.astype(np.int32)[which]
        return _WorkOfGroups(owner, self.order[position], np.searchsorted(owner, np.arange(self.groups + 1)))


def _by_group(attributed: Attributed) -> Iterator[_Part]:
    """Yield some groups at a time, because all together would hold the trace twice. No group is split."""
    group_of = attributed.ranges["group"].to_numpy(dtype=np.int64)
    for segments in attributed.segments.values():
        group, low, high = merge(group_of[segments.instance], segments.low, segments.high)
        reached = np.cumsum(high - low)
        # A part ends with a group, so that its size is bounded unless one group alone is larger.
        portion = (reached[np.searchsorted(group, group, "right") - 1] // _ROWS_AT_ONCE) if len(group) else reached
        for number in np.unique(portion):
            part = slice(*np.searchsorted(portion, [number, number + 1]))
            yield _Part(segments.order, group[part], low[part], high[part], len(attributed.keys))


def _summarize_part(work: Work, names: Names, part: _Part) -> tuple[dict[str, Int64s], pd.DataFrame]:
    mine = part.load()
    return _sums(work, mine), _kernels(work, mine, names)


def _sums(work: Work, part: _WorkOfGroups) -> dict[str, Int64s]:
    start, duration = work.start_ns[part.row], work.duration_ns[part.row]
    found = {"gpu_busy_ns": _busy(work, part, start, duration)}
    is_kernel = part.row < work.kernels
    others = np.flatnonzero(~is_kernel)
    kind = work.kinds(part.row[others])
    found["kernel_count"] = part.sums(is_kernel)
    duration[others] = 0
    found["kernel_total_ns"] = part.sums(duration)
    groups = len(part.edges) - 1
    for column, which in (("memcpy_bytes", COPY), ("memset_bytes", FILL)):
        chosen = others[kind == which]
        size = work.bytes[part.row[chosen] - work.kernels]
        found[column] = sum_by(part.group[chosen], size, groups)
    return found


def _busy(work: Work, part: _WorkOfGroups, start: Int64s, duration: Ints) -> Int64s:
    groups = len(part.edges) - 1
    if len(part.row) == 0:
        return np.zeros(groups, np.int64)
    ids, code = np.unique(work.device_of, return_inverse=True)
    cell = part.group if len(ids) == 1 else part.group * len(ids) + code[work.variant[part.row]]
    length = union_ns(start, duration, cell)
    whole = np.zeros(groups * len(ids), np.int64)
    whole[: len(length)] = length
    busy: Int64s = whole.reshape(groups, len(ids)).sum(axis=1, dtype=np.int64)
    return busy


def _kernels(work: Work, part: _WorkOfGroups, names: Names) -> pd.DataFrame:
    """Return durations by (group, number of the name)."""
    is_kernel = part.row < work.kernels
    group, row = (part.group, part.row) if is_kernel.all() else (part.group[is_kernel], part.row[is_kernel])
    width = max(1, len(names.texts))
    table = summarize_durations(work.duration_ns[row], group * np.int64(width) + names.numbers(work.variant[row]))
    table["group"], table["number"] = table.index // width, table.index % width
    return table
