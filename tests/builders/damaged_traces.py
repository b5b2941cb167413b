"""Damage SQLite traces in every known way; tests/builders/fuzz_traces.py and tests of the readers use this.

Those of SQL_DAMAGES come first, on a file that is still whole, those of BYTE_DAMAGES on its bytes.
"""

from __future__ import annotations

import random
import sqlite3
import struct
from collections.abc import Callable
from contextlib import suppress

NUMBERS = (
    -1, 0, 1, -5_000, 2**31, 2**32, 2**40, 2**61, 2**62, 2**63 - 1, -(2**63), -(2**62), 1 << 48, -(1 << 56),
    0.5, -0.0, 1e18, 9.3e18, 1e308, -1e308, float("inf"), float("-inf"),
)  # fmt: skip
TEXTS = (
    "", "soon", "12", "0x10", "\0", "a\0b", "\x1b[31m\x1b]0;title\x07", "<script>alert(1)</script>", "=1+cmd|'/c x'!A0",
    "../../../../etc/passwd", "\u202eevil", "\r\nline|two", "RUN::math::S99999999999999999999", "RUN::::=",
    "\ud7ff\ufffe",
    '"; DROP TABLE StringIds; --', "e\u0301" * 500, "n" * 200_000, "{{ 7 * 7 }}", "%s%n", "nan", "(" * 5_000,
    "cudaGraphLaunch_v10000", "cudaStreamBeginCapture_v10000",
)  # fmt: skip
RAW_TEXTS = ("x'ff'", "x'c328'", "x'eda080'", "x'f8a1a1a1a1'", "x'80'", "zeroblob(70000)")
READ = (
    "CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_RUNTIME", "CUPTI_ACTIVITY_KIND_MEMCPY",
    "CUPTI_ACTIVITY_KIND_MEMSET", "CUPTI_ACTIVITY_KIND_GRAPH_TRACE", "CUDA_GPU_MEMORY_USAGE_EVENTS", "NVTX_EVENTS",
    "StringIds", "TARGET_INFO_GPU", "TARGET_INFO_CUDA_DEVICE", "META_DATA_CAPTURE", "META_DATA_EXPORT",
    "EXPORT_META_DATA", "DIAGNOSTIC_EVENT", "GPU_METRICS", "TARGET_INFO_GPU_METRICS",
)  # fmt: skip

READ_COLUMNS = {
    "start", "end", "deviceId", "streamId", "contextId", "correlationId", "globalPid", "globalTid", "endGlobalTid",
    "bytes", "copyKind", "address", "memKind", "memoryOperationType", "demangledName", "shortName", "graphNodeId",
    "nameId", "returnValue", "eventClass", "eventType", "text", "textId", "domainId", "rangeId", "id", "value", "name",
    "totalMemory", "smCount", "uuid", "cuDevice", "gpuId", "cudaId", "pid", "severity", "timestamp", "typeId",
    "metricId", "metricName",
}  # fmt: skip


def pick_table(database: sqlite3.Connection, source: random.Random) -> tuple[str, list[str]]:
    """Return a table and its columns: most often one that the analysis reads, and of its columns those."""
    there = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY 1")]
    table = source.choice(([name for name in READ if name in there] if source.random() < 0.9 else []) or there)
    columns = [row[1] for row in database.execute(f'PRAGMA table_info("{table}")')]
    return table, ([name for name in columns if name in READ_COLUMNS] if source.random() < 0.9 else []) or columns


def overwrite_cells(database: sqlite3.Connection, source: random.Random) -> None:
    """Cells of any type and value, NULL where the schema forbids it."""
    allow_null(database)
    for _ in range(source.choice((1, 3, 10))):
        table, columns = pick_table(database, source)
        (last,) = database.execute(f'SELECT coalesce(max(rowid), 1) FROM "{table}"').fetchone()
        value, given = pick_value(source)
        is_long = any(isinstance(item, (str, bytes)) and len(item) > 100 for item in given) or "zeroblob" in value
        rows = [source.randint(1, last) for _ in range(5 if is_long else source.choice((1, 5, 50)))]
        # Long values in every row would make a file of gigabytes, whose memory says nothing.
        which = "1" if source.random() < 0.2 and not is_long else f"rowid IN ({', '.join(map(str, rows))})"
        with suppress(sqlite3.Error):
            database.execute(
                f'UPDATE OR IGNORE "{table}" SET "{source.choice(columns)}" = {value} WHERE {which}', given
            )


