"""Assemble the analysis of one trace, with everything that lies beside it: the only way from a trace to findings."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import msgspec
import numpy as np
import pandas as pd
from msgspec import Meta

from nsysprof.analysis.busy_time.operators import Facts
from nsysprof.analysis.comparison.rank_cases import fill_results, rank_cases
from nsysprof.analysis.overview.allocator_owners import is_own_file
from nsysprof.analysis.overview.summarize import SummaryOptions, run_summary
from nsysprof.analysis.parts.find_part import wanted_part
from nsysprof.analysis.traffic.join_counters import (
    counted_table,
    fill_counters,
    join_launches,
    of_this_gpu,
    with_kernel_counters,
    with_launch_counters,
)
from nsysprof.analysis.traffic.roofline import fill_roofline
from nsysprof.app.progress import Say
from nsysprof.app.trace_analysis.analyze_snapshot import join_memory, session_start_ns
from nsysprof.app.trace_analysis.join_recorded import join_attention, join_recording_cost
from nsysprof.attention.policy_file import PolicyFile
from nsysprof.attention.shape import SHAPE_COLUMNS, check_case_row
from nsysprof.capture.collect import read_counters, write_counters
from nsysprof.capture.manifest import MANIFEST, Manifest, read_manifest
from nsysprof.capture.user_program.program_hook import find_recorded
from nsysprof.errors import MissingToolError, TraceError
from nsysprof.files.memory_reuse import reuse_in_pyarrow
from nsysprof.files.plain_file import FileHeader, read_json
from nsysprof.notes import Note, make_note
from nsysprof.nsight.ncu import count_kernels, parse_ncu_csv, read_report
from nsysprof.nsight.run_tool import NCU, find_tool
from nsysprof.ranks.rank_energy import parse_power, power_of
from nsysprof.results.analysis import Analysis, CaptureRecord
from nsysprof.results.checks import MissingSource
from nsysprof.results.column_registry.case_columns import CAPTURE_RESULTS
from nsysprof.results.column_registry.case_columns import COUNTERS as COUNTERS_FILE
from nsysprof.results.column_registry.csv_table import set_dtypes
from nsysprof.results.event_rows import KernelGrids
from nsysprof.results.findings import UNRECORDED, StackSamples, UnrecordedSteps
from nsysprof.results.kernel_counters import CountedKernel, CountedLaunches, Run
from nsysprof.results.power_samples import GpuEnergy
from nsysprof.results.roof import roof_of
from nsysprof.torchprof.operator_facts import OperatorFacts
from nsysprof.trace.inputs.resolve_input import identity_of
from nsysprof.trace.open import Trace, open_trace
from nsysprof.trace.table_readers.gpus import read_gpus
from nsysprof.trace.table_readers.kernel_grids import read_grids
from nsysprof.trace.table_readers.native_stacks import read_launches, read_native_stacks, read_symbols
from nsysprof.trace.tables import read_tables

if TYPE_CHECKING:
    from nsysprof.results.comparison import RangeFacts

# What lies beside a trace in a capture folder and is joined with its analysis, in this order: the name, and what joins
# it, given the analysis, the input and its SQLite file. A join without its file changes nothing.
T = TypeVar("T")
JOINS: Mapping[str, Callable[[Analysis, Path, Path], Analysis]] = {
    "memory": join_memory,
    "attention": lambda analysis, source, _trace: join_attention(analysis, source),
    "recording cost": join_recording_cost,
}
COUNTERS = "counters"
# What the capture recorded of the program as a whole, and what is therefore not joined with a part of it.
_OF_WHOLE = ("memory", "attention")
_LARGEST_BYTES = 256 << 20


@dataclass(frozen=True)
class AnalysisOptions:
    """What is wanted of the analysis of one trace.

    launched_only: whether to leave out what ranges adopted from helper threads or captured into graphs.
    policy: measured attention backends, for the finding attention-backend.
    unfold: whether step0, step1, ... are listed one by one.
    counters, ncu: the user's own counters, used instead of the capture's, and the program that reads them.
    calls_by_range: for a comparison: how many calls each range of a capture stands for; None: no facts are collected.
    parts: what is joined: names of JOINS, and COUNTERS with the record of the capture.
    range, step: the path or the name of the only range, or the number of the only step; None for the whole trace.
    grids: whether the grids of kernels are read, which only a page shows.
    """

    launched_only: bool = False
    policy: PolicyFile | None = None
    unfold: bool = False
    counters: Path | None = None
    ncu: Path | None = None
    calls_by_range: Mapping[str, int] | None = None
    parts: frozenset[str] = frozenset({COUNTERS, *JOINS})
    range: str | None = None
    step: int | None = None
    grids: bool = False


@dataclass(frozen=True)
class Assembled:
    """The analysis of a trace, the record of its capture where it has one, and the facts about its ranges if wanted.

    counter_notes: those notes of the analysis that say what does not fit together in the counters.
    """

    analysis: Analysis
    record: CaptureRecord | None = None
    range_facts: dict[tuple[str, str], RangeFacts] = field(default_factory=dict)
    counter_notes: tuple[Note, ...] = ()


@dataclass(frozen=True)
class Beside:
    """What the folder of a trace holds for the analysis itself: see SummaryOptions."""

    stacks: StackSamples | None = None
    power: Sequence[GpuEnergy] = ()
    operators: Facts = field(default_factory=dict)
    launches: Sequence[CountedLaunches] = ()
    ceilings: Mapping[str, Any] = field(default_factory=dict)
    unrecorded: UnrecordedSteps | None = None


DEFAULT = AnalysisOptions()


def assemble(source: Path, trace: Path, options: AnalysisOptions = DEFAULT, say: Say | None = None) -> Assembled:
    """Return the analysis of an input.

    source: what the user named: a trace or a capture folder.
    trace: its SQLite file.
    """
    record = read_record(source) if COUNTERS in options.parts and source.is_dir() else None
    with open_trace(trace, identity_of(source, trace)) as opened:
        opened.begin()
        unread: list[Note] = []
        beside = Beside(
            _unless_damaged(source, unread, None, lambda: read_stacks(source, trace)),
            _unless_damaged(source, unread, (), lambda: read_power(source, trace)),
            _unless_damaged(source, unread, {}, lambda: read_operators(source)),
            ()
            if record is None
            else _unless_damaged(source, unread, (), lambda: _read_launches(source, trace, opened)),
            (record.environment.get("ceilings") or {}) if record is not None else {},
            _unless_damaged(source, unread, None, lambda: read_unrecorded(source)),
        )
        analysis, facts = summarize_opened(opened, options, say, beside=beside)
    analysis = replace(analysis, notes=(*analysis.notes, *unread))
    trace_notes = len(analysis.notes)
    if record is not None and analysis.part is not None:
        record = replace(record, results=_cases_in(record.results, analysis))
    if COUNTERS in options.parts and (record is not None or options.counters is not None):
        analysis, record = complete_analysis(
            analysis, record, trace, folder=source, report=options.counters, ncu=options.ncu, launches=beside.launches
        )
    counter_notes = analysis.notes[trace_notes:]
    for name, join in JOINS.items():
        if name in options.parts and (analysis.part is None or name not in _OF_WHOLE):
            unread = []
            analysis = _unless_damaged(source, unread, analysis, partial(join, analysis, source, trace))
            analysis = replace(analysis, notes=(*analysis.notes, *unread))
    return Assembled(analysis, record, facts, counter_notes)


def _unless_damaged(source: Path, notes: list[Note], otherwise: T, read: Callable[[], T]) -> T:
    """Return what is read beside a trace; a damaged file costs its own part alone, and gets a note.

    source: the folder of the trace. otherwise: what counts in place of the file.
    """
    try:
        return read()
    except TraceError as error:
        notes.append(make_note("unread-beside", reason=error.text.replace(f"{source}{os.sep}", "")))
        return otherwise


def _cases_in(results: pd.DataFrame, analysis: Analysis) -> pd.DataFrame:
    """Return the cases of a capture whose ranges are in the part that was read."""
    return results[results["range"].isin(analysis.ranges["range"]).to_numpy(dtype=bool)].reset_index(drop=True)


def summarize_opened(
    trace: Trace,
    options: AnalysisOptions = DEFAULT,
    say: Say | None = None,
    *,
    beside: Beside | None = None,
) -> tuple[Analysis, dict[tuple[str, str], RangeFacts]]:
    """Return the analysis of an opened trace alone, and the facts about its ranges if they are wanted.

    beside: what was read beside the trace.
    """
    reuse_in_pyarrow()
    tables = read_tables(trace, progress=say)
    read = beside or Beside()
    wanted = SummaryOptions(
        options.launched_only, options.policy, read.stacks, options.unfold, read.power, read.operators,
        read.launches, read.ceilings, wanted_part(options.range, options.step), read.unrecorded,
    )  # fmt: skip
    summary = run_summary(tables, wanted, keeps_attribution=options.calls_by_range is not None)
    if options.grids and (grids := read_grids(trace)) is not None:
        summary = replace(summary, analysis=replace(summary.analysis, grids=KernelGrids(*grids)))
    if options.calls_by_range is None or summary.attribution is None:
        return summary.analysis, {}
    from nsysprof.analysis.comparison.range_facts import collect_range_facts  # for comparisons alone

    facts = collect_range_facts(
        tables,
        summary.analysis,
        options.calls_by_range,
        launched_only=options.launched_only,
        attributed=(summary.attribution, summary.caused),
    )
    return summary.analysis, facts


def _read_launches(source: Path, trace: Path, opened: Trace) -> Sequence[CountedLaunches]:
    """Return the launches of a trace where `capture --counters` counted some of its program; none elsewhere."""
    kernels = read_counters_in(source)
    if all(kernel.range for kernel in kernels):
        return ()
    launches = [CountedLaunches(*launched) for launched in read_launches(trace)]
    devices = read_gpus(opened).device_rows()
    return join_launches(launches, kernels, devices[0].name if devices else None)


class _Operators(FileHeader, kw_only=True):
    """The file that the recorder writes; see nsysprof.workload.program_start.operator_recorder."""

    operators: list[OperatorFacts]


def read_operators(source: Path) -> dict[int, dict[int, OperatorFacts]]:
    """Return the operators in a capture folder by process and by their number. Raises TraceError for a damaged file."""
    if not source.is_dir():
        return {}
    paths = find_recorded(source, "operators")
    return {process: _read(path) for process, path in paths.items()}


def _read(path: Path) -> dict[int, OperatorFacts]:
    advice = "Remove it, and analyze again."
    kind = "a file of operators"
    data = read_json(path, _Operators, kind=kind, advice=advice, newest=1, largest_bytes=_LARGEST_BYTES)
    return {operator.op_id: operator for operator in data.operators if operator.op_id}


def read_unrecorded(source: Path) -> UnrecordedSteps | None:
    """Return the steps of a run of the program that nothing recorded, where the capture measured them.

    Raises TraceError for a damaged file.
    """
    if not (source.is_dir() and (source / UNRECORDED).is_file()):
        return None
    return read_json(
        source / UNRECORDED, UnrecordedSteps, kind="a file of unrecorded steps", advice="Remove it, and analyze again.",
        newest=1,
    )  # fmt: skip


def read_power(source: Path, trace: Path) -> Sequence[GpuEnergy]:
    """Return the energy samples in a capture folder, or beside the trace of a rank: one entry per GPU.

    There are none without samples, or without a clock to place them. Raises TraceError for a damaged file.

    trace: the SQLite file of the capture.
    """
    path = power_of(source)
    if not path.is_file():
        return ()
    start_ns = session_start_ns(trace)
    return () if start_ns is None else parse_power(path, start_ns)


_LARGEST_STACKS_BYTES = 512 << 20
_LONGEST_FUNCTION = 160
_Text = Annotated[str, Meta(max_length=4096)]
_Number = Annotated[int, Meta(ge=0, lt=2**62)]
_Id = Annotated[int, Meta(ge=0, lt=2**24)]


class _Stacks(FileHeader, kw_only=True):
    """The file that the sampler writes; see nsysprof.workload.program_start.stack_sampler."""

    process: _Id
    stacks: list[list[tuple[_Text, _Number, _Text]]]
    # One sample each: time (ns since 1970), thread, stack.
    samples: list[tuple[_Number, _Id, _Number]]
    # The same where Python made a stream wait; older files have none.
    waits: list[tuple[_Number, _Id, _Number]] = msgspec.field(default_factory=list)


# Files whose functions are not the program's own: CUDA, the system, Python, and its libraries for the GPU.
_NOT_OWN_FILE = re.compile(
    r"(^|/)(lib(cuda|cudart|cupti|cublas|cudnn|cufft|nv|nccl|c|m|dl|rt|pthread|stdc\+\+|gcc_s|gomp|c10|torch|shm|jax|python)"
    r"|ld-linux|ld-2|python3?[\d.]*$|_C\.|_XLAC|xla_extension|libToolsInjection|vdso)|^\[|^$"
)
_OPERATOR = re.compile(r"at::_ops::(\w+)::(call|redispatch)")


def read_stacks(source: Path, trace: Path) -> StackSamples | None:
    """Return the samples of a capture folder and the native stacks in its trace; None where there are neither.

    Samples are left out where the trace does not say when its clock began. Raises TraceError for a damaged file.

    trace: the SQLite file of the capture.
    """
    native = _read_native(trace)
    sampled = _read_samples(source, trace)
    if sampled is None:
        return native
    return sampled if native is None else replace(sampled, native=native)


def _read_native(trace: Path) -> StackSamples | None:
    """Return the native stacks of slow calls as samples in the middle of each call; None where there are none."""
    found = read_native_stacks(trace)
    if found is None:
        return None

    lines: dict[str, int] = {}
    of_stack = [_function_of(stack.frames) for stack in found.stacks]
    number = [lines.setdefault(line, len(lines)) if line else -1 for line in of_stack]
    rows = [((start + end) // 2, tid & ((1 << 48) - 1), number[stack]) for start, end, tid, stack in found.calls]
    table = np.array(sorted(rows), dtype=np.int64).reshape(-1, 3)
    return StackSamples(table[:, 0], table[:, 1], table[:, 2], tuple(lines))


def _function_of(frames: tuple[tuple[str, str], ...]) -> str:
    """Return the innermost function of the program itself, or else the operator of torch that made the call."""
    for symbol, module in frames:
        if _NOT_OWN_FILE.search(module) is None:
            return f"{_plain(symbol)} ({module.rpartition('/')[2]})"
    operators = (_OPERATOR.search(symbol) for symbol, _ in frames)
    return next((f"aten::{found[1]}" for found in operators if found is not None), "")


def _plain(symbol: str) -> str:
    """Return a function's name without parameters."""
    return symbol.partition("(")[0][:_LONGEST_FUNCTION] or symbol[:_LONGEST_FUNCTION]


