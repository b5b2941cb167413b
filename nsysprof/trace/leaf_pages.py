"""Find and load the leaf pages of a SQLite table, and read integers from them in compiled code, without SQLite.

SQLite's own interface returns one value per call, so that ten million rows take half a minute. The file format
(https://www.sqlite.org/fileformat2.html, sections 1.6 and 2.1) is simple enough to read whole pages at once. The file
is not trusted: for anything unexpected the result is -1, and SQLite reads that table instead.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from nsysprof.arrays import Int64s, different
from nsysprof.native.load import loop

_INTERIOR, _LEAF = 5, 13
_BATCH_BYTES = 1 << 20
# The fewest bytes of a table's cell with its pointer: payload size, rowid, header size, one serial type.
_LEAST_CELL_BYTES = 6
_MAX_DEPTH = 12
# Zero bytes that must follow the pages in the buffer, so that a varint at their very end stays inside it.
SLACK = 32
# The most rows of a batch.
MOST_ROWS = _BATCH_BYTES // _LEAST_CELL_BYTES

# SQLite leaves the page with this byte unused, for its locks.
_LOCK_BYTE = 1 << 30
_FIRST_KEY, _LAST_KEY = np.iinfo(np.int64).min, np.iinfo(np.int64).max


class UnusualLayoutError(Exception):
    """The table is damaged, or its layout is unexpected, so SQLite must read it."""


@dataclass(frozen=True)
class _Level:
    """Pages of a table at one depth, in key order. Rowids of page i are above `above[i]` and at most `at_most[i]`."""

    pages: Int64s
    above: Int64s
    at_most: Int64s


@dataclass(frozen=True)
class _Layout:
    """Page size, usable bytes per page, and number of pages, from the header and as SQLite counts them."""

    page_size: int
    usable: int
    pages: int


@dataclass(frozen=True)
class LeafPages:
    """Some leaf pages of a table, in key order.

    buffer: their bytes, and SLACK more. usable: how many bytes of each page are used. is_only: whether the table is one
    page, which may be empty.
    """

    buffer: npt.NDArray[np.uint8]
    pages: int
    page_size: int
    usable: int
    # The bounds of the rowids of each page according to the pages that refer to it.
    above: Int64s
    at_most: Int64s
    is_only: bool

    def since(self, page: int) -> LeafPages:
        """Return these pages from one on."""
        buffer, above, at_most = self.buffer[page * self.page_size :], self.above[page:], self.at_most[page:]
        return replace(self, buffer=buffer, pages=self.pages - page, above=above, at_most=at_most)

    @property
    def most_rows(self) -> int:
        """Return how many rows these pages hold at most."""
        return self.pages * self.page_size // _LEAST_CELL_BYTES


def scan_leaves(path: Path, root: int) -> Iterator[LeafPages]:
    """Yield the leaf pages of a table in key order, in batches. Each overwrites the bytes of the last one.

    Raises UnusualLayoutError.
    """
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
    try:
        layout = _read_layout(descriptor)
        size = layout.page_size
        leaves = _leaf_level(descriptor, root, layout)
        at_once = min(len(leaves.pages), max(1, _BATCH_BYTES // size))
        buffer = np.zeros(at_once * size + SLACK, dtype=np.uint8)
        for begin in range(0, len(leaves.pages), at_once):
            part = slice(begin, begin + at_once)
            pages = leaves.pages[part]
            _load(descriptor, pages, size, memoryview(buffer))  # type: ignore[arg-type]
            bounds = leaves.above[part], leaves.at_most[part]
            yield LeafPages(buffer, len(pages), size, layout.usable, *bounds, len(leaves.pages) == 1)
    finally:
        os.close(descriptor)


def _read_layout(descriptor: int) -> _Layout:
    head = os.pread(descriptor, 100, 0)
    size = int.from_bytes(head[16:18], "big")
    size = 65536 if size == 1 else size
    if size < 512 or size & (size - 1) or size - head[20] < 480:
        raise UnusualLayoutError
    pages = os.fstat(descriptor).st_size // size
    # The count in the header is valid when the change counter behind it equals the counter of the last change.
    counted = int.from_bytes(head[28:32], "big")
    if counted and head[24:28] == head[92:96]:
        pages = min(pages, counted)
    return _Layout(size, size - head[20], pages)


def _leaf_level(descriptor: int, root: int, layout: _Layout) -> _Level:
    """Return the table's leaf pages. All leaves of a b-tree must be at one depth, and no page may be reached twice."""
    level = _Level(np.array([root]), np.array([_FIRST_KEY]), np.array([_LAST_KEY]))
    seen = np.zeros(layout.pages + 1, dtype=bool)
    for _ in range(_MAX_DEPTH):
        pages = level.pages
        if pages.min() < 2 or pages.max() > layout.pages or (pages == _LOCK_BYTE // layout.page_size + 1).any():
            raise UnusualLayoutError
        if seen[pages].any() or len(different(pages)) < len(pages):
            raise UnusualLayoutError
        seen[pages] = True
        kind = os.pread(descriptor, 1, (int(pages[0]) - 1) * layout.page_size)[0]
        if kind == _LEAF:
            return level
        if kind != _INTERIOR:
            raise UnusualLayoutError
        parts = [_children(descriptor, level, i, layout) for i in range(len(pages))]
        level = _Level(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))
    raise UnusualLayoutError


