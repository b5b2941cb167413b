"""Give every busy nanosecond of a device to one category of work, for the whole trace and for each range."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from nsysprof.analysis.attribution.attribute import Attributed, merge, refuse_many_pairs
from nsysprof.analysis.attribution.caused_work import CausedWork
from nsysprof.analysis.attribution.intervals import measure, overlapping
from nsysprof.analysis.attribution.work_stretches import add_up, running_sum
from nsysprof.analysis.busy_time.kernel_needs import KernelNeeds
from nsysprof.analysis.kernel_names.variant_names import Names
from nsysprof.arrays import count_codes, different, find_places
from nsysprof.kernels.names import CATEGORIES, UNITS, kind_of
from nsysprof.results.column_registry.analysis_columns import WORK
from nsysprof.trace.schema import COPY, FILL, GRAPH, KERNEL, MIGRATION, Bools, Int64s, Ints, Rows, Tables, Work

# Where several run at once, the time counts for computation, and for these only where nothing computes.
_BEHIND = ("communication", "wait")
_SUMS = ("busy_ns", "kernel_count", "kernel_total_ns")
_FLOORS = ("flops", "least_bytes", "floor_ns")
# What is known of the needs of kernels, and how much of the kernels' time (ns) it is known for.
_ALL_SUMS = (*_SUMS, *_FLOORS, *(f"{column}_of_ns" for column in _FLOORS))
# Sums are known where this share of the kernels' time is.
_LEAST_KNOWN = 0.9
# The most rows of work.csv for each piece of work.
_MOST_ROWS = 8
# The kinds of work that are no kernels.
_OTHER_KINDS = ((COPY, "copy", "memory"), (FILL, "fill", "memory"), (GRAPH, "graph", "other"))


@dataclass(frozen=True)
class Owned:
    """How much of each piece of work counts, and what it is, as columns of the work's rows."""

    busy_ns: Ints
    # The number of its pair of category and unit; -1 for migrations, which are not counted.
    kind: Ints
    # The category and the unit of each number.
    kinds: tuple[tuple[str, str], ...]


def own_time(tables: Tables, names: Names, in_optimizer: Bools | None = None) -> Owned:
    """Return how much of each piece of work's time counts for it.

    Of several that run at once on a device, computation counts before communication, and then the one that began
    first. So the sum over the work of a device is the time in which it was busy.

    in_optimizer: which work is an optimizer's, whatever its name says; None for none.
    """
    kind_of_variant, kinds = _kinds(tables, names)
    work = tables.work
    kind = kind_of_variant[work.variant]
    if in_optimizer is not None:
        kind[in_optimizer] = kinds.index(("optimizer", "memory"))
    is_behind = np.array([category in _BEHIND for category, _ in kinds] + [False], dtype=np.bool_)[kind_of_variant]
    busy = work.duration_ns.copy()
    busy[work.kernels :][work.kinds(slice(work.kernels, None)) == MIGRATION] = 0
    for device in np.unique(work.device_of).tolist():
        rows = work.rows_by_start((work.device_of == device) & (kind_of_variant >= 0))
        # What overlaps nothing has all of its time.
        rows = rows[overlapping(work.start_ns[rows], work.duration_ns[rows])]
        is_late = is_behind[work.variant[rows]]
        rows, behind = rows[~is_late], rows[is_late]
        start, end = _own(work, rows)
        busy[rows] = end - start
        if len(behind):
            low, high = _own(work, behind)
            computed = end > start
            busy[behind] = (high - low) - measure(start[computed], end[computed], low, high)[0]
    return Owned(busy, kind, kinds)


