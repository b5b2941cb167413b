"""Encode many slices at once as the bytes of Perfetto's protobuf.

Making packets one by one with Perfetto's own classes takes ten microseconds each. Here, a block of packets is an array
with one line for each packet and one column for each byte. A field that some packets lack is left out of their lines at
the end. All numbers of a column have one width, because a varint may be longer than necessary.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from nsysprof.arrays import Int64s
from nsysprof.export.content import Flows

_Bytes = npt.NDArray[np.uint8]
_Ints = npt.NDArray[Any]
# Fields of Perfetto's messages as they are written: their number and their kind of value in one varint.
_PACKET, _TIMESTAMP, _SEQUENCE, _FLAGS, _EVENT = b"\x0a", b"\x40", b"\x50", b"\x68", b"\x5a"
_TYPE, _TRACK, _NAME, _CATEGORY, _ANNOTATION = b"\x48", b"\x58", b"\x50", b"\x18", b"\x22"
_ANNOTATION_NAME, _ANNOTATION_UINT, _ANNOTATION_TEXT = b"\x08", b"\x18", b"\x88\x01"
_FLOW, _LAST_OF_FLOW = b"\xf9\x02", b"\x81\x03"
_BEGIN, _END = b"\x01", b"\x02"
_FLOW_BYTES = 10
# Packets that are encoded at once: their bytes fit in a processor's cache.
_PACKETS = 1 << 14


@dataclass(frozen=True)
class Slices:
    """What the slices of a kind say.

    variants_of: returns the variant of each row.
    texts: what all slices of a variant say, as encode_texts returns it.
    bytes_of: returns the size of each row; None for slices without sizes.
    sized: which variants have the annotation `bytes`.
    size_iid: the number of that annotation.
    into, out: the arrows that end, and those that begin, in slices; None for none at all.
    """

    variants_of: Callable[[_Ints], _Ints]
    texts: _Bytes
    bytes_of: Callable[[_Ints], Int64s] | None = None
    sized: npt.NDArray[np.bool_] | None = None
    size_iid: int = 0
    into: Flows | None = None
    out: Flows | None = None


@dataclass(frozen=True)
class _Field:
    """A field of the events that begin: its tag, its value for each of them, and which of them have it (None: all)."""

    tag: bytes
    value: _Bytes
    present: npt.NDArray[np.bool_] | None = None

    @property
    def width(self) -> int:
        return len(self.tag) + int(self.value.shape[1])


def encode_texts(name: Int64s, category: Int64s, role_iid: int = 0, role: Int64s | None = None) -> _Bytes:
    """Return name, category and the annotation `role` of each variant as bytes of one width.

    name, category, role: the numbers of the interned texts; role None: no such annotation.
    role_iid: the number of the text `role`.
    """
    parts: list[bytes | _Bytes] = [_NAME, _varints(name), _CATEGORY, _varints(category)]
    if role is not None:
        texts = _varints(role)
        inner = _ANNOTATION_NAME + _varint(role_iid) + _ANNOTATION_TEXT
        parts += [_ANNOTATION + _varint(len(inner) + texts.shape[1]) + inner, texts]
    spread = [
        np.broadcast_to(np.frombuffer(part, dtype=np.uint8), (len(name), len(part)))
        if isinstance(part, bytes)
        else part
        for part in parts
    ]
    return np.concatenate(spread, axis=1)


def encode_slices(slices: Slices, sequence: int, flags: int, track: int, time: Int64s, row: Int64s) -> Iterator[_Bytes]:
    """Yield the packets of begins and ends on one track, some at a time.

    sequence, flags: constants of every packet of the file.
    time: in ns, in order, none below 0.
    row: the row of the table, or -1 where the innermost slice ends.
    """
    fixed, on_track = _SEQUENCE + _varint(sequence) + _FLAGS + _varint(flags), _TRACK + _varint(track)
    for low in range(0, len(time), _PACKETS):
        some = slice(low, low + _PACKETS)
        yield _encode(slices, fixed, on_track, time[some], row[some])


def _encode(slices: Slices, fixed: bytes, on_track: bytes, time: Int64s, row: Int64s) -> _Bytes:
    begins = np.flatnonzero(row >= 0)
    rows = row[begins]
    variant = slices.variants_of(rows)
    fields = [_Field(b"", slices.texts[variant])]
    if slices.bytes_of is not None and slices.sized is not None and (sized := slices.sized[variant]).any():
        values = _varints(np.where(sized, slices.bytes_of(rows), 0))
        inner = _ANNOTATION_NAME + _varint(slices.size_iid) + _ANNOTATION_UINT
        fields.append(_Field(_ANNOTATION + _varint(len(inner) + values.shape[1]) + inner, values, sized))
    if slices.into is not None and (into := slices.into.into(rows)).any():
        fields.append(_Field(_LAST_OF_FLOW, _fixed(into), into > 0))
    more, after = np.zeros(len(rows), dtype=np.int64), np.zeros(0, dtype=np.uint8)
    if slices.out is not None and (out := slices.out.out_of(rows)).any():
        fields.append(_Field(_FLOW, _fixed(out), out > 0))
        more, further = slices.out.more_out_of(rows)
        after = _flow_fields(further)
    return _with_flows(*_pack(begins, fields, more, fixed, on_track, time), begins, more, after)


def _flow_fields(flows: Int64s) -> _Bytes:
    """Return the fields of flows, end to end."""
    field = np.empty((len(flows), _FLOW_BYTES), dtype=np.uint8)
    field[:, : len(_FLOW)] = np.frombuffer(_FLOW, dtype=np.uint8)
    field[:, len(_FLOW) :] = _fixed(flows)
    return field.ravel()


def _pack(
    begins: Int64s, fields: list[_Field], more: Int64s, fixed: bytes, on_track: bytes, time: Int64s
) -> tuple[_Bytes, Int64s]:
    """Return all packets end to end without their further flows, and the length of each of them.

    begins: which packets begin a slice.
    fields: their fields.
    more: how many further flows each of them has.
    """
    packets = len(time)
    kind = np.full(packets, ord(_END), dtype=np.uint8)
    kind[begins] = ord(_BEGIN)
    own = np.zeros(len(begins), dtype=np.int64)
    for field in fields:
        own += field.width if field.present is None else field.width * field.present.astype(np.int64)
    length = np.full(packets, len(_TYPE) + 1 + len(on_track), dtype=np.int64)
    length[begins] += own + _FLOW_BYTES * more
    inner, times = _varints(length), _varints(time)
    packet = length + len(_TIMESTAMP) + times.shape[1] + len(fixed) + len(_EVENT) + inner.shape[1]
    head: list[bytes | _Bytes] = [
        _PACKET, _varints(packet), _TIMESTAMP, times, fixed, _EVENT, inner, _TYPE, kind[:, None], on_track,
    ]  # fmt: skip
    widths = [len(part) if isinstance(part, bytes) else part.shape[1] for part in head]
    first = sum(widths)
    block = np.empty((packets, first + sum(field.width for field in fields)), dtype=np.uint8)
    at = 0
    for part, width in zip(head, widths, strict=True):
        block[:, at : at + width] = np.frombuffer(part, dtype=np.uint8) if isinstance(part, bytes) else part
        at += width
    # An end has none of the fields; a begin may lack some.
    kept = np.zeros(block.shape, dtype=np.bool_)
    kept[:, :first] = True
    kept[begins, first:] = True
    for field in fields:
        value = at + len(field.tag)
        block[:, at:value] = np.frombuffer(field.tag, dtype=np.uint8)
        block[begins, value : at + field.width] = field.value
        if field.present is not None:
            kept[begins[~field.present], at : at + field.width] = False
        at += field.width
    length = packet + len(_PACKET) + _width(packet)
    length[begins] -= _FLOW_BYTES * more
    return block[kept], length


def _with_flows(written: _Bytes, length: Int64s, begins: Int64s, more: Int64s, after: _Bytes) -> _Bytes:
    """Return the packets with further flows added at the ends of some.

    length: the length of each packet without them.
    more: how many each packet of `begins` gets.
    after: their fields, end to end.
    """
    if len(after) == 0:
        return written
    some = np.flatnonzero(more)
    end = np.cumsum(length)[begins[some]]
    size = _FLOW_BYTES * more[some]
    first = end + np.cumsum(size) - size
    gap = np.repeat(first - (np.cumsum(size) - size), size) + np.arange(len(after))
    packets = np.empty(len(written) + len(after), dtype=np.uint8)
    is_gap = np.zeros(len(packets), dtype=np.bool_)
    is_gap[gap] = True
    packets[gap], packets[~is_gap] = after, written
    return packets


def _varints(values: Int64s) -> _Bytes:
    """Return numbers as varints of one width."""
    width = _width(values)
    encoded = np.empty((len(values), width), dtype=np.uint8)
    for place in range(width):
        encoded[:, place] = (values >> (7 * place)).astype(np.uint8) | 0x80
    encoded[:, -1] &= 0x7F
    return encoded


def _width(values: Int64s) -> int:
    return max(1, -(-int(values.max(initial=0)).bit_length() // 7))


def _varint(value: int) -> bytes:
    return _varints(np.array([value], dtype=np.int64)).tobytes()


def _fixed(values: Int64s) -> _Bytes:
    """Return numbers as eight bytes each."""
    return values.astype("<i8").view(np.uint8).reshape(-1, 8)
