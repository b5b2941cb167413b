"""Read integers from the leaf pages of a SQLite table in compiled code, without SQLite.

SQLite's own interface returns one value per call, so that ten million rows take half a minute. The file format
(https://www.sqlite.org/fileformat2.html, sections 1.6 and 2.1) is simple enough to read whole pages at once. The file
is not trusted: for anything unexpected the result is -1, and SQLite reads that table instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from nsysprof.arrays import Int64s
from nsysprof.native.load import loop
from nsysprof.trace.sqlite.leaf_pages import SLACK, LeafPages, UnusualLayoutError, scan_leaves

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