def _kinds(tables: Tables, names: Names) -> tuple[Ints, tuple[tuple[str, str], ...]]:
    """Return the number of each variant's category and unit, and these in the order of CATEGORIES."""
    work = tables.work
    pairs = [(category, unit) for category in CATEGORIES for unit in UNITS]
    number = {pair: place for place, pair in enumerate(pairs)}
    of_text = [number[kind.category, kind.unit] for kind in map(kind_of, map(str, names.texts))]
    of_variant = np.array([*of_text, -1], dtype=np.int16)[np.where(work.kind_of == KERNEL, names.of_variant, -1)]
    for code, category, unit in _OTHER_KINDS:
        of_variant[work.kind_of == code] = number[category, unit]
    of_variant[work.kind_of == MIGRATION] = -1
    return of_variant, tuple(pairs)


def _own(work: Work, rows: Rows) -> tuple[Int64s, Int64s]:
    """Return from when to when each row of work is the first of those that run. Nothing is empty: its end is its start.

    rows: in the order of their starts.
    """
    start, end = work.start_ns[rows], work.ends_ns(rows)
    reached = np.maximum.accumulate(end)
    np.maximum(start[1:], reached[:-1], out=start[1:])
    return start, np.maximum(end, start, out=end)


def tabulate_work(
    tables: Tables,
    names: Names,
    attributed: Attributed,
    caused: CausedWork | None,
    needs: KernelNeeds | None = None,
    in_optimizer: Bools | None = None,
) -> pd.DataFrame:
    """Return the rows of work.csv: those of devices first, then those of ranges.

    A range has the work that it launched or adopted. Work of a range inside another belongs to both.

    caused: None where only what ranges launched is wanted.
    needs: what each kernel needs, where that is known.
    in_optimizer: as of own_time.
    """
    owned = own_time(tables, names, in_optimizer)
    cells = _Cells.of(tables, owned, needs)
    parts = [cells.sum_stretches(None, np.array([-1]), np.array([0]), np.array([len(cells.cell)]))]
    names_of_groups = attributed.keys["name"].tolist()
    if names_of_groups:
        group = attributed.ranges["group"].to_numpy(dtype=np.int64)
        for segments in attributed.segments.values():
            stretches = merge(group[segments.instance], segments.low, segments.high)
            parts.append(cells.sum_stretches(segments.order, *stretches))
        if caused is not None:
            parts.append(cells.sum_stretches(*caused.adopted_stretches(attributed.structure.parent, group)))
    table = pd.concat(parts, ignore_index=True)
    table["range"] = ["" if group < 0 else names_of_groups[group] for group in table["group"].tolist()]
    keys = ["device_id", "range", "category", "unit"]
    table = table.groupby(keys, sort=False, as_index=False)[list(cells.sums)].sum()
    table = table[(table["busy_ns"] > 0) | (table["kernel_count"] > 0)]
    table["is_part"] = table["range"] != ""
    table = table.sort_values(
        ["is_part", "device_id", "range", "busy_ns"], ascending=[True, True, True, False], kind="stable"
    )
    for column in _FLOORS:
        if needs is None:
            table[column] = pd.array([pd.NA] * len(table), dtype="Int64")
            continue
        total = table["kernel_total_ns"]
        is_known = (total > 0) & (table[f"{column}_of_ns"] >= _LEAST_KNOWN * total)
        table[column] = table[column].astype("Int64").where(is_known)
    if needs is not None:
        # Kernels of less than half a nanosecond each are rounded to nothing.
        is_lost = (table["floor_ns"] == 0) & ((table["least_bytes"] > 0) | (table["flops"] > 0))
        table.loc[is_lost.fillna(False), "floor_ns"] = 1
    table["range"] = table["range"].replace("", None)
    return table[list(WORK.names)].reset_index(drop=True)


