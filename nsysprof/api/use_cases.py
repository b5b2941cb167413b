"""Provide the commands as functions: analyze, compare, bench, tune, export_trace and write_bundle.

Each returns as objects what the command prints, and writes the same files. Nothing is printed; pass a Progress to
follow what is being done. All raise NsysprofError (see nsysprof.errors). The keywords of each are the fields of its
request, which are the options of its command.
"""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Sequence
from dataclasses import MISSING, Field, fields
from pathlib import Path
from types import GenericAlias
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from nsysprof.api.notebook import show_result
from nsysprof.app.analyze import TraceResult
from nsysprof.app.analyze import analyze as run_analyze
from nsysprof.app.bundle import BundleResult
from nsysprof.app.bundle import bundle as run_bundle
from nsysprof.app.compare import CompareResult, compare_any
from nsysprof.app.export import ExportResult
from nsysprof.app.export import export as run_export
from nsysprof.app.inputs.attention_requests import BenchRequest, SidesRequest, TuneRequest, parse_side
from nsysprof.app.inputs.grid import Grid
from nsysprof.app.inputs.options import default_of, field_hints, option_field
from nsysprof.app.inputs.reading_requests import AnalyzeRequest, BundleRequest, CompareRequest, ExportRequest
from nsysprof.app.measuring.bench import BenchResult
from nsysprof.app.measuring.bench import bench as run_bench
from nsysprof.app.measuring.bench_program import SidesResult
from nsysprof.app.measuring.bench_program import bench_sides as run_sides
from nsysprof.app.progress import SILENT, Progress
from nsysprof.app.trace_analysis.analyze_ranks import RanksResult
from nsysprof.app.trace_analysis.analyze_snapshot import CompareSnapshotsResult, SnapshotResult
from nsysprof.app.tune import TuneResult
from nsysprof.app.tune import tune as run_tune

Source = str | os.PathLike[str]
Function = TypeVar("Function", bound=Callable[..., Any])
Request = TypeVar("Request")
# Fields that only commands fill.
_OF_COMMANDS = ("command", "stdout_to_stderr")


def takes_fields_of(request: type, *, but: Sequence[str] = ()) -> Callable[[Function], Function]:
    """Return a decorator: its function takes, beside its own parameters, the fields of a request as keywords.

    The signature and the docstring of the function list them. The function gets them as its `**keywords`.

    but: fields that the function decides itself.
    """

    def decorate(function: Function) -> Function:
        own = inspect.signature(function).parameters
        chosen = [field for field in fields(request) if field.name not in {*own, *but, *_OF_COMMANDS}]
        names = {field.name for field in chosen}

        @functools.wraps(function)
        def call(*arguments: Any, **keywords: Any) -> Any:
            unknown = sorted(keywords.keys() - own.keys() - names)
            if unknown:
                raise TypeError(f"{function.__name__}() got an unexpected keyword argument {unknown[0]!r}")
            return function(*arguments, **keywords)

        hints = field_hints(request)
        keywords = [_keyword(field, hints[field.name]) for field in chosen]
        plain = [parameter for parameter in own.values() if parameter.kind is not parameter.VAR_KEYWORD]
        last = [parameter for parameter in plain if parameter.name == "progress"]
        first = [parameter for parameter in plain if parameter.name != "progress"]
        call.__signature__ = inspect.Signature([*first, *keywords, *last])  # type: ignore[attr-defined]
        call.__doc__ = f"{inspect.cleandoc(function.__doc__ or '')}\n\n{_help_of(chosen, hints)}\n"
        return call  # type: ignore[return-value]

    return decorate


def make_request(request: type[Request], /, **values: Any) -> Request:
    """Return the request with these values. A path may be a text, and a tuple any sequence, or one path alone."""
    hints = get_type_hints(request)
    return request(**{name: _as_field(value, hints[name]) for name, value in values.items()})


def _as_field(value: Any, hint: Any) -> Any:
    if get_origin(hint) is tuple:
        one = get_args(hint)[0]
        parts = (value,) if one is Path and isinstance(value, str | os.PathLike) else value
        return tuple(_as_field(part, one) for part in parts)
    if Path in (hint, *get_args(hint)) and value is not None:
        return Path(value)
    return value


def _keyword(field: Field[Any], hint: Any) -> inspect.Parameter:
    option = option_field(field.name, hint, default_of(field))
    default = default_of(field)
    return inspect.Parameter(
        field.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=inspect.Parameter.empty if default is MISSING else default,
        annotation=_taken(hint if option is None else option.kind),
    )


def _taken(hint: Any) -> Any:
    """Return the type that a function takes for a field of a type."""
    if hint is Path:
        return Source
    if hint == Path | None:
        return Source | None
    return GenericAlias(Sequence, (_taken(get_args(hint)[0]),)) if get_origin(hint) is tuple else hint


