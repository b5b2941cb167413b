"""Convert a folder of Parquet files (from nsys export -t parquetdir) to an SQLite file.

Each file is a table with the columns of the SQLite export, and strings are ids of StringIds in both. Ids of processes
and threads, names and addresses are uint64 in Parquet. SQLite wraps them to signed integers, and so does this code.

The pages of a file are checked before it is unpacked: their headers must agree with the footer. A reader allocates as
much memory as the header of a page says, and a page of a hundred bytes may say two gigabytes. The footer says how large
all pages are together, and is small itself. Headers and footer are in Thrift's compact protocol.
"""

from __future__ import annotations

import os
import sqlite3
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from nsysprof.errors import MissingToolError, OutputError, TraceDamagedError, TraceForeignError
from nsysprof.trace.inputs.bundle_file import MAX_FREE_BYTES, MAX_RATIO
from nsysprof.trace.open import quote, refuse_lfs_pointer

PARQUET = ".parquet"
# The tables that the reader reads, and no others: no file name in the folder becomes the name of a table.
_TABLES = (
    "StringIds", "META_DATA_CAPTURE", "META_DATA_EXPORT", "EXPORT_META_DATA", "DIAGNOSTIC_EVENT",
    "TARGET_INFO_GPU", "TARGET_INFO_CUDA_GPU", "TARGET_INFO_CUDA_DEVICE", "TARGET_INFO_SESSION_START_TIME",
    "CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_MEMCPY", "CUPTI_ACTIVITY_KIND_MEMSET",
    "CUPTI_ACTIVITY_KIND_GRAPH_TRACE", "CUPTI_ACTIVITY_KIND_RUNTIME", "NVTX_EVENTS",
    "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", "CUPTI_ACTIVITY_KIND_CUDA_EVENT", "CUPTI_ACTIVITY_KIND_OVERHEAD",
    "PROFILER_OVERHEAD", "OSRT_API", "CUDA_GRAPH_NODE_EVENTS", "CUDA_GRAPH_EVENTS",
    "CUDA_GPU_MEMORY_USAGE_EVENTS", "CUDA_GPU_MEMORY_POOL_EVENTS",
    "GPU_METRICS", "TARGET_INFO_GPU_METRICS", "GENERIC_EVENTS",
)  # fmt: skip
_BATCH_ROWS = 1 << 16
_LEAST_ROW_BYTES = 8  # bytes per row in SQLite, in addition to one byte per cell
# How much of a column is read ahead. nsys writes a table as one row group.
_BUFFER_BYTES = 1 << 20
# The most processor time that reading a file may take. A table of nsys takes a hundredth of it.
_LEAST_SECONDS, _BYTES_PER_SECOND = 20.0, 100_000
# The encodings that nsys and Arrow write. In the others, a few bytes can stand for any number of values.
_PLAIN, _OLD_DICTIONARY, _RUNS, _DICTIONARY = 0, 2, 3, 8
_ENCODINGS = (_PLAIN, _OLD_DICTIONARY, _RUNS, _DICTIONARY)
# The footer of a file of nsys has a few kilobytes; a parsed one takes some hundred times its size.
MOST_FOOTER_BYTES = 1 << 20
_MARK = b"PAR1"
_MOST_HEADER_BYTES = 1 << 16
_MOST_DEPTH = 8
_REAL, _BINARY, _LIST, _STRUCT = 7, 8, 9, 12
_EXPORT_AGAIN = "Export it again: nsys export --type parquetdir REPORT.nsys-rep"


def convert_parquet_folder(folder: Path, target: Path) -> Path:
    """Write the tables of `folder` that the reader knows to the new SQLite file `target`, and return its path.

    Raises MissingToolError without pyarrow, TraceForeignError for a folder without any such table, TraceDamagedError
    for a file that is not a complete table, and OutputError when `target` cannot be written.
    """
    files = {table: folder / f"{table}{PARQUET}" for table in _TABLES if (folder / f"{table}{PARQUET}").is_file()}
    if not files:
        raise TraceForeignError(
            f"{folder} contains Parquet files, but none of them is a table of nsys.",
            "Give the folder that nsys export --type parquetdir wrote.",
        )
    _require_pyarrow(folder)
    database = sqlite3.connect(target)
    try:
        # A file in a temporary folder does not need to survive a crash.
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
            f"{folder} contains Parquet files. Reading them needs pyarrow, which is not installed.",
            "pip install 'nsysprof[parquet]', or export as SQLite: nsys export --type sqlite REPORT.nsys-rep",
        ) from error


