"""Writes a SQLite export as the folder that nsys export --type parquetdir makes of the same report.

The Arrow types are those that nsys 2025.3 and 2024.2 wrote: ids of processes, threads, strings and addresses are
unsigned, where SQLite has the same bits signed.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pyarrow as pa
from pyarrow import parquet

_UINT64 = {
    "globalPid", "globalTid", "endGlobalTid", "demangledName", "shortName", "nameId", "address", "bytes", "contextId",
    "streamId", "rangeId", "domainId", "copyKind", "graphNodeId", "localMemoryPoolAddress", "localMemoryPoolSize",
    "importedMemoryPoolAddress", "typeId",
}  # fmt: skip
_UINT32 = {"deviceId", "correlationId", "eventClass", "eventType", "memKind", "memoryOperationType", "textId"}


def write_parquet_folder(trace: Path, folder: Path) -> Path:
    folder.mkdir()
    database = sqlite3.connect(trace)
    for (table,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
        cursor = database.execute(f'SELECT * FROM "{table}"')
        names = [column[0] for column in cursor.description]
        rows = cursor.fetchall()
        columns = {name: _array(name, [row[i] for row in rows]) for i, name in enumerate(names)}
        parquet.write_table(pa.table(columns), folder / f"{table}.parquet", row_group_size=max(1, len(rows)))
    database.close()
    return folder


def _array(name: str, values: list[object]) -> pa.Array:
    if any(isinstance(value, str) for value in values):
        return pa.array([None if value is None else str(value) for value in values], pa.large_string())
    if any(isinstance(value, float) for value in values):
        return pa.array(values, pa.float64())
    if name in _UINT64:
        return pa.array([value if value is None else value % 2**64 for value in values], pa.uint64())
    if name in _UINT32 and all(value is None or 0 <= value < 2**32 for value in values):
        return pa.array(values, pa.uint32())
    return pa.array(values, pa.int64())
