"""`nsysprof export`: a trace for Perfetto, Chrome's trace viewer, or whatever reads Parquet."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nsysprof.errors import OutputError, UsageError

if TYPE_CHECKING:
    from nsysprof.export.content import Advance, Content, Counts

    Write = Callable[[Content, Path, Advance], Counts]

_FORMATS = ("perfetto", "chrome", "parquet")


def export(
    source: Annotated[Path, typer.Argument(metavar="INPUT", help="Anything that analyze takes.", show_default=False)],
    perfetto: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Perfetto's protobuf, for ui.perfetto.dev: OUT.pftrace.")
    ] = None,
    chrome: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Chrome's JSON as Kineto writes it: OUT.json or OUT.json.gz.")
    ] = None,
    parquet: Annotated[Path | None, typer.Option(metavar="FOLDER", help="A Parquet file a table.")] = None,
    force: Annotated[bool, typer.Option(help="Replace older exports.")] = False,
    nsys: Annotated[Path | None, typer.Option(help="The nsys that exports a .nsys-rep.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print what was written as JSON on stdout.")] = False,
) -> None:
    """Write the ranges, API calls, kernels, copies, memory and GPU metrics of a trace for other tools."""
    from nsysprof.cli.analyze import resolve

    targets = {name: path for name, path in zip(_FORMATS, (perfetto, chrome, parquet), strict=True) if path is not None}
    _check_targets(targets, source, force=force)
    say = _silent if as_json else _say
    with tempfile.TemporaryDirectory(prefix="nsysprof-") as scratch:
        content = read_content(source, resolve(source, nsys, Path(scratch), say), say)
        written = {name: _write(name, content, path, quiet=as_json) for name, path in targets.items()}
    notes = content.analysis.notes
    if as_json:
        formats = {name: {"path": str(targets[name]), "rows": rows} for name, rows in written.items()}
        typer.echo(json.dumps({"formats": formats, "notes": [note.to_json() for note in notes]}, indent=1))
        return
    for name, rows in written.items():
        told = ", ".join(f"{count:,} {what}" for what, count in sorted(rows.items()))
        typer.echo(f"{targets[name]}: {told or 'nothing'}")
    for note in notes:
        if note.severity != "info":
            typer.echo(f"{note.severity.value}: {note.text}" + (f" -> {note.next_step}" if note.next_step else ""))
    if perfetto:
        typer.echo("open it in https://ui.perfetto.dev (nothing is uploaded) or with trace_processor")


def read_content(source: Path, trace_path: Path, say: Callable[[str], None]) -> Content:
    """What there is to export of the SQLite file `trace_path`, which was made from `source` or is it."""
    from nsysprof.trace.locate import identity_of
    from nsysprof.trace.open import open_trace

    with open_trace(trace_path, identity_of(source, trace_path)) as trace:
        from nsysprof.analysis.summarize import summarize
        from nsysprof.export.content import Content
        from nsysprof.trace.devices import read_gpus
        from nsysprof.trace.metric_samples import read_metric_samples
        from nsysprof.trace.tables import read_tables

        analysis = summarize(read_tables(trace, progress=say))
        return Content(analysis, tuple(read_metric_samples(trace, read_gpus(trace))))


def _write(name: str, content: Content, path: Path, *, quiet: bool) -> dict[str, int]:
    from nsysprof.cli.progress import row_progress

    with row_progress(f"write {path.name}", content.rows, quiet=quiet) as advance:
        return _writer(name)(content, path, advance).rows


def _writer(name: str) -> Write:
    if name == "perfetto":
        from nsysprof.export.perfetto import write_perfetto

        return write_perfetto
    if name == "chrome":
        from nsysprof.export.chrome import write_chrome

        return write_chrome
    from nsysprof.export.parquet import write_parquet

    return write_parquet


def _check_targets(targets: dict[str, Path], source: Path, *, force: bool) -> None:
    """Before anything is read: what cannot be written, or would replace what is not ours."""
    if not targets:
        raise UsageError("Nothing to export to.", "Give --perfetto OUT.pftrace, --chrome OUT.json or --parquet FOLDER.")
    resolved = [path.resolve() for path in targets.values()]
    if len(set(resolved)) < len(resolved):
        raise UsageError("Two formats cannot go to one path.", "Give each its own.")
    for name, path in targets.items():
        if path.resolve() == source.resolve():
            raise OutputError(f"{path} is the input.", "Choose another path.")
        if name == "parquet":
            from nsysprof.export.parquet import check_folder

            check_folder(path, force=force)
        elif path.is_dir():
            raise OutputError(f"{path} is a folder.", f"Name a file: --{name} {path / 'trace'}{_SUFFIXES[name]}.")
        elif path.exists() and not force:
            raise OutputError(f"{path} exists.", "Give --force to replace it, or another path.")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise OutputError(f"{path.parent} cannot be made: {error.strerror}.", "Choose another path.") from error


_SUFFIXES = {"perfetto": ".pftrace", "chrome": ".json"}


def _say(text: str) -> None:
    typer.echo(text, err=True)


def _silent(_text: str) -> None:
    """Progress of a --json run."""
