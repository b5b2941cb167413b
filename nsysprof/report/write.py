"""Write the result folder of one trace, each file completely or not at all."""

from __future__ import annotations

import importlib.util
import io
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pandas as pd

from nsysprof.files.plain_file import json_value, open_whole, output_error, plain_json, write_whole
from nsysprof.report.document import Figure, Report
from nsysprof.report.figure_files import figure_paths, write_figures, write_report
from nsysprof.report.figures import mpl
from nsysprof.report.figures.drawing import can_draw
from nsysprof.report.figures.memory import describe_memory, describe_vram, draw_memory, draw_vram
from nsysprof.report.figures.roofline import describe_roofline, describe_traffic, draw_roofline, draw_traffic
from nsysprof.report.figures.step import describe_step, draw_step
from nsysprof.report.figures.timeline import describe_kernels, describe_timeline, draw_kernels, draw_timeline
from nsysprof.report.formats.data_formats import layers_flame_graph, render_sarif
from nsysprof.report.formats.timeline_data import timeline_data
from nsysprof.report.pages.analysis import analysis_report
from nsysprof.results.analysis import Analysis, CaptureRecord, Device, StepWork, cost_table
from nsysprof.results.column_registry.analysis_columns import (
    API,
    ATTENTION,
    CAUSED_KERNELS,
    COLLECTIVES,
    ENERGY,
    FINDINGS,
    GPU_USE,
    IDLE,
    IDLE_INSTANCES,
    KERNELS,
    LAYERS,
    MEMOPS,
    MEMORY,
    OPERATORS,
    OS_CALLS,
    PHASES,
    RANGE_API,
    RANGE_INSTANCES,
    RANGE_KERNELS,
    RANGE_TREE,
    RANGES,
    RECORDING_COST,
    STEPS,
    STREAMS,
    WORK,
)
from nsysprof.results.column_registry.case_columns import CAPTURE_RESULTS
from nsysprof.results.column_registry.column import TableFile
from nsysprof.results.column_registry.csv_table import empty_table, render_csv_blocks, to_records
from nsysprof.results.findings import Idle

# The version of summary.json. 1: the first.
FORMAT_VERSION = 1
_NO_WORK = "the trace has no work of a GPU"
# A CSV file with more instances than this is slow to read.
MOST_CSV_INSTANCES = 100_000


def write_analysis(
    analysis: Analysis,
    record: CaptureRecord | None,
    out: Path,
    *,
    figures: bool = True,
    timeline: bool = True,
    svg: bool = False,
    progress: Callable[[str], None] | None = None,
) -> tuple[list[Path], Report]:
    """Write tables, figures and reports into `out`; return their paths and the report. Raises OutputError.

    timeline: whether the page has its timeline.
    """
    say = progress or (lambda _text: None)
    try:
        out.mkdir(parents=True, exist_ok=True)
        written = _write_tables(analysis, record, out)
        pictures = _write_figures(analysis, record, out, svg, say) if figures and can_draw() else []
        if timeline:
            say("draw report.html")
        drawn = timeline_data(analysis) if timeline else None
        report = analysis_report(analysis, record, figures=pictures, timeline=drawn)
        written += [*figure_paths(pictures, out, svg=svg), *write_report(report, out)]
    except OSError as error:
        raise output_error(out, error) from error
    return written, report


def summary_json(analysis: Analysis) -> dict[str, Any]:
    """Return summary.json: totals and coverage of the trace. null is unknown, and a note says why."""
    peaks = analysis.totals.peak_vram_bytes
    totals = asdict(analysis.totals)
    totals["peak_vram_bytes"] = None if peaks is None else {str(key): size for key, size in peaks.items()}
    return {
        "format_version": FORMAT_VERSION,
        "trace": asdict(analysis.trace),
        "part": None if analysis.part is None else asdict(analysis.part),
        "devices": [_device_json(device, analysis.idle) for device in analysis.devices],
        "coverage": asdict(analysis.coverage),
        "totals": totals,
        **step_work_json(analysis.step_work),
        "floor_source": analysis.floor_source or None,
        "notes": json_value(analysis.notes),
    }


