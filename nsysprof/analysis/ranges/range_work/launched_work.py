"""Sum up what the ranges of each name launched: counts, times, bytes, and kernels by name."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Executor
from dataclasses import dataclass

import numpy as np
import pandas as pd

from nsysprof.analysis.attribution.attribute import expand, merge
from nsysprof.analysis.attribution.duration_statistics import OwnedDurations, summarize_durations
from nsysprof.analysis.attribution.work_stretches import OrderedWork, add_up, parts_of_owners
from nsysprof.analysis.kernel_names.variant_names import Names
from nsysprof.analysis.ranges.range_evidence import RangeEvidence
from nsysprof.analysis.ranges.range_work.name_kernels import name_kernels
from nsysprof.errors import TraceForeignError
from nsysprof.results.analysis import RANGE_KERNEL_COLUMNS
from nsysprof.trace.schema import COPY, FILL, KERNEL, Int64s, Ints

_COLUMNS = ("gpu_busy_ns", "kernel_total_ns", "kernel_count", "memcpy_bytes", "memset_bytes")
# The most pairs of a range's name and a kernel's name: this many for each piece of work, plus a constant. A program in
# which every step has its own name has about one pair per launch.
_MOST_PAIRS, _FREE_PAIRS = 16, 1 << 18


def sum_launched(evidence: RangeEvidence, ordered: dict[str, OrderedWork]) -> dict[str, Int64s]:
    """Return sums over what each group of ranges launched, by column. Work in nested ranges of one group counts once.

    gpu_busy_ns is the union of the work on each device, added over devices.
    """
    sums = {column: np.zeros(evidence.groups, dtype=np.int64) for column in _COLUMNS}
    for style, stretches in _stretches(evidence):
        for column, values in _sums(ordered[style], *stretches, evidence.groups).items():
            sums[column] += values
    return sums


def list_kernels(evidence: RangeEvidence, pool: Executor) -> pd.DataFrame:
    """Return the kernels that the ranges of each group launched, with RANGE_KERNEL_COLUMNS.

    Raises TraceForeignError for a trace that was made so that this table is many times its own size.
    """
    most = _MOST_PAIRS * len(evidence.work.start_ns) + _FREE_PAIRS
    kernels: list[pd.DataFrame] = []
    for style, stretches in _stretches(evidence):
        work = OrderedWork(evidence.work, evidence.attributed.segments[style].order)
        for part in _summarize(work, evidence.names, stretches, pool):
            kernels.append(part)
            if sum(map(len, kernels)) > most:
                raise TraceForeignError(
                    "Each range of this trace holds the kernels of almost all others, under names of their own; no "
                    "program does that.",
                    "Export the report again, or record fewer ranges.",
                )
    if not kernels:
        return pd.DataFrame(columns=list(RANGE_KERNEL_COLUMNS))
    table = pd.concat(kernels).sort_values("group", kind="stable")
    return name_kernels(table, evidence, RANGE_KERNEL_COLUMNS)


def _summarize(
    work: OrderedWork, names: Names, stretches: tuple[Int64s, Int64s, Int64s], pool: Executor
) -> Iterator[pd.DataFrame]:
    """Yield statistics of durations by group and number of the kernel's name, some groups at a time."""
    places = work.work
    kernels = np.where(places.kind_of == KERNEL, names.of_variant, -1)
    owned = OwnedDurations(
        *stretches, work.order, places.duration_ns, places.variant, kernels, max(1, len(names.texts))
    )
    found = owned.summarize()
    if found is None:
        yield from pool.map(_Kernels.summarize, _parts(work, names, *stretches))
        return
    for each in found:
        table = each.rename(columns={"owner": "group", "name": "number"})
        yield table.iloc[np.lexsort((-table["total_ns"].to_numpy(), table["group"].to_numpy()))]


def _stretches(evidence: RangeEvidence) -> Iterator[tuple[str, tuple[Int64s, Int64s, Int64s]]]:
    """Yield the stretches of work of the groups (group, low, high) by style of range, without styles that have none."""
    for style, segments in evidence.attributed.segments.items():
        stretches = merge(evidence.group[segments.instance], segments.low, segments.high)
        if len(stretches[0]):
            yield style, stretches


def _sums(work: OrderedWork, group: Int64s, low: Int64s, high: Int64s, groups: int) -> dict[str, Int64s]:
    """Return the sums over the stretches of each group."""
    first, last = work.of_kernels(low), work.of_kernels(high)
    busy = np.zeros(groups, dtype=np.int64)
    for device in work.devices:
        busy += device.busy(group, *device.stretches(low, high), groups)
    return {
        "gpu_busy_ns": busy,
        "kernel_count": add_up(group, last - first, groups),
        "kernel_total_ns": add_up(group, work.kernel_ns(first, last), groups),
        "memcpy_bytes": add_up(group, work.bytes_of(COPY, low, high), groups),
        "memset_bytes": add_up(group, work.bytes_of(FILL, low, high), groups),
    }


@dataclass(frozen=True)
class _Kernels:
    """Stretches of kernels of some groups, with the names and durations of all kernels in order of their calls."""

    duration_ns: Ints
    # The number of each kernel's name, and how many names there are.
    number: Ints
    names: int
    group: Int64s
    low: Int64s
    high: Int64s

    def summarize(self) -> pd.DataFrame:
        """Return statistics of durations by group and number of the kernel's name."""
        # Codes start at the first of these groups, so that they stay small.
        least = int(self.group[0])
        group = (self.group - least) * self.names
        narrow = int(group[-1]) + self.names < 1 << 31
        code = np.repeat(group.astype(np.int32 if narrow else np.int64), self.high - self.low)
        place = expand(self.low, self.high)[1]
        code += self.number[place]
        duration = self.duration_ns[place]
        del place  # one group may have all kernels of the trace
        table = summarize_durations(duration, code)
        table["group"], table["number"] = table.index // self.names + least, table.index % self.names
        return table


def _parts(work: OrderedWork, names: Names, group: Int64s, low: Int64s, high: Int64s) -> Iterator[_Kernels]:
    """Yield the kernels of some groups at a time: those of all groups are several times as large as the trace."""
    rows = work.kernel_rows
    low, high = work.of_kernels(low), work.of_kernels(high)
    filled = high > low
    group, low, high = group[filled], low[filled], high[filled]
    duration, number = work.work.duration_ns[rows], names.numbers(work.work.variant[rows])
    for part in parts_of_owners(group, low, high):
        yield _Kernels(duration, number, max(1, len(names.texts)), group[part], low[part], high[part])
