"""Find which lines of code hold the memory of torch's allocator at its peak, and how much of it lies idle.

Follow which allocations of torch's allocator are held at which time, and what each owner holds over time.

Explain a failed allocation of torch: who held how much on the device, as what, and what would have made room.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from nsysprof.analysis.kernel_names.variant_names import Texts
from nsysprof.notes import make_note
from nsysprof.results.allocator_memory import (
    ACTIVATIONS,
    CACHE,
    OTHERS,
    UNALLOCATED,
    UNKNOWN,
    DeviceUse,
    HeldAtFailure,
    MemoryFinding,
    MemoryRemedy,
    OutOfMemory,
    OwnedInSlices,
    OwnedOverTime,
)
from nsysprof.results.column_registry.analysis_columns import MEMORY
from nsysprof.results.findings import FRAGMENTATION, OUT_OF_MEMORY
from nsysprof.torchprof.allocator_history import (
    ALLOC,
    EXPANDABLE_PAGE_BYTES,
    FREE,
    RELEASE,
    RESERVE,
    AllocatorHistory,
    DeviceHistory,
    Frame,
)
from nsysprof.torchprof.failed_allocation import FailedAllocation
from nsysprof.trace.schema import Int64s
from nsysprof.units import format_bytes

_MOST_SLICES = 600
# Little is held when at most this share of the events sees less. The rise to the peak begins, and the fall after it
# ends, this share of it above that.
_LITTLE, _FOOT = 0.05, 0.1
# A part of the time that is longer than this share of the whole is not shown again.
_LONG_SHARE = 0.4


@dataclass(frozen=True)
class Held:
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


def follow_held(device: DeviceHistory) -> Held:
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
    return Held(*np.array(rows, dtype=np.int64).reshape(-1, 4).T)


def allocated_after(device: DeviceHistory, held: Held) -> Int64s:
    """Return how much is allocated before all events, and after each event (bytes)."""
    change = np.zeros(len(device.kind) + 2, dtype=np.int64)
    np.add.at(change, held.since + 1, held.bytes)
    np.subtract.at(change, held.freed + 1, held.bytes)
    return np.cumsum(change)[:-1]


def follow_owners(device: DeviceHistory, held: Held, owner: Texts, first: Iterable[str]) -> OwnedOverTime:
    """Return what each owner holds over the whole history, and in more detail around the peak.

    owner: of each allocation.
    first: the owners to show by name; all others are one.
    """
    first = tuple(str(name) for name in first)
    names = (*first, OTHERS) if set(owner.tolist()) - set(first) else first
    number = {name: position for position, name in enumerate(first)}
    code = np.array([number.get(name, len(number)) for name in owner.tolist()])
    rows = np.zeros((len(names), len(device.kind) + 1), dtype=np.int64)
    for position in range(len(names)):
        mine = code == position
        chosen = Held(held.since[mine], held.freed[mine], held.bytes[mine], held.stack[mine])
        rows[position] = allocated_after(device, chosen)
    has_times = len(device.time_us) > 0 and bool((device.time_us > 0).all())
    moment = np.arange(rows.shape[1], dtype=np.int64)
    if has_times:
        moment = np.maximum.accumulate(np.concatenate((device.time_us[:1], device.time_us)) - int(device.time_us[0]))
    last = rows.shape[1] - 1
    whole = _slice(moment, rows, 0, last)
    begin, end = _around_peak(rows.sum(axis=0))
    is_short = moment[end] - moment[begin] < _LONG_SHARE * (moment[-1] - moment[0])
    return OwnedOverTime(names, has_times, whole, _slice(moment, rows, begin, end) if is_short else None)


def _around_peak(total: Int64s) -> tuple[int, int]:
    """Return the first and the last event of the rise to the peak and the fall after it.

    They begin and end near what is held when little is: what steps hold between them, where steps have most events.
    """
    peak = int(np.argmax(total))
    little = int(np.quantile(total, _LITTLE, method="lower"))
    is_low = total <= little + int(_FOOT * (total[peak] - little))
    before, after = np.flatnonzero(is_low[: peak + 1]), np.flatnonzero(is_low[peak:])
    return int(before[-1]) if len(before) else 0, peak + int(after[0]) if len(after) else len(total) - 1


def _slice(moment: Int64s, rows: Int64s, begin: int, end: int) -> OwnedInSlices:
    """Return what owners hold from one event to another, in slices of the same length.

    Each slice shows the moment at which most is held in it. So the peak is there, however short it was.
    """
    moment, rows = moment[begin : end + 1], rows[:, begin : end + 1]
    span = int(moment[-1] - moment[0])
    count = max(1, min(_MOST_SLICES, span))
    edges = moment[0] + (span * np.arange(count + 1, dtype=np.int64)) // count
    # What is held when a slice begins counts in it.
    first = np.maximum(0, np.searchsorted(moment, edges[:-1], "right") - 1)
    last = np.maximum(first + 1, np.searchsorted(moment, edges[1:], "left"))
    last[-1] = len(moment)
    total = rows.sum(axis=0)
    picked = [low + int(np.argmax(total[low:high])) for low, high in zip(first.tolist(), last.tolist(), strict=True)]
    return OwnedInSlices(edges, rows[:, picked])


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


# A module of torch in a stack, but for those that only call others.
_MODULE = re.compile(r"/torch/nn/modules/(?!module\.py|container\.py)(\w+)\.py$")
# Functions of torch in which gradients are in use.
_USES_GRADIENTS = frozenset({"backward", "_engine_run_backward", "step", "profile_hook_step"})
_KINDS = {
    "parameters": "parameters", "buffers": "buffers", "gradients": "gradients", "optimizer-state": "optimizer state",
    "graph": "results with a graph", "held": "tensors without a graph that Python holds (inputs, caches)",
    ACTIVATIONS: "activations and other tensors", UNKNOWN: "tensors of unknown kind",
    CACHE: "cached segments", UNALLOCATED: "reserved but not allocated (fragmentation)",
}  # fmt: skip
# Fewer results with a graph are usual: a loss, and its parts.
_LEAST_LOSSES = 4
# What CUDA itself and its libraries take is below this size.
_LEAST_OUTSIDE = 2 << 30


def explain_failure(
    history: AllocatorHistory, *, layer_at: RangeAt | None = None, is_fatal: bool | None = None
) -> OutOfMemory | None:
    """Return what held the memory of a device when an allocation failed; None for a snapshot of another time.

    layer_at: gives the layer whose range was open at a time.
    is_fatal: whether the process ended because of it; None where it is not known.
    """
    failure = history.failure
    device = None if failure is None else next((d for d in history.devices if d.device_id == failure.device_id), None)
    if failure is None or device is None:
        return None
    holdings = _holdings(history, device, failure, layer_at)
    by_kind: dict[str, int] = {}
    for row in holdings:
        by_kind[row.kind] = by_kind.get(row.kind, 0) + row.bytes
    by_kind[CACHE] = device.cached_bytes
    by_kind[UNALLOCATED] = max(0, device.reserved_bytes - sum(by_kind.values()))
    total = failure.total_bytes
    stack = history.stacks[history.failure_stack] if history.failure_stack >= 0 else ()
    at = history.failure_time_us
    layers = [""] if layer_at is None or not at else list(layer_at(np.array([at], dtype=np.int64)))
    notes = [make_note("frozen-objects")] if failure.has_frozen else []
    explained = OutOfMemory(
        device_id=failure.device_id,
        asked_bytes=failure.asked_bytes,
        asked_by=owner_of(stack),
        layer=layers[0] or _module_of(stack),
        process=failure.process,
        rank=failure.rank,
        failure_count=failure.failure,
        is_fatal=is_fatal,
        limit_bytes=failure.limit_bytes,
        free_bytes=failure.free_bytes,
        outside_bytes=None if total is None else max(0, total - failure.free_bytes - device.reserved_bytes),
        by_kind={kind: size for kind, size in by_kind.items() if size},
        holdings=holdings,
        remedies=tuple(_remedies(history, device, failure, by_kind, holdings, stack)),
        notes=tuple(notes),
    )
    return replace(explained, lines=_lines(explained))


def find_out_of_memory(failures: Sequence[OutOfMemory]) -> tuple[MemoryFinding, ...]:
    """Return a finding for each failure."""
    return tuple(
        MemoryFinding(
            OUT_OF_MEMORY,
            failure.device_id,
            failure.asked_bytes,
            100.0 * failure.asked_bytes / max(1, failure.limit_bytes or sum(failure.by_kind.values())),
            " ".join(failure.lines),
            " Or: ".join(remedy.text for remedy in failure.remedies) or "Use a device with more memory, or several.",
        )
        for failure in failures
    )


def _lines(failure: OutOfMemory) -> tuple[str, str]:
    """Return what happened, and who held the memory, as sentences."""
    process = "" if failure.process is None else f"Process {failure.process}: "
    who = f"Rank {failure.rank}: " if failure.rank is not None else process
    layer = f" in {failure.layer}" if failure.layer else ""
    end = {True: " The process ended because of it.", False: " The process went on.", None: ""}[failure.is_fatal]
    free = f"{format_bytes(failure.free_bytes)} were free"
    if failure.limit_bytes is not None and failure.free_bytes >= failure.asked_bytes:
        free += f", but torch may use {format_bytes(failure.limit_bytes)} of the device and no more"
    first = (
        f"{who}out of memory on device {failure.device_id}: {format_bytes(failure.asked_bytes)} were asked for by "
        f"{failure.asked_by}{layer}, and {free}.{end}"
    )
    held = sorted(failure.by_kind.items(), key=lambda item: -item[1])
    parts = [f"{_KINDS[kind]} {format_bytes(size)}" for kind, size in held]
    if failure.outside_bytes is not None:
        parts.append(f"other processes and CUDA itself {format_bytes(failure.outside_bytes)}")
    return first[:1].upper() + first[1:], f"The memory held: {', '.join(parts)}."


def _holdings(
    history: AllocatorHistory, device: DeviceHistory, failure: FailedAllocation, layer_at: RangeAt | None
) -> tuple[HeldAtFailure, ...]:
    """Return what was allocated by kind, layer and line, the largest first."""
    held = device.holding
    kinds, names = _kinds(held.address, held.bytes, failure)
    layers = _layers(device, layer_at)
    rows = []
    for number, (address, size, stack) in enumerate(
        zip(held.address.tolist(), held.bytes.tolist(), held.stack.tolist(), strict=True)
    ):
        frames = history.stacks[stack] if stack >= 0 else ()
        layer = names[number] or layers.get(address) or _module_of(frames)
        rows.append((kinds[number], layer, owner_of(frames), 1, size))
    columns = ["kind", "layer", "owner", "blocks", "bytes"]
    table = pd.DataFrame(rows, columns=columns).astype({"layer": object})
    table = table.groupby(columns[:3], dropna=False, sort=False)[["blocks", "bytes"]].sum().reset_index()
    table = table.sort_values("bytes", ascending=False, kind="stable")
    return tuple(
        HeldAtFailure(str(kind), layer if isinstance(layer, str) else None, str(owner), int(blocks), int(size))
        for kind, layer, owner, blocks, size in table.itertuples(index=False, name=None)
    )


def _kinds(address: object, size: object, failure: FailedAllocation) -> tuple[list[str], list[str | None]]:
    """Return the kind of each block and the module that it belongs to: those of the first known tensor in it."""
    starts, sizes = np.asarray(address, dtype=np.int64), np.asarray(size, dtype=np.int64)
    if failure.tensors is None:
        return [UNKNOWN] * len(starts), [None] * len(starts)
    known = sorted(failure.tensors, key=lambda tensor: tensor.address)
    places = np.array([tensor.address for tensor in known], dtype=np.int64)
    first = np.searchsorted(places, starts).tolist()
    kinds: list[str] = []
    names: list[str | None] = []
    for place, end in zip(first, (starts + np.maximum(sizes, 1)).tolist(), strict=True):
        tensor = known[place] if place < len(known) and known[place].address < end else None
        kinds.append(ACTIVATIONS if tensor is None else tensor.kind)
        names.append(None if tensor is None or tensor.kind == "optimizer-state" else tensor.name or None)
    return kinds, names


def _layers(device: DeviceHistory, layer_at: RangeAt | None) -> dict[int, str]:
    """Return the layer that was open when each address was allocated last."""
    if layer_at is None:
        return {}
    allocated = np.flatnonzero((device.kind == ALLOC) & (device.time_us > 0))
    last = dict(zip(device.address[allocated].tolist(), device.time_us[allocated].tolist(), strict=True))
    wanted = [address for address in device.holding.address.tolist() if address in last]
    times = np.array([last[address] for address in wanted], dtype=np.int64)
    return {address: layer for address, layer in zip(wanted, layer_at(times), strict=True) if layer}


def _module_of(stack: tuple[Frame, ...]) -> str | None:
    """Return the innermost module of torch in a stack, by its file; None without one."""
    for frame in stack:
        match = _MODULE.search(frame.file.replace("\\", "/"))
        if match is not None:
            return f"torch.nn {match[1]}"
    return None


def _remedies(
    history: AllocatorHistory, device: DeviceHistory, failure: FailedAllocation, by_kind: Mapping[str, int],
    holdings: Sequence[HeldAtFailure], stack: tuple[Frame, ...],
) -> Iterator[MemoryRemedy]:  # fmt: skip
    """Yield what would have made room: results that pile up first, since they fill any room, then what is enough."""
    room = failure.free_bytes
    if failure.limit_bytes is not None:
        room = max(0, min(room, failure.limit_bytes - device.reserved_bytes))
    short = max(1, failure.asked_bytes - room)
    found = [
        MemoryRemedy(kind, size, size >= short, text)
        for kind, size, text in (
            *_of_allocator(history, device, by_kind, short),
            *_of_program(failure, by_kind, holdings, stack, short),
        )
        if size > 0 or kind == UNALLOCATED
    ]
    yield from sorted(found, key=lambda remedy: (remedy.kind != "graph", not remedy.is_enough))


def _of_allocator(
    history: AllocatorHistory, device: DeviceHistory, by_kind: Mapping[str, int], short: int
) -> Iterator[tuple[str, int, str]]:
    idle, cached = by_kind[UNALLOCATED], device.cached_bytes
    pieces = f"in pieces that are not in use, the largest of {format_bytes(device.largest_idle_bytes)}"
    pages = device.idle_page_bytes
    if pages and not history.is_expandable:
        text = (
            f"Set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, which can use {format_bytes(pages)} of the "
            f"{format_bytes(idle)} that lie {pieces}."
        )
        yield UNALLOCATED, pages, text
    elif idle >= short and not history.is_expandable:
        text = (
            f"Allocate what lives long before what lives for a step: {format_bytes(idle)} lie {pieces}. Expandable "
            f"segments cannot use pieces below {format_bytes(EXPANDABLE_PAGE_BYTES)} elsewhere."
        )
        yield UNALLOCATED, pages, text
    text = (
        f"Give back {format_bytes(cached)} of cached segments: torch.cuda.empty_cache(), or fewer CUDA graphs with "
        "memory of their own."
    )
    yield CACHE, cached, text


def _of_program(
    failure: FailedAllocation,
    by_kind: Mapping[str, int],
    holdings: Sequence[HeldAtFailure],
    stack: tuple[Frame, ...],
    short: int,
) -> Iterator[tuple[str, int, str]]:
    of_graphs, state, gradients, held = (
        sum(by_kind.get(kind, 0) for kind in kinds)
        for kinds in ((ACTIVATIONS, "graph"), ("optimizer-state",), ("gradients",), ("held",))
    )
    if failure.losses >= _LEAST_LOSSES:
        text = (
            f"Keep loss.item() or loss.detach() in place of {failure.losses} results of one element, each of which "
            "keeps the activations of its step alive."
        )
        yield "graph", of_graphs, text
    largest = next((row.owner for row in holdings if row.kind in (ACTIVATIONS, "graph")), "")
    share = 100 * short / max(1, of_graphs + failure.asked_bytes)
    text = (
        f"Make the batch smaller by at least {share:.2g} %, or recompute activations with torch.utils.checkpoint, "
        f"first those of {largest}."
    )
    yield ACTIVATIONS, of_graphs, text
    element = max((t.element_bytes for t in failure.tensors or () if t.kind == "optimizer-state"), default=1)
    shards = failure.world_size or 1
    text = f"Keep the {format_bytes(state)} of the optimizer's state in 8 bits, or shard them over " + (
        f"the {shards} ranks." if shards > 1 else "several GPUs."
    )
    yield "optimizer-state", int(state * (1 - 1 / max(1, element, shards))), text
    if stack and not any(frame.function in _USES_GRADIENTS for frame in stack):
        text = (
            f"Call optimizer.zero_grad() before the forward pass, which frees {format_bytes(gradients)}, unless the "
            "program accumulates gradients."
        )
        yield "gradients", gradients, text
    line = next((row.owner for row in holdings if row.kind == "held"), "")
    yield "held", held, f"Delete or move to the CPU what Python holds ({format_bytes(held)}), first that of {line}."
    total = failure.total_bytes
    outside = 0 if total is None else total - failure.free_bytes - sum(by_kind.values())
    if outside >= _LEAST_OUTSIDE:
        text = f"End other processes on the device: {format_bytes(outside)} are not of this process' allocator."
        yield "outside", outside, text
