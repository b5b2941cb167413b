"""Explain a failed allocation of torch: who held how much on the device, as what, and what would have made room."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from nsysprof.analysis.overview.allocator_owners import RangeAt, owner_of
from nsysprof.notes import make_note
from nsysprof.results.allocator_memory import (
    ACTIVATIONS,
    CACHE,
    UNALLOCATED,
    UNKNOWN,
    HeldAtFailure,
    MemoryFinding,
    MemoryRemedy,
    OutOfMemory,
)
from nsysprof.results.findings import OUT_OF_MEMORY
from nsysprof.torchprof.allocator_history import ALLOC, AllocatorHistory, DeviceHistory, Frame
from nsysprof.torchprof.failed_allocation import FailedAllocation
from nsysprof.units import format_bytes

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
            *_of_allocator(history, device, by_kind),
            *_of_program(failure, by_kind, holdings, stack, short),
        )
        if size > 0
    ]
    yield from sorted(found, key=lambda remedy: (remedy.kind != "graph", not remedy.is_enough))


def _of_allocator(
    history: AllocatorHistory, device: DeviceHistory, by_kind: Mapping[str, int]
) -> Iterator[tuple[str, int, str]]:
    idle, cached = by_kind[UNALLOCATED], device.cached_bytes
    if not history.is_expandable:
        text = (
            f"Set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True: {format_bytes(idle)} lie in pieces that are not "
            f"in use, the largest of {format_bytes(device.largest_idle_bytes)}."
        )
        yield UNALLOCATED, idle, text
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