def _read_samples(source: Path, trace: Path) -> StackSamples | None:
    """Return what the sampler wrote into a capture folder; None where nothing can be placed in time."""
    if not source.is_dir():
        return None
    paths = find_recorded(source, "stacks")
    if not paths:
        return None

    start_ns = session_start_ns(trace)
    if start_ns is None:
        return None
    lines: dict[str, int] = {}
    rows: tuple[list[tuple[int, int, int]], list[tuple[int, int, int]]] = ([], [])
    advice = "Remove it, and analyze again."
    for path in paths.values():
        found = read_json(
            path, _Stacks, kind="a file of stacks", advice=advice, newest=1, largest_bytes=_LARGEST_STACKS_BYTES
        )
        own = [_line_of(stack) for stack in found.stacks]
        number = [lines.setdefault(line, len(lines)) if line else -1 for line in own]
        for each, taken in zip(rows, (found.samples, found.waits), strict=True):
            each += [
                (time - start_ns, (found.process << 24) | thread, number[stack] if stack < len(number) else -1)
                for time, thread, stack in taken
            ]
    tables = (np.array(sorted(each), dtype=np.int64).reshape(-1, 3) for each in rows)
    samples, waits = (StackSamples(table[:, 0], table[:, 1], table[:, 2], tuple(lines)) for table in tables)
    return replace(samples, waits=waits) if len(waits.line) else samples


