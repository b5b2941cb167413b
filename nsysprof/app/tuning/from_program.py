"""Tune for a program: tune its shapes instead of a grid, share the budget by their time, and compute the saving."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from nsysprof.analysis.attention_tuning.choose_shapes import ChosenShapes, choose_shapes
from nsysprof.app.trace_analysis.analyze_trace import resolve
from nsysprof.app.trace_analysis.assemble import assemble
from nsysprof.attention.case import Case, make_case
from nsysprof.attention.policy_file import AUTO
from nsysprof.environment import collect_gpus
from nsysprof.errors import TraceError, UsageError
from nsysprof.files.scratch_folder import scratch_folder
from nsysprof.results.column_registry.analysis_columns import ATTENTION
from nsysprof.results.column_registry.csv_table import set_dtypes
from nsysprof.results.optimization import CapturedAttention, CapturedUse, known_cells

if TYPE_CHECKING:
    pass


@dataclass(frozen=True)
class ProgramShapes:
    """The attention that a program ran, and which of its shapes are tuned."""

    captured: CapturedAttention
    chosen: ChosenShapes


def read_program_shapes(source: Path, device: str) -> ProgramShapes:
    """Return what the program in a capture or analysis ran. Raises UsageError where it cannot be tuned here.

    device: where the tuning measures, "cuda" or "cpu".
    """
    captured = read_captured_attention(source)
    _check_machine(captured, device)
    chosen = choose_shapes(captured.uses)
    if not chosen.chosen:
        reasons = "; ".join(f"{each.calls:,} calls: {each.reason}" for each in chosen.refused)
        raise UsageError(
            f"None of the attention in {source} can be tuned: {reasons}.",
            "Change the program as these reasons suggest.",
        )
    return ProgramShapes(captured, chosen)


def cases_of(shapes: ProgramShapes, backends: Sequence[str]) -> tuple[Case, ...]:
    """Return the cases to measure, with torch's own choice among the backends."""
    names = tuple(dict.fromkeys((AUTO, *backends)))
    return tuple(make_case(backend, use.shape) for use in shapes.chosen.chosen for backend in names)


def _check_machine(captured: CapturedAttention, device: str) -> None:
    if captured.gpu_name is None:
        return
    if device == "cpu" and "NVIDIA" in captured.gpu_name:
        raise UsageError(
            f"The program ran on {captured.gpu_name}, and this tuning would measure on the CPU.",
            "Tune on the machine of the program.",
        )
    if device == "cuda":
        here = {str(gpu["name"]) for gpu in collect_gpus()}
        if here and captured.gpu_name not in here:
            raise UsageError(
                f"The program ran on {captured.gpu_name}, and this machine has {', '.join(sorted(here))}.",
                "Tune on the machine of the program, or capture it here.",
            )


def read_captured_attention(source: Path) -> CapturedAttention:
    """Return the attention of a capture folder, a trace or an analysis folder.

    Raises UsageError where it has none, and TraceError for what cannot be read.
    """
    if (source / "attention.csv").is_file():
        table, gpu_name, steps = _read_analysis(source)
    else:
        table, gpu_name, steps = _analyze(source)
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


def _analyze(source: Path) -> tuple[pd.DataFrame, str | None, int | None]:
    with scratch_folder() as scratch:
        trace = resolve(source, None, scratch, lambda _: None)
        analysis = assemble(source, trace).analysis
    assert analysis.attention is not None
    names = {device.name for device in analysis.devices}
    times = analysis.step_times
    steps = len(times.steps) if times is not None and times.are_steps else None
    return analysis.attention, names.pop() if len(names) == 1 else None, steps