def pick_value(source: random.Random) -> tuple[str, tuple[object, ...]]:
    """Return SQL for a value, and what it takes."""
    kind = source.randrange(6)
    if kind == 0:
        return "NULL", ()
    if kind == 1:
        return f"CAST({source.choice(RAW_TEXTS)} AS TEXT)", ()
    if kind == 2:
        return "?", (source.randbytes(source.choice((0, 1, 8, 5_000))),)
    if kind == 3:
        return "?", (source.choice(TEXTS),)
    return "?", (source.choice(NUMBERS),)


def hostile_names(database: sqlite3.Connection, source: random.Random) -> None:
    """Other names for kernels, calls and ranges."""
    for table, column in (("StringIds", "value"), ("NVTX_EVENTS", "text"), ("TARGET_INFO_GPU", "name")):
        with suppress(sqlite3.Error):
            (last,) = database.execute(f"SELECT coalesce(max(rowid), 1) FROM {table}").fetchone()
            for _ in range(source.choice((1, 20))):
                value = f"CAST({source.choice(RAW_TEXTS)} AS TEXT)" if source.random() < 0.2 else "?"
                given = (source.choice(TEXTS),) if value == "?" else ()
                row = source.randint(1, last)
                database.execute(f"UPDATE {table} SET {column} = {value} WHERE rowid = {row}", given)


def allow_null(database: sqlite3.Connection) -> None:
    database.execute("PRAGMA writable_schema = ON")
    database.execute("UPDATE sqlite_master SET sql = replace(sql, 'NOT NULL', '') WHERE type = 'table'")
    database.execute("PRAGMA writable_schema = RESET")


def forge_schema(database: sqlite3.Connection, source: random.Random) -> None:
    """Root pages of other tables, texts that are no SQL, objects that are no tables."""
    table, columns = pick_table(database, source)
    (pages,) = database.execute("PRAGMA page_count").fetchone()
    column = source.choice(columns)
    root = source.choice((0, 1, -1, 2**31, pages, pages + 1, source.randint(1, pages)))
    change = source.choice(
        (
            f"rootpage = {root}",
            f"rootpage = (SELECT rootpage FROM sqlite_master ORDER BY rootpage LIMIT 1 OFFSET {source.randrange(9)})",
            f"sql = replace(sql, '{column}', '{source.choice(('x', 'start', '', chr(34)))}')",
            f"sql = substr(sql, 1, {source.randint(0, 300)})",
            "sql = NULL",
            "sql = CAST(x'ff' || sql AS TEXT)",
            f"type = '{source.choice(('view', 'index', 'trigger', 'TABLE', ''))}'",
            "name = name || '_V2'",
            "name = upper(name)",
            "sql = replace(sql, 'INTEGER', 'INTEGER PRIMARY KEY')",
            "sql = rtrim(sql, ')') || ', PRIMARY KEY (start)) WITHOUT ROWID'",
            f"sql = replace(sql, ' {column} ', ' {column} INTEGER GENERATED ALWAYS AS (1) VIRTUAL, y ')",
        )
    )
    database.execute("PRAGMA writable_schema = ON")
    database.execute(f"UPDATE sqlite_master SET {change} WHERE name = ?", (table,))


def alter_tables(database: sqlite3.Connection, source: random.Random) -> None:
    """Columns and tables that are gone, new, renamed, or in another's place."""
    for _ in range(source.choice((1, 4))):
        table, columns = pick_table(database, source)
        column = source.choice(columns)
        with suppress(sqlite3.Error):
            database.execute(
                source.choice(
                    (
                        f"ALTER TABLE {table} DROP COLUMN {column}",
                        f"ALTER TABLE {table} RENAME COLUMN {column} TO {column.upper()}_",
                        f"ALTER TABLE {table} ADD COLUMN extra TEXT DEFAULT 'x'",
                        f"DROP TABLE {table}",
                        f"DELETE FROM {table}",
                        f"DELETE FROM {table} WHERE rowid % 2",
                        f"INSERT INTO {table} SELECT * FROM {table}",
                        f"CREATE INDEX i{source.randrange(99)} ON {table} ({column})",
                    )
                )
            )


def flip_bytes(content: bytearray, source: random.Random) -> None:
    for _ in range(source.choice((1, 5, 50, 500))):
        content[source.randrange(len(content))] = source.randrange(256)


def flip_bits(content: bytearray, source: random.Random) -> None:
    for _ in range(source.choice((1, 20))):
        content[source.randrange(len(content))] ^= 1 << source.randrange(8)


def forge_header(content: bytearray, source: random.Random) -> None:
    for _ in range(source.choice((1, 3))):
        content[source.randrange(16, 100)] = source.choice((0, 1, 2, 255, source.randrange(256)))


def cut_end(content: bytearray, source: random.Random) -> None:
    del content[source.randrange(1, len(content)) :]