def _line_of(stack: list[tuple[str, int, str]]) -> str:
    """Return FILE:LINE of the innermost frame outside torch and Python's library, relative to the current folder."""
    for file, line, _ in stack:
        if is_own_file(file):
            return f"{file.removeprefix(str(Path.cwd()) + os.sep)}:{line}"
    return ""


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
    missing = [column for column in CAPTURE_RESULTS.names if column not in table]
    if missing:
        raise TraceError(f"{path} lacks the columns {', '.join(missing)}.", "It was not written by nsysprof capture.")
    try:
        table = set_dtypes(table[list(CAPTURE_RESULTS.names)], CAPTURE_RESULTS)
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
    manifest = _read_manifest(folder)
    return manifest is not None and manifest.program is not None


def _read_manifest(folder: Path) -> Manifest | None:
    return read_manifest(folder) if (folder / MANIFEST).exists() else None


def read_record(folder: Path) -> CaptureRecord | None:
    """Return the capture's manifest and results; None for a folder without a manifest."""
    manifest = _read_manifest(folder)
    if manifest is None:
        return None
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


def complete_analysis(
    analysis: Analysis,
    record: CaptureRecord | None,
    trace: Path,
    *,
    folder: Path,
    report: Path | None = None,
    ncu: Path | None = None,
    launches: Sequence[CountedLaunches] = (),
) -> tuple[Analysis, CaptureRecord | None]:
    """Return a trace's analysis and a capture's record, each completed from the other and from the counters.

    folder: the capture folder.
    report: the user's own counters, used instead of the capture's.
    ncu: the program that reads the report.
    launches: the launches of a program, some of them counted by `capture --counters`.
    """
    if record is not None:
        record = replace(record, results=fill_results(record.results, analysis))
    if record is None and report is None:
        return analysis, None
    if report is None and launches:
        analysis = with_launch_counters(analysis, launches)
        return join_counters(analysis, record, [], trace, foreign=False)
    ranges = [str(name) for name in analysis.ranges["range"].unique()]
    counted = read_counted(None if record is None else folder, report, ranges, ncu)
    return join_counters(analysis, record, counted, trace, foreign=report is not None)


