"""Read Kineto's JSON (as torch.profiler's export_chrome_trace writes it) event by event.

A file of gigabytes is never in memory at once. The content is not trusted: an event of an unexpected form is skipped,
and a value that should be a number and is not becomes None.
"""

from __future__ import annotations

import codecs
import json
import re
import zlib
from collections.abc import Iterator
from decimal import ROUND_HALF_EVEN, Decimal
from pathlib import Path
from typing import IO, Any, NamedTuple

from nsysprof.errors import TraceDamagedError, TraceForeignError

GPU_WORK = frozenset({"kernel", "gpu_memcpy", "gpu_memset"})
GPU_CALLS = frozenset({"cuda_runtime", "cuda_driver"})
MEMORY = "memory"
# The names that torch 1.8 and 1.9 used.
_OLD_CATEGORIES = {
    "Operator": "cpu_op", "Kernel": "kernel", "Memcpy": "gpu_memcpy", "Memset": "gpu_memset", "Runtime": "cuda_runtime",
}  # fmt: skip
_KNOWN = GPU_WORK | GPU_CALLS | {"cpu_op", "user_annotation"}
# Keys before the events that only Kineto writes, and no other writer of Chrome's format.
_KINETO_KEYS = ("schemaVersion", "deviceProperties", "computeProperties", "baseTimeNanoseconds", "trace_id")

_CHUNK = 1 << 20
_LARGEST_VALUE = 16 << 20
# How close to the end of a text the decoder can notice that the rest is missing: `false`, or an escaped surrogate pair.
_LONGEST_TOKEN = 16
_LARGEST = 2**63
_SPACE = re.compile(r"\s*")


class Event(NamedTuple):
    """One event of the profiler."""

    # One of GPU_WORK or GPU_CALLS, "cpu_op", "user_annotation", or MEMORY for torch's allocator.
    category: str
    name: str
    pid: int
    tid: int
    # Nanoseconds since the header's `base_ns`; None where the file has no number that fits 64 bits.
    start_ns: int | None
    end_ns: int | None
    arguments: dict[str, Any]


class Header(NamedTuple):
    """What precedes the events of a Kineto file."""

    # The time zero of the events (ns since 1970, UTC). It is 0 in older files, whose events have absolute times.
    base_ns: int
    devices: tuple[dict[str, Any], ...]
    is_kineto: bool
    # Whether its memory events are of CUDA's driver, and not of torch's allocator: nsysprof exported another trace.
    has_driver_memory: bool = False


def read_header(path: Path, named: Path | None = None) -> Header:
    """Return the header of a Kineto file.

    Raises TraceForeignError for JSON without events, and TraceDamagedError for a Kineto header that ends or breaks.

    named: the path that errors show, where `path` is a copy.
    """
    with path.open("rb") as stream:
        return _read_header(_JsonText(stream, named or path))


def _read_header(text: _JsonText) -> Header:
    """Read as far as the bracket before the first event, and return the header."""
    values: dict[str, Any] = {}
    try:
        if text.take("{"):
            while not text.take("}"):
                key = text.value()
                text.expect(":")
                if key == "traceEvents" and text.take("["):
                    return _header(values)
                value = text.value()
                if key in (*_KINETO_KEYS, "nsysprof"):
                    values[key] = value
                text.take(",")
    except TraceDamagedError:
        if values:
            raise
    raise TraceForeignError(
        f"{text.path} is not a trace of torch.profiler: it has no traceEvents.",
        "Give the file that export_chrome_trace wrote, or an nsys export.",
    )


def _header(values: dict[str, Any]) -> Header:
    exported = values.get("nsysprof")
    devices = values.get("deviceProperties", values.get("computeProperties"))
    return Header(
        int64(values.get("baseTimeNanoseconds")) or 0,
        tuple(device for device in devices if isinstance(device, dict)) if isinstance(devices, list) else (),
        any(key in values for key in _KINETO_KEYS),
        isinstance(exported, dict) and exported.get("memory_kind") == "driver",
    )


def read_events(path: Path, named: Path | None = None) -> Iterator[Event]:
    """Yield the useful events of a Kineto file, in the file's order.

    Raises what read_header raises, and TraceDamagedError at the first damage among the events.

    named: as in read_header.
    """
    with path.open("rb") as stream:
        text = _JsonText(stream, named or path)
        _read_header(text)
        while not text.take("]"):
            event = read_event(text.value())
            if event is not None:
                yield event
            if not text.take(","):
                text.expect("]")
                return


