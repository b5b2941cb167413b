"""Encode many slices at once as the bytes of Perfetto's protobuf.

Making packets one by one with Perfetto's own classes takes ten microseconds each. Here, a block of packets is an array
with one line for each packet and one column for each byte. A field that some packets lack is left out of their lines at
the end. All numbers of a column have one width, because a varint may be longer than necessary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from nsysprof.arrays import Int64s

_Bytes = npt.NDArray[np.uint8]
# Fields of Perfetto's messages as they are written: their number and their kind of value in one varint.
_PACKET, _TIMESTAMP, _SEQUENCE, _FLAGS, _EVENT = b"\x0a", b"\x40", b"\x50", b"\x68", b"\x5a"
_TYPE, _TRACK, _NAME, _CATEGORY, _ANNOTATION = b"\x48", b"\x58", b"\x50", b"\x18", b"\x22"
_ANNOTATION_NAME, _ANNOTATION_UINT, _ANNOTATION_TEXT = b"\x08", b"\x18", b"\x88\x01"
_FLOW, _LAST_OF_FLOW = b"\xf9\x02", b"\x81\x03"
_BEGIN, _END = b"\x01", b"\x02"
_FLOW_BYTES = 10


@dataclass(frozen=True)
class InternedTexts:
    """The interned texts of a field: the number of each text, and the text of each row (a code)."""

    iid: Int64s
    code: npt.NDArray[Any]


@dataclass(frozen=True)
class Slices:
    """The slices of a table, by row.

    role: the annotation `role` and its number; None for slices without it.
    sized: which rows have the annotation `bytes`; None for none.
    size_iid, size: the number of that annotation, and its values.
    into: the flow that ends in a row, 0 for none; None for none at all.
    out, edges: the flows that begin in row r are out[edges[r]:edges[r + 1]]; None for none at all.
    """

    name: InternedTexts
    category: InternedTexts
    role_iid: int = 0
    role: InternedTexts | None = None
    size_iid: int = 0
    sized: npt.NDArray[np.bool_] | None = None
    size: Int64s | None = None
    into: npt.NDArray[Any] | None = None
    out: npt.NDArray[Any] | None = None
    edges: npt.NDArray[Any] | None = None


def encode_slices(slices: Slices, sequence: int, flags: int, track: int, time: Int64s, row: Int64s) -> bytes:
    """Return the packets of begins and ends on one track.

    sequence, flags: constants of every packet of the file.
    time: in ns, in order, none below 0.
    row: the row of the table, or -1 where the innermost slice ends.
    """
    begins = np.flatnonzero(row >= 0)
    rows = row[begins]
    columns = _Columns(len(time), begins)
    columns.add(_NAME, _texts(slices.name, rows))
    columns.add(_CATEGORY, _texts(slices.category, rows))
    if slices.role is not None:
        texts = _texts(slices.role, rows)
        inner = _ANNOTATION_NAME + _varint(slices.role_iid) + _ANNOTATION_TEXT
        columns.add(_ANNOTATION + _varint(len(inner) + texts.shape[1]) + inner, texts)
    if slices.sized is not None and slices.size is not None and (some := slices.sized[rows]).any():
        values = _varints(np.where(some, slices.size[rows], 0))
        inner = _ANNOTATION_NAME + _varint(slices.size_iid) + _ANNOTATION_UINT
        columns.add(_ANNOTATION + _varint(len(inner) + values.shape[1]) + inner, values, some)
    if slices.into is not None and (flow := slices.into[rows].astype(np.int64)).any():
        columns.add(_LAST_OF_FLOW, _fixed(flow), flow > 0)
    more = np.zeros(len(rows), dtype=np.int64)
    if slices.out is not None and slices.edges is not None:
        low = slices.edges[rows].astype(np.int64)
        count = slices.edges[rows + 1] - low
        if count.any():
            has = count > 0
            columns.add(_FLOW, _fixed(np.where(has, slices.out[np.where(has, low, 0)], 0).astype(np.int64)), has)
            more = np.maximum(count - 1, 0).astype(np.int64)
            columns.add_after(more, _flows(slices.out, low + 1, more))
    return columns.finish(
        _TIMESTAMP, _varints(time), _SEQUENCE + _varint(sequence) + _FLAGS + _varint(flags), _TRACK + _varint(track)
    )


def _flows(out: npt.NDArray[Any], low: Int64s, count: Int64s) -> _Bytes:
    """Return the fields of the flows out[low:low+count] of each row, end to end."""
    place = np.repeat(low - (np.cumsum(count) - count), count) + np.arange(int(count.sum()))
    field = np.empty((len(place), _FLOW_BYTES), dtype=np.uint8)
    field[:, : len(_FLOW)] = np.frombuffer(_FLOW, dtype=np.uint8)
    field[:, len(_FLOW) :] = _fixed(out[place].astype(np.int64))
    return field.ravel()


class _Columns:
    """The fields of the events of a block."""

    def __init__(self, packets: int, begins: Int64s) -> None:
        self._packets, self._begins = packets, begins
        # Each field: its tag, its value for each begin, and which begins have it.
        self._fields: list[tuple[bytes, _Bytes, npt.NDArray[np.bool_] | None]] = []
        self._more = np.zeros(0, dtype=np.int64)
        self._after = np.zeros(0, dtype=np.uint8)

    def add(self, tag: bytes, value: _Bytes, present: npt.NDArray[np.bool_] | None = None) -> None:
        """Add a field.

        present: which begins have it; None for all.
        """
        self._fields.append((tag, value, present))

    def add_after(self, count: Int64s, fields: _Bytes) -> None:
        """Add flows at the end of some packets.

        count: how many each begin has.
        fields: their bytes, end to end.
        """
        if len(fields):
            self._more, self._after = count, fields

    def finish(self, time_tag: bytes, time: _Bytes, fixed: bytes, track: bytes) -> bytes:
        """Return all packets as bytes: the time, the fixed fields, and the event with its type, track and fields."""
        begins, kind = self._begins, np.full(self._packets, ord(_END), dtype=np.uint8)
        kind[begins] = ord(_BEGIN)
        length = np.full(self._packets, len(_TYPE) + 1 + len(track), dtype=np.int64)
        for tag, value, present in self._fields:
            length[begins] += (len(tag) + value.shape[1]) * (1 if present is None else present.astype(np.int64))
        if len(self._more):
            length[begins] += _FLOW_BYTES * self._more
        inner = _varints(length)
        packet = length + len(time_tag) + time.shape[1] + len(fixed) + len(_EVENT) + inner.shape[1]
        parts: list[tuple[bytes | _Bytes, npt.NDArray[np.bool_] | None]] = [
            (_PACKET, None), (_varints(packet), None), (time_tag, None), (time, None), (fixed, None),
            (_EVENT, None), (inner, None), (_TYPE, None), (kind[:, None], None), (track, None),
        ]  # fmt: skip
        for tag, value, present in self._fields:
            is_there = np.zeros(self._packets, dtype=np.bool_)
            is_there[begins] = True if present is None else present
            spread = np.empty((self._packets, value.shape[1]), dtype=np.uint8)
            spread[begins] = value
            parts += [(tag, is_there), (spread, is_there)]
        own = packet + len(_PACKET) + _width(packet)
        if len(self._more):
            own[begins] -= _FLOW_BYTES * self._more
        return self._with_flows(_join(parts, self._packets), own)

    def _with_flows(self, written: _Bytes, length: Int64s) -> bytes:
        """Return the packets with flows added at the ends of some.

        length: the length of each packet without them.
        """
        if len(self._after) == 0:
            return written.tobytes()
        some = np.flatnonzero(self._more)
        end = np.cumsum(length)[self._begins[some]]
        size = _FLOW_BYTES * self._more[some]
        first = end + np.cumsum(size) - size
        gap = np.repeat(first - (np.cumsum(size) - size), size) + np.arange(len(self._after))
        found = np.empty(len(written) + len(self._after), dtype=np.uint8)
        is_gap = np.zeros(len(found), dtype=np.bool_)
        is_gap[gap] = True
        found[gap], found[~is_gap] = self._after, written
        return found.tobytes()


def _join(parts: Sequence[tuple[bytes | _Bytes, npt.NDArray[np.bool_] | None]], rows: int) -> _Bytes:
    """Return lines end to end, made of parts side by side. A part is left out of the lines that lack it."""
    widths = [len(part) if isinstance(part, bytes) else part.shape[1] for part, _ in parts]
    block = np.empty((rows, sum(widths)), dtype=np.uint8)
    kept = np.ones((rows, sum(widths)), dtype=np.bool_)
    at = 0
    for (part, is_there), width in zip(parts, widths, strict=True):
        block[:, at : at + width] = np.frombuffer(part, dtype=np.uint8) if isinstance(part, bytes) else part
        if is_there is not None:
            kept[:, at : at + width] = is_there[:, None]
        at += width
    return block[kept]


def _texts(numbers: InternedTexts, rows: Int64s) -> _Bytes:
    """Return the number of the text of each row as varints of one width."""
    found: _Bytes = _varints(numbers.iid)[numbers.code[rows]]
    return found


def _varints(values: Int64s) -> _Bytes:
    """Return numbers as varints of one width."""
    width = _width(values)
    found = np.empty((len(values), width), dtype=np.uint8)
    for place in range(width):
        found[:, place] = (values >> (7 * place)).astype(np.uint8) | 0x80
    found[:, -1] &= 0x7F
    return found


def _width(values: Int64s) -> int:
    return max(1, -(-int(values.max(initial=0)).bit_length() // 7))


def _varint(value: int) -> bytes:
    return _varints(np.array([value], dtype=np.int64)).tobytes()


def _fixed(values: Int64s) -> _Bytes:
    """Return numbers as eight bytes each."""
    return values.astype("<i8").view(np.uint8).reshape(-1, 8)