def read_counted(folder: Path | None, report: Path | None, ranges: list[str], ncu: Path | None) -> list[CountedKernel]:
    """Return the launches in a capture folder's counters.csv, or in the user's own report.

    Raises TraceError for what cannot be read, and MissingToolError where a .ncu-rep needs an ncu.
    """
    if report is not None:
        return _read_report(report, ranges, ncu)
    return [] if folder is None else read_counters_in(folder)


def read_counters_in(folder: Path) -> list[CountedKernel]:
    """Return the launches in a folder's counters.csv; none without that file."""
    path = folder / COUNTERS_FILE.name
    if not path.is_file():
        return []
    return read_counters(path)


def _read_report(report: Path, ranges: list[str], ncu: Path | None) -> list[CountedKernel]:
    """Return the launches of the user's own report for both runs, since it does not say in which state caches were."""
    if report.suffix == ".csv":
        try:
            named = symbols = parse_ncu_csv(report.read_text(encoding="utf-8", errors="replace"))
        except OSError as error:
            raise TraceError(f"{report} cannot be read: {error.strerror}.", "Check the path.") from error
    else:
        found = find_tool(NCU, ncu)
        if found is None:
            raise MissingToolError(
                f"{report.name} can only be read by ncu, which was not found.",
                "Name one with --ncu or NSYSPROF_NCU, or give the .csv that ncu --import REPORT --csv --page "
                "raw prints.",
            )
        if not report.is_file():
            raise TraceError(f"{report} does not exist.", "Check the path.")
        named, symbols = (read_report(found, report, names) for names in ("demangled", "mangled"))
    counted = [
        replace(kernel, passes=None)
        for run in Run
        for kernel in count_kernels(run, named.kernels, symbols.kernels, ranges)
    ]
    if not counted:
        raise TraceError(
            f"None of the {len(named.kernels)} kernels in {report.name} is in a range of the trace.",
            "Run ncu --nvtx on the same program that was traced.",
        )
    return counted


