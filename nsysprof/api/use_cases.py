"""Provide the commands as functions: analyze, compare, bench, tune, export_trace and write_bundle.

Each returns as objects what the command prints, and writes the same files. Nothing is printed; pass a Progress to
follow what is being done. All raise NsysprofError (see nsysprof.errors).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from nsysprof.app.inputs.grid import Grid
from nsysprof.app.progress import SILENT, Progress

if TYPE_CHECKING:
    from nsysprof.app.bundle import BundleResult
    from nsysprof.app.compare import CompareResult
    from nsysprof.app.export import ExportResult
    from nsysprof.app.measuring.bench import BenchResult
    from nsysprof.app.trace_analysis.analyze_ranks import RanksResult
    from nsysprof.app.trace_analysis.analyze_snapshot import CompareSnapshotsResult, SnapshotResult
    from nsysprof.app.trace_analysis.analyze_trace import TraceResult
    from nsysprof.app.tune import TuneResult

Source = str | os.PathLike[str]
Device = Literal["auto", "cuda", "cpu"]


def analyze(
    *inputs: Source,
    out: Source | None = None,
    force: bool = False,
    figures: bool = True,
    svg: bool = False,
    nsys: Source | None = None,
    counters: Source | None = None,
    ncu: Source | None = None,
    launched_only: bool = False,
    policy: Source | None = None,
    unfold: bool = False,
    workers: int | None = None,
    scheduler: str | None = None,
    tls: tuple[Path | None, Path | None, Path | None] | None = None,
    worker_memory: str = "auto",
    by_order: bool = False,
    progress: Progress = SILENT,
) -> TraceResult | RanksResult | SnapshotResult:
    """Analyze a trace, the ranks of a job, or a snapshot of torch's allocator, and write the analysis folder.

    The result has `analysis`, `folder` and `files`. To read a trace without writing anything, use open_trace.

    inputs: what `nsysprof analyze` takes. Several inputs are the ranks of one job, and give a RanksResult. A snapshot
        (.pickle) gives a SnapshotResult.
    out: the folder to write; analysis/NAME when not given.
    force: whether to replace an older analysis there.
    counters: what ncu counted for the same program.
    ncu: the ncu that reads the counters.
    nsys: the nsys that exports a report.
    launched_only: leave out what ranges adopted or captured, which gives NVIDIA's numbers.
    policy: a policy.json of tune: its faster attention backends become findings.
    unfold: list counted ranges (step0, step1) one by one, not as step#.
    workers, scheduler, tls, worker_memory, by_order: how several traces are read; see docs/ranks.md.
    """
    from nsysprof.api.shown_result import show_result
    from nsysprof.app import analyze as use_case
    from nsysprof.app.trace_analysis.analyze_trace import TraceResult

    request = use_case.AnalyzeRequest(
        inputs=tuple(map(Path, inputs)),
        out=_path(out),
        force=force,
        figures=figures,
        svg=svg,
        nsys=_path(nsys),
        counters=_path(counters),
        ncu=_path(ncu),
        launched_only=launched_only,
        policy=_path(policy),
        unfold=unfold,
        workers=workers,
        scheduler=scheduler,
        tls=tls,
        worker_memory=worker_memory,
        by_order=by_order,
    )
    result = use_case.analyze(request, progress)
    return show_result(result) if isinstance(result, TraceResult) else result


def compare(
    baseline: Source | Sequence[Source],
    candidate: Source | Sequence[Source],
    *,
    fail_on: str = "",
    margin_pct: float | None = None,
    floor_pct: float | None = None,
    ignore_conditions: bool = False,
    launched_only: bool = False,
    nsys: Source | None = None,
    out: Source | None = None,
    force: bool = False,
    markdown: Source | None = None,
    junit: Source | None = None,
    figures: bool = True,
    progress: Progress = SILENT,
) -> CompareResult | CompareSnapshotsResult:
    """Compare a baseline with a candidate. Each is one capture, bench or trace, or several of them.

    Two snapshots of torch's allocator are compared line by line, with no option but `out` and `force`.

    fail_on: the rules of a gate, such as "slower:3%,launches:+1". `result.comparison.outcome` is its answer.
    margin_pct: the smallest difference that matters (percent of the latency).
    floor_pct: the noise of the machine (percent of the latency).
    ignore_conditions: compare even what was measured under other conditions, instead of raising NotComparableError.
    launched_only: leave out what ranges adopted or captured.
    out: a folder to write; nothing is written when not given.
    markdown, junit: files to write.
    """
    from nsysprof.app import compare as use_case

    request = use_case.CompareRequest(
        baseline=_paths(baseline),
        candidate=_paths(candidate),
        fail_on=fail_on,
        margin_pct=margin_pct,
        floor_pct=floor_pct,
        ignore_conditions=ignore_conditions,
        launched_only=launched_only,
        nsys=_path(nsys),
        out=_path(out),
        force=force,
        markdown=_path(markdown),
        junit=_path(junit),
        figures=figures,
    )
    return use_case.compare_any(request, progress)


def bench(
    grid: Grid,
    *,
    processes: int = 3,
    rounds: int = 5,
    samples: int = 10,
    sample_seconds: float = 1.0,
    warmup_seconds: float = 1.0,
    seed: int | None = None,
    sustained: bool = False,
    locked_clock_mhz: int | None = None,
    flush: bool = True,
    graph: Literal["auto", "always", "never"] = "auto",
    check: bool = True,
    device: Device = "auto",
    case_timeout_s: float = 300.0,
    copies: int = 1,
    out: Source | None = None,
    force: bool = False,
    db: Source | None = None,
    figures: bool = True,
    progress: Progress = SILENT,
) -> BenchResult:
    """Measure the latency of every case of the grid, untraced, and write a bench folder.

    `result.results.table` has a row for each case. Raises CaptureFailedError where no case could be measured, and
    InterruptedCaptureError after Ctrl-C; what was measured until then is in the folder.

    grid: such as nsysprof.Grid(backends=("math", "flash"), seqs=(1024, 4096)).
    copies: how often each case is in the grid; more than one measures a case against itself.
    sustained: whether the GPU is loaded before each block until its clock has settled.
    locked_clock_mhz: the SM clock at which the GPU is locked meanwhile (MHz), as root; None leaves it alone.

    The other options are those of `nsysprof bench`.
    """
    from nsysprof.app.measuring import bench as use_case

    request = use_case.BenchRequest(
        grid=grid,
        processes=processes,
        rounds=rounds,
        samples=samples,
        sample_seconds=sample_seconds,
        warmup_seconds=warmup_seconds,
        seed=seed,
        sustained=sustained,
        locked_clock_mhz=locked_clock_mhz,
        flush=flush,
        graph=graph,
        check=check,
        device=device,
        case_timeout_s=case_timeout_s,
        copies=copies,
        out=_path(out),
        force=force,
        db=_path(db),
        figures=figures,
    )
    result = use_case.bench(request, progress)
    if result.failure is not None:
        raise result.failure
    return result


def tune(
    grid: Grid,
    *,
    source: Source | None = None,
    search: Literal["grid", "axes"] = "grid",
    budget_s: float = 600.0,
    blocks: int = 12,
    samples: int = 10,
    warmup_seconds: float = 0.5,
    seed: int | None = None,
    flush: bool = True,
    check: bool = True,
    device: Device = "auto",
    case_timeout_s: float = 120.0,
    out: Source | None = None,
    force: bool = False,
    resume: bool = False,
    gpu_hour_price: float | None = None,
    db: Source | None = None,
    figures: bool = True,
    progress: Progress = SILENT,
) -> TuneResult:
    """Find the fastest backend for each shape of the grid, and write the folder of a tuning with its policy.

    `result.tuning.winners` has a row for each shape, and `result.tuning.policy` is the file for nsysprof.policy. Raises
    the same errors as bench.

    grid: such as nsysprof.Grid(backends=(), seqs=(256, 1024)). Without backends, those that suit the device are tried.
    source: a capture, trace or analysis of a program: its shapes are tuned instead of the grid's.
    budget_s: the time limit, after which the search ends with what it has (s).

    The other options are those of `nsysprof tune`.
    """
    from nsysprof.app import tune as use_case

    request = use_case.TuneRequest(
        grid=grid,
        source=_path(source),
        search=search,
        budget_s=budget_s,
        blocks=blocks,
        samples=samples,
        warmup_seconds=warmup_seconds,
        seed=seed,
        flush=flush,
        check=check,
        device=device,
        case_timeout_s=case_timeout_s,
        out=_path(out),
        force=force,
        resume=resume,
        gpu_hour_price=gpu_hour_price,
        db=_path(db),
        figures=figures,
    )
    result = use_case.tune(request, progress)
    if result.failure is not None:
        raise result.failure
    return result


def export_trace(
    source: Source,
    *,
    perfetto: Source | None = None,
    chrome: Source | None = None,
    parquet: Source | None = None,
    force: bool = False,
    nsys: Source | None = None,
    progress: Progress = SILENT,
) -> ExportResult:
    """Write a trace for Perfetto (a file), for Chrome's trace viewer (a file) or as Parquet (a folder).

    Raises UsageError when no target is given.
    """
    from nsysprof.app import export as use_case

    request = use_case.ExportRequest(
        Path(source),
        perfetto=_path(perfetto),
        chrome=_path(chrome),
        parquet=_path(parquet),
        force=force,
        nsys=_path(nsys),
    )
    return use_case.export(request, progress)


def write_bundle(
    source: Source,
    *,
    out: Source | None = None,
    force: bool = False,
    keep_names: bool = False,
    ranges: Sequence[str] = (),
    max_bytes: int = 25_000_000,
    show: bool = False,
    nsys: Source | None = None,
    progress: Progress = SILENT,
) -> BundleResult:
    """Write a shareable archive of a capture, a bench or a trace, after searching it for private values.

    out: the archive; NAME.zip in the current folder when not given.
    ranges: patterns of range names. With any, only what belongs to these ranges is shared.
    max_bytes: the largest size of the archive (bytes).
    show: whether to write nothing; `result.contents` then says what would be shared.
    """
    from nsysprof.app import bundle as use_case

    request = use_case.BundleRequest(
        Path(source),
        out=_path(out),
        force=force,
        keep_names=keep_names,
        ranges=tuple(ranges),
        max_bytes=max_bytes,
        show=show,
        nsys=_path(nsys),
    )
    return use_case.bundle(request, progress)


def _path(source: Source | None) -> Path | None:
    return None if source is None else Path(source)


def _paths(sources: Source | Sequence[Source]) -> tuple[Path, ...]:
    """Return one path, or several, as a tuple."""
    return (Path(sources),) if isinstance(sources, (str, os.PathLike)) else tuple(map(Path, sources))
