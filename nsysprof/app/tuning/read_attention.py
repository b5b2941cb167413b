"""Read which attention a program ran, from its capture or its analysis, for tuning."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd

from nsysprof.app.trace_analysis.analyze_trace import resolve
from nsysprof.app.trace_analysis.assemble import assemble
from nsysprof.errors import TraceError, UsageError
from nsysprof.files.scratch_folder import scratch_folder
from nsysprof.results.column_registry.analysis_columns import ATTENTION
from nsysprof.results.column_registry.csv_table import set_dtypes
from nsysprof.results.optimization import CapturedAttention, CapturedUse, known_cells


def read_captured_attention(source: Path, nsys: Path | None = None) -> CapturedAttention:
    """Return the attention of a capture folder, a trace or an analysis folder.

    Raises UsageError where it has none, and TraceError for what cannot be read.

    nsys: the program that exports a report.
    """
    if (source / "attention.csv").is_file():
        table, gpu_name, steps = _read_analysis(source)
    else:
        table, gpu_name, steps = _analyze(source, nsys)
    rows = known_cells(table)
    uses = tuple(CapturedUse(row) for row in rows if row["function"] is not None)
    if uses:
        return CapturedAttention(uses, gpu_name, steps)
    if rows:
        raise UsageError(
            f"{source} contains attention kernels of {len(rows)} kinds, but no recorded calls, so their shapes are "
            f"unknown.",
            "Record the program with nsysprof capture --attention; attention written by hand, or called by a C++ "
            "extension, has no shapes.",
        )
    raise UsageError(
        f"{source} contains no attention.", "Record the program with nsysprof capture --attention -- PROGRAM."
    )


def _read_analysis(source: Path) -> tuple[pd.DataFrame, str | None, int | None]:

    try:
        table = pd.read_csv(source / "attention.csv", dtype="string", keep_default_na=False, na_values=[""])
        table = set_dtypes(table.reindex(columns=list(ATTENTION.names)), ATTENTION)
        summary = json.loads((source / "summary.json").read_bytes())
        names = {str(device["name"]) for device in summary["devices"]}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise TraceError(f"{source} cannot be read: {error}.", "Analyze the capture again.") from error
    return table, names.pop() if len(names) == 1 else None, _count_steps(source)


def _count_steps(source: Path) -> int | None:
    """Return the number of steps in an analysis, or None where it has none."""
    try:
        steps = int(pd.read_csv(source / "steps.csv", usecols=["step"])["step"].nunique())
    except (OSError, ValueError):
        return None
    return steps if steps > 1 else None


def _analyze(source: Path, nsys: Path | None) -> tuple[pd.DataFrame, str | None, int | None]:

    with scratch_folder() as scratch:
        trace = resolve(source, nsys, scratch, lambda _: None)
        analysis = assemble(source, trace).analysis
    assert analysis.attention is not None
    names = {device.name for device in analysis.devices}
    times = analysis.step_times
    steps = len(times.steps) if times is not None and times.are_steps else None
    return analysis.attention, names.pop() if len(names) == 1 else None, steps
