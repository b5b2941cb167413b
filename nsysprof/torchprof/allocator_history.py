"""Read a snapshot of torch's CUDA allocator (torch.cuda.memory._dump_snapshot): what it held, and its history."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from nsysprof.errors import TraceDamagedError, TraceForeignError
from nsysprof.torchprof.failed_allocation import FailedAllocation, read_failure
from nsysprof.torchprof.plain_pickle import read_plain_pickle

ALLOC, FREE, RESERVE, RELEASE = 0, 1, 2, 3
# From this event on, memory can be used again; torch's own viewer counts it in the same way.
_FREED = ("free_completed", "free")
_REQUESTED = "free_requested"
_KINDS = {
    "alloc": ALLOC, **dict.fromkeys(_FREED, FREE), "segment_alloc": RESERVE, "segment_map": RESERVE,
    "segment_free": RELEASE, "segment_unmap": RELEASE,
}  # fmt: skip
# A pickle can contain the same list many times at the cost of a few bytes, so the number of items to visit is limited.
_MOST_DEVICES, _MOST_EVENTS, _MOST_FRAMES = 256, 10_000_000, 256
# All allocations of a history together; their sums then fit in 64 bits.
_MOST_BYTES = float(1 << 61)
_NO_STACK = -1


class Frame(NamedTuple):
    """One line of a stack."""

    file: str
    line: int
    function: str


@dataclass(frozen=True)
class Holding:
    """Blocks in use when the snapshot was taken. Sizes are those that were asked for, without rounding."""

    address: npt.NDArray[np.int64]
    bytes: npt.NDArray[np.int64]
    # Position in the stacks of the history; -1 without one.
    stack: npt.NDArray[np.int64]


@dataclass(frozen=True)
class DeviceHistory:
    """What the allocator did on one device, in order, and what it held at the end."""

    device_id: int
    # ALLOC, FREE, RESERVE (from the driver) or RELEASE (to the driver).
    kind: npt.NDArray[np.int64]
    address: npt.NDArray[np.int64]
    bytes: npt.NDArray[np.int64]
    # Microseconds since 1970; 0 where the snapshot has no times.
    time_us: npt.NDArray[np.int64]
    stack: npt.NDArray[np.int64]
    holding: Holding
    # Bytes that the allocator had from the driver at the end.
    reserved_bytes: int
    # How many allocations failed for lack of memory.
    oom_count: int
    # Bytes in segments that hold nothing, and the largest piece that is not in use anywhere.
    cached_bytes: int = 0
    largest_idle_bytes: int = 0


@dataclass(frozen=True)
class AllocatorHistory:
    """A snapshot: the stacks, the innermost frame first, and each device that was used."""

    stacks: tuple[tuple[Frame, ...], ...]
    devices: tuple[DeviceHistory, ...]
    # The failed allocation at which it was taken, None for one of another time; the position of its stack (-1 without
    # one), and its time (us since 1970, 0 without one).
    failure: FailedAllocation | None = None
    failure_stack: int = _NO_STACK
    failure_time_us: int = 0
    # Whether the allocator's segments can grow; None where the snapshot does not say.
    is_expandable: bool | None = None


def read_allocator_history(path: Path) -> AllocatorHistory:
    """Return the content of a snapshot. Raises the errors of read_plain_pickle, also for what is not a snapshot."""
    snapshot = read_plain_pickle(path)
    if isinstance(snapshot, list):  # before torch 2.0
        snapshot = {"segments": snapshot}
    if not isinstance(snapshot, dict) or not isinstance(snapshot.get("segments"), list):
        raise TraceForeignError(
            f"{path} is a pickle, but not a snapshot of torch's allocator.",
            "Give a file of torch.cuda.memory._dump_snapshot.",
        )
    try:
        return _history_of(snapshot)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError) as error:
        raise TraceDamagedError(
            f"{path} is a damaged snapshot ({type(error).__name__}: {error}).", "Write the snapshot again."
        ) from error


def _history_of(snapshot: dict[str, Any]) -> AllocatorHistory:
    traces = snapshot.get("device_traces") or []
    segments: dict[int, list[dict[str, Any]]] = {}
    for segment in snapshot["segments"]:
        segments.setdefault(int(segment.get("device", 0)), []).append(segment)
    numbers = sorted({*segments, *(number for number, trace in enumerate(traces) if trace)})
    if len(numbers) > _MOST_DEVICES or sum(map(len, traces)) > _MOST_EVENTS:
        raise ValueError("more devices or events than a machine has")
    stacks = _Stacks()
    devices = tuple(
        _device(number, traces[number] if number < len(traces) else [], segments.get(number, []), stacks)
        for number in numbers
    )
    failure, event = read_failure(snapshot)
    stack, time_us = stacks.number(event.get("frames")), int(event.get("time_us") or 0)
    if not 0 <= time_us < 1 << 62:
        raise ValueError("a time that no clock has")
    settings = snapshot.get("allocator_settings")
    expandable = settings.get("expandable_segments") if isinstance(settings, dict) else None
    is_expandable = expandable if isinstance(expandable, bool) else None
    return AllocatorHistory(tuple(stacks.numbers), devices, failure, stack, time_us, is_expandable)


class _Stacks:
    """Numbers stacks. Events of one line share a list of frames in the pickle, so most are recognised by identity."""

    def __init__(self) -> None:
        self.numbers: dict[tuple[Frame, ...], int] = {}
        self._by_id: dict[int, int] = {}

    def number(self, frames: list[dict[str, Any]] | None) -> int:
        """Return the position of a stack; -1 for none."""
        if not frames:
            return _NO_STACK
        known = self._by_id.get(id(frames))
        if known is None:
            stack = tuple(
                Frame(str(frame["filename"]), int(frame["line"]), str(frame["name"])) for frame in frames[:_MOST_FRAMES]
            )
            known = self._by_id[id(frames)] = self.numbers.setdefault(stack, len(self.numbers))
        return known


def _device(number: int, trace: list[dict[str, Any]], segments: list[dict[str, Any]], stacks: _Stacks) -> DeviceHistory:
    actions = {str(event["action"]) for event in trace}
    kinds = dict(_KINDS)
    if not actions & set(_FREED):  # recorded with skip_actions
        kinds[_REQUESTED] = FREE
    rows = [
        (
            kinds[event["action"]],
            int(event["addr"]),
            int(event["size"]),
            int(event.get("time_us") or 0),
            stacks.number(event.get("frames")),
        )
        for event in trace
        if event["action"] in kinds
    ]
    columns = np.array(rows, dtype=np.int64).reshape(-1, 5).T
    blocks = [(int(block[0]), block[1], stacks.number(block[2])) for block in _blocks_in_use(segments)]
    held = np.array(blocks, dtype=np.int64).reshape(-1, 3).T
    reserved = sum(int(segment["total_size"]) for segment in segments)
    idle = [[int(block["size"]) for block in segment["blocks"] if block["state"] == "inactive"] for segment in segments]
    is_cache = [len(sizes) == len(segment["blocks"]) for sizes, segment in zip(idle, segments, strict=True)]
    for sizes in (columns[2], held[1], np.array([reserved])):
        if len(sizes) and not (int(sizes.min()) >= 0 and float(sizes.sum(dtype=np.float64)) < _MOST_BYTES):
            raise ValueError("sizes that no memory has")
    return DeviceHistory(
        device_id=number,
        kind=columns[0],
        address=columns[1],
        bytes=columns[2],
        time_us=columns[3],
        stack=columns[4],
        holding=Holding(*held),
        reserved_bytes=reserved,
        oom_count=sum(event["action"] == "oom" for event in trace),
        cached_bytes=sum(
            int(segment["total_size"]) for segment, cache in zip(segments, is_cache, strict=True) if cache
        ),
        largest_idle_bytes=max((size for sizes in idle for size in sizes), default=0),
    )


def _blocks_in_use(segments: list[dict[str, Any]]) -> Iterator[tuple[int, int, list[dict[str, Any]] | None]]:
    """Yield address, size and frames of each block in use."""
    left = _MOST_EVENTS
    for segment in segments:
        address = int(segment.get("address", 0))
        for block in segment["blocks"]:
            left -= 1
            if left < 0:
                raise ValueError("more blocks than a device holds")
            if block["state"] != "inactive":
                size, frames = _requested(block)
                yield int(block.get("address", address)), size, frames
            address += int(block["size"])


def _requested(block: dict[str, Any]) -> tuple[int, list[dict[str, Any]] | None]:
    """Return what was asked for of a block, and the stack; before torch 2.1 both stand in its history."""
    if block.get("history"):
        last = block["history"][0]
        return int(last.get("real_size", block["size"])), last.get("frames")
    return int(block.get("requested_size", block["size"])), block.get("frames")
