"""Run the use case `capture`: measure the grid untraced, then under a profiler, into a capture folder."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from nsysprof.analysis.overview.recording_cost import cost_of
from nsysprof.analysis.sampling.bench import hidden_keys
from nsysprof.analysis.sampling.latency import launch_notes, noise_notes
from nsysprof.app.inputs.attention_requests import CaptureRequest
from nsysprof.app.inputs.machine import default_dtype, find_ncu, require_torch, settle_device, shared_values
from nsysprof.app.measuring.capture_program import check_grid
from nsysprof.app.progress import SILENT, Progress
from nsysprof.app.trace_analysis.assemble import COUNTERS, AnalysisOptions, assemble, name_kernels, read_results
from nsysprof.attention.shape import check_names
from nsysprof.capture import plan as capture_plan
from nsysprof.capture.environment import memory_of
from nsysprof.capture.folder import dated_folder, prepare_folder
from nsysprof.capture.manifest import RESULTS, Manifest, write_manifest
from nsysprof.capture.plan import PROFILERS, REPLAYS, CapturePlan, CountingPlan
from nsysprof.capture.run import Captured, interrupted_error, run_capture
from nsysprof.errors import (
    DataLossError,
    MissingToolError,
    NsysprofError,
    OutputError,
    ToolFailedError,
    UsageError,
)
from nsysprof.files.folder_state import CAPTURE
from nsysprof.files.plain_file import encode_json, json_value, write_whole
from nsysprof.files.result_folder import claim_folder
from nsysprof.notes import Loss
from nsysprof.nsight.run_tool import GET_NSYS, NSYS, find_tool
from nsysprof.results.analysis import COSTS, RESULT_COLUMNS, RecordingCosts
from nsysprof.results.column_registry.case_columns import CAPTURE_RESULTS
from nsysprof.results.column_registry.csv_table import render_csv, to_records
from nsysprof.trace.inputs.resolve_input import own_trace

_COUNTED = "ncu"


@dataclass(frozen=True)
class PlannedCapture:
    """What a capture will do."""

    plan: CapturePlan
    folder: Path
    # The tools; None where one is not needed or was not found.
    nsys: Path | None
    ncu: Path | None
    # Whether torch's profiler replaces nsys where nsys fails.
    fall_back: bool


@dataclass(frozen=True)
class CaptureResult:
    """A finished capture."""

    manifest: Manifest
    # The content of results.csv.
    results: pd.DataFrame
    folder: Path
    # Why the result is incomplete, or None. What was measured is written in any case.
    failure: NsysprofError | None

    def to_json(self) -> dict[str, Any]:
        """Return what `--json` prints."""
        cases = to_records(self.results)
        return {"folder": str(self.folder), "cases": cases, "notes": json_value(self.manifest.notes)}


def plan_capture(request: CaptureRequest) -> PlannedCapture:
    """Return what `capture` would do on this machine. Raises UsageError for contradictory options."""
    tracer, counting = _split_profilers(request)
    request.grid.expand()  # report a wrong grid before looking at the machine
    require_torch("capture")
    device = settle_device(request.device, tracer)
    if device != "cuda" and (counting or request.gpu_metrics_hz):
        raise UsageError(
            "Only a GPU has hardware counters, and this capture measures the CPU.", "Leave out ncu and --gpu-metrics."
        )
    nsys = find_tool(NSYS, request.nsys) if tracer in ("auto", "nsys") else None
    settled_profiler = _settle_profiler(tracer, device, nsys)
    if request.gpu_metrics_hz and settled_profiler != "nsys":
        raise UsageError(
            f"--gpu-metrics needs nsys, and the profiler here is {settled_profiler}.", "Give --profiler nsys."
        )
    settled = {"profiler": settled_profiler, "device": device, "counting": counting}
    plan = capture_plan.plan_capture(
        request.grid.expand(default_dtype(device)),
        memory_of(device),
        **{**shared_values(request, capture_plan.CapturePlan), **settled},
    )
    ncu = find_ncu("--profiler ncu", request.ncu) if counting is not None else None
    return PlannedCapture(plan, request.out or dated_folder(), nsys, ncu, fall_back=tracer == "auto")


def capture(request: CaptureRequest, progress: Progress = SILENT) -> CaptureResult:
    """Measure and trace the grid, and fill the capture folder; a failure is part of the result."""
    planned = plan_capture(request)
    folder = planned.folder
    with claim_folder(folder, CAPTURE, force=request.force) as claimed:
        prepare_folder(claimed.path)
        with progress.cases(len(planned.plan.cases)) as on_progress:
            captured = run_capture(
                planned.plan,
                claimed.path,
                nsys=planned.nsys,
                ncu=planned.ncu,
                fall_back=planned.fall_back,
                result_columns=RESULT_COLUMNS,
                on_progress=on_progress,
                inspect=partial(check_grid, cases=len(planned.plan.cases)) if planned.plan.device == "cuda" else None,
            )
        losses = _add_trace(captured, claimed.path)
        _keep_costs(captured, claimed.path)
        claimed.commit()
    return CaptureResult(captured.manifest, read_results(folder), folder, _failure(captured, folder, losses))


def _keep_costs(captured: Captured, folder: Path) -> None:
    """Write how much longer a call of each case takes while it is recorded. `analyze` reads this."""
    plan, outcomes = captured.progress.plan, captured.progress.outcomes
    costs = [
        cost_of(plan.range_of(case), list(outcome.block.values_ns), list(outcome.traced_ns))
        for case, outcome in zip(plan.cases, outcomes, strict=True)
        if outcome.block is not None and outcome.traced_ns and captured.trace is not None
    ]
    found = tuple(cost for cost in costs if cost is not None)
    if found:
        write_whole(folder / COSTS, encode_json(RecordingCosts(1, found)))


def _split_profilers(request: CaptureRequest) -> tuple[str, CountingPlan | None]:
    """Return the profiler that traces, and the plan of the pass in which ncu counts.

    `nsys,ncu` means both; `ncu` alone measures latencies and counters without a trace.
    """
    names = request.profilers
    rest = [name for name in names if name != _COUNTED]
    check_names("replay", [request.replay], REPLAYS)
    if len(rest) > 1 or not names:
        raise UsageError(
            f"--profiler {','.join(names)} names more than one profiler that traces."
            if rest
            else "--profiler is empty.",
            "Give one of them, with ',ncu' if you want counters.",
        )
    check_names("profiler", rest or ["none"], PROFILERS)
    if _COUNTED not in names:
        if request.metrics or request.sections:
            raise UsageError("--metrics and --section need ncu.", "Give --profiler nsys,ncu too.")
        return rest[0], None
    plan = CountingPlan(request.metrics, request.sections, request.replay, request.count_kernels)
    return rest[0] if rest else "none", plan


def _settle_profiler(profiler: str, device: str, nsys: Path | None) -> str:
    if profiler == "nsys" and nsys is None:
        raise MissingToolError(
            "--profiler nsys was given, but nsys was not found.",
            f"{GET_NSYS}; --profiler torch works without it.",
        )
    if profiler != "auto":
        return profiler
    return "nsys" if nsys is not None and device == "cuda" else "torch"


def _add_trace(captured: Captured, folder: Path) -> tuple[Loss, ...]:
    """Complete results.csv from the trace, and return what the profiler lost."""
    captured.manifest.notes += hidden_keys(captured.manifest.cases)
    if captured.trace is None:
        write_manifest(folder, captured.manifest)
        return ()
    name_kernels(folder, captured.trace)
    assembled = assemble(folder, captured.trace, AnalysisOptions(parts=frozenset({COUNTERS})))
    analysis, record = assembled.analysis, assembled.record
    assert record is not None
    write_whole(folder / RESULTS, render_csv(record.results, CAPTURE_RESULTS))
    captured.manifest.missing = list(record.missing)
    captured.manifest.notes += assembled.counter_notes
    captured.manifest.notes += (loss.note for loss in analysis.losses)
    captured.manifest.notes += noise_notes(record.results)
    if captured.progress.plan.device == "cuda":
        captured.manifest.notes += launch_notes(record.results)
    write_manifest(folder, captured.manifest)
    return analysis.losses


def _failure(captured: Captured, folder: Path, losses: tuple[Loss, ...]) -> NsysprofError | None:
    if captured.interrupted:
        return interrupted_error(folder, captured.progress, has_trace=own_trace(folder) is not None)
    untraced = _untraced(captured, folder)
    if untraced is None and losses:
        return DataLossError(losses[0].note.text, losses[0].note.next_step)
    return untraced


def _untraced(captured: Captured, folder: Path) -> NsysprofError | None:
    """Return the error where a trace was requested and contains no case. The latencies are kept."""
    measured = [outcome for outcome in captured.progress.outcomes if outcome.status == "ok"]
    if captured.manifest.profiler == "none" or any(outcome.traced == "ok" for outcome in measured):
        return None
    reason = measured[0].traced_reason if measured else ""
    if "disk is full" in reason or "No space left" in reason:
        return OutputError(f"No space left for the trace in {folder}; the latencies are kept.", "Free some space.")
    return ToolFailedError(
        f"No case could be traced: {reason or 'the profiler recorded nothing'}. The latencies are kept in {folder}.",
        f"See {folder / 'logs'}; --profiler none measures latencies only.",
    )
