"""`nsysprof analyze`: one trace or capture folder to tables, figures and a report."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nsysprof.errors import OutputError, UsageError

if TYPE_CHECKING:
    from nsysprof.analysis.results import Analysis

Say = Callable[[str], None]


def analyze(
    inputs: Annotated[
        list[Path],
        typer.Argument(
            metavar="INPUT...",
            help="A capture folder, a bundle (.zip), .sqlite (also .xz, .gz, .zst), .nsys-rep, .qdrep, a folder of "
            "nsys' Parquet files, or torch.profiler's .json(.gz). Several: the ranks of one job.",
            show_default=False,
        ),
    ],
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Analysis folder. Default: analysis/NAME.")] = None,
    force: Annotated[bool, typer.Option(help="Replace an older analysis.")] = False,
    figures: Annotated[bool, typer.Option(help="Draw the figures.")] = True,
    svg: Annotated[bool, typer.Option(help="Draw the figures as SVG too.")] = False,
    nsys: Annotated[Path | None, typer.Option(help="The nsys that exports a .nsys-rep.")] = None,
    ncu: Annotated[
        Path | None, typer.Option(help="Counters of the same program: a .ncu-rep, or ncu's --page raw as .csv.")
    ] = None,
    ncu_program: Annotated[Path | None, typer.Option(help="The ncu that reads a .ncu-rep.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print summary.json (ranks.json) on stdout.")] = False,
    workers: Annotated[
        int | None, typer.Option(help="Several traces: so many processes. Default: as many as are worth it.")
    ] = None,
    scheduler: Annotated[
        str | None, typer.Option(help="Several traces: the Dask scheduler of a cluster, tcp://HOST:8786.")
    ] = None,
    worker_memory: Annotated[
        str, typer.Option(help="Several traces: memory of each local Dask worker, such as 4GiB.")
    ] = "auto",
    by_order: Annotated[
        bool, typer.Option("--by-order", help="Several traces: number ranks by the order given.")
    ] = False,
) -> None:
    """Count launches, kernels, copies and peak memory in every NVTX range of a trace, or of all ranks of a job."""
    from nsysprof.cli.ranks import Options, analyze_ranks, is_many
    from nsysprof.trace.bundle_file import is_bundle, unpack_bundle

    name, many_out = default_name(inputs[0]), out
    with tempfile.TemporaryDirectory(prefix="nsysprof-") as scratch:
        if len(inputs) == 1 and is_bundle(inputs[0]):
            (_silent if as_json else _say)(f"unpack {inputs[0].name}")
            inputs = [unpack_bundle(inputs[0], Path(scratch))]
            many_out = out or Path("analysis") / f"{name}-ranks"
        if is_many(inputs):
            if ncu is not None or ncu_program is not None:
                raise UsageError("--ncu is for one trace, several were given.", "Analyze that trace alone.")
            options = Options(workers, scheduler, worker_memory, by_order, force, figures, svg, as_json)
            analyze_ranks(inputs, many_out, nsys, options)
            return
        (source,) = inputs
        folder = out or Path("analysis") / name
        _analyze_one(source, folder, nsys, ncu, ncu_program, force=force, figures=figures, svg=svg, as_json=as_json)


def _analyze_one(
    source: Path,
    folder: Path,
    nsys: Path | None,
    ncu: Path | None,
    ncu_program: Path | None,
    *,
    force: bool,
    figures: bool,
    svg: bool,
    as_json: bool,
) -> None:
    from nsysprof.cli.counters import complete_analysis
    from nsysprof.cli.record import read_record
    from nsysprof.trace.locate import identity_of

    say = _silent if as_json else _say
    _check_folder(folder, force=force)
    with tempfile.TemporaryDirectory(prefix="nsysprof-") as scratch:
        record = read_record(source) if source.is_dir() else None
        trace = resolve(source, nsys, Path(scratch), say)
        analysis = analyze_trace(trace, say, identity_of(source, trace))
        analysis, record = complete_analysis(analysis, record, trace, folder=source, report=ncu, ncu=ncu_program)
    from nsysprof.report.write import write_analysis

    written = write_analysis(analysis, record, folder, figures=figures, svg=svg, progress=say)
    if as_json:
        summary = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
        typer.echo(json.dumps({**summary, "folder": str(folder)}, indent=1))
        return
    from nsysprof.cli.console import print_analysis

    print_analysis(analysis, record)
    typer.echo(f"\n{len(written)} files in {folder}; read {folder / 'report.md'} first")


def analyze_trace(trace_path: Path, say: Say | None = None, identity: Path | None = None) -> Analysis:
    """Read and summarise one SQLite trace. identity: as in open_trace."""
    from nsysprof.trace.open import open_trace

    with open_trace(trace_path, identity) as trace:
        # Only now: the trace's SHA-256 is computed while pandas loads.
        from nsysprof.analysis.summarize import summarize
        from nsysprof.trace.tables import read_tables

        return summarize(read_tables(trace, progress=say))


def default_name(source: Path) -> str:
    """The folder name for an input: the capture folder's, or the file's without its suffixes."""
    name = source.resolve().name
    if not source.is_dir():
        for suffix in (".zip", ".xz", ".gz", ".zst", ".sqlite", ".nsys-rep", ".qdrep", ".json", ".pt.trace"):
            name = name.removesuffix(suffix)
    return name or "trace"


def resolve(source: Path, nsys: Path | None, scratch: Path, say: Say) -> Path:
    """The SQLite file behind any input. nsys: as --nsys has it. scratch: a folder for what has to be made."""
    from nsysprof.capture.find_nsys import find_nsys
    from nsysprof.trace.locate import REPORTS, resolve_input

    report = source.suffix in REPORTS
    if report or source.suffix != ".sqlite":
        say(f"read {source.name}")
    return resolve_input(source, find_nsys(nsys) if report else None, scratch)


def _check_folder(folder: Path, *, force: bool) -> None:
    if folder.exists() and not folder.is_dir():
        raise OutputError(f"{folder} is a file.", "Choose another folder with --out.")
    try:
        taken = folder.is_dir() and any(folder.iterdir())
    except OSError as error:
        raise OutputError(f"{folder} cannot be read: {error.strerror}.", "Choose another folder with --out.") from error
    if not taken:
        return
    if not (folder / "summary.json").exists():
        raise OutputError(f"{folder} exists and is not an analysis of ours.", "Choose another folder with --out.")
    if not force:
        raise OutputError(
            f"{folder} already holds an analysis.",
            "Give --force to replace it, or another folder with --out.",
        )


def _say(text: str) -> None:
    typer.echo(text, err=True)


def _silent(_text: str) -> None:
    """Progress of a --json run."""
