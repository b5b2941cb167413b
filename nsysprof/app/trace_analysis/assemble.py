"""Assemble the analysis of one trace, with everything that lies beside it: the only way from a trace to findings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from nsysprof.analysis.busy_time.operators import Facts
from nsysprof.analysis.overview.summarize import SummaryOptions, run_summary
from nsysprof.analysis.parts.find_part import wanted_part
from nsysprof.analysis.traffic.join_counters import join_launches
from nsysprof.app.progress import Say
from nsysprof.app.trace_analysis.capture_record import read_record
from nsysprof.app.trace_analysis.join_attention import join_attention
from nsysprof.app.trace_analysis.join_memory import join_memory, session_start_ns
from nsysprof.app.trace_analysis.join_recording_cost import join_recording_cost
from nsysprof.app.trace_analysis.read_stacks import read_stacks
from nsysprof.attention.policy_file import PolicyFile
from nsysprof.files.json_file import FileHeader, read_json
from nsysprof.files.memory_reuse import reuse_in_pyarrow
from nsysprof.notes import Note
from nsysprof.ranks.rank_energy import parse_power, power_of
from nsysprof.results.analysis import Analysis, CaptureRecord
from nsysprof.results.column_registry.case_columns import COUNTERS as COUNTERS_FILE
from nsysprof.results.findings import StackSamples
from nsysprof.results.kernel_counters import CountedLaunches
from nsysprof.results.power_samples import GpuEnergy
from nsysprof.torchprof.operator_facts import OperatorFacts
from nsysprof.trace.inputs.resolve_input import identity_of
from nsysprof.trace.open import Trace, open_trace
from nsysprof.trace.table_readers.devices import read_gpus
from nsysprof.trace.table_readers.native_stacks import read_launches
from nsysprof.trace.tables import read_tables

if TYPE_CHECKING:
    from nsysprof.results.comparison import RangeFacts

# What lies beside a trace in a capture folder and is joined with its analysis, in this order: the name, and what joins
# it, given the analysis, the input and its SQLite file. A join without its file changes nothing.
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


DEFAULT = AnalysisOptions()


def assemble(source: Path, trace: Path, options: AnalysisOptions = DEFAULT, say: Say | None = None) -> Assembled:
    """Return the analysis of an input.

    source: what the user named: a trace or a capture folder.
    trace: its SQLite file.
    """
    record = read_record(source) if COUNTERS in options.parts and source.is_dir() else None
    with open_trace(trace, identity_of(source, trace)) as opened:
        opened.begin()
        beside = Beside(
            read_stacks(source, trace), read_power(source, trace), read_operators(source),
            _read_launches(source, trace, opened) if record is not None else (),
            (record.environment.get("ceilings") or {}) if record is not None else {},
        )  # fmt: skip
        analysis, facts = summarize_opened(opened, options, say, beside=beside)
    trace_notes = len(analysis.notes)
    if record is not None and analysis.part is not None:
        record = replace(record, results=_cases_in(record.results, analysis))
    if COUNTERS in options.parts and (record is not None or options.counters is not None):
        from nsysprof.app.trace_analysis.join_counters import complete_analysis

        analysis, record = complete_analysis(
            analysis, record, trace, folder=source, report=options.counters, ncu=options.ncu, launches=beside.launches
        )
    counter_notes = analysis.notes[trace_notes:]
    for name, join in JOINS.items():
        if name in options.parts and (analysis.part is None or name not in _OF_WHOLE):
            analysis = join(analysis, source, trace)
    return Assembled(analysis, record, facts, counter_notes)


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
        read.launches, read.ceilings, wanted_part(options.range, options.step),
    )  # fmt: skip
    summary = run_summary(tables, wanted, keeps_attribution=options.calls_by_range is not None)
    if options.calls_by_range is None or summary.attribution is None:
        return summary.analysis, {}
    from nsysprof.analysis.comparison.range_facts import collect_range_facts

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
    path = source / COUNTERS_FILE.name
    if not path.is_file():
        return ()
    from nsysprof.capture.collect import read_counters

    kernels = read_counters(path)
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
    from nsysprof.capture.user_program.program_hook import find_recorded

    paths = find_recorded(source, "operators")
    return {process: _read(path) for process, path in paths.items()}


def _read(path: Path) -> dict[int, OperatorFacts]:
    advice = "Remove it, and analyze again."
    kind = "a file of operators"
    data = read_json(path, _Operators, kind=kind, advice=advice, newest=1, largest_bytes=_LARGEST_BYTES)
    return {operator.op_id: operator for operator in data.operators if operator.op_id}


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