def read_event(raw: object) -> Event | None:
    """Return an element of traceEvents as an event, or None where it is of no use."""
    if not isinstance(raw, dict):
        return None
    name, category, phase, arguments = raw.get("name"), raw.get("cat"), raw.get("ph"), raw.get("args")
    if phase == "i" and name == "[memory]":
        category = MEMORY
    elif phase != "X" or not isinstance(category, str):
        return None
    else:
        category = _OLD_CATEGORIES.get(category, category)
        if category not in _KNOWN:
            return None
    start, duration = nanoseconds(raw.get("ts")), nanoseconds(raw.get("dur"))
    end = None if start is None or duration is None else start + duration
    return Event(
        category,
        _text(name),
        _number(raw.get("pid")),
        _number(raw.get("tid")),
        start,
        end,
        arguments if isinstance(arguments, dict) else {},
    )


def nanoseconds(microseconds: object) -> int | None:
    """Return microseconds as exact nanoseconds, or None for what is not a number or does not fit 64 bits."""
    number = _decimal(microseconds)
    # Compared without abs(), which rounds and may overflow.
    if number is None or not -_LARGEST // 1000 < number < _LARGEST // 1000:
        return None
    return int((number * 1000).to_integral_value(ROUND_HALF_EVEN))


def int64(value: object) -> int | None:
    """Return a number as an integer for SQLite, or None for what is not a whole number or does not fit 64 bits."""
    if type(value) is int:
        return value if -_LARGEST <= value < _LARGEST else None
    number = _decimal(value)
    # The size is checked first: a Decimal of 10**999999 is small, but the integer of it is not.
    if number is None or not -_LARGEST <= number < _LARGEST or number != number.to_integral_value():
        return None
    return int(number)


def _decimal(value: object) -> Decimal | None:
    if isinstance(value, bool) or not isinstance(value, int | str | float | Decimal):
        return None
    try:
        number = Decimal(value)
    except ArithmeticError:
        return None
    return number if number.is_finite() else None


def _number(label: object) -> int:
    """Return the number of a process or thread. Tools that merge traces write names, and each name gets a number."""
    number = int64(label)
    return zlib.crc32(_text(label).encode()) if number is None else abs(number)


def _text(value: object) -> str:
    text = value if isinstance(value, str) else str(value)
    # Half of a surrogate pair cannot be stored in SQLite.
    return text if text.isascii() else text.encode("utf-8", errors="replace").decode("utf-8")


class _JsonText:
    """The values of a JSON file one after another, with a bounded part of the file in memory.

    It uses the standard library: ijson is no faster, refuses the NaN and the control characters that profilers write,
    and needs memory that grows with the square of the nesting.
    """

    def __init__(self, stream: IO[bytes], path: Path) -> None:
        self.path = path
        self._stream = stream
        self._utf8 = codecs.getincrementaldecoder("utf-8")(errors="replace")
        # Fractions stay text: as floats, times would lose their nanoseconds.
        self._json = json.JSONDecoder(parse_float=str, strict=False)
        self._text = ""
        self._at = 0
        self._values = 0
        self._ended = False

    def take(self, mark: str) -> bool:
        """Return whether `mark` comes next, and move past it if so."""
        while True:
            self._at = _SPACE.match(self._text, self._at).end()  # type: ignore[union-attr] # it matches everywhere
            if self._at < len(self._text):
                break
            if not self._more():
                return False
        is_next = self._text[self._at] == mark
        self._at += is_next
        return is_next

    def expect(self, mark: str) -> None:
        """Move past `mark`. Raises TraceDamagedError where something else comes next."""
        if not self.take(mark):
            raise self._damage(f"a {mark} is missing")

    def value(self) -> Any:
        """Return the next value as a whole. Raises TraceDamagedError."""
        self.take("")  # moves to the value's first character
        while True:
            try:
                value, end = self._json.raw_decode(self._text, self._at)
            except json.JSONDecodeError as error:
                unfinished = error.pos >= len(self._text) - _LONGEST_TOKEN or error.msg.startswith("Unterminated")
                if not unfinished or not self._more():
                    raise self._damage("it ends inside a value" if self._ended else error.msg) from error
            except (ValueError, RecursionError) as error:  # an integer of thousands of digits, or nesting that deep
                raise self._damage("no profiler wrote such a value") from error
            else:
                # A number at the end of what was read may continue.
                if end < len(self._text) or not self._more():
                    self._at = end
                    self._values += 1
                    return value

    def _more(self) -> bool:
        """Read on, doubling what an unfinished value has already; return False at the end of the file."""
        rest = len(self._text) - self._at
        if rest > _LARGEST_VALUE:
            raise self._damage("a value goes on for more than 16 MB")
        chunk = self._stream.read(max(_CHUNK, rest))
        self._ended = not chunk
        self._text = self._text[self._at :] + self._utf8.decode(chunk, final=self._ended)
        self._at = 0
        return not self._ended

    def _damage(self, what: str) -> TraceDamagedError:
        return TraceDamagedError(
            f"{self.path} is damaged or truncated: {what}, after {self._values:,} complete values.",
            "Export it again. A run that is killed while it exports leaves half a file.",
        )