def cut_end_in_silence(content: bytearray, source: random.Random) -> None:
    """Shorter, and the header says so: only the missing pages themselves betray it."""
    size = page_size(content)
    pages = max(1, source.randrange(max(2, len(content) // size)))
    del content[pages * size :]
    content[28:32] = pages.to_bytes(4, "big")


def replace_page(content: bytearray, source: random.Random) -> None:
    """Return a page of zeros, of noise, or of another place."""
    size, start = pick_page(content, source)
    _, other = pick_page(content, source)
    page = source.choice((bytes(size), source.randbytes(size), bytes(content[other : other + size])))
    content[start : start + size] = page[: len(content) - start]


def forge_page_header(content: bytearray, source: random.Random) -> None:
    """Return the kind, the number of cells, where they begin, the last child."""
    _, start = pick_page(content, source)
    place = start + (100 if start == 0 else 0)
    field, width = source.choice(((0, 1), (1, 2), (3, 2), (5, 2), (7, 1), (8, 4)))
    number = source.choice((0, 1, 2, 5, 10, 13, 255, 2 ** (8 * width) - 1, source.randrange(2 ** (8 * width))))
    write(content, place + field, (number % 2 ** (8 * width)).to_bytes(width, "big"))


def forge_cell_pointers(content: bytearray, source: random.Random) -> None:
    size, start = pick_page(content, source)
    for _ in range(source.choice((1, 10))):
        place = start + 8 + 2 * source.randrange(min(100, size // 4))
        write(
            content, place, source.choice((0, 7, size - 1, size - 3, 65535, source.randrange(65536))).to_bytes(2, "big")
        )


def link_in_circles(content: bytearray, source: random.Random) -> None:
    """Inner pages whose children are themselves, each other, or nowhere."""
    size = page_size(content)
    pages = max(1, len(content) // size)
    inner = [number for number in range(1, pages) if content[number * size] in (2, 5)]
    for number in source.sample(inner, min(len(inner), 3)):
        target = source.choice((number + 1, 0, 1, pages, pages + 7, source.choice(inner) + 1)).to_bytes(4, "big")
        if source.random() < 0.5:
            write(content, number * size + 8, target)
        else:
            (cells,) = struct.unpack_from(">H", content, number * size + 3)
            entry = number * size + 12 + 2 * source.randrange(max(1, min(cells, size // 8)))
            if entry + 2 <= len(content):
                write(content, number * size + struct.unpack_from(">H", content, entry)[0], target)


def forge_cells(content: bytearray, source: random.Random) -> None:
    """Lengths, keys and types at the start of cells of a leaf."""
    size = page_size(content)
    leaves = [start for start in range(size, len(content) - size, size) if content[start] == 13]
    if not leaves:
        return
    start = source.choice(leaves)
    (cells,) = struct.unpack_from(">H", content, start + 3)
    for _ in range(source.choice((1, 10))):
        entry = start + 8 + 2 * source.randrange(max(1, min(cells, size // 4)))
        (offset,) = struct.unpack_from(">H", content, entry)
        noise = source.choice((b"\xff" * 9, b"\x80" * 8, b"\x00", b"\x81\x00", b"\x0a\x0b", source.randbytes(4)))
        write(content, start + offset + source.randrange(12), noise)


def forge_overflow(content: bytearray, source: random.Random) -> None:
    """Pages that begin like a link of a chain: to themselves, to another, to none."""
    size, start = pick_page(content, source)
    target = source.choice((start // size + 1, 0, 1, len(content) // size + 1, 2**32 - 1))
    write(content, start, target.to_bytes(4, "big"))


def write(content: bytearray, place: int, value: bytes) -> None:
    """Overwrite within the file, never making it longer."""
    room = max(0, len(content) - place)
    content[place : place + min(room, len(value))] = value[:room]


def page_size(content: bytearray) -> int:
    """Return the size that the header names, or the usual one when the header is damaged already."""
    size = int.from_bytes(content[16:18], "big") or 4096
    size = 65536 if size == 1 else size
    return size if size in (512, 1024, 4096, 65536) else 4096


def pick_page(content: bytearray, source: random.Random) -> tuple[int, int]:
    size = page_size(content)
    return size, source.randrange(max(1, len(content) // size)) * size


SQL_DAMAGES: tuple[Callable[[sqlite3.Connection, random.Random], None], ...] = (
    alter_tables, hostile_names, overwrite_cells, forge_schema,
)  # fmt: skip
BYTE_DAMAGES: tuple[Callable[[bytearray, random.Random], None], ...] = (
    flip_bytes, flip_bits, forge_header, cut_end, cut_end_in_silence, replace_page, forge_page_header,
    forge_cell_pointers, link_in_circles, forge_cells, forge_overflow,
)  # fmt: skip
