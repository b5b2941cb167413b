"""Integer columns of a large table straight from the file's pages; see leaf_decoder for why."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

_INTERIOR, _LEAF = 5, 13
_BATCH_BYTES = 1 << 20
# A cell of a table takes at least this much, with its pointer: payload size, rowid, header size, one serial type.
_LEAST_CELL_BYTES = 6
_MAX_DEPTH = 12

Pages = npt.NDArray[np.int64]
Batch = npt.NDArray[np.int64]


class UnusualLayoutError(Exception):
    """The table is not laid out as this reader expects, or damaged: let SQLite read it."""


def scan_table(path: Path, root: int, columns: Sequence[int]) -> Iterator[Batch]:
    """The numbers in `columns` (their positions) of all rows in key order, as batches int64 (columns, rows).

    A batch is overwritten by the next one: fresh memory for each would cost more than reading it. NULL, text and
    blobs are schema.NULL. Raises UnusualLayoutError.
    """
    from nsysprof.trace.leaf_decoder import SLACK, decode

    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
    try:
        page_size, usable, total = _layout(descriptor)
        wanted = np.full(max(columns) + 1, -1, dtype=np.int64)
        wanted[list(columns)] = np.arange(len(columns))
        at_once = max(1, _BATCH_BYTES // page_size)
        buffer = np.zeros(at_once * page_size + SLACK, dtype=np.uint8)
        leaves = _leaf_pages(descriptor, root, page_size, usable, total)
        out = np.empty((len(columns), at_once * page_size // _LEAST_CELL_BYTES), dtype=np.int64)
        for begin in range(0, len(leaves), at_once):
            pages = leaves[begin : begin + at_once]
            _load(descriptor, pages, page_size, memoryview(buffer))  # type: ignore[arg-type]
            rows = decode(buffer, len(pages), page_size, usable, wanted, out)
            if rows < 0:
                raise UnusualLayoutError
            yield out[:, :rows]
    finally:
        os.close(descriptor)


def _layout(descriptor: int) -> tuple[int, int, int]:
    """Page size, its usable bytes, and the number of pages."""
    head = os.pread(descriptor, 100, 0)
    size = int.from_bytes(head[16:18], "big")
    size = 65536 if size == 1 else size
    if size < 512 or size & (size - 1) or size - head[20] < 480:
        raise UnusualLayoutError
    return size, size - head[20], os.fstat(descriptor).st_size // size


def _leaf_pages(descriptor: int, root: int, page_size: int, usable: int, total: int) -> Pages:
    """The table's leaf pages in key order. All leaves of a b-tree are at one depth."""
    level = np.array([root], dtype=np.int64)
    for _ in range(_MAX_DEPTH):
        if len(level) == 0 or len(level) > total or level.min() < 2 or level.max() > total:
            raise UnusualLayoutError
        kind = os.pread(descriptor, 1, (int(level[0]) - 1) * page_size)[0]
        if kind == _LEAF:
            return level
        if kind != _INTERIOR:
            raise UnusualLayoutError
        level = np.concatenate([_children(descriptor, int(page), page_size, usable) for page in level])
    raise UnusualLayoutError


def _children(descriptor: int, page: int, page_size: int, usable: int) -> Pages:
    raw = np.frombuffer(os.pread(descriptor, page_size, (page - 1) * page_size), dtype=np.uint8)
    if len(raw) < page_size or raw[0] != _INTERIOR:
        raise UnusualLayoutError
    cells = (int(raw[3]) << 8) | int(raw[4])
    if 12 + 2 * cells > usable:
        raise UnusualLayoutError
    pointers = raw[12 : 12 + 2 * cells].view(">u2").astype(np.int64)
    if cells and int(pointers.max()) + 4 > usable:
        raise UnusualLayoutError
    digits = raw[pointers[:, None] + np.arange(4)].astype(np.int64)
    left = (digits << np.array([24, 16, 8, 0])).sum(axis=1)
    right = int.from_bytes(raw[8:12].tobytes(), "big")
    return np.append(left, right)


def _load(descriptor: int, pages: Pages, page_size: int, buffer: memoryview) -> None:
    """Read `pages` one after the other into `buffer`, neighbours in the file at once."""
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
