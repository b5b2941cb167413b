"""Read integer columns of a large table directly from the file's pages. sqlite_cells explains why."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from nsysprof.arrays import Int64s
from nsysprof.trace.sqlite.leaf_pages import UnusualLayoutError, scan_leaves
from nsysprof.trace.sqlite.sqlite_cells import decode


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
