"""Follow device memory over time, from allocations and frees.

Find which ranges own the memory at its peak: those that were open when it was allocated.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from nsysprof.analysis.ranges.open_range import innermost_ranges
from nsysprof.results.column_registry.analysis_columns import MEMORY
from nsysprof.trace.schema import NULL, PID_MASK, Int64s, Tables

# Values of ENUM_CUDA_MEM_KIND: 2 device, 3 array and 5 device static are memory of the GPU; 0 is pageable, 1 pinned, 4
# and 6 managed.
_DEVICE_KINDS = (2, 3, 5)
_MANAGED_KINDS = (4, 6)
_ALLOCATE, _FREE = 0, 1
# A petabyte. No allocation is larger, so larger sizes are damaged, and sums of the others fit in 64 bits.
_MOST_BYTES = 2**50


@dataclass(frozen=True)
class DeviceMemory:
    """The use of device memory over time."""

    # Columns, in order of time: time_ns, device_id, global_pid, process_bytes (of that process), used_bytes (of all
    # processes), change (of both), since_ns (when the memory that changed was allocated).
    usage: pd.DataFrame
    # How many frees have no recorded allocation; they change nothing.
    unmatched_frees: int
    # The most managed memory allocated at once (bytes). How much of it a GPU held is not recorded, so no other number
    # includes it.
    managed_peak_bytes: int
    # Whether memory came from pools of unknown size. What these keep in addition is missing.
    unsized_pools: bool
    # How many allocations and frees were left out, because device, address, size or time is missing.
    unplaced: int

    def peaks(self) -> dict[int, int]:
        """Return the peak (bytes) by device id."""
        peaks = self.usage.groupby("device_id")["used_bytes"].max()
        return {int(device): int(peak) for device, peak in zip(peaks.index.tolist(), peaks, strict=True)}

    def peaks_within(self, start_ns: Int64s, end_ns: Int64s) -> dict[int, int]:
        """Return the peak (bytes) by device id within some intervals. What is held at their start counts, too."""
        peaks: dict[int, int] = {}
        for device, events in self.usage.groupby("device_id"):
            used = np.append(events["used_bytes"].to_numpy(dtype=np.int64), 0)
            times = events["time_ns"].to_numpy(dtype=np.int64)
            low, high = np.searchsorted(times, start_ns, "right") - 1, np.searchsorted(times, end_ns, "right")
            # Before the first event, nothing is held.
            held = [
                used[max(first, 0) : max(last, 1)].max() if last else 0 for first, last in zip(low, high, strict=True)
            ]
            peaks[int(str(device))] = int(max(held, default=0))
        return peaks


def follow_memory(tables: Tables) -> DeviceMemory | None:
    """Return the use of device memory over time; None when the trace has no memory events.

    Allocations and frees are matched by (process, address). Memory of a pool belongs to the GPU as long as the pool
    keeps it, freed or not. So where sizes of pools are known, these count, and allocations from pools do not. What a
    process still holds at its last recorded call counts as freed then: a worker that died frees nothing, and its memory
    must not count together with its replacement's.
    """
    if tables.memory is None:
        return None
    memory = tables.memory[tables.memory["imported"] == NULL]  # another process' pool counts in that process
    sound = (memory[["device_id", "time_ns"]] != NULL).all(axis=1) & memory["bytes"].between(0, _MOST_BYTES)
    sound &= (memory["address"] != NULL) | (memory["pool_bytes"] != NULL)
    memory = memory[sound]
    managed = memory[memory["kind"].isin(_MANAGED_KINDS)]
    device = memory[memory["kind"].isin(_DEVICE_KINDS)].reset_index(drop=True)
    in_pool, sized = device["pool"] != NULL, device["pool_bytes"] != NULL
    direct, unmatched = _follow_addresses(device[~(in_pool & sized) & device["operation"].isin((_ALLOCATE, _FREE))])
    events = pd.concat([direct, _follow_pools(device[in_pool & sized])], ignore_index=True)
    events = pd.concat([events, _process_ends(tables, events)], ignore_index=True)
    events = events.sort_values("time_ns", kind="stable").reset_index(drop=True)
    events["process_bytes"] = events.groupby(["global_pid", "device_id"])["change"].cumsum()
    events["used_bytes"] = events.groupby("device_id")["change"].cumsum()
    held = _follow_addresses(managed)[0].sort_values("time_ns", kind="stable")["change"].cumsum()
    columns = ["time_ns", "device_id", "global_pid", "process_bytes", "used_bytes", "change", "since_ns"]
    return DeviceMemory(
        events[columns],
        unmatched,
        int(held.max()) if len(held) else 0,
        bool((in_pool & ~sized).any()),
        int((~sound).sum()),
    )


def _follow_addresses(events: pd.DataFrame) -> tuple[pd.DataFrame, int]:
    """Return `events` with their `change` in bytes, and the number of frees without an allocation."""
    events = events.reset_index(drop=True)
    order = np.lexsort((events.index, events["time_ns"], events["address"], events["global_pid"]))
    ordered = events.iloc[order]
    same = (ordered["global_pid"].diff() == 0) & (ordered["address"].diff() == 0)
    frees, allocations = ordered["operation"] == _FREE, ordered["operation"] == _ALLOCATE
    after_allocation = same & (ordered["operation"].shift() == _ALLOCATE)
    # A free gives back what was allocated at its address. An allocation at an address that is still held on the same
    # device replaces the old one, because its free was not recorded.
    device, before = ordered["device_id"], ordered["device_id"].shift(fill_value=0)
    events["device_id"] = before.where(frees & after_allocation, device).reindex(events.index)
    given_back = after_allocation & (frees | (device == before))
    held = ordered["bytes"].shift().where(given_back, 0).fillna(0).astype("int64")
    change = ordered["bytes"].where(allocations, 0) - held.where(frees | allocations, 0)
    events["change"] = change.reindex(events.index).astype("int64")
    since = ordered["time_ns"].where(~(frees & after_allocation), ordered["time_ns"].shift(fill_value=0))
    events["since_ns"] = since.reindex(events.index).astype("int64")
    return events[["time_ns", "device_id", "global_pid", "change", "since_ns"]], int((frees & ~after_allocation).sum())


def _follow_pools(events: pd.DataFrame) -> pd.DataFrame:
    """Return the change of each pool's size in bytes."""
    ordered = events.sort_values("time_ns", kind="stable")
    before = ordered.groupby(["global_pid", "device_id", "pool"])["pool_bytes"].shift().fillna(0).astype("int64")
    change: pd.DataFrame = ordered.assign(change=ordered["pool_bytes"] - before, since_ns=ordered["time_ns"])
    return change[["time_ns", "device_id", "global_pid", "change", "since_ns"]]