@dataclass(frozen=True)
class _Cells:
    """The work of a trace, where all work of one device, category and unit has one number."""

    # The number of each row of work; -1 for what is not counted.
    cell: Ints
    busy_ns: Ints
    duration_ns: Ints
    # How many of the rows are kernels.
    kernels: int
    # Device, category and unit of each number.
    keys: tuple[tuple[int, str, str], ...]
    needs: KernelNeeds | None = None

    @property
    def sums(self) -> tuple[str, ...]:
        """Return what is summed up."""
        return _SUMS if self.needs is None else _ALL_SUMS

    @classmethod
    def of(cls, tables: Tables, owned: Owned, needs: KernelNeeds | None = None) -> _Cells:
        """Return the numbers of the devices, categories and units that the trace has."""
        work = tables.work
        devices, device = np.unique(work.device_of, return_inverse=True)
        # A kernel of one name may run within an optimizer and elsewhere.
        most = len(devices) * len(owned.kinds)
        narrow = np.dtype(np.int16 if most < 1 << 15 else np.int32)
        pair = (device * len(owned.kinds)).astype(narrow)[work.variant]
        pair += owned.kind.astype(narrow)
        pair[owned.kind < 0] = most
        present = np.flatnonzero(count_codes(pair, most + 1)[:-1])
        number_of_pair = np.full(most + 1, -1, dtype=narrow)
        number_of_pair[present] = np.arange(len(present))
        keys = tuple((int(devices[at // len(owned.kinds)]), *owned.kinds[at % len(owned.kinds)]) for at in present)
        cell = number_of_pair[pair]
        return cls(cell, owned.busy_ns, work.duration_ns, work.kernels, keys, needs)

    def sum_stretches(self, order: Rows | None, group: Int64s, low: Int64s, high: Int64s) -> pd.DataFrame:
        """Return the sums over stretches of work by group and cell, those of one group not overlapping.

        order: the rows of work in which the stretches lie; None: as they are.
        """
        cell = self.cell if order is None else self.cell[order]
        bounds = different(np.concatenate((low, high)))
        first, last = find_places(bounds, low), find_places(bounds, high)
        groups, of = np.unique(group, return_inverse=True)
        tables = [self._table(groups[:0], (0, "", ""), [groups[:0]] * len(self.sums))]
        pairs = 0
        for number, key in enumerate(self.keys):
            place = np.flatnonzero(cell == number)
            before = np.searchsorted(place, bounds)
            rows_of_group = add_up(of, before[last] - before[first], len(groups))
            chosen = rows_of_group > 0
            if not chosen.any():
                continue
            rows = place if order is None else order[place]
            sums = []
            for value in self._values(rows):
                until = running_sum(value)[before]
                sums.append(add_up(of, until[last] - until[first], len(groups))[chosen])
            tables.append(self._table(groups[chosen], key, sums))
            pairs += int(np.count_nonzero(before[last] > before[first]))
            refuse_many_pairs(pairs, len(cell), _MOST_ROWS)
        return pd.concat(tables, ignore_index=True)

    def _values(self, rows: Ints) -> Iterator[Any]:
        """Yield what is summed up of some rows of work, one after the other."""
        is_kernel = rows < self.kernels
        yield self.busy_ns[rows]
        yield is_kernel
        yield np.where(is_kernel, self.duration_ns[rows], 0)
        yield from self._floors(rows, is_kernel)

    def _floors(self, rows: Ints, is_kernel: Bools) -> list[Any]:
        """Return what is known of the needs of some rows of work, and the time for which it is known."""
        if self.needs is None:
            return []
        kernel = np.where(is_kernel, rows, 0)
        known = [np.where(is_kernel, value[kernel] if len(value) else np.nan, np.nan) for value in self.needs.each]
        times = [np.where(np.isnan(value), 0, self.duration_ns[rows]).astype(np.int64) for value in known]
        return [*(np.rint(np.nan_to_num(value)).astype(np.int64) for value in known), *times]

    def _table(self, group: Int64s, key: tuple[int, str, str], sums: list[Int64s]) -> pd.DataFrame:
        device, category, unit = key
        table = pd.DataFrame({"group": group, "device_id": device, "category": category, "unit": unit})
        return table.assign(**dict(zip(self.sums, sums, strict=True)))