def step_work_json(work: StepWork | None) -> dict[str, Any]:
    """Return what a step computes, as summary.json has it."""
    work = work or StepWork(unknown_because="no operators were recorded; `nsysprof capture --operators` records them")
    return {
        "step_flops": work.step_flops, "mfu_pct": work.mfu_pct, "peak_flops_per_s": work.peak_flops_per_s,
        "peak_source": work.peak_source or None, "mfu_unknown_because": work.unknown_because or None,
    }  # fmt: skip


def findings_json(analysis: Analysis) -> dict[str, Any]:
    """Return findings.json: what to change, and why the GPU was idle; null where the trace does not show it."""
    findings, idle, memory = analysis.findings, analysis.idle, analysis.allocator
    return {
        **(
            {"format_version": FORMAT_VERSION, "findings": None, "unknown_because": analysis.no_findings or _NO_WORK}
            if findings is None
            else findings.to_json()
        ),
        "memory_findings": None if memory is None else [asdict(finding) for finding in memory.findings],
        "idle": None if idle is None else idle.to_json(),
    }


def _sarif(analysis: Analysis) -> dict[str, Any]:
    of_memory = () if analysis.allocator is None else analysis.allocator.findings
    return render_sarif(analysis.findings, analysis.trace.path_name, analysis.no_findings or _NO_WORK, of_memory)


def _device_json(device: Device, idle: Idle | None) -> dict[str, Any]:
    """Return a device with its span from first to last work, and how much of that it was busy and idle."""
    of_idle = {} if idle is None else {device_idle.device_id: device_idle for device_idle in idle.devices}
    times = of_idle.get(device.device_id)
    return {
        **{name: value for name, value in asdict(device).items() if name != "uuid"},
        "gpu_span_ns": None if times is None else times.span_ns,
        "gpu_busy_ns": None if times is None else times.busy_ns,
        "gpu_idle_ns": None if times is None else times.idle_ns,
    }


def analysis_json(analysis: Analysis, record: CaptureRecord | None) -> dict[str, Any]:
    """Return what `analyze --json` prints: the whole result, every table as a list of rows."""
    causes = findings_json(analysis)
    tables = {file.name.removesuffix(".csv"): to_records(table) for file, table in analysis_tables(analysis, record)}
    unknown = {
        "os_calls": analysis.os_calls is None,
        "idle": analysis.idle is None,
        "idle_instances": analysis.idle is None,
        "steps": analysis.step_times is None,
        "attention": analysis.attention is None,
        "memory": analysis.memory_owners is None,
        "phases": analysis.phases is None,
        "recording_cost": analysis.recording_cost is None,
    }
    return {
        **summary_json(analysis),
        "causes": causes,
        **{name: None if unknown.get(name) else rows for name, rows in tables.items()},
        "findings": causes["findings"],
        "allocator": None if analysis.allocator is None else analysis.allocator.use_json(),
    }


def analysis_tables(analysis: Analysis, record: CaptureRecord | None) -> list[tuple[TableFile, pd.DataFrame]]:
    """Return every table of an analysis with its documentation. A table that is unknown has no rows."""
    idle = analysis.idle
    tables = [
        (KERNELS, analysis.kernels),
        (RANGES, analysis.ranges),
        (RANGE_KERNELS, analysis.range_kernels),
        (CAUSED_KERNELS, analysis.caused_kernels),
        (RANGE_TREE, analysis.range_tree),
        (API, analysis.api),
        (MEMOPS, analysis.memops),
        (RANGE_API, analysis.range_api),
        (GPU_USE, analysis.gpu_use),
        (OS_CALLS, empty_table(OS_CALLS) if analysis.os_calls is None else analysis.os_calls),
        (STREAMS, analysis.streams),
        (ENERGY, analysis.energy),
        (COLLECTIVES, analysis.collectives),
        (RANGE_INSTANCES, analysis.range_instances),
        (WORK, empty_table(WORK) if analysis.work is None else analysis.work),
        (OPERATORS, empty_table(OPERATORS) if analysis.operators is None else analysis.operators),
        (LAYERS, empty_table(LAYERS) if analysis.layers is None else analysis.layers),
        (IDLE, empty_table(IDLE) if idle is None else idle.table),
        (IDLE_INSTANCES, empty_table(IDLE_INSTANCES) if idle is None else idle.instances),
        (STEPS, empty_table(STEPS) if analysis.step_times is None else analysis.step_times.table),
        (ATTENTION, empty_table(ATTENTION) if analysis.attention is None else analysis.attention),
        (MEMORY, empty_table(MEMORY) if analysis.memory_owners is None else analysis.memory_owners),
        (PHASES, empty_table(PHASES) if analysis.phases is None else analysis.phases),
        (RECORDING_COST, cost_table(analysis.recording_cost or ())),
        (FINDINGS, empty_table(FINDINGS) if analysis.findings is None else analysis.findings.table()),
    ]
    if record is not None and record.has_cases:
        tables.append((CAPTURE_RESULTS, record.results))
    return tables


