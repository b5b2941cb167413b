"""Read a pickle that contains only plain containers. Everything else that a pickle could do is refused."""

from __future__ import annotations

import io
import pickle
import pickletools
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

from nsysprof.errors import TraceDamagedError, TraceEmptyError, TraceError, TraceForeignError

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
