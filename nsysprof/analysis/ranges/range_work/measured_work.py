"""Measure the work of all ranges in one pass over the work in order of its start, by compiled code."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from nsysprof.analysis.attribution.attribute import FREE_PAIRS, MOST_AROUND, Segments
from nsysprof.analysis.attribution.caused_work import CausedWork
from nsysprof.analysis.attribution.nesting import nesting_levels
from nsysprof.analysis.ranges.instances import InstanceWork
from nsysprof.analysis.ranges.range_evidence import RangeEvidence
from nsysprof.native.load import loop
from nsysprof.trace.schema import Int64s, Rows, Work

# How many numbers the compiled code has of each instance, of each group, and of work that waits.
_OF_INSTANCE, _OF_GROUP, _WAITING = 6, 12, 11
_FAR = np.iinfo(np.int64).max
# Room for the ranges of each set: this many for each stretch of work, plus a constant.
_MOST_ITEMS, _FREE_ITEMS = 64, 1 << 16


@dataclass(frozen=True)
class MeasuredWork:
    """What ranges launched and adopted."""

    instances: InstanceWork
    # Sums over what each group launched, by column; exclusive columns leave out what inner ranges launched.
    launched: dict[str, Int64s]
    exclusive: dict[str, Int64s]
    # The busy time of what each group launched and adopted, and the bytes that it only adopted; empty where no range
    # adopted any work.
    adopted: dict[str, Int64s]


def measure_work(evidence: RangeEvidence) -> MeasuredWork | None:
    """Return what each range instance and each group launched and adopted.

    None where compiled code is not to be had, or where more ranges are open around work than in any program.
    """
    work = evidence.work
    run = loop("measure_work")
    if run is None:
        return None
    in_order, late = order_by_start(work)
    instances, groups = _instances(evidence), np.zeros((evidence.groups, _OF_GROUP), dtype=np.int64)
    idle = np.zeros(len(instances), dtype=np.int64)
    levels = nesting_levels(evidence.attributed.ranges)
    has_adopted = evidence.caused is not None and len(evidence.caused.adopted_row) + len(evidence.caused.other_row) > 0
    for style, segments in evidence.attributed.segments.items():
        adopter = list_adopters(work, evidence.caused) if style == "PushPop" and has_adopted else np.zeros(0, np.int32)
        if len(segments.instance) == 0 and len(adopter) == 0:
            continue
        sets = find_sets(evidence, segments, levels)
        if sets is None:
            return None
        for device in np.unique(work.device_of).tolist():
            its, of_groups = _instances(evidence), _groups(evidence)
            if run(
                work.start_ns, work.duration_ns, work.variant, work.bytes, work.kernels, in_order, late, len(late),
                np.ascontiguousarray(work.device_of), work.kind_of.astype(np.int64), len(work.variants), device, *sets,
                adopter, evidence.attributed.structure.parent, evidence.group, np.zeros(evidence.groups, np.int64),
                MOST_AROUND * len(work) + FREE_PAIRS, np.zeros(_WAITING, np.int64), its.ravel(), of_groups.ravel(),
            ):  # fmt: skip
                return None
            used = its[:, 3] >= its[:, 2]
            idle[used] += (its[:, 3] - its[:, 2] - its[:, 4])[used]
            instances[:, [0, 1, 4]] += its[:, [0, 1, 4]]
            np.minimum(instances[:, 2], its[:, 2], out=instances[:, 2])
            np.maximum(instances[:, 3], its[:, 3], out=instances[:, 3])
            groups += of_groups
    found = _columns(instances, idle, groups, has_adopted=has_adopted)
    if not levels[evidence.attributed.segments["PushPop"].instance].any():  # no range is inside another one
        columns = ("kernel_count", "kernel_total_ns")
        return replace(found, exclusive={f"exclusive_{name}": found.launched[name] for name in columns})
    return found


def order_by_start(work: Work) -> tuple[int, Rows]:
    """Return how many rows come in order of start, and the rows after these in order of start."""
    kernels = work.start_ns[: work.kernels]
    in_order = work.kernels if bool((kernels[1:] >= kernels[:-1]).all()) else 0
    return in_order, (np.argsort(work.start_ns[in_order:], kind="stable") + in_order).astype(np.int32)


def _instances(evidence: RangeEvidence) -> Int64s:
    """Return the numbers of instances before any work has been seen."""
    found = np.zeros((len(evidence.group), _OF_INSTANCE), dtype=np.int64)
    found[:, 2], found[:, 3], found[:, 5] = _FAR, -_FAR, -_FAR
    return found


def _groups(evidence: RangeEvidence) -> Int64s:
    """Return the numbers of groups before any work has been seen."""
    found = np.zeros((evidence.groups, _OF_GROUP), dtype=np.int64)
    found[:, [3, 5]] = -_FAR
    return found


def list_adopters(work: Work, caused: CausedWork | None) -> Rows:
    """Return the range that adopted each row of work, or -1."""
    found = np.full(len(work), -1, dtype=np.int32)
    if caused is not None:
        found[caused.adopted_row] = caused.adopted_owner
        found[caused.other_row] = caused.other_owner
    return found


def find_sets(evidence: RangeEvidence, segments: Segments, levels: Int64s) -> tuple[Rows, ...] | None:
    """Return the set of ranges of each row of work, and what is in the sets; None where that is too much.

    levels: how deep each instance is nested.
    """
    find = loop("find_sets")
    if find is None:
        return None
    by_low = np.argsort(segments.low, kind="stable")
    instance, low, high = (each[by_low] for each in (segments.instance, segments.low, segments.high))
    count, items = 2 * len(low) + 1, _MOST_ITEMS * len(low) + _FREE_ITEMS
    set_of = np.full(len(evidence.work), -1, dtype=np.int32)
    rooms = [np.empty(size, dtype=np.int32) for size in (count + 1, items, count + 1, items, count)]
    found = find(
        segments.order, len(segments.order), instance, low, high, levels[instance], by_low, len(low), evidence.group,
        np.zeros(evidence.groups, dtype=np.int64), np.empty(len(low), dtype=np.int64), set_of, *rooms, count, items,
    )  # fmt: skip
    return None if found < 0 else (set_of, *rooms)


def _columns(instances: Int64s, idle: Int64s, groups: Int64s, *, has_adopted: bool) -> MeasuredWork:
    count, total, first, last, busy, _ = instances.T.copy()
    empty = last < first
    first[empty] = last[empty] = 0
    launched = dict(zip(("kernel_count", "kernel_total_ns", "gpu_busy_ns"), groups[:, :3].T.copy(), strict=True))
    launched |= {"memcpy_bytes": groups[:, 6].copy(), "memset_bytes": groups[:, 7].copy()}
    exclusive = {"exclusive_kernel_count": groups[:, 8].copy(), "exclusive_kernel_total_ns": groups[:, 9].copy()}
    adopted = {"all_busy_ns": groups[:, 4], "caused_memcpy_bytes": groups[:, 10], "caused_memset_bytes": groups[:, 11]}
    return MeasuredWork(
        InstanceWork(count, total, busy, idle, first, last),
        launched,
        exclusive,
        {name: values.copy() for name, values in adopted.items()} if has_adopted else {},
    )