def _help_of(chosen: Sequence[Field[Any]], hints: dict[str, Any]) -> str:
    options = [option_field(field.name, hints[field.name], None) for field in chosen]
    return "\n".join(f"{option.name}: {option.option.help}" for option in options if option is not None)


@takes_fields_of(AnalyzeRequest)
def analyze(*inputs: Source, progress: Progress = SILENT, **fields: Any) -> TraceResult | RanksResult | SnapshotResult:
    """Analyze a trace, the ranks of a job, or a snapshot of torch's allocator, and write the analysis folder.

    The result has `analysis`, `folder` and `files`. To read a trace without writing anything, use open_trace. Several
    inputs are the ranks of one job, and give a RanksResult. A snapshot (.pickle) gives a SnapshotResult.
    """
    result = run_analyze(make_request(AnalyzeRequest, inputs=inputs, **fields), progress)
    return show_result(result) if isinstance(result, TraceResult) else result


@takes_fields_of(CompareRequest)
def compare(
    baseline: Source | Sequence[Source],
    candidate: Source | Sequence[Source],
    *,
    progress: Progress = SILENT,
    **fields: Any,
) -> CompareResult | CompareSnapshotsResult:
    """Compare a baseline with a candidate. Each is one capture, bench or trace, or several of them.

    Two snapshots of torch's allocator are compared line by line, with no option but `out` and `force`. The answer of
    the gate is `result.comparison.outcome`. Without `out` nothing is written.
    """
    return compare_any(make_request(CompareRequest, baseline=baseline, candidate=candidate, **fields), progress)


@takes_fields_of(BenchRequest)
def bench(grid: Grid, *, progress: Progress = SILENT, **fields: Any) -> BenchResult:
    """Measure the latency of every case of the grid, untraced, and write a bench folder.

    `result.results.table` has a row for each case. Raises CaptureFailedError where no case could be measured, and
    InterruptedCaptureError after Ctrl-C; what was measured until then is in the folder.

    grid: such as nsysprof.Grid(backends=("math", "flash"), seqs=(1024, 4096)).
    """
    result = run_bench(make_request(BenchRequest, grid=grid, **fields), progress)
    if result.failure is not None:
        raise result.failure
    return result


@takes_fields_of(TuneRequest)
def tune(grid: Grid, *, progress: Progress = SILENT, **fields: Any) -> TuneResult:
    """Find the fastest backend for each shape of the grid, and write the folder of a tuning with its policy.

    `result.tuning.winners` has a row for each shape, and `result.tuning.policy` is the file for nsysprof.policy. Raises
    the same errors as bench.

    grid: such as nsysprof.Grid(backends=(), seqs=(256, 1024)). Without backends, those that suit the device are tried.
    """
    result = run_tune(make_request(TuneRequest, grid=grid, **fields), progress)
    if result.failure is not None:
        raise result.failure
    return result


@takes_fields_of(ExportRequest)
def export_trace(source: Source, *, progress: Progress = SILENT, **fields: Any) -> ExportResult:
    """Write a trace for Perfetto (a file), for Chrome's trace viewer (a file) or as Parquet (a folder).

    Raises UsageError when no target is given.
    """
    return run_export(make_request(ExportRequest, source=source, **fields), progress)


@takes_fields_of(BundleRequest)
def write_bundle(source: Source, *, progress: Progress = SILENT, **fields: Any) -> BundleResult:
    """Write a shareable archive of a capture, a bench or a trace, after searching it for private values.

    max_bytes is in bytes. With `show`, nothing is written, and `result.contents` says what would be shared.
    """
    return run_bundle(make_request(BundleRequest, source=source, **fields), progress)


@takes_fields_of(BenchRequest, but=("processes", "self_check", "copies", "db"))
def bench_sides(
    grid: Grid,
    baseline: str,
    candidate: str,
    *,
    turns: int | None = None,
    fail_on: str = "",
    margin_pct: float | None = None,
    progress: Progress = SILENT,
    **fields: Any,
) -> SidesResult:
    """Measure the grid with two settings in turn and compare them; write the folder of both.

    `result.comparison` has a verdict for each case, and `result.comparison.outcome` the answer of the gate.

    baseline, candidate: settings NAME=VALUE and at most one Python, as in a command of `env`; empty for this one.
    turns: how often each side is measured; None for as many as decide every case (3 to 24).
    fail_on: the rules of a gate, such as "slower:3%".
    margin_pct: the smallest difference that matters (percent of the latency).
    """
    bench = make_request(BenchRequest, grid=grid, processes=3 if turns is None else turns, **fields)
    sides = parse_side(baseline), parse_side(candidate)
    result = run_sides(SidesRequest(bench, *sides, fail_on, margin_pct, until_decided=turns is None), progress)
    if result.failure is not None:
        raise result.failure
    return result
