"""Write and read counters.csv: what ncu counted for each launch of a capture."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nsysprof.errors import TraceError
from nsysprof.files.output import write_whole
from nsysprof.results.column_registry.case_columns import COUNTERS as COUNTERS_FILE
from nsysprof.results.column_registry.csv_table import format_cell
from nsysprof.results.kernel_counters import COUNTED_COLUMNS, CountedKernel, Run

COUNTERS = COUNTERS_FILE.name
_FIXED = tuple(name for name in COUNTERS_FILE.names if name not in COUNTED_COLUMNS)
_OPTIONAL = {"kernel", "name", "symbol"}  # a bundle only has the first of these


def write_counters(folder: Path, kernels: Sequence[CountedKernel]) -> Path:
    """Write counters.csv, with one row per launch and run, and return its path. Unknown values are empty."""
    more = list(dict.fromkeys(name for kernel in kernels for name in kernel.more))
    columns = list(COUNTED_COLUMNS)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*_FIXED, *columns, *more])
    for kernel in kernels:
        fixed = [getattr(kernel, name) for name in _FIXED]
        values = [*(kernel.values[column] for column in columns), *(kernel.more.get(name) for name in more)]
        writer.writerow([format_cell(cell) for cell in (*fixed, *values)])
    return write_whole(folder / COUNTERS, text.getvalue().encode("utf-8", "replace"))


def read_counters(path: Path) -> list[CountedKernel]:
    """Return the content of counters.csv. Raises TraceError for a damaged file, or one of another program."""
    columns = list(COUNTED_COLUMNS)
    try:
        with path.open(encoding="utf-8", newline="") as stream:
            reader = csv.DictReader(stream)
            header = list(reader.fieldnames or ())
            missing = [
                name for name in _FIXED if name not in header and name not in _OPTIONAL
            ]  # the set of counters changes with versions
            if missing:
                raise TraceError(f"{path} lacks the columns {', '.join(missing)}.", "It was not written by nsysprof.")
            more = [name for name in header if name not in _FIXED and name not in columns]
            return [_read(row, columns, more) for row in reader]
    except (OSError, ValueError, csv.Error) as error:
        raise TraceError(f"{path} cannot be read: {error}.", "Capture again, or delete the file.") from error


def _read(row: dict[str, Any], columns: list[str], more: list[str]) -> CountedKernel:
    extra = {name: value for name in more if (value := _number(row[name])) is not None}
    passes = _number(row["passes"])
    return CountedKernel(
        run=Run(row["run"]),
        range=row["range"],
        position=int(row["position"]),
        passes=None if passes is None else int(passes),
        values={column: _number(row.get(column, "")) for column in columns},
        more=extra,
        **{name: row.get(name) or "" for name in ("kernel", "name", "symbol", "grid", "block", "gpu")},
    )


def _number(cell: str | None) -> float | None:
    if cell is None:
        raise ValueError("a row is cut off")
    if cell == "":
        return None
    value = float(cell)
    if not math.isfinite(value):
        raise ValueError(f"{cell} is not a measurement")
    return value
