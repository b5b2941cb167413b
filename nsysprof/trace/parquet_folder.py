"""A folder of Parquet files, as nsys export -t parquetdir writes it, to the SQLite that the reader knows.

Each file is a table with the columns of the SQLite export; strings are ids of StringIds in both. The ids of processes
and threads, names and addresses are uint64 here; SQLite has them wrapped to signed, and so has what is written.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from nsysprof.errors import MissingToolError, OutputError, TraceDamagedError, TraceForeignError
from nsysprof.trace.open import quote, refuse_lfs_pointer

PARQUET = ".parquet"
# What the reader reads, and no more: no name in the folder becomes that of a table.
_TABLES = (
    "StringIds", "META_DATA_CAPTURE", "META_DATA_EXPORT", "EXPORT_META_DATA", "DIAGNOSTIC_EVENT",
    "TARGET_INFO_GPU", "TARGET_INFO_CUDA_GPU", "TARGET_INFO_CUDA_DEVICE", "TARGET_INFO_SESSION_START_TIME",
    "CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_MEMCPY", "CUPTI_ACTIVITY_KIND_MEMSET",
    "CUPTI_ACTIVITY_KIND_GRAPH_TRACE", "CUPTI_ACTIVITY_KIND_RUNTIME", "NVTX_EVENTS",
    "CUDA_GPU_MEMORY_USAGE_EVENTS", "CUDA_GPU_MEMORY_POOL_EVENTS",
    "GPU_METRICS", "TARGET_INFO_GPU_METRICS", "GENERIC_EVENTS",
)  # fmt: skip
_BATCH_ROWS = 1 << 16
# How much of a column is read ahead; nsys writes a table as one row group.
_BUFFER_BYTES = 1 << 20
_EXPORT_AGAIN = "Export it again: nsys export --type parquetdir REPORT.nsys-rep"


def convert_parquet_folder(folder: Path, target: Path) -> Path:
    """Writes the tables of `folder` that the reader knows to the new SQLite file `target`, and returns that.

    Raises MissingToolError without pyarrow, TraceForeignError for a folder without any such table, TraceDamagedError
    for a file that is no whole table, and OutputError when `target` cannot be written.
    """
    files = {table: folder / f"{table}{PARQUET}" for table in _TABLES if (folder / f"{table}{PARQUET}").exists()}
    if not files:
        raise TraceForeignError(
            f"{folder} holds Parquet files, but none of them is a table of nsys.",
            "Give the folder that nsys export --type parquetdir wrote.",
        )
    _require_pyarrow(folder)
    database = sqlite3.connect(target)
    try:
        # A file in a temporary folder need survive nothing.
        database.executescript("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;")
        for table, path in files.items():
            _copy(database, table, path)
        database.commit()
    except sqlite3.Error as error:
        raise OutputError(f"{folder} cannot be converted: {error}.", "Free space, or set TMPDIR.") from error
    finally:
        database.close()
    return target


def _require_pyarrow(folder: Path) -> None:
    try:
        import pyarrow  # noqa: F401
    except ImportError as error:
        raise MissingToolError(
            f"{folder} holds Parquet files, and reading them takes pyarrow, which is not installed.",
            "pip install 'nsysprof[parquet]', or export as SQLite: nsys export --type sqlite REPORT.nsys-rep",
        ) from error


def _copy(database: sqlite3.Connection, table: str, path: Path) -> None:
    """One file to one table. Columns of other types than nsys writes are left out."""
    import pyarrow
    from pyarrow import parquet

    try:
        with path.open("rb") as stream:
            refuse_lfs_pointer(path, stream.read(100))
        with parquet.ParquetFile(path, buffer_size=_BUFFER_BYTES, pre_buffer=False) as file:
            kinds = [(field.name, _sql_type(field.type)) for field in file.schema_arrow]
            columns = [name for name, kind in kinds if kind]
            _create(database, table, path, [f"{quote(name)} {kind}" for name, kind in kinds if kind])
            marks = ", ".join("?" * len(columns))
            for batch in file.iter_batches(_BATCH_ROWS, columns=columns, use_threads=False):
                rows = zip(*(_values(batch.column(name)) for name in columns), strict=True)
                database.executemany(f"INSERT INTO {table} VALUES ({marks})", rows)
    except (pyarrow.ArrowException, LookupError, OverflowError, UnicodeDecodeError) as error:
        # The first line, since more may quote the file; and pyarrow's own Python stumbles over damaged names.
        what = "its schema is unreadable" if isinstance(error, UnicodeDecodeError) else _first_line(error)
        raise TraceDamagedError(f"{path} is damaged or truncated: {what}.", _EXPORT_AGAIN) from error
    except OSError as error:
        said = error.strerror or _first_line(error)
        raise TraceDamagedError(f"{path} cannot be read: {said}.", _EXPORT_AGAIN) from error


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or ["unreadable"])[0][:200]


def _create(database: sqlite3.Connection, table: str, path: Path, columns: list[str]) -> None:
    try:
        database.execute(f"CREATE TABLE {table} ({', '.join(columns)})")
    except sqlite3.OperationalError as error:  # none, thousands, or two of one name
        raise TraceDamagedError(f"{path} has columns that no nsys writes: {error}.", _EXPORT_AGAIN) from error


def _sql_type(kind: Any) -> str | None:
    """What SQLite calls an Arrow type; None for one that nsys does not write."""
    from pyarrow import types

    if types.is_dictionary(kind):
        kind = kind.value_type
    if types.is_integer(kind) or types.is_boolean(kind):
        return "INTEGER"
    if types.is_floating(kind):
        return "REAL"
    return "TEXT" if types.is_string(kind) or types.is_large_string(kind) else None


def _values(column: Any) -> Iterator[object]:
    """The values of an Arrow array as sqlite3 takes them."""
    import pyarrow
    from pyarrow import types

    if types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if types.is_string(column.type) or types.is_large_string(column.type):
        # As bytes, since Arrow does not see to it that they are UTF-8.
        for raw in column.cast(pyarrow.large_binary()).to_pylist():
            yield None if raw is None else raw.decode("utf-8", errors="replace")
        return
    if types.is_uint64(column.type):
        column = column.view(pyarrow.int64())
    if not column.null_count:
        yield from column.to_numpy(zero_copy_only=False).tolist()
    elif column.null_count == len(column):
        yield from [None] * len(column)
    else:
        # Not through a float, which is what Arrow makes of integers with nulls.
        numbers = column.fill_null(0).to_numpy(zero_copy_only=False).tolist()
        absent = column.is_null().to_numpy(zero_copy_only=False).tolist()
        yield from (None if gone else number for number, gone in zip(numbers, absent, strict=True))
