"""Find which lines of code hold the memory of torch's allocator at its peak, and how much of it lies idle."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd

from nsysprof.analysis.overview.held_memory import Held, allocated_after, follow_held, follow_owners
from nsysprof.results.allocator_memory import DeviceUse, MemoryFinding, OwnedInSlices, OwnedOverTime
from nsysprof.results.column_registry.analysis_columns import MEMORY
from nsysprof.results.findings import FRAGMENTATION
from nsysprof.torchprof.allocator_history import (
    RELEASE,
    RESERVE,
    AllocatorHistory,
    DeviceHistory,
    Frame,
)
from nsysprof.trace.schema import Int64s
from nsysprof.units import format_bytes

BEFORE = "(allocated before the first event of the snapshot)"
NO_STACK = "(no Python stack: autograd or a library)"
# Idle memory below this share of what is reserved, or below this size, is not worth a finding.
_LEAST_SHARE, _LEAST_BYTES = 0.1, 64 << 20
_MOST_OWNERS = 8
# Frames of torch itself, of Python's library and of C++ do not show who wanted the memory.
_NOT_OWN = re.compile(
    r"(^|/)(torch|torchgen|_dynamo|_inductor|nsysprof/workload/program_start)/|/lib/python3[^/]*/(?!site-packages/|dist-packages/)|^<|^\?\?|^$|"
    r"\.(c|cc|cpp|cu|cuh|h|hpp|so|pyx)$"
)

_DEFRAGMENT = (
    "Set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, and allocate buffers of varying size once, at their largest."
)

# A function that returns the range that was open at each time (us since 1970); "" for none.
RangeAt = Callable[[Int64s], Sequence[str]]


def list_allocator_owners(
    history: AllocatorHistory,
    range_at: RangeAt | None = None,
    layer_at: RangeAt | None = None,
    node_at: RangeAt | None = None,
) -> tuple[tuple[DeviceUse, ...], int | None, pd.DataFrame, OwnedOverTime]:
    """Return the memory use of each device, the device that held most, and the owners of its peak (rows of memory.csv).

    The owner of an allocation is the innermost line of its stack that is not torch's own. Allocations from before the
    recording are known by their free, or because they are there at the end. They count with their stack where the
    snapshot has one, and else as BEFORE. The rows add up to the peak. Autograd's threads have no stack; what they
    allocate belongs to the layer whose backward pass was running, and to the node of autograd, which is named after the
    operator of its forward call (MmBackward0), where `layer_at` and `node_at` know them.
    """
    held = [follow_held(device) for device in history.devices]
    used = [_use(device, each) for device, each in zip(history.devices, held, strict=True)]
    empty = pd.DataFrame(columns=list(MEMORY.names))
    nothing = OwnedOverTime((), False, OwnedInSlices.none())
    if not used or max(use.peak_bytes for use in used) == 0:
        return tuple(used), None, empty, nothing
    most = max(range(len(used)), key=lambda number: used[number].peak_bytes)
    device, mine = history.devices[most], held[most]
    names = [owner_of(stack) for stack in history.stacks]
    owner = np.array([*names, NO_STACK], dtype=object)[mine.stack]
    owner[(mine.stack < 0) & (mine.since < 0)] = BEFORE
    nameless = np.flatnonzero((owner == NO_STACK) & (mine.since >= 0))
    times_us = device.time_us[mine.since[nameless]]
    places = [find(times_us) for find in (layer_at, node_at) if find is not None]
    for place, texts in zip(nameless.tolist(), zip(*places, strict=True), strict=False):
        if any(texts):
            owner[place] = f"(autograd: {', '.join(filter(None, texts))})"
    at = mine.at(_peak(device, mine)[0])
    ranges = np.full(len(at), None, dtype=object)
    if range_at is not None:
        known = np.flatnonzero(mine.since[at] >= 0)
        ranges[known] = [name or None for name in range_at(device.time_us[mine.since[at[known]]])]
    table = pd.DataFrame({"owner": owner[at], "peak_bytes": mine.bytes[at], "range": ranges})
    table = table.groupby(["owner", "range"], dropna=False, sort=False)["peak_bytes"].sum().reset_index()
    table = table[table["peak_bytes"] > 0].sort_values("peak_bytes", ascending=False, kind="stable")
    table["share_pct"] = 100.0 * table["peak_bytes"] / used[most].peak_bytes
    table = table[list(MEMORY.names)].reset_index(drop=True)
    table["range"] = table["range"].astype(object).where(table["range"].notna(), None)
    first = table.groupby("owner", sort=False)["peak_bytes"].sum().sort_values(ascending=False).index[:_MOST_OWNERS]
    return tuple(used), device.device_id, table, follow_owners(device, mine, owner, first)


def owner_of(stack: tuple[Frame, ...]) -> str:
    """Return the innermost line of a stack outside torch, Python's library and C++: `model.py:12 forward`.

    A file in a folder is shown with the folder's name.
    """
    for frame in stack:
        if is_own_file(frame.file):
            place = "/".join(frame.file.replace("\\", "/").split("/")[-2:]).lstrip("/")
            return f"{place}:{frame.line} {frame.function}"
    return NO_STACK


def is_own_file(file: str) -> bool:
    """Return whether a file is the user's own, and not part of torch, Python's library, C++ or what records stacks."""
    path = file.replace("\\", "/")
    # A virtual environment may lie in a folder of any name, even torch.
    before, packages, inside = path.rpartition("-packages/")
    return _NOT_OWN.search(inside if packages and before.endswith(("/site", "/dist")) else path) is None


def find_fragmentation(used: Sequence[DeviceUse]) -> tuple[MemoryFinding, ...]:
    """Return a finding for each device whose allocator reserved much more from the driver than was ever in use."""
    found = []
    for use in used:
        idle = use.reserved_peak_bytes - use.used_of_reserved_bytes
        if idle < max(_LEAST_SHARE * use.reserved_peak_bytes, _LEAST_BYTES):
            continue
        share = 100.0 * idle / use.reserved_peak_bytes
        text = (
            f"The allocator took {format_bytes(use.reserved_peak_bytes)} from the driver while at most "
            f"{format_bytes(use.used_of_reserved_bytes)} were in use: {format_bytes(idle)} ({share:.0f} %) lie in "
            "pieces that fitted nothing, or in rounding."
        )
        if use.oom_count:
            text += f" {use.oom_count} allocations failed for lack of memory."
        found.append(MemoryFinding(FRAGMENTATION, use.device_id, idle, share, text, _DEFRAGMENT))
    return tuple(sorted(found, key=lambda finding: -finding.bytes))


def _peak(device: DeviceHistory, held: Held) -> tuple[int, int]:
    """Return the event after which most is allocated (-1: before all events), and how much that is (bytes)."""
    allocated = allocated_after(device, held)
    at = int(np.argmax(allocated))
    return at - 1, int(allocated[at])


def _use(device: DeviceHistory, held: Held) -> DeviceUse:
    allocated = allocated_after(device, held)
    at, peak = _peak(device, held)
    own = np.where(device.kind == RESERVE, device.bytes, 0) - np.where(device.kind == RELEASE, device.bytes, 0)
    change = np.concatenate((np.zeros(1, dtype=np.int64), np.cumsum(own)))
    reserved = change + (device.reserved_bytes - int(change[-1]))
    most = int(reserved.max())
    there = held.at(at)
    return DeviceUse(
        device_id=device.device_id,
        peak_bytes=peak,
        end_bytes=int(allocated[-1]),
        before_bytes=int(held.bytes[there[held.since[there] < 0]].sum()),
        reserved_peak_bytes=most,
        # The most memory in use while this much was reserved. The allocation that made the reserve grow is recorded
        # after it.
        used_of_reserved_bytes=int(allocated[reserved == most].max()),
        event_count=len(device.kind),
        oom_count=device.oom_count,
    )