def _copy(database: sqlite3.Connection, table: str, path: Path) -> None:
    """Copy one file to one table. Columns of types that nsys does not write are left out."""
    import pyarrow
    from pyarrow import parquet

    try:
        with path.open("rb") as stream:
            refuse_lfs_pointer(path, stream.read(100))
        size = _Size(path)
        check_footer_size(path)
        texts = [field.name for field in parquet.read_schema(path) if _sql_type(field.type) == "TEXT"]
        # Texts are read as dictionaries, so that a long text of many rows is in memory once.
        with parquet.ParquetFile(path, buffer_size=_BUFFER_BYTES, pre_buffer=False, read_dictionary=texts) as file:
            kinds = [(field.name, _sql_type(field.type)) for field in file.schema_arrow]
            columns = [name for name, kind in kinds if kind]
            size.take(_claimed_bytes(file.metadata, len(columns)))
            check_pages(path, file.metadata)
            _create(database, table, path, [f"{quote(name)} {kind}" for name, kind in kinds if kind])
            marks = ", ".join("?" * len(columns))
            for batch in file.iter_batches(_BATCH_ROWS, columns=columns, use_threads=False):
                size.check_time()
                rows = zip(*(_values(batch.column(name), size) for name in columns), strict=True)
                database.executemany(f"INSERT INTO {table} VALUES ({marks})", rows)
    except (pyarrow.ArrowException, LookupError, OverflowError, UnicodeDecodeError) as error:
        # Only the first line, because more may quote the file. pyarrow's own Python code fails on damaged names.
        what = "its schema is unreadable" if isinstance(error, UnicodeDecodeError) else _first_line(error)
        raise TraceDamagedError(f"{path} is damaged or truncated: {what}.", _EXPORT_AGAIN) from error
    except PagesError as error:
        raise TraceForeignError(f"{path} is not a table that nsys wrote: {error}.", _EXPORT_AGAIN) from error
    except OSError as error:
        said = error.strerror or _first_line(error)
        raise TraceDamagedError(f"{path} cannot be read: {said}.", _EXPORT_AGAIN) from error


class _Size:
    """Limits what a file may unpack to (as much as an archive of its size), and how long that may take."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._left = max(MAX_FREE_BYTES, MAX_RATIO * path.stat().st_size)
        self._until = time.thread_time() + _LEAST_SECONDS + path.stat().st_size / _BYTES_PER_SECOND

    def take(self, count: int) -> None:
        """Count bytes. Raises TraceForeignError when there are more than any table of nsys has."""
        self._left -= count
        if self._left < 0:
            raise TraceForeignError(
                f"{self._path} unpacks to more than {MAX_RATIO} times its size: no table of nsys does.", _EXPORT_AGAIN
            )

    def check_time(self) -> None:
        """Raise TraceForeignError when more processor time has gone by than any table of this size takes."""
        if time.thread_time() > self._until:
            raise TraceForeignError(
                f"{self._path} takes far longer to read than any table of nsys of this size.", _EXPORT_AGAIN
            )


def _claimed_bytes(metadata: Any, columns: int) -> int:
    """Return how many bytes of data a file claims to hold.

    A row and each of its cells take some, however well compressed.
    """
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    chunks = [group.column(place) for group in groups for place in range(group.num_columns)]
    stored = sum(chunk.total_uncompressed_size for chunk in chunks)
    return max(int(metadata.num_rows) * (_LEAST_ROW_BYTES + columns), int(stored))


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or ["unreadable"])[0][:200]


def _create(database: sqlite3.Connection, table: str, path: Path, columns: list[str]) -> None:
    try:
        database.execute(f"CREATE TABLE {table} ({', '.join(columns)})")
    except sqlite3.OperationalError as error:  # no columns, thousands of them, or two with one name
        raise TraceDamagedError(f"{path} has columns that no nsys writes: {error}.", _EXPORT_AGAIN) from error


def _sql_type(kind: Any) -> str | None:
    """Return SQLite's name for an Arrow type, or None for a type that nsys does not write."""
    from pyarrow import types

    if types.is_dictionary(kind):
        kind = kind.value_type
    if types.is_integer(kind) or types.is_boolean(kind):
        return "INTEGER"
    if types.is_floating(kind):
        return "REAL"
    return "TEXT" if types.is_string(kind) or types.is_large_string(kind) else None


