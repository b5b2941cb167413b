"""Find which lines of code hold the memory of torch's allocator at its peak, and how much of it lies idle."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from nsysprof.analysis.kernel_names.variant_names import Texts
from nsysprof.results.allocator_memory import DeviceUse, MemoryFinding, OwnedOverTime
from nsysprof.results.column_registry.analysis_columns import MEMORY
from nsysprof.torchprof.allocator_history import (
    ALLOC,
    FREE,
    RELEASE,
    RESERVE,
    AllocatorHistory,
    DeviceHistory,
    Frame,
)
from nsysprof.trace.schema import Int64s
from nsysprof.units import format_bytes

BEFORE = "(allocated before the recording)"
NO_STACK = "(no Python stack: autograd or a library)"
OTHERS = "(others)"
FRAGMENTATION = "memory-fragmentation"
# Idle memory below this share of what is reserved, or below this size, is not worth a finding.
_LEAST_SHARE, _LEAST_BYTES = 0.1, 64 << 20
_MOST_OWNERS, _MOST_MOMENTS = 8, 600
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


@dataclass(frozen=True)
class _Held:
    """All allocations that were ever held.

    `freed` is the number of the event that frees each one, or past the last event.
    """

    since: Int64s
    freed: Int64s
    bytes: Int64s
    # -1: not known.
    stack: Int64s

    def at(self, event: int) -> Int64s:
        """Return which allocations are held after an event; -1 means before all events."""
        return np.flatnonzero((self.since <= event) & (self.freed > event))


def list_allocator_owners(
    history: AllocatorHistory, range_at: RangeAt | None = None
) -> tuple[tuple[DeviceUse, ...], int | None, pd.DataFrame, OwnedOverTime]:
    """Return the memory use of each device, the device that held most, and the owners of its peak (rows of memory.csv).

    The owner of an allocation is the innermost line of its stack that is not torch's own. Allocations from before the
    recording are known by their free, or because they are there at the end. They count with their stack where the
    snapshot has one, and else as BEFORE. The rows add up to the peak.
    """
    held = [_follow(device) for device in history.devices]
    used = [_use(device, each) for device, each in zip(history.devices, held, strict=True)]
    empty = pd.DataFrame(columns=list(MEMORY.names))
    nothing = OwnedOverTime(np.zeros(0, np.int64), False, (), np.zeros((0, 0), np.int64))
    if not used or max(use.peak_bytes for use in used) == 0:
        return tuple(used), None, empty, nothing
    most = max(range(len(used)), key=lambda number: used[number].peak_bytes)
    device, mine = history.devices[most], held[most]
    names = [owner_of(stack) for stack in history.stacks]
    owner = np.array([*names, NO_STACK], dtype=object)[mine.stack]
    owner[(mine.stack < 0) & (mine.since < 0)] = BEFORE
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
    return tuple(used), device.device_id, table, _over_time(device, mine, owner, table)


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


def _follow(device: DeviceHistory) -> _Held:
    """Return every allocation of a history, including those made before it began."""
    never = len(device.kind)
    rows: list[list[int]] = []
    live: dict[int, int] = {}
    columns = (device.kind.tolist(), device.address.tolist(), device.bytes.tolist(), device.stack.tolist())
    for event, (kind, address, size, stack) in enumerate(zip(*columns, strict=True)):
        if kind == ALLOC:
            if address in live:  # never freed in this history
                rows[live[address]][1] = event
            live[address] = len(rows)
            rows.append([event, never, size, stack])
        elif kind == FREE:
            if address in live:
                rows[live.pop(address)][1] = event
            else:
                rows.append([-1, event, size, -1])
    held = device.holding
    for address, size, stack in zip(held.address.tolist(), held.bytes.tolist(), held.stack.tolist(), strict=True):
        if address not in live:
            rows.append([-1, never, size, stack])
    return _Held(*np.array(rows, dtype=np.int64).reshape(-1, 4).T)


def _allocated(device: DeviceHistory, held: _Held) -> Int64s:
    """Return how much is allocated before all events, and after each event (bytes)."""
    change = np.zeros(len(device.kind) + 2, dtype=np.int64)
    np.add.at(change, held.since + 1, held.bytes)
    np.subtract.at(change, held.freed + 1, held.bytes)
    return np.cumsum(change)[:-1]


def _peak(device: DeviceHistory, held: _Held) -> tuple[int, int]:
    """Return the event after which most is allocated (-1: before all events), and how much that is (bytes)."""
    allocated = _allocated(device, held)
    at = int(np.argmax(allocated))
    return at - 1, int(allocated[at])


def _use(device: DeviceHistory, held: _Held) -> DeviceUse:
    allocated = _allocated(device, held)
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


def _over_time(device: DeviceHistory, held: _Held, owner: Texts, table: pd.DataFrame) -> OwnedOverTime:
    first = table.groupby("owner", sort=False)["peak_bytes"].sum().sort_values(ascending=False).index[:_MOST_OWNERS]
    names = (*first, OTHERS) if len(np.unique(owner.astype(str))) > len(first) else tuple(first)
    code = np.array([{name: number for number, name in enumerate(first)}.get(name, len(first)) for name in owner])
    count = len(device.kind) + 1
    picked = np.unique([*np.linspace(0, count - 1, min(count, _MOST_MOMENTS)).astype(int), _peak(device, held)[0] + 1])
    rows = np.zeros((len(names), len(picked)), dtype=np.int64)
    for number in range(len(names)):
        mine = code == number
        chosen = _Held(held.since[mine], held.freed[mine], held.bytes[mine], held.stack[mine])
        rows[number] = _allocated(device, chosen)[picked]
    has_times = len(device.time_us) > 0 and bool((device.time_us > 0).all())
    moment = picked.astype(np.int64)
    if has_times:
        moment = np.concatenate((device.time_us[:1], device.time_us))[picked] - int(device.time_us[0])
    return OwnedOverTime(moment, has_times, tuple(str(name) for name in names), rows)