def _children(descriptor: int, level: _Level, index: int, layout: _Layout) -> tuple[Int64s, Int64s, Int64s]:
    """Return the pages below one, and the bounds of their rowids: its cells name the last rowid of each."""
    size = layout.page_size
    raw = np.frombuffer(os.pread(descriptor, size, (int(level.pages[index]) - 1) * size), dtype=np.uint8)
    if len(raw) < size or raw[0] != _INTERIOR:
        raise UnusualLayoutError
    cells = (int(raw[3]) << 8) | int(raw[4])
    if cells == 0 or 12 + 2 * cells > layout.usable:
        raise UnusualLayoutError
    pointers = raw[12 : 12 + 2 * cells].view(">u2").astype(np.int64)
    if int(pointers.min()) < 12 + 2 * cells or int(pointers.max()) + 5 > layout.usable:
        raise UnusualLayoutError
    raw = np.append(raw, np.zeros(8, dtype=np.uint8))  # so that no key is read beyond the end
    left = (raw[pointers[:, None] + np.arange(4)].astype(np.int64) << np.array([24, 16, 8, 0])).sum(axis=1)
    right = int.from_bytes(raw[8:12].tobytes(), "big")
    keys = _keys(raw, pointers + 4)
    edges = np.concatenate(([level.above[index]], keys, [level.at_most[index]]))
    if (edges[1:] < edges[:-1]).any():
        raise UnusualLayoutError
    return np.append(left, right), edges[:-1], edges[1:]


def _keys(raw: npt.NDArray[np.uint8], at: Int64s) -> Int64s:
    """Return the variable-length integers at the positions `at`."""
    value = np.zeros(len(at), dtype=np.int64)
    going = np.ones(len(at), dtype=bool)
    for i in range(8):
        byte = raw[at + i].astype(np.int64)
        value = np.where(going, (value << 7) | (byte & 0x7F), value)
        going &= byte >= 0x80
    return np.where(going, (value << 8) | raw[at + 8], value)


def _load(descriptor: int, pages: Int64s, page_size: int, buffer: memoryview) -> None:
    """Read `pages` one after the other into `buffer`. Neighbours in the file are read at once."""
    breaks = np.flatnonzero(np.diff(pages) != 1) + 1
    at = 0
    for run in np.split(pages, breaks):
        size = len(run) * page_size
        offset = (int(run[0]) - 1) * page_size
        done = 0
        while done < size:
            got = os.preadv(descriptor, [buffer[at + done : at + size]], offset + done)
            if got == 0:
                raise UnusualLayoutError
            done += got
        at += size


# How many parts a row of a kernel or of a call has at most.
_ROLES = 10
# The types that a row's code may have.
_CODES = (np.uint8, np.int16, np.int32)


def decode(
    buffer: npt.NDArray[np.uint8],
    pages: int,
    page_size: int,
    usable: int,
    wanted: Int64s,
    above: Int64s,
    at_most: Int64s,
    is_only: bool,
    out: Int64s,
) -> int:
    """Read rows of `pages` leaf pages into out (columns, rows); return their number, or -1 when SQLite must read them.

    wanted: for each column of the table up to the last needed one, its row in `out`, or -1. Text becomes NULL. The last
        row of `out` takes the rowids.
    above, at_most: for each page, the bounds of its rowids according to the pages that refer to it.
    is_only: whether the table is one page, which may be empty.
    """
    width, capacity = out.shape
    assert len(buffer) >= pages * page_size + SLACK
    assert usable <= page_size
    assert min(len(above), len(at_most)) >= pages
    assert max(wanted, default=-1) < width
    return int(
        _loop("decode")(
            buffer, pages, page_size, usable, wanted, len(wanted), above, at_most, is_only, out, width, capacity
        )
    )  # fmt: skip


