"""Provide the commands as functions: analyze, compare, bench, tune, export_trace and write_bundle.

Each returns as objects what the command prints, and writes the same files. Nothing is printed; pass a Progress to
follow what is being done. All raise NsysprofError (see nsysprof.errors). The keywords of each are the fields of its
request, which are the options of its command.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from nsysprof.api.request_fields import Source, make_request, takes_fields_of
from nsysprof.app.inputs.grid import Grid
from nsysprof.app.progress import SILENT, Progress
from nsysprof.app.requests.attention import BenchRequest, TuneRequest
from nsysprof.app.requests.reading import BundleRequest, CompareRequest, ExportRequest
from nsysprof.app.trace_analysis.analyze_request import AnalyzeRequest

if TYPE_CHECKING:
    from nsysprof.app.bundle import BundleResult
    from nsysprof.app.compare import CompareResult
    from nsysprof.app.export import ExportResult
    from nsysprof.app.measuring.bench import BenchResult
    from nsysprof.app.measuring.bench_sides import SidesResult
    from nsysprof.app.trace_analysis.analyze_ranks import RanksResult
    from nsysprof.app.trace_analysis.analyze_snapshot import CompareSnapshotsResult, SnapshotResult
    from nsysprof.app.trace_analysis.analyze_trace import TraceResult
    from nsysprof.app.tune import TuneResult


@takes_fields_of(AnalyzeRequest)
def analyze(*inputs: Source, progress: Progress = SILENT, **fields: Any) -> TraceResult | RanksResult | SnapshotResult:
    """Analyze a trace, the ranks of a job, or a snapshot of torch's allocator, and write the analysis folder.

    The result has `analysis`, `folder` and `files`. To read a trace without writing anything, use open_trace. Several
    inputs are the ranks of one job, and give a RanksResult. A snapshot (.pickle) gives a SnapshotResult.
    """
    from nsysprof.api.notebook import show_result
    from nsysprof.app import analyze as use_case
    from nsysprof.app.trace_analysis.analyze_trace import TraceResult

    result = use_case.analyze(make_request(AnalyzeRequest, inputs=inputs, **fields), progress)
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
    from nsysprof.app import compare as use_case

    return use_case.compare_any(
        make_request(CompareRequest, baseline=baseline, candidate=candidate, **fields), progress
    )


@takes_fields_of(BenchRequest)
def bench(grid: Grid, *, progress: Progress = SILENT, **fields: Any) -> BenchResult:
    """Measure the latency of every case of the grid, untraced, and write a bench folder.

    `result.results.table` has a row for each case. Raises CaptureFailedError where no case could be measured, and
    InterruptedCaptureError after Ctrl-C; what was measured until then is in the folder.

    grid: such as nsysprof.Grid(backends=("math", "flash"), seqs=(1024, 4096)).
    """
    from nsysprof.app.measuring import bench as use_case

    result = use_case.bench(make_request(BenchRequest, grid=grid, **fields), progress)
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
    from nsysprof.app import tune as use_case

    result = use_case.tune(make_request(TuneRequest, grid=grid, **fields), progress)
    if result.failure is not None:
        raise result.failure
    return result


@takes_fields_of(ExportRequest)
def export_trace(source: Source, *, progress: Progress = SILENT, **fields: Any) -> ExportResult:
    """Write a trace for Perfetto (a file), for Chrome's trace viewer (a file) or as Parquet (a folder).

    Raises UsageError when no target is given.
    """
    from nsysprof.app import export as use_case

    return use_case.export(make_request(ExportRequest, source=source, **fields), progress)


@takes_fields_of(BundleRequest)
def write_bundle(source: Source, *, progress: Progress = SILENT, **fields: Any) -> BundleResult:
    """Write a shareable archive of a capture, a bench or a trace, after searching it for private values.

    max_bytes is in bytes. With `show`, nothing is written, and `result.contents` says what would be shared.
    """
    from nsysprof.app import bundle as use_case

    return use_case.bundle(make_request(BundleRequest, source=source, **fields), progress)


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
    from nsysprof.app.measuring.bench_sides import bench_sides as run
    from nsysprof.app.requests.attention import SidesRequest, parse_side

    bench = make_request(BenchRequest, grid=grid, processes=3 if turns is None else turns, **fields)
    sides = parse_side(baseline), parse_side(candidate)
    result = run(SidesRequest(bench, *sides, fail_on, margin_pct, until_decided=turns is None), progress)
    if result.failure is not None:
        raise result.failure
    return result