def name_kernels(folder: Path, trace: Path) -> None:
    """Write the trace's name of each kernel into a capture's counters.csv, so that they stay joined when shared."""
    kernels = read_counters_in(folder)
    if not kernels:
        return
    names = {symbol: name for name, symbols in read_symbols(trace).items() for symbol in symbols}
    write_counters(folder, [replace(kernel, kernel=names.get(kernel.symbol, kernel.kernel)) for kernel in kernels])


def join_counters(
    analysis: Analysis, record: CaptureRecord | None, kernels: list[CountedKernel], trace: Path | None, *, foreign: bool
) -> tuple[Analysis, CaptureRecord | None]:
    """Return the tables with counters, and notes on what does not fit together.

    trace: the SQLite file; None where there is none.
    """
    environment = record.environment if record is not None else {}
    known = environment.get("gpu_name") or (analysis.devices[0].name if len(analysis.devices) == 1 else None)
    every = counted_table(kernels)
    counted, notes = of_this_gpu(every, known)
    if record is not None and len(counted) < len(every):
        record = replace(record, missing=(*record.missing, MissingSource.COUNTERS_OF_THIS_GPU))
    if foreign and len(counted):
        notes.append(make_note("counters-cache-unknown"))
    if len(counted) and trace is not None:
        analysis, more = with_kernel_counters(analysis, counted, read_symbols(trace))
        notes += more
    if record is not None:
        results, more = fill_counters(record.results, counted)
        on_gpu = environment.get("device") == "cuda"
        results = fill_roofline(results, counted, roof_of(environment), on_gpu=on_gpu)
        record = replace(record, results=results, rankings=rank_cases(results, on_gpu=on_gpu))
        notes += more
    return replace(analysis, notes=(*analysis.notes, *notes)), record
