"""Define `nsysprof analyze`: turn a trace or capture folder into tables, figures and a report."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nsysprof.cli import options
from nsysprof.cli.terminal.console import print_json, say_missing_figures
from nsysprof.errors import DataLossError

if TYPE_CHECKING:
    from nsysprof.app.trace_analysis.analyze_ranks import RanksResult
    from nsysprof.app.trace_analysis.analyze_snapshot import SnapshotResult
    from nsysprof.app.trace_analysis.analyze_trace import TraceResult
    from nsysprof.report.document import Report

EXAMPLES = (
    "nsysprof analyze report.nsys-rep",
    "nsysprof analyze traces/20261121-093000 --out analysis/first --force",
    "nsysprof analyze trace.sqlite --counters counters.ncu-rep",
    "nsysprof analyze job/ranks --workers 8    # all ranks of a job",
    "nsysprof analyze snapshot.pickle    # what owned torch's memory at its peak",
)
_RANKS = "Several traces"

Inputs = Annotated[
    list[Path],
    typer.Argument(
        metavar="INPUT...",
        help="A capture folder, a bundle (.zip), .sqlite (also .xz, .gz, .zst), .nsys-rep, .qdrep, a folder of "
        "nsys' Parquet files, torch.profiler's .json(.gz), or a .pickle of torch's allocator. Several: the ranks "
        "of one job.",
        show_default=False,
    ),
]
Counters = Annotated[
    Path | None, typer.Option(help="What ncu counted of the same program: a .ncu-rep, or its --page raw as .csv.")
]
Workers = Annotated[
    int | None,
    typer.Option(
        min=1, help="Number of processes. Default: depends on the size of the traces.", rich_help_panel=_RANKS
    ),
]
Scheduler = Annotated[
    str | None,
    typer.Option(help="The Dask scheduler of a cluster, tcp:// or tls://HOST.", rich_help_panel=_RANKS),
]
TlsCaFile = Annotated[
    Path | None, typer.Option(help="Certificate authority of a scheduler at tls:// (PEM).", rich_help_panel=_RANKS)
]
TlsCert = Annotated[
    Path | None, typer.Option(help="Our client certificate for a scheduler at tls:// (PEM).", rich_help_panel=_RANKS)
]
TlsKey = Annotated[
    Path | None, typer.Option(help="Our private key for a scheduler at tls:// (PEM).", rich_help_panel=_RANKS)
]
WorkerMemory = Annotated[
    str, typer.Option(help="Memory of each process of --workers, such as 4GiB.", rich_help_panel=_RANKS)
]
ByOrder = Annotated[
    bool, typer.Option("--by-order", help="Number the ranks in the given order.", rich_help_panel=_RANKS)
]
Svg = Annotated[bool, typer.Option(help="Also draw the figures as SVG.", rich_help_panel=options.OUTPUT)]


def analyze(
    inputs: Inputs,
    counters: Counters = None,
    unfold: Annotated[
        bool, typer.Option("--unfold", help="List counted ranges (step0, step1) separately instead of as step#.")
    ] = False,
    policy: options.Policy = None,
    workers: Workers = None,
    scheduler: Scheduler = None,
    tls_ca_file: TlsCaFile = None,
    tls_cert: TlsCert = None,
    tls_key: TlsKey = None,
    worker_memory: WorkerMemory = "auto",
    by_order: ByOrder = False,
    attribution: options.Attribution = "all",
    nsys: options.Nsys = None,
    ncu: options.Ncu = None,
    out: Annotated[Path | None, options.out_option("Analysis folder. Default: analysis/NAME.")] = None,
    force: options.Force = False,
    figures: options.Figures = True,
    svg: Svg = False,
    as_json: options.Json = False,
) -> None:
    """Count launches, kernels, copies and peak memory in every NVTX range of a trace, or of all ranks of a job."""
    from nsysprof.app import analyze as use_case
    from nsysprof.app.trace_analysis.analyze_trace import TraceResult
    from nsysprof.cli.terminal.progress import show_progress
    from nsysprof.cli.terminal.standard_streams import mark_saved

    request = use_case.AnalyzeRequest(
        inputs=tuple(inputs),
        out=out,
        force=force,
        figures=figures,
        svg=svg,
        nsys=nsys,
        counters=counters,
        ncu=ncu,
        launched_only=attribution == "launched",
        policy=policy,
        unfold=unfold,
        workers=workers,
        scheduler=scheduler,
        tls=(tls_ca_file, tls_cert, tls_key) if tls_ca_file or tls_cert or tls_key else None,
        worker_memory=worker_memory,
        by_order=by_order,
    )
    result = use_case.analyze(request, show_progress(quiet=as_json))
    mark_saved()
    say_missing_figures(figures and not as_json)
    if as_json:
        print_json({**_to_json(result), "folder": str(result.folder)})
    else:
        _print(result)
    if isinstance(result, TraceResult) and result.analysis.lost_kernels:
        raise DataLossError(
            "The profiler lost every kernel of this trace.", f"{result.folder / 'report.md'} has what is left, and why."
        )


def _to_json(result: TraceResult | RanksResult | SnapshotResult) -> dict[str, Any]:
    from nsysprof.app.trace_analysis.analyze_snapshot import SnapshotResult
    from nsysprof.app.trace_analysis.analyze_trace import TraceResult
    from nsysprof.report.pages.ranks import whole_ranks_json
    from nsysprof.report.write import analysis_json

    if isinstance(result, TraceResult):
        return analysis_json(result.analysis, result.record)
    return result.memory.to_json() if isinstance(result, SnapshotResult) else whole_ranks_json(result.analysis)


def _print(result: TraceResult | RanksResult | SnapshotResult) -> None:
    from nsysprof.cli.terminal.console import print_report

    print_report(_report(result))
    typer.echo(f"\n{len(result.files)} files in {result.folder}; read {result.folder / 'report.md'} first")


def _report(result: TraceResult | RanksResult | SnapshotResult) -> Report:
    """Return the report of a result. Only the modules of its kind are loaded."""
    from nsysprof.app.trace_analysis.analyze_trace import TraceResult

    if isinstance(result, TraceResult):
        return result.report
    from nsysprof.app.trace_analysis.analyze_snapshot import SnapshotResult

    if isinstance(result, SnapshotResult):
        from nsysprof.report.pages.memory import memory_report

        return memory_report(result.memory)
    from nsysprof.report.pages.ranks import ranks_report

    return ranks_report(result.analysis)