def _values(column: Any, size: _Size) -> Iterator[object]:
    """Yield the values of an Arrow array as sqlite3 takes them."""
    import pyarrow
    from pyarrow import types

    if _sql_type(column.type) == "TEXT":
        is_coded = types.is_dictionary(column.type)
        # Texts are read as bytes, because Arrow does not check that they are UTF-8.
        raw = (column.dictionary if is_coded else column).cast(pyarrow.large_binary()).to_pylist()
        texts = [None if raw_text is None else raw_text.decode("utf-8", errors="replace") for raw_text in raw]
        for text in (
            (None if code is None else texts[code] for code in column.indices.to_pylist()) if is_coded else texts
        ):
            size.take(len(text or ""))
            yield text
        return
    if types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if types.is_uint64(column.type):
        column = column.view(pyarrow.int64())
    if not column.null_count:
        yield from column.to_numpy(zero_copy_only=False).tolist()
    elif column.null_count == len(column):
        yield from [None] * len(column)
    else:
        # Not by way of floats, into which Arrow converts integers with nulls.
        numbers = column.fill_null(0).to_numpy(zero_copy_only=False).tolist()
        absent = column.is_null().to_numpy(zero_copy_only=False).tolist()
        yield from (None if gone else number for number, gone in zip(numbers, absent, strict=True))


class PagesError(ValueError):
    """The pages are not those that the footer describes."""


def check_footer_size(path: Path) -> None:
    """Raise PagesError for a footer that is larger than any of nsys. Its reader finds all other faults."""
    with path.open("rb") as stream:
        if os.fstat(stream.fileno()).st_size < 12:
            return
        stream.seek(-8, os.SEEK_END)
        size, mark = struct.unpack("<I4s", stream.read(8))
    if mark == _MARK and size > MOST_FOOTER_BYTES:
        raise PagesError(f"its footer has {size:,} bytes")


def check_pages(path: Path, metadata: Any) -> None:
    """Raise PagesError unless the pages of every column have the sizes and numbers of values in the footer.

    metadata: what pyarrow read from the footer.
    """
    with path.open("rb") as stream:
        for number in range(metadata.num_row_groups):
            group = metadata.row_group(number)
            for column in range(group.num_columns):
                _check_column(stream, group.column(column))


def _check_column(stream: IO[bytes], column: Any) -> None:
    starts = (column.dictionary_page_offset, column.data_page_offset)
    at = min(start for start in starts if start is not None and start >= 0)
    end, unpacked, values = at + column.total_compressed_size, 0, 0
    while at < end and values < column.num_values:
        stream.seek(at)
        header = _Compact(stream.read(_MOST_HEADER_BYTES))
        page = header.struct()
        size, packed = page.get(2), page.get(3)
        data = next((page[key] for key in (5, 7, 8) if isinstance(page.get(key), dict)), None)
        if not isinstance(size, int) or not isinstance(packed, int) or data is None or min(size, packed) < 0:
            raise PagesError("the header of a page is damaged")
        count, encoding = data.get(1), data.get(4 if 8 in page else 2)
        if encoding not in _ENCODINGS or not isinstance(count, int) or count < 0:
            raise PagesError("a page uses an encoding that nsys never writes")
        is_dictionary = isinstance(page.get(7), dict)
        values += 0 if is_dictionary else count
        unpacked += size + header.at
        at += header.at + packed
        if unpacked > column.total_uncompressed_size or values > column.num_values or (is_dictionary and count > size):
            raise PagesError("a page claims more than the footer")


class _Compact:
    """Reads one struct of Thrift's compact protocol into a dict by the numbers of its fields."""

    def __init__(self, raw: bytes) -> None:
        self._raw = raw
        self.at = 0

    def struct(self, depth: int = 0) -> dict[int, Any]:
        if depth > _MOST_DEPTH:
            raise PagesError("the header of a page is nested too deeply")
        fields: dict[int, Any] = {}
        number = 0
        while head := self._byte():
            number = number + (head >> 4) if head >> 4 else _signed(self._varint())
            fields[number] = self._value(head & 0xF, depth)
        return fields

    def _value(self, kind: int, depth: int) -> Any:
        if kind in (1, 2):  # the kind of a truth is its value
            return kind == 1
        if kind in (3, 4, 5, 6):
            return self._byte() if kind == 3 else _signed(self._varint())
        if kind in (_REAL, _BINARY):
            return self._skip(8 if kind == _REAL else self._varint())
        if kind == _LIST:
            head = self._byte()
            count = head >> 4 if head >> 4 < 15 else self._varint()
            return [self._value(head & 0xF, depth + 1) for _ in range(min(count, _MOST_HEADER_BYTES))]
        if kind == _STRUCT:
            return self.struct(depth + 1)
        raise PagesError("the header of a page is damaged")

    def _byte(self) -> int:
        if self.at >= len(self._raw):
            raise PagesError("the header of a page is damaged")
        self.at += 1
        return self._raw[self.at - 1]

    def _skip(self, count: int) -> None:
        self.at += count
        if self.at > len(self._raw):
            raise PagesError("the header of a page is damaged")

    def _varint(self) -> int:
        value = shift = 0
        while True:
            byte = self._byte()
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80 or shift > 63:
                return value


def _signed(number: int) -> int:
    """Return the integer behind Thrift's zigzag encoding."""
    return (number >> 1) ^ -(number & 1)
