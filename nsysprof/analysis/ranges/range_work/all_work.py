"""Sum up all work of a range: what it launched, adopted from helper threads, and captured into CUDA graphs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from nsysprof.analysis.attribution.attribute import expand, merge
from nsysprof.analysis.attribution.caused_work import CausedWork
from nsysprof.analysis.attribution.intervals import union_ns
from nsysprof.analysis.ranges.range_evidence import RangeEvidence
from nsysprof.trace.schema import COPY, FILL, Int64s, Rows, Work

_OF_RANGES = ("all_busy_ns", "caused_memcpy_bytes", "caused_memset_bytes")
_OF_INSTANCES = ("captured_kernel_count", "captured_kernel_total_ns")


@dataclass(frozen=True)
class _Lists:
    """Lists of numbers by key, from pairs."""

    keys: Int64s
    edges: Int64s
    values: Int64s

    @classmethod
    def of(cls, key: Int64s, value: Int64s) -> _Lists:
        order = np.argsort(key, kind="stable")
        keys, first = np.unique(key[order], return_index=True)
        return cls(keys, np.append(first, len(key)), value[order])

    def get(self, key: int) -> Int64s:
        """Return the numbers of a key, none for one without."""
        at = int(np.searchsorted(self.keys, key))
        if at == len(self.keys) or self.keys[at] != key:
            return self.values[:0]
        return self.values[self.edges[at] : self.edges[at + 1]]

    def get_all(self, keys: Int64s) -> Int64s:
        """Return the numbers of several keys."""
        return np.concatenate([self.values[:0], *(self.get(key) for key in keys.tolist())])


def add_all_work(table: pd.DataFrame, instances: pd.DataFrame, evidence: RangeEvidence) -> None:
    """Write into both tables the busy time of all work of a range, and the copies, fills and kernels that it caused.

    A piece of work counts once in a range, whether it launched, adopted or captured it.
    """
    caused = evidence.caused
    columns = {name: np.zeros(evidence.groups, dtype=np.int64) for name in _OF_RANGES}
    of_instances = {name: np.zeros(len(evidence.group), dtype=np.int64) for name in _OF_INSTANCES}
    if caused is not None:
        columns["all_busy_ns"] = table["gpu_busy_ns"].fillna(0).to_numpy(dtype=np.int64).copy()
        _sum_groups(columns, evidence, caused)
        _sum_instances(of_instances, evidence, caused)
    for name, values in columns.items():
        table[name] = pd.arrays.IntegerArray(values, np.full(len(values), caused is None))
    for name, values in of_instances.items():
        instances[name] = pd.arrays.IntegerArray(values[evidence.listed], np.full(len(values), caused is None))


def _sum_groups(columns: dict[str, Int64s], evidence: RangeEvidence, caused: CausedWork) -> None:
    owner, row = caused.all_adopted_pairs(evidence.attributed.structure.parent)
    adopted = _Lists.of(evidence.group[owner], row)
    creators = _Lists.of(evidence.group[caused.creators[0]], caused.creators[1])
    nodes = _rows_of_nodes(caused)
    if len(adopted.keys) == len(creators.keys) == 0:
        return
    launched = _Launched(evidence)
    for group in np.union1d(adopted.keys, creators.keys).tolist():
        own = launched.of_group(group)
        more = np.concatenate((adopted.get(group), nodes.get_all(np.unique(creators.get(group)))))
        more = np.setdiff1d(more, own)
        if len(more):
            columns["all_busy_ns"][group] = _busy(evidence.work, np.concatenate((own, more)))
            for name, kind in (("caused_memcpy_bytes", COPY), ("caused_memset_bytes", FILL)):
                columns[name][group] = _bytes(evidence.work, more, kind)


def _sum_instances(columns: dict[str, Int64s], evidence: RangeEvidence, caused: CausedWork) -> None:
    work, nodes = evidence.work, _rows_of_nodes(caused)
    creators = _Lists.of(*caused.creators)
    if len(creators.keys) == 0:
        return
    launched = _Launched(evidence)
    for instance in creators.keys.tolist():
        rows = np.setdiff1d(nodes.get_all(creators.get(instance)), launched.of_instance(instance))
        rows = rows[rows < work.kernels]
        columns["captured_kernel_count"][instance] = len(rows)
        columns["captured_kernel_total_ns"][instance] = int(work.duration_ns[rows].sum(dtype=np.int64))


def _rows_of_nodes(caused: CausedWork) -> _Lists:
    """Return the rows of work that replayed each node."""
    none = np.zeros(0, dtype=np.int64)
    if caused.graph is None:
        return _Lists.of(none, none)
    known = caused.graph.node >= 0
    return _Lists.of(caused.graph.node[known], caused.graph.row[known].astype(np.int64))


class _Launched:
    """Which work ranges launched."""

    def __init__(self, evidence: RangeEvidence) -> None:
        self._by_group: list[tuple[Rows, Int64s, Int64s, Int64s]] = []
        self._by_instance: list[tuple[Rows, Int64s, Int64s, Int64s]] = []
        for segments in evidence.attributed.segments.values():
            merged = merge(evidence.group[segments.instance], segments.low, segments.high)
            self._by_group.append((segments.order, *merged))
            order = np.argsort(segments.instance, kind="stable")
            own = (segments.instance[order].astype(np.int64), segments.low[order], segments.high[order])
            self._by_instance.append((segments.order, *own))

    def of_group(self, group: int) -> Int64s:
        """Return the rows of work of a group, each once."""
        return _rows(self._by_group, group)

    def of_instance(self, instance: int) -> Int64s:
        """Return the rows of work of one instance."""
        return _rows(self._by_instance, instance)


def _rows(parts: list[tuple[Rows, Int64s, Int64s, Int64s]], key: int) -> Int64s:
    found = [np.zeros(0, dtype=np.int64)]
    for order, keys, low, high in parts:
        part = slice(*np.searchsorted(keys, [key, key + 1]))
        _, position = expand(low[part], high[part])
        found.append(order[position].astype(np.int64))
    return np.concatenate(found)


def _busy(work: Work, rows: Int64s) -> int:
    """Return the union of the work on each device, added over devices (ns)."""
    _, code = np.unique(work.device_of[work.variant[rows]], return_inverse=True)
    return int(union_ns(work.start_ns[rows], work.duration_ns[rows], code).sum())


def _bytes(work: Work, rows: Int64s, kind: int) -> int:
    others = rows[rows >= work.kernels]
    return int(work.bytes[others[work.kinds(others) == kind] - work.kernels].sum(dtype=np.int64))
