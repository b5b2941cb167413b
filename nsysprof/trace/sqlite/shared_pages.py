"""Find tables whose b-tree contains a page twice. A small file can then seem to have endless rows.

SQLite does not check for this, and reads a page as often as other pages refer to it.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

_INTERIOR = (2, 5)
_POINTERS = 12
_MOST_DEPTH = 20  # SQLite's own limit


def has_shared_pages(path: Path, root: int) -> bool:
    """Return whether the table at the page `root` contains a page twice. SQLite reports any other damage."""
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
    try:
        head = os.pread(descriptor, 20, 0)
        size = int.from_bytes(head[16:18], "big")
        size = 65536 if size == 1 else size
        if size < 512:
            return False
        seen = np.zeros(os.fstat(descriptor).st_size // size + 1, dtype=bool)
        level = [root]
        for _ in range(_MOST_DEPTH):
            below: list[int] = []
            for page in level:
                if not 0 < page < len(seen):
                    continue
                if seen[page]:
                    return True
                seen[page] = True
                if os.pread(descriptor, 1, (page - 1) * size)[0] in _INTERIOR:
                    below += _children(os.pread(descriptor, size, (page - 1) * size))
            level = below
    finally:
        os.close(descriptor)
    return False


def _children(raw: bytes) -> list[int]:
    """Return the pages that a page refers to, where SQLite would expect its pointers."""
    page = np.frombuffer(raw, dtype=np.uint8)
    cells = min((raw[3] << 8) | raw[4], (len(raw) - _POINTERS) // 2)
    at = page[_POINTERS : _POINTERS + 2 * cells].view(">u2").astype(np.int64) & (len(raw) - 1)
    at = at[at + 4 <= len(raw)]
    digits = page[at[:, None] + np.arange(4)].astype(np.int64)
    left: list[int] = (digits << np.array([24, 16, 8, 0])).sum(axis=1).tolist()
    return [*left, int.from_bytes(raw[8:12], "big")]
