#!/usr/bin/env python3
"""Pack a SQLite trace as small as xz can: rows of one size are packed as differences to the row before.

    scripts/pack_trace.py TRACE.sqlite TRACE.sqlite.xz

The file unpacks with any xz to the same bytes. It consists of several streams, because a filter holds for a whole one.
"""

from __future__ import annotations

import argparse
import itertools
import lzma
from collections import Counter
from pathlib import Path

_PAGES = 8  # judged together; what has another row size begins a stream, whose dictionary is empty
_LEAST_SHARE = 0.8  # of the rows of a page with the same size
_LEAST_GAIN = 0.03  # of the filter
_MOST_DISTANCE = 256  # that the filter knows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    options = parser.parse_args()
    packed = pack(options.source.read_bytes())
    options.target.write_bytes(packed)
    print(f"{options.target}: {len(packed):,} bytes")
    return 0


def pack(content: bytes) -> bytes:
    """Return a SQLite file packed: as one stream, or as several where they are smaller together."""
    streams, plain = [], b""
    for row_bytes, part in split(content):
        packed = compress(part, row_bytes) if row_bytes else b""
        if packed and len(packed) < (1 - _LEAST_GAIN) * len(compress(part)):
            streams += [compress(plain), packed] if plain else [packed]
            plain = b""
        else:
            plain += part
    streams += [compress(plain)] if plain else []
    return min(b"".join(streams), compress(content), key=len)


def split(content: bytes) -> list[tuple[int, bytes]]:
    """Return the parts of a SQLite file with the size of the rows of each, 0 where they differ."""
    page_bytes = int.from_bytes(content[16:18], "big") or 1
    page_bytes = page_bytes if page_bytes > 1 else 1 << 16  # as SQLite writes 65536
    step = _PAGES * page_bytes
    groups = [content[start : start + step] for start in range(0, len(content), step)]
    sizes = [row_bytes_of(group, page_bytes) for group in groups]
    pairs = itertools.groupby(zip(sizes, groups, strict=True), key=lambda pair: pair[0])
    return [(size, b"".join(group for _, group in part)) for size, part in pairs]


def row_bytes_of(pages: bytes, page_bytes: int) -> int:
    """Return the size of the rows of most pages, 0 where rows of a page differ."""
    starts = range(0, len(pages), page_bytes)
    return Counter(_row_bytes(pages[start : start + page_bytes]) for start in starts).most_common(1)[0][0]


def _row_bytes(page: bytes) -> int:
    if page[0] != 13:  # no leaf of a table
        return 0
    rows = int.from_bytes(page[3:5], "big")
    places = [int.from_bytes(page[at : at + 2], "big") for at in range(8, 8 + 2 * rows, 2)]
    sizes = Counter(before - after for before, after in itertools.pairwise(places)).most_common(1)
    size, count = sizes[0] if sizes else (0, 0)
    return size if 0 < size <= _MOST_DISTANCE and count >= _LEAST_SHARE * (rows - 1) else 0


def compress(part: bytes, row_bytes: int = 0) -> bytes:
    filters: list[dict[str, int]] = [{"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME}]
    if row_bytes:
        filters.insert(0, {"id": lzma.FILTER_DELTA, "dist": row_bytes})
    return lzma.compress(part, lzma.FORMAT_XZ, lzma.CHECK_CRC32, filters=filters)


if __name__ == "__main__":
    raise SystemExit(main())