def encode(values: Int64s, begin: int, slots: Int64s, rows: Int64s, count: int, codes: Int64s) -> tuple[int, int]:
    """Code each column of `values` (width, n) from `begin` on by its row in `rows`, and add new tuples to `rows`.

    Return (columns done, rows used). There are fewer columns than `values` has when `rows` is full, and -1 columns when
    too many tuples have one hash.

    slots: an open-addressing hash table of row numbers (-1: free); its length is a power of two.
    """
    width, n = values.shape
    assert rows.shape[1] == width
    assert len(codes) >= n
    assert len(slots).bit_count() == 1
    used = np.array([count], dtype=np.int64)
    done = _loop("encode")(values, width, n, begin, slots, len(slots) - 1, rows, len(rows), used, codes)
    return int(done), int(used[0])


def read_events(
    leaves: LeafPages,
    wanted: Int64s,
    kind: int,
    room: Sequence[npt.NDArray[Any]],
    slots: Int64s,
    tuples: Int64s,
    state: tuple[Int64s, Int64s, Int64s],
) -> int:
    """Read the kernels or calls of some pages as event_columns says; return the pages read, or -1.

    wanted: for each column of the table up to the last needed one, which part of the row it is, or -1.
    room: starts, durations, correlation ids, codes and graph nodes, each with room for all rows after the present ones.
    slots, tuples: a hash table, with the rows that encode calls `rows`.
    state: what is known of headers, room for a row, and five counts.
    """
    starts, durations, ids, codes, nodes = room
    assert len(leaves.buffer) >= leaves.pages * leaves.page_size + SLACK
    assert leaves.usable <= leaves.page_size
    assert min(len(leaves.above), len(leaves.at_most)) >= leaves.pages
    assert max(wanted, default=-1) < _ROLES
    assert tuples.shape[1] == (3 if kind < 0 else 8)
    assert len(slots).bit_count() == 1
    assert durations.dtype in (np.uint32, np.int64)
    assert ids.dtype == np.uint32
    assert codes.dtype in _CODES
    headers, row, counts = state
    assert (len(headers), len(row), len(counts)) >= (65 * (11 + _ROLES), _ROLES + 8, 5)
    capacity = min(len(each) for each in room[:-1])
    wide, code_bytes = durations.dtype == np.int64, codes.dtype.itemsize
    done = _loop("read_events")(
        leaves.buffer, leaves.pages, leaves.page_size, leaves.usable, wanted, len(wanted), leaves.above, leaves.at_most,
        leaves.is_only, kind, wide, code_bytes, starts, *(each.view(np.uint8) for each in (durations, ids, codes)),
        capacity, nodes, len(nodes), slots, len(slots) - 1, tuples, len(tuples), headers, row, counts,
    )  # fmt: skip
    return int(done)


def _loop(name: str) -> Callable[..., int]:
    """Return a loop. What calls this reads pages, which Trace.reads_pages allows only where there are loops."""
    function = loop(name)
    assert function is not None
    return function


def scan_table(path: Path, root: int, columns: Sequence[int]) -> Iterator[Int64s]:
    """Yield the numbers in `columns` (their positions) of all rows in key order, as batches int64 (columns + 1, rows).

    The last column of each batch holds the rowids. A batch is overwritten by the next one, because fresh memory for
    each would cost more time than reading it. NULL, text and blobs become schema.NULL. Raises UnusualLayoutError.
    """
    wanted = np.full(max(columns) + 1, -1, dtype=np.int64)
    wanted[list(columns)] = np.arange(len(columns))
    out = np.empty((0, 0), dtype=np.int64)
    for leaves in scan_leaves(path, root):
        if leaves.most_rows > out.shape[1]:  # the first batch is the largest
            out = np.empty((len(columns) + 1, leaves.most_rows), dtype=np.int64)
        bounds = leaves.above, leaves.at_most
        rows = decode(
            leaves.buffer, leaves.pages, leaves.page_size, leaves.usable, wanted, *bounds, leaves.is_only, out
        )
        if rows < 0:
            raise UnusualLayoutError
        yield out[:, :rows]
