#!/usr/bin/env python3
"""Pack a SQLite trace as small as xz can: rows of one size are packed as differences to the row before.

    scripts/pack_trace.py TRACE.sqlite TRACE.sqlite.xz
    scripts/pack_trace.py TRACE.sqlite TRACE.sqlite.xz --group-kernels

The file unpacks with any xz to the same bytes. It consists of several streams, because a filter holds for a whole one.
--group-kernels first puts the kernels beside each other whose rows need the same space, which no reader may notice; the
first kernel of each name stays before all others.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import lzma
import sqlite3
import tempfile
from collections import Counter
from pathlib import Path

_PAGES = 8  # judged together; what has another row size begins a stream, whose dictionary is empty
_LEAST_SHARE = 0.8  # of the rows of a page with the same size
_LEAST_GAIN = 0.03  # of the filter
_MOST_DISTANCE = 256  # that the filter knows
_KERNELS = "CUPTI_ACTIVITY_KIND_KERNEL"
# What SQLite needs for a cell: by the size of an integer, whose sign is a bit; of other values, their length.
_CELL_BYTES = (
    "CASE typeof({0}) WHEN 'null' THEN 0 WHEN 'integer' THEN CASE WHEN {0} IN (0, 1) THEN 0 "
    "WHEN abs({0}) < 1 << 7 THEN 1 WHEN abs({0}) < 1 << 15 THEN 2 WHEN abs({0}) < 1 << 23 THEN 3 "
    "WHEN abs({0}) < 1 << 31 THEN 4 WHEN abs({0}) < 1 << 47 THEN 6 ELSE 8 END "
    "WHEN 'real' THEN 8 ELSE length(CAST({0} AS BLOB)) END"
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("--group-kernels", action="store_true", help="first put rows of one size beside each other")
    options = parser.parse_args()
    content = options.source.read_bytes()
    packed = pack(with_grouped_kernels(content) if options.group_kernels else content)
    options.target.write_bytes(packed)
    print(f"{options.target}: {len(packed):,} bytes")
    return 0


def with_grouped_kernels(content: bytes) -> bytes:
    """Return a SQLite file whose kernels are in order of what SQLite needs for a row, and then as before."""
    with tempfile.NamedTemporaryFile(suffix=".sqlite") as file:
        file.write(content)
        file.flush()
        with contextlib.closing(sqlite3.connect(file.name, isolation_level=None)) as database:
            columns = [row[1] for row in database.execute(f"PRAGMA table_info({_KERNELS})")]
            space = " + ".join(_CELL_BYTES.format(column) for column in columns)
            is_later = f"rowid NOT IN (SELECT min(rowid) FROM {_KERNELS} GROUP BY demangledName)"
            order = f"ORDER BY {is_later}, CASE WHEN {is_later} THEN {space} END, rowid"
            database.execute(f"CREATE TEMP TABLE one AS SELECT * FROM {_KERNELS} {order}")
            database.execute(f"DELETE FROM {_KERNELS}")
            database.execute(f"INSERT INTO {_KERNELS} SELECT * FROM temp.one ORDER BY rowid")
            database.execute("DROP TABLE temp.one")
            database.execute("VACUUM")
        return Path(file.name).read_bytes()


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
