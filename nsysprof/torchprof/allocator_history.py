"""Read a snapshot of torch's CUDA allocator (torch.cuda.memory._dump_snapshot): what it held, and its history."""

from __future__ import annotations

import io
import pickle
import pickletools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from nsysprof.errors import TraceDamagedError, TraceEmptyError, TraceError, TraceForeignError
from nsysprof.torchprof.failed_allocation import FailedAllocation, read_failure

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


# torch maps the expandable segments of blocks above 1 MiB in pages of this size (c10/cuda/CUDACachingAllocator.cpp,
# kLargeBuffer).
EXPANDABLE_PAGE_BYTES = 20 << 20


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
    # The whole pages of expandable segments in the pieces that are not in use: only those can be used elsewhere.
    idle_page_bytes: int = 0


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
        idle_page_bytes=EXPANDABLE_PAGE_BYTES
        * sum(
            size // EXPANDABLE_PAGE_BYTES
            for sizes, cache in zip(idle, is_cache, strict=True)
            for size in sizes
            if not cache
        ),
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


# A larger file is refused before it is read.
MOST_BYTES = 512 << 20
# The most lists, dictionaries, tuples and memo entries; a snapshot of 100,000 events has about 2 million.
MOST_OBJECTS = 40_000_000

# The opcodes that build dict, list, tuple, str, bytes, int, float, bool and None, and refer to what is already built.
_ALLOWED = (
    "PROTO", "FRAME", "STOP", "MARK", "EMPTY_DICT", "EMPTY_LIST", "EMPTY_TUPLE", "TUPLE", "TUPLE1", "TUPLE2", "TUPLE3",
    "LIST", "DICT", "APPEND", "APPENDS", "SETITEM", "SETITEMS", "NONE", "NEWTRUE", "NEWFALSE", "BININT", "BININT1",
    "BININT2", "LONG1", "LONG4", "BINFLOAT", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8", "BINBYTES",
    "SHORT_BINBYTES", "BINBYTES8", "MEMOIZE", "BINPUT", "LONG_BINPUT", "BINGET", "LONG_BINGET",
)  # fmt: skip
# Opcodes by which one or two bytes of the file become an object of a hundred bytes.
_COUNTED = (
    "MARK", "EMPTY_DICT", "EMPTY_LIST", "TUPLE", "TUPLE1", "TUPLE2", "TUPLE3", "LIST", "DICT", "MEMOIZE", "BINPUT",
    "LONG_BINPUT",
)  # fmt: skip
_CODES = {each.name: ord(each.code) for each in pickletools.opcodes}
# An integer with more bytes than this cannot be a size, an address or a time.
_MOST_INTEGER_BYTES = 16

_Step = Callable[[Any], None]


class _Refused(Exception):
    """The pickle requires something that no plain container needs."""


def read_plain_pickle(path: Path) -> Any:
    """Return what a pickle holds: dict, list, tuple, str, bytes, int, float, bool and None, in each other.

    Python's own unpickler in Python runs it, with a table of opcodes that has none to import, call or look up anything.
    Its memo is a dictionary, so that a large index takes no memory (the one in C allocates up to it).

    Raises TraceError for a file that cannot be read or is too large, TraceEmptyError for one of 0 bytes,
    TraceForeignError for a file that is not a pickle or wants to do more, and TraceDamagedError for a truncated one.
    """
    try:
        size = path.stat().st_size
        if size > MOST_BYTES:
            raise TraceError(
                f"{path} has {size:,} bytes; at most {MOST_BYTES:,} are read.",
                "Record fewer events: torch.cuda.memory._record_memory_history(max_entries=100000).",
            )
        data = path.read_bytes()
    except OSError as error:
        raise TraceError(f"{path} cannot be read: {error.strerror}.", "Check the path.") from error
    if not data:
        raise TraceEmptyError(f"{path} is empty (0 bytes).", "Write the snapshot again.")
    if data[:1] != b"\x80":
        raise TraceForeignError(f"{path} is not a pickle.", "Give a file of torch.cuda.memory._dump_snapshot.")
    try:
        return _PlainUnpickler(io.BytesIO(data)).load()
    except _Refused as error:
        raise TraceForeignError(
            f"{path} is a pickle that {error}, which no snapshot of torch's allocator does. It was not run.",
            "Give a file of torch.cuda.memory._dump_snapshot.",
        ) from error
    except Exception as error:  # whatever the unpickler trips over; nothing that it runs belongs to the file
        raise TraceDamagedError(
            f"{path} is a damaged pickle ({type(error).__name__}).", "It may be truncated: write the snapshot again."
        ) from error


def _refuse(name: str) -> _Step:
    def step(_self: Any) -> None:
        raise _Refused(f"uses the opcode {name}")

    return step


def _count(step: _Step) -> _Step:
    def counting(self: Any) -> None:
        self.left -= 1
        if self.left < 0:
            raise _Refused(f"builds more than {MOST_OBJECTS:,} objects")
        step(self)

    return counting


def _read_integer(length_bytes: int) -> _Step:
    def step(self: Any) -> None:
        length = int.from_bytes(self.read(length_bytes), "little")
        if length > _MOST_INTEGER_BYTES:
            raise _Refused(f"has an integer of {length:,} bytes")
        self.append(int.from_bytes(self.read(length), "little", signed=True))

    return step


def _check_keys(step: _Step, name: str) -> _Step:
    """Return a step that refuses all keys but texts and integers of 64 bits, before they are hashed.

    To hash a tuple in tuples without end overflows the stack of C, and larger integers can be chosen to collide.
    """

    def checking(self: Any) -> None:
        keys = self.stack[-2:-1] if name == "SETITEM" else self.stack[::2]
        if not all(type(key) is str or (type(key) is int and -(1 << 63) <= key < 1 << 64) for key in keys):
            raise _Refused("has a key that is neither a text nor an integer of 64 bits")
        step(self)

    return checking


def _steps(own: dict[int, _Step]) -> dict[int, _Step]:
    steps = {code: own[code] if name in _ALLOWED else _refuse(name) for name, code in _CODES.items()}
    for name in _COUNTED:
        steps[_CODES[name]] = _count(steps[_CODES[name]])
    for name in ("SETITEM", "SETITEMS", "DICT"):
        steps[_CODES[name]] = _check_keys(steps[_CODES[name]], name)
    for name, length in (("LONG1", 1), ("LONG4", 4)):
        steps[_CODES[name]] = _read_integer(length)
    return steps


class _PlainUnpickler(pickle._Unpickler):
    """Python's unpickler without the opcodes that could import or call anything."""

    dispatch: ClassVar[dict[int, _Step]] = _steps(dict(pickle._Unpickler.dispatch))

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file)
        self.left = MOST_OBJECTS

    def find_class(self, module: str, name: str) -> Any:
        """Refuse every class; allowed opcodes never request one."""
        raise _Refused(f"names {module}.{name}")
