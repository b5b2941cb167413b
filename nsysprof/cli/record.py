"""Reads a capture folder's own files into the CaptureRecord that reports show beside the trace."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from nsysprof.errors import TraceError

if TYPE_CHECKING:
    import pandas as pd

    from nsysprof.analysis.results import CaptureRecord


_FLOATS = (
    "counted_flops", "l2_hit_pct", "l2_pct", "sm_pct", "tensor_pct", "fma_pct", "occupancy_pct", "flops", "intensity",
    "flops_per_s", "flops_per_s_low", "flops_per_s_high", "roof_flops_per_s",
)  # fmt: skip


def read_results(folder: Path) -> pd.DataFrame:
    """results.csv with the columns RESULT_COLUMNS; integers stay integers, unknown is NA. Raises TraceError.

    A capture of a program has no cases, and so no rows.
    """
    import pandas as pd

    from nsysprof.analysis.results import FIRST_RESULT_COLUMNS, RESULT_COLUMNS

    path = folder / "results.csv"
    try:
        if not path.exists() and _is_of_program(folder):
            table = pd.DataFrame(columns=list(RESULT_COLUMNS), dtype="string")
        else:
            table = pd.read_csv(path, dtype="string", keep_default_na=False, na_values=[""])
    except (OSError, ValueError) as error:
        raise TraceError(f"{path} cannot be read: {error}.", "Capture again, or give the trace alone.") from error
    if "kv_heads" not in table and "heads" in table:  # a capture of version 0.1.0
        table["kv_heads"] = table["heads"]
    missing = [column for column in FIRST_RESULT_COLUMNS if column not in table]
    if missing:
        raise TraceError(f"{path} lacks the columns {', '.join(missing)}.", "It was not written by nsysprof capture.")
    table = table.reindex(columns=list(RESULT_COLUMNS))
    for column in RESULT_COLUMNS:
        if column in _FLOATS:
            table[column] = pd.to_numeric(table[column], errors="coerce").astype("Float64")
        elif column in ("batch", "heads", "kv_heads", "seq", "head_dim", "samples", "traced_calls") or column.endswith(
            ("_ns", "_bytes", "_count", "_kernels")
        ):
            table[column] = pd.to_numeric(table[column], errors="coerce").astype("Int64")
    for column in ("reason", "dram_source", "limiter", "why"):
        table[column] = table[column].astype("string").fillna("")
    return table


def _is_of_program(folder: Path) -> bool:
    from nsysprof.capture.manifest import MANIFEST, read_manifest

    return (folder / MANIFEST).exists() and read_manifest(folder).program is not None


def read_record(folder: Path) -> CaptureRecord | None:
    """The capture's manifest and results, or None for a folder without a manifest."""
    from nsysprof.analysis.results import CaptureRecord
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
        steps=tuple(
            {"name": s.name, "argv": list(s.argv), "exit_code": s.exit_code, "duration_ns": s.duration_ns}
            for s in manifest.steps
        ),
    )
