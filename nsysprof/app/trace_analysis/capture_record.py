"""Read a capture folder's own files into a CaptureRecord, which reports show together with the trace."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from nsysprof.attention.case import check_case_row
from nsysprof.attention.shape import SHAPE_COLUMNS
from nsysprof.errors import TraceError
from nsysprof.results.analysis import CaptureRecord
from nsysprof.results.column_registry.case_columns import CAPTURE_RESULTS, FIRST_CAPTURE_RESULTS
from nsysprof.results.column_registry.csv_table import set_dtypes


def read_results(folder: Path) -> pd.DataFrame:
    """Return results.csv with the registered columns and types; unknown values are NA.

    A capture of a program has no cases, so it has no rows. Raises TraceError.
    """
    path = folder / "results.csv"
    try:
        if path.exists() and not path.is_file():
            raise ValueError("it is not a plain file")
        if not path.exists() and _is_of_program(folder):
            table = pd.DataFrame(columns=list(CAPTURE_RESULTS.names), dtype="string")
        else:
            table = pd.read_csv(path, dtype="string", keep_default_na=False, na_values=[""])
    except (OSError, ValueError) as error:
        raise TraceError(f"{path} cannot be read: {error}.", "Capture again, or give the trace alone.") from error
    if "kv_heads" not in table and "heads" in table:  # a capture by version 0.1.0
        table["kv_heads"] = table["heads"]
    if "kv_seq" not in table and "seq" in table:
        table = table.assign(kv_seq=table["seq"], mask="none", layout="bhsd")
    missing = [column for column in FIRST_CAPTURE_RESULTS if column not in table]
    if missing:
        raise TraceError(f"{path} lacks the columns {', '.join(missing)}.", "It was not written by nsysprof capture.")
    try:
        table = set_dtypes(table.reindex(columns=list(CAPTURE_RESULTS.names)), CAPTURE_RESULTS)
        _check_cases(table)
    except (ValueError, OverflowError) as error:
        raise TraceError(f"{path} cannot be read: {error}.", "Capture again, or give the trace alone.") from error
    return table


def _check_cases(table: pd.DataFrame) -> None:
    """Raise ValueError, with row and column, where a row does not identify its case."""
    rows = table[["backend", *SHAPE_COLUMNS]].astype(object)
    for number, row in enumerate(rows.where(rows.notna(), None).to_dict("records"), start=1):
        try:
            check_case_row(row)
        except ValueError as error:
            raise ValueError(f"row {number}, {error}") from error


def _is_of_program(folder: Path) -> bool:
    from nsysprof.capture.manifest import MANIFEST, read_manifest

    return (folder / MANIFEST).exists() and read_manifest(folder).program is not None


def read_record(folder: Path) -> CaptureRecord | None:
    """Return the capture's manifest and results; None for a folder without a manifest."""
    from nsysprof.capture.manifest import MANIFEST, read_manifest

    if not (folder / MANIFEST).exists():
        return None
    manifest = read_manifest(folder)
    return CaptureRecord(
        title=folder.resolve().name,
        results=read_results(folder),
        environment=manifest.environment,
        method=manifest.method,
        notes=tuple(manifest.notes),
        missing=tuple(manifest.missing),
        steps=tuple(
            {"name": s.name, "argv": list(s.argv), "exit_code": s.exit_code, "duration_ns": s.duration_ns}
            for s in manifest.steps
        ),
    )
