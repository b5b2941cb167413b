"""Encode many slices at once as the bytes of Perfetto's protobuf, and write them to tracks as they come.

Making packets one by one with Perfetto's own classes takes ten microseconds each. Here, a block of packets is an array
with one line for each packet and one column for each byte. A field that some packets lack is left out of their lines at
the end. All numbers of a column have one width, because a varint may be longer than necessary.
"""

from __future__ import annotations

import heapq
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


# Slices are held back until there are this many of them, because arrays of a few rows cost more than they save.
_LEAST_ROWS = 1 << 13
# After this many passes over overlapping slices, the rest is laid out at once.
_MOST_NESTING_TRACKS = 8

AddTrack = Callable[[], int]
# A function that is called with a track, times, and the row of each time: -1 where the innermost slice ends.
WriteSlices = Callable[[int, Int64s, Int64s], None]


class NestedTrack:
    """A track of slices that come in order of start. Those that overlap without nesting go to tracks of their own."""

    def __init__(self, add_track: AddTrack, write: WriteSlices) -> None:
        """Begin with one track.

        add_track: returns the number of a further track of the same name.
        """
        self._add_track, self._write = add_track, write
        self._tracks = [add_track()]
        self._held: list[tuple[Int64s, Int64s, _Ints]] = []
        self._count = 0
        self._open = 0

    def add(self, start_ns: Int64s, end_ns: Int64s, row: _Ints) -> None:
        """Add slices, which begin no earlier than those before them."""
        self._held.append((start_ns, end_ns, row))
        self._count += len(row)
        # Slices that are still open are looked at again only when there are as many new ones.
        if self._count >= max(_LEAST_ROWS, 2 * self._open):
            self._write_closed(is_last=False)

    def finish(self) -> None:
        """Write what is held back."""
        if self._count:
            self._write_closed(is_last=True)

    def _write_closed(self, *, is_last: bool) -> None:
        """Write the slices that no later slice can overlap."""
        start, end, row = (np.concatenate(parts) for parts in zip(*self._held, strict=True))
        order = sort_for_nesting(start, end)
        start, end, row = start[order], end[order], row[order]
        closed = len(start)
        if not is_last:
            ends = np.flatnonzero(start[1:] >= np.maximum.accumulate(end)[:-1])
            closed = int(ends[-1]) + 1 if len(ends) else 0
        if closed:
            self._place(start[:closed], end[:closed], row[:closed])
        self._held = [(start[closed:].copy(), end[closed:].copy(), row[closed:].copy())]
        self._count = self._open = len(start) - closed

    def _place(self, start: Int64s, end: Int64s, row: _Ints) -> None:
        for level in range(_MOST_NESTING_TRACKS):
            crossing = find_crossing(start, end)
            if len(crossing) == 0:
                self._fill(level, start, end, row)
                return
            self._fill(level, *(np.delete(column, crossing) for column in (start, end, row)))
            start, end, row = start[crossing], end[crossing], row[crossing]
        lanes = disjoint_lanes(start, end)
        for lane in range(int(lanes.max()) + 1):
            mine = lanes == lane
            self._fill(_MOST_NESTING_TRACKS + lane, start[mine], end[mine], row[mine])

    def _fill(self, number: int, start: Int64s, end: Int64s, row: _Ints) -> None:
        while len(self._tracks) <= number:
            self._tracks.append(self._add_track())
        time, which = begins_and_ends(start, end)
        self._write(self._tracks[number], time, np.where(which >= 0, row[which], -1))


def sort_for_nesting(start: Int64s, end: Int64s) -> Int64s:
    """Return the order in which an enclosing interval comes before those that it encloses."""
    ahead, later = slice(None, -1), slice(1, None)
    if bool(((start[ahead] < start[later]) | ((start[ahead] == start[later]) & (end[ahead] >= end[later]))).all()):
        return np.arange(len(start))
    return np.lexsort((-end, start))


def find_crossing(start: Int64s, end: Int64s) -> Int64s:
    """Return the rows that overlap an earlier one without being enclosed by it. They need another track.

    A viewer would end such a slice too early. Intervals that only nest within one other are skipped quickly.

    start, end: times (ns) in the order of sort_for_nesting.
    """
    if len(start) == 0:
        return np.zeros(0, dtype=np.int64)
    reached = np.maximum.accumulate(end)
    first = np.flatnonzero(np.append(True, start[1:] >= reached[:-1]))
    size = np.diff(np.append(first, len(start)))
    group = np.repeat(np.arange(len(first)), size)
    inner = np.ones(len(start), dtype=np.bool_)
    inner[first] = False
    # The plain form: one interval, and in it others side by side.
    plain = end <= end[first][group]
    plain[1:] &= (start[1:] >= end[:-1]) | ~inner[:-1]
    wrong = np.unique(group[inner & ~plain])
    crossing: list[int] = []
    for number in wrong.tolist():
        _find_in_group(start, end, int(first[number]), int(first[number] + size[number]), crossing)
    return np.array(crossing, dtype=np.int64)


def _find_in_group(start: Int64s, end: Int64s, low: int, high: int, crossing: list[int]) -> None:
    stack: list[int] = []
    for row, (begin, finish) in enumerate(zip(start[low:high].tolist(), end[low:high].tolist(), strict=True), low):
        while stack and stack[-1] <= begin:
            stack.pop()
        if stack and finish > stack[-1]:
            crossing.append(row)
        else:
            stack.append(finish)


def begins_and_ends(start: Int64s, end: Int64s) -> tuple[Int64s, Int64s]:
    """Return times and rows in order: the row where a slice begins, and -1 where the innermost one ends.

    start, end: times (ns) in the order of sort_for_nesting, of intervals that do not cross.
    """
    count = len(start)
    ends = np.sort(end)
    # An end comes before a begin at the same time, apart from a slice without length, which ends after its own begin.
    before = np.searchsorted(ends, start, "right")
    empty = end == start
    if empty.any():
        times, rows = start[empty], np.flatnonzero(empty)
        earlier = np.searchsorted(rows, np.arange(count))
        before -= np.searchsorted(times, start, "right") - np.maximum(np.searchsorted(times, start, "left"), earlier)
    at = np.arange(count) + before
    row = np.full(2 * count, -1, dtype=np.int64)
    row[at] = np.arange(count)
    time = np.empty(2 * count, dtype=np.int64)
    time[at] = start
    time[row < 0] = ends
    return time, row


def disjoint_lanes(start: Int64s, end: Int64s) -> Int64s:
    """Return a lane for each interval, so that no two intervals of a lane overlap.

    This is fast even for many intervals that all overlap, where find_crossing needs one pass per lane.

    start, end: times (ns) in order of start.
    """
    lanes = np.zeros(len(start), dtype=np.int64)
    free: list[tuple[int, int]] = []
    for row, (begin, finish) in enumerate(zip(start.tolist(), end.tolist(), strict=True)):
        lane = heapq.heappop(free)[1] if free and free[0][0] <= begin else len(free)
        heapq.heappush(free, (finish, lane))
        lanes[row] = lane
    return lanes
