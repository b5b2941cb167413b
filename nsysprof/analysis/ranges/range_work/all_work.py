"""Sum up all GPU work of a range: launched, adopted from helper threads, and captured into CUDA graphs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from nsysprof.analysis.attribution.attribute import expand, merge
from nsysprof.analysis.attribution.caused_work import CausedWork
from nsysprof.analysis.attribution.intervals import union_ns
from nsysprof.analysis.attribution.work_stretches import OrderedWork, add_up
from nsysprof.analysis.ranges.instances import RangeEvidence
from nsysprof.trace.schema import COPY, FILL, Int64s, Rows, Work

_BYTES = (("caused_memcpy_bytes", COPY), ("caused_memset_bytes", FILL))
_OF_RANGES = ("all_busy_ns", *(name for name, _ in _BYTES))
_OF_INSTANCES = ("captured_kernel_count", "captured_kernel_total_ns")
# Only push/pop ranges, which belong to a thread, wait for another thread.
_WAITING = "PushPop"
# Owners, and the first and last position of each one's work in an order.
Stretches = tuple[Int64s, Int64s, Int64s]


@dataclass(frozen=True)
class _Lists:
    """A list of numbers for each key, made from pairs."""

    keys: Int64s
    edges: Int64s
    values: Int64s

    @classmethod
    def of(cls, key: Int64s, value: Int64s) -> _Lists:
        order = np.argsort(key, kind="stable")
        keys, first = np.unique(key[order], return_index=True)
        return cls(keys, np.append(first, len(key)), value[order])

    def get(self, key: int) -> Int64s:
        """Return the numbers of a key; none for an unknown key."""
        at = int(np.searchsorted(self.keys, key))
        if at == len(self.keys) or self.keys[at] != key:
            return self.values[:0]
        return self.values[self.edges[at] : self.edges[at + 1]]

    def get_all(self, keys: Int64s) -> Int64s:
        """Return the numbers of several keys."""
        return np.concatenate([self.values[:0], *(self.get(key) for key in keys.tolist())])


@dataclass(frozen=True)
class AllWork:
    """The sums over launched and caused work: by column, one number for each group or each instance.

    Empty if not wanted.
    """

    of_ranges: dict[str, Int64s]
    of_instances: dict[str, Int64s]


def sum_all_work(evidence: RangeEvidence, busy_ns: Int64s, of_adopters: Mapping[str, Int64s]) -> AllWork:
    """Return the busy time of all work of each range, and the copies, fills and kernels that it caused.

    A piece of work counts once in a range, whether the range launched, adopted or captured it.

    busy_ns: the busy time of what each group launched. It holds for groups that caused nothing more.
    of_adopters: the same columns of groups that adopted work, and captured none; empty where there are none.
    """
    caused = evidence.caused
    columns = {name: np.zeros(evidence.groups, dtype=np.int64) for name in _OF_RANGES}
    of_instances = {name: np.zeros(len(evidence.group), dtype=np.int64) for name in _OF_INSTANCES}
    if caused is not None:
        columns["all_busy_ns"] = busy_ns.copy()
        creators = _Lists.of(evidence.group[caused.creators[0]], caused.creators[1])
        if of_adopters:
            groups = np.setdiff1d(_adopting_groups(evidence, caused), creators.keys)
            for name, values in of_adopters.items():
                columns[name][groups] = values[groups]
        if len(creators.keys):
            _sum_captured(columns, evidence, _adopted_stretches(evidence, caused), creators, caused)
        _sum_instances(of_instances, evidence, caused)
    return AllWork(columns, of_instances)


def add_all_work(table: pd.DataFrame, instances: pd.DataFrame, evidence: RangeEvidence, found: AllWork) -> None:
    """Write what sum_all_work found into both tables; unknown where only launches are wanted."""
    unknown = evidence.caused is None
    for name, values in found.of_ranges.items():
        table[name] = pd.arrays.IntegerArray(values, np.full(len(values), unknown))
    for name, values in found.of_instances.items():
        instances[name] = pd.arrays.IntegerArray(values[evidence.listed], np.full(len(values), unknown))


def _adopted_stretches(evidence: RangeEvidence, caused: CausedWork) -> Stretches:
    """Return what the ranges of each group adopted, as stretches (group, low, high) of each thread's calls.

    A helper launches its work without a break, so there are few stretches with much work each.
    """
    none = np.zeros(0, dtype=np.int64)
    rows = np.concatenate((caused.adopted_row, caused.other_row))
    if len(rows) == 0:
        return none, none, none
    order = evidence.attributed.segments[_WAITING].order
    place = np.zeros(len(evidence.work), dtype=np.int32)
    place[order] = np.arange(len(order), dtype=np.int32)
    at = place[rows]
    by_place = np.argsort(at, kind="stable")
    at, owner = at[by_place], np.concatenate((caused.adopted_owner, caused.other_owner))[by_place]
    fresh = np.ones(len(at), dtype=np.bool_)
    fresh[1:] = (owner[1:] != owner[:-1]) | (at[1:] != at[:-1] + 1)
    begins = np.flatnonzero(fresh)
    owner, low = owner[begins], at[begins].astype(np.int64)
    high = low + np.diff(np.append(begins, len(at)))
    found = []
    while len(owner):
        found.append((evidence.group[owner], low, high))
        above = evidence.attributed.structure.parent[owner]
        known = above >= 0
        owner, low, high = above[known], low[known], high[known]
    group, low, high = (np.concatenate(column) for column in zip(*found, strict=True))
    return merge(group, low, high)


def _adopting_groups(evidence: RangeEvidence, caused: CausedWork) -> Int64s:
    """Return the groups of the ranges that adopted work, and of all ranges around them."""
    owner = np.unique(np.concatenate((caused.adopted_owner, caused.other_owner)))
    found = np.zeros(evidence.groups, dtype=np.bool_)
    while len(owner):
        found[evidence.group[owner]] = True
        above = evidence.attributed.structure.parent[owner]
        owner = np.unique(above[above >= 0])
    return np.flatnonzero(found)


def sum_adopted(evidence: RangeEvidence, ordered: dict[str, OrderedWork]) -> dict[str, Int64s]:
    """Return the sums over what groups launched and adopted, by column, for groups that adopted work; else empty.

    all_busy_ns is the union of both, and bytes are those of work that a group adopted and did not launch.
    """
    caused = evidence.caused
    if caused is None or len(caused.adopted_row) + len(caused.other_row) == 0:
        return {}
    adopted = _adopted_stretches(evidence, caused)
    columns = {name: np.zeros(evidence.groups, dtype=np.int64) for name in _OF_RANGES}
    work, segments = ordered[_WAITING], evidence.attributed.segments[_WAITING]
    launched = evidence.group[segments.instance], segments.low, segments.high
    own = merge(*_of_groups(launched, np.unique(adopted[0])))
    every = merge(*(np.concatenate(pair) for pair in zip(own, adopted, strict=True)))
    for device in work.devices:
        group, low, high = every
        columns["all_busy_ns"] += device.busy(group, *device.stretches(low, high), evidence.groups)
    for name, kind in _BYTES:
        columns[name] += add_up(every[0], work.bytes_of(kind, *every[1:]), evidence.groups)
        columns[name] -= add_up(own[0], work.bytes_of(kind, *own[1:]), evidence.groups)
    return columns


def _of_groups(stretches: Stretches, groups: Int64s) -> Stretches:
    """Return the stretches of some groups."""
    group, low, high = stretches
    mine = np.isin(group, groups)
    return group[mine], low[mine], high[mine]


def _sum_captured(
    columns: dict[str, Int64s], evidence: RangeEvidence, adopted: Stretches, creators: _Lists, caused: CausedWork
) -> None:
    """Sum up all work of the groups that captured some, piece by piece."""
    nodes = _rows_of_nodes(caused)
    launched = _Launched(evidence)
    order = evidence.attributed.segments[_WAITING].order
    for group in creators.keys.tolist():
        own = launched.of_group(group)
        helped = _rows([(order, *adopted)], group)
        more = np.setdiff1d(np.concatenate((helped, nodes.get_all(np.unique(creators.get(group))))), own)
        if len(more):
            columns["all_busy_ns"][group] = _busy(evidence.work, np.concatenate((own, more)))
            for name, kind in _BYTES:
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
    """Return, by node, the rows of work that replayed it."""
    none = np.zeros(0, dtype=np.int64)
    if caused.graph is None:
        return _Lists.of(none, none)
    known = caused.graph.node >= 0
    return _Lists.of(caused.graph.node[known], caused.graph.row[known].astype(np.int64))


class _Launched:
    """The rows of work that ranges launched, by group and by instance."""

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
        """Return the rows of work that a group launched, each once."""
        return _rows(self._by_group, group)

    def of_instance(self, instance: int) -> Int64s:
        """Return the rows of work that one instance launched."""
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
