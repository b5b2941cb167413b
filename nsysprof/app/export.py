"""Run the use case `export`: write a trace for Perfetto, for Chrome's trace viewer, or as Parquet."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from nsysprof.analysis.overview.summarize import list_rows
from nsysprof.app.analyze import resolve
from nsysprof.app.inputs.reading_requests import ExportRequest
from nsysprof.app.progress import SILENT, Progress, Say
from nsysprof.errors import OutputError, UsageError
from nsysprof.export.chrome import write_chrome
from nsysprof.export.content import Advance, Content, Counts
from nsysprof.export.parquet import check_folder, write_parquet
from nsysprof.export.perfetto import write_perfetto
from nsysprof.files.folder_lock import claim_file
from nsysprof.files.memory_reuse import return_freed_memory
from nsysprof.files.plain_file import refuse_url, scratch_folder
from nsysprof.notes import Note
from nsysprof.trace.inputs.resolve_input import identity_of
from nsysprof.trace.open import open_trace
from nsysprof.trace.table_readers.gpus import read_gpus, read_metric_samples
from nsysprof.trace.tables import read_tables

Write = Callable[[Content, Path, Advance], Counts]
_FORMATS = ("perfetto", "chrome", "parquet")
_SUFFIXES = {"perfetto": ".pftrace", "chrome": ".json"}


def export(request: ExportRequest, progress: Progress = SILENT) -> ExportResult:
    """Write a trace in each format that the request names."""
    refuse_url(request.source)
    given = zip(_FORMATS, (request.perfetto, request.chrome, request.parquet), strict=True)
    targets = {name: path for name, path in given if path is not None}
    _check_targets(targets, request.source, force=request.force)
    with ExitStack() as claimed:
        for name, path in targets.items():
            if name != "parquet":  # the writer of a folder makes its own claim
                claimed.enter_context(claim_file(path))
        _check_targets(targets, request.source, force=request.force)  # another run may have finished meanwhile
        scratch = claimed.enter_context(scratch_folder())
        trace_path = resolve(request.source, request.nsys, scratch, progress.say)
        # Perfetto's file does not show which range adopted or captured what another thread launched.
        content = read_content(request.source, trace_path, progress.say, launched_only=set(targets) == {"perfetto"})
        return_freed_memory()
        written = tuple(_write(name, content, path, progress, force=request.force) for name, path in targets.items())
    return ExportResult(written, content.analysis.notes)


def read_content(source: Path, trace_path: Path, say: Say, *, launched_only: bool = False) -> Content:
    """Return what there is to export.

    source: the input that the user named.
    trace_path: the SQLite file, which is the source or was made from it.
    launched_only: see list_rows.
    """
    with open_trace(trace_path, identity_of(source, trace_path)) as trace:
        rows = list_rows(read_tables(trace, progress=say), launched_only=launched_only)
        return Content(rows, tuple(read_metric_samples(trace, read_gpus(trace))))


def _write(name: str, content: Content, path: Path, progress: Progress, *, force: bool) -> Exported:
    with progress.rows(f"write {path.name}", content.rows) as advance:
        return Exported(name, path, _writer(name, force=force)(content, path, advance).rows)


def _writer(name: str, *, force: bool) -> Write:
    if name == "perfetto":
        return write_perfetto
    if name == "chrome":
        return write_chrome
    return partial(write_parquet, force=force)


def _check_targets(targets: dict[str, Path], source: Path, *, force: bool) -> None:
    """Raise, before anything is read, for targets that cannot be written or hold files that are not ours."""
    if not targets:
        raise UsageError("No format was given.", "Give --perfetto OUT.pftrace, --chrome OUT.json or --parquet FOLDER.")
    resolved = [path.resolve() for path in targets.values()]
    if len(set(resolved)) < len(resolved):
        raise UsageError("Two formats have the same path.", "Give each format its own path.")
    for name, path in targets.items():
        if path.resolve() == source.resolve():
            raise OutputError(f"{path} is the input, which is never replaced.", "Choose another path.")
        if name == "parquet":
            check_folder(path, force=force)
        elif path.is_dir():
            raise OutputError(f"{path} is a folder.", f"Name a file: --{name} {path / 'trace'}{_SUFFIXES[name]}.")
        elif path.exists() and not force:
            raise OutputError(f"{path} exists.", "Give --force to replace it, or another path.")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise OutputError(f"{path.parent} cannot be made: {error.strerror}.", "Choose another path.") from error


@dataclass(frozen=True)
class Exported:
    """A written file or folder, and how many rows of each kind it holds."""

    format: str
    path: Path
    rows: dict[str, int]


@dataclass(frozen=True)
class ExportResult:
    """What was written, and notes about the trace for its readers."""

    written: tuple[Exported, ...]
    notes: tuple[Note, ...]