def _process_ends(tables: Tables, events: pd.DataFrame) -> pd.DataFrame:
    left = events.groupby(["global_pid", "device_id"], as_index=False)["change"].sum()
    left = left[left["change"] > 0]
    last = events.groupby("global_pid")["time_ns"].max()
    calls = tables.calls
    if len(left) and calls is not None and len(calls):
        latest = np.full(len(calls.variants), np.iinfo(np.int64).min)
        np.maximum.at(latest, calls.variant, calls.ends_ns())
        of_process = pd.Series(latest, index=calls.tid_of & PID_MASK)
        last = pd.concat([last, of_process]).groupby(level=0).max()
    ends = left.assign(time_ns=left["global_pid"].map(last) + 1, change=-left["change"])
    ends["since_ns"] = ends["time_ns"]
    columns: pd.DataFrame = ends[["time_ns", "device_id", "global_pid", "change", "since_ns"]]
    return columns.astype("int64")


def peak_in_ranges(memory: DeviceMemory, ranges: pd.DataFrame) -> Int64s:
    """Return for each range instance the most memory (bytes) that its process held on any one device.

    ranges: instances with start_ns, end_ns and global_pid.
    """
    peaks = np.zeros(len(ranges), dtype=np.int64)
    start, end = ranges["start_ns"].to_numpy(), ranges["end_ns"].to_numpy()
    pids = ranges["global_pid"].to_numpy()
    for (pid, _device), events in memory.usage.groupby(["global_pid", "device_id"]):
        mine = np.flatnonzero(pids == pid)
        times, used = events["time_ns"].to_numpy(), events["process_bytes"].to_numpy()
        low = np.searchsorted(times, start[mine], "right") - 1  # what is held at the start counts, too
        high = np.searchsorted(times, end[mine], "right")
        padded = np.concatenate((np.zeros(1, np.int64), used, np.zeros(1, np.int64)))
        bounds = np.column_stack((low + 1, np.maximum(high, low + 1) + 1)).ravel()
        if len(bounds):
            peaks[mine] = np.maximum(peaks[mine], np.maximum.reduceat(padded, bounds)[::2])
    return peaks


OUTSIDE = "(outside every range)"


def list_owners(memory: DeviceMemory | None, ranges: pd.DataFrame) -> pd.DataFrame:
    """Return the owners of the memory at the peak of the device that held most. The rows add up to that peak.

    ranges: instances, as made by the attribution. A range owns what was allocated while it was the innermost open range
        of its process.
    """
    peaks = {} if memory is None else memory.peaks()
    if memory is None or not peaks or max(peaks.values()) <= 0:
        return pd.DataFrame(columns=list(MEMORY.names))
    device = max(peaks, key=lambda number: peaks[number])
    usage = memory.usage[memory.usage["device_id"] == device]
    upto = usage.iloc[: int(np.argmax(usage["used_bytes"].to_numpy())) + 1]
    # Memory events do not name a thread, so any range of the process counts, as for a thread without ranges.
    owners = innermost_ranges(ranges, upto["global_pid"].to_numpy(np.int64), upto["since_ns"].to_numpy(np.int64))
    held = upto["change"].groupby(np.where(owners == "", OUTSIDE, owners)).sum()
    # A pool that shrank gave back memory by which others had made it grow.
    short = int(held[held < 0].sum())
    held = held[held > 0].sort_values(ascending=False, kind="stable")
    if short:
        held.iloc[0] += short
    table = pd.DataFrame({"owner": held.index.astype(object), "peak_bytes": held.to_numpy(np.int64)})
    table["share_pct"] = 100.0 * table["peak_bytes"] / peaks[device]
    table["range"] = None
    return table[list(MEMORY.names)]
