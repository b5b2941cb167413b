"""Write a folder of Parquet files, one per table, with names resolved and times as integer nanoseconds."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from nsysprof.errors import MissingToolError, OutputError
from nsysprof.export.content import Advance, Content, Counts
from nsysprof.files.folder_state import EXPORT, STATE
from nsysprof.files.plain_file import output_error
from nsysprof.files.result_folder import claim_folder

_ROWS = 1 << 20
_TABLES = ("gpu", "api", "ranges", "memory", "gpu_metrics")
# Columns whose values mostly differ by little from row to row and never repeat: a dictionary would only cost time.
_RISING = frozenset({"start_ns", "end_ns", "time_ns", "call"})
_NAMES = frozenset(f"{name}.parquet" for name in _TABLES)


def check_folder(folder: Path, *, force: bool) -> None:
    """Raise OutputError where the folder holds anything but an older export, or an older export without `force`."""
    if folder.exists() and not folder.is_dir():
        raise OutputError(f"{folder} is a file.", "Name a folder for --parquet.")
    try:
        inside = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    except OSError as error:
        raise OutputError(f"{folder} cannot be read: {error.strerror}.", "Choose another folder.") from error
    if inside - _NAMES - {STATE}:
        raise OutputError(f"{folder} contains files that are not from an export.", "Choose another folder.")
    if inside and not force:
        raise OutputError(f"{folder} already holds an export.", "Give --force to replace it, or another folder.")


def write_parquet(content: Content, folder: Path, advance: Advance, *, force: bool = False) -> Counts:
    """Write the tables into a new folder that replaces `folder` once it is complete; return the rows of each table.

    force: whether an older export there is replaced. Raises OutputError, and MissingToolError where pyarrow is missing.
    """
    try:
        import pyarrow as pa
        import pyarrow.parquet
    except ImportError as error:
        raise MissingToolError(
            "--parquet needs pyarrow, which is not installed.", "pip install 'nsysprof[parquet]'"
        ) from error
    counts = Counts()
    with claim_folder(folder, EXPORT, force=force) as claimed:
        try:
            # Rows are encoded in a thread, without Python's lock, while the next ones are put together.
            with ThreadPoolExecutor(1, thread_name_prefix="parquet") as thread:
                for name in _TABLES:
                    _write_table(pa, content, name, claimed.path / f"{name}.parquet", advance, counts, thread)
        except OSError as error:
            raise output_error(folder, error) from error
        claimed.commit()
    return counts


def _write_table(
    pa: Any, content: Content, name: str, path: Path, advance: Advance, counts: Counts, thread: Executor
) -> None:
    writer, written = None, None
    for frame in _frames(content, name):
        table = pa.Table.from_pandas(frame, preserve_index=False)
        if writer is None:
            about = {b"nsysprof": json.dumps(content.provenance()).encode()}
            schema = table.schema.with_metadata(about)
            rising = _RISING & set(schema.names)
            numbers = [field.name for field in schema if not pa.types.is_dictionary(field.type)]
            writer = pa.parquet.ParquetWriter(
                path,
                schema,
                compression="zstd",
                use_dictionary=[column for column in schema.names if column not in rising],
                column_encoding=dict.fromkeys(rising, "DELTA_BINARY_PACKED"),
                # The least and greatest of all names help no reader, and take a quarter of the time of writing.
                write_statistics=numbers,
            )
        table = table.replace_schema_metadata(writer.schema.metadata).cast(writer.schema)
        if written is not None:
            written.result()
        written = thread.submit(writer.write_table, table)
        counts.add(name, len(frame))
        advance(len(frame))
    if writer is not None and written is not None:
        written.result()
        writer.close()


def _frames(content: Content, name: str) -> Iterator[pd.DataFrame]:
    """Yield some rows of a table at a time; at least one frame, so that an empty table has its columns."""
    if name == "gpu_metrics":
        yield from _samples(content)
        return
    if name in ("gpu", "api"):
        events = content.work if name == "gpu" else content.calls
        for low in range(0, max(1, len(events)), _ROWS):
            some = events.table(low, low + _ROWS)
            for row in {"call", "caused_by"} & set(some.columns):  # -1: none
                numbers = some[row].to_numpy(dtype=np.int32)
                some[row] = pd.arrays.IntegerArray(numbers, numbers < 0)
            yield some
        return
    timeline = content.analysis.timeline
    table = {"ranges": timeline.nvtx, "memory": timeline.memory[["time_ns", "device_id", "used_bytes"]]}[name]
    texts = [column for column in table.columns if table[column].dtype == object]
    for low in range(0, max(1, len(table)), _ROWS):
        yield table.iloc[low : low + _ROWS].astype(dict.fromkeys(texts, "category"))


def _samples(content: Content) -> Iterator[pd.DataFrame]:
    empty: dict[str, Any] = {"time_ns": [], "gpu": [], "device_id": [], "value": []}
    if not content.metrics:
        yield pd.DataFrame(empty).astype("Int64").assign(metric=pd.Categorical([]))
    for series in content.metrics:
        for low in range(0, len(series), _ROWS):
            time = series.time_ns[low : low + _ROWS]
            frame = pd.DataFrame({"time_ns": time, "gpu": series.gpu, "device_id": series.device_id})
            frame["value"] = series.value[low : low + _ROWS]
            yield frame.astype("Int64").assign(metric=pd.Categorical([series.name] * len(frame)))