def _write_tables(analysis: Analysis, record: CaptureRecord | None, out: Path) -> list[Path]:
    text = plain_json(summary_json(analysis))
    written = [write_whole(out / "summary.json", text.encode("utf-8", "replace"))]
    findings_text = plain_json(findings_json(analysis))
    written += [write_whole(out / "findings.json", findings_text.encode("utf-8", "replace"))]
    sarif = plain_json(_sarif(analysis))
    written += [write_whole(out / "findings.sarif", sarif.encode("utf-8", "replace"))]
    flames = out / "layers.speedscope.json"
    flames.unlink(missing_ok=True)
    if analysis.layers is not None:
        written.append(write_whole(flames, layers_flame_graph(analysis.layers)))
    for file, table in analysis_tables(analysis, record):
        if file in (RANGE_INSTANCES, IDLE_INSTANCES):
            written.append(_write_instances(table, file, out))
        else:
            written.append(_write_csv(table, file, out / file.name))
    return written


def _write_instances(table: pd.DataFrame, file: TableFile, out: Path) -> Path:
    """Write one row per instance of a range, as CSV; as Parquet where there are very many and pyarrow is installed."""
    csv = out / file.name
    parquet = csv.with_suffix(".parquet")
    for stale in (csv, parquet):
        stale.unlink(missing_ok=True)
    if len(table) > MOST_CSV_INSTANCES and importlib.util.find_spec("pyarrow") is not None:
        data = io.BytesIO()
        table.to_parquet(data, index=False)
        return write_whole(parquet, data.getvalue())
    return _write_csv(table, file, csv)


def _write_csv(table: pd.DataFrame, file: TableFile, path: Path) -> Path:
    with open_whole(path) as stream:
        for block in render_csv_blocks(table, file):
            stream.write(block)
    return path


def _write_figures(
    analysis: Analysis, record: CaptureRecord | None, out: Path, svg: bool, say: Callable[[str], None]
) -> list[Figure]:

    calls = _traced_calls(record)
    draw: dict[str, Callable[[], mpl.Figure | None]] = {
        "step": lambda: None if record is not None and record.has_cases else draw_step(analysis),
        "timeline": lambda: draw_timeline(analysis, calls),
        "kernels": lambda: draw_kernels(analysis, calls),
        "vram": lambda: draw_vram(analysis, record),
        "memory": lambda: None if analysis.allocator is None else draw_memory(analysis.allocator.over_time),
        "roofline": lambda: None if record is None else draw_roofline(record),
        "traffic": lambda: None if record is None else draw_traffic(record),
    }
    alts: dict[str, Callable[[], str]] = {
        "step": lambda: describe_step(analysis),
        "timeline": lambda: describe_timeline(analysis),
        "kernels": lambda: describe_kernels(analysis),
        "vram": lambda: describe_vram(analysis, record),
        "memory": lambda: "" if analysis.allocator is None else describe_memory(analysis.allocator),
        "roofline": lambda: "" if record is None else describe_roofline(record),
        "traffic": lambda: "" if record is None else describe_traffic(record),
    }
    order = ("step", "roofline", "traffic", "timeline", "kernels", "vram", "memory")
    return write_figures({name: draw[name] for name in order}, alts, out, svg=svg, say=say)


def _traced_calls(record: CaptureRecord | None) -> dict[str, int]:
    if record is None:
        return {}
    known = record.results[record.results["traced_calls"].notna()]
    return {str(name): int(calls) for name, calls in zip(known["range"], known["traced_calls"], strict=True)}
