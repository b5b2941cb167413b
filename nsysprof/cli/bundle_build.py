"""Make what a bundle holds: the cleaned files of a folder, the rebuilt trace, and the analysis of that, made anew."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nsysprof.bundle.allow_list import NSYS_TABLE, SAMPLED, UNREAD, base_name
from nsysprof.bundle.archive import pack_trace, write_archive
from nsysprof.bundle.name_tokens import NameTokens
from nsysprof.bundle.sanitize import SanitizeOptions, SanitizeReport, sanitize_trace
from nsysprof.bundle.source import BENCH, Source, clean_texts
from nsysprof.bundle_format import REPORT_FOLDER
from nsysprof.errors import OutputError, UsageError

if TYPE_CHECKING:
    import pandas as pd

    from nsysprof.analysis.results import Analysis, CaptureRecord
    from nsysprof.notes import Note

Say = Callable[[str], None]
_OUR_RANGES = ("RUN::*",)
_COMMAND = "(the command is not shared; the plan is in samples.json)"


@dataclass(frozen=True)
class Request:
    """What to share and how. title: the bundle's name. ranges: patterns; only what belongs to them is shared."""

    source: Source
    title: str
    names: NameTokens
    ranges: tuple[str, ...]
    max_bytes: int


@dataclass
class Built:
    """files: by their names inside the archive. shared_trace: what became of the trace, if that is shared."""

    folder: Path
    files: dict[str, Path]
    left_out: list[tuple[str, str]]
    shared_trace: Path | None = None
    report: SanitizeReport | None = None
    analysis: Analysis | None = None
    record: CaptureRecord | None = None
    bench: pd.DataFrame | None = None
    notes: tuple[Note, ...] = ()
    environment: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Stage:
    """How much goes in. dropped: what does not, to stay below the limit."""

    dropped: tuple[str, ...] = ()
    html: bool = True
    figures: bool = True
    without: frozenset[str] = frozenset()
    ranges: tuple[str, ...] = ()
    trace: bool = True


def stages(request: Request) -> Iterator[Stage]:
    """From everything to the tables and the report alone, the least missed first."""
    if request.source.trace is None:
        yield Stage()
        yield Stage(("figures",), figures=False, html=False)
        return
    ranges = request.ranges
    yield Stage(ranges=ranges)
    said: tuple[str, ...] = (f"{REPORT_FOLDER}/report.html",)
    yield Stage(said, html=False, ranges=ranges)
    said += ("figures",)
    yield Stage(said, html=False, figures=False, ranges=ranges)
    said += ("tables of the trace that no number depends on",)
    yield Stage(said, html=False, figures=False, without=UNREAD, ranges=ranges)
    said += ("GPU metrics",)
    yield Stage(said, html=False, figures=False, without=UNREAD | SAMPLED, ranges=ranges)
    if not ranges:
        cropped = (*said, "everything outside the ranges RUN::*")
        yield Stage(cropped, html=False, figures=False, without=UNREAD | SAMPLED, ranges=_OUR_RANGES)
    yield Stage(("report.html", "figures", "the trace"), html=False, figures=False, ranges=ranges, trace=False)


def build(request: Request, work: Path, say: Say) -> tuple[Built, Path]:
    """Everything that fits, as an archive in `work`. Raises OutputError when nothing does."""
    size = 0
    for number, stage in enumerate(stages(request)):
        try:
            built = _build_stage(request, work / str(number), stage, say)
        except UsageError:
            if stage.ranges != request.ranges:
                continue  # no range of ours to crop to
            raise
        archive = work / f"{number}.zip"
        size = write_archive(archive, built.files, request.title, _facts(request, built))
        if size <= request.max_bytes:
            return built, archive
        say(f"{size:,} bytes are more than {request.max_bytes:,}: less goes in")
        shutil.rmtree(built.folder.parent)
        archive.unlink()
    raise OutputError(
        f"Even the tables alone take {size:,} bytes, more than {request.max_bytes:,}.", "Give a larger --max-size."
    )


def _build_stage(request: Request, work: Path, stage: Stage, say: Say) -> Built:
    folder = work / request.title
    folder.mkdir(parents=True)
    source = request.source
    files, dropped_fields = clean_texts(source, request.names, folder)
    left_out = [(what, "to stay below the limit of size") for what in stage.dropped]
    left_out += [(f"{name}: {', '.join(sorted(what))}", "not on the list") for name, what in dropped_fields.items()]
    left_out += source.left_behind.items()
    built = Built(folder, files, left_out)
    if source.trace is not None:
        say("rebuild the trace")
        _share_trace(request, stage, built)
        _analyze(stage, built, say)
    elif source.kind == BENCH:
        _report_bench(stage, built)
    else:
        from nsysprof.cli.record import read_record

        built.record = read_record(folder)
    return built


def _share_trace(request: Request, stage: Stage, built: Built) -> None:
    assert request.source.trace is not None
    name = "torch.sqlite" if _is_of_torch(request.source.trace) else "nsys.sqlite"
    built.shared_trace = built.folder / name
    options = SanitizeOptions(
        request.names, stage.ranges, stage.without, public=request.source.public, secrets=request.source.secrets
    )
    built.report = sanitize_trace(request.source.trace, built.shared_trace, options)
    built.left_out += _left_out_of_trace(built.report)
    if stage.trace:
        built.files[f"{name}.xz"] = pack_trace(built.shared_trace, built.folder.parent / f"{name}.xz")


def _is_of_torch(trace: Path) -> bool:
    from nsysprof.trace.open import open_trace

    with open_trace(trace) as opened:
        if not {"name", "value"} <= set(opened.columns.get("META_DATA_CAPTURE", ())):
            return False
        return ("NSYSPROF:TOOL", "torch") in opened.connection.execute("SELECT name, value FROM META_DATA_CAPTURE")


def _left_out_of_trace(report: SanitizeReport) -> Iterator[tuple[str, str]]:
    names = sorted({name for name in report.dropped_tables if NSYS_TABLE.fullmatch(name)})
    others = len(report.dropped_tables) - len(names)
    known = [name for name in names if not name.startswith("ENUM_")]
    if known:
        yield f"tables {', '.join(known)}", "not on the list of what a trace may hold"
    if len(names) > len(known):
        yield f"{len(names) - len(known)} tables of labels (ENUM_...)", "no table that is kept needs them"
    if others > 0:
        yield f"{others} tables that nsys does not write", "not on the list of what a trace may hold"
    columns = sum(map(len, report.dropped_columns.values()))
    if columns:
        tables = sorted(base_name(table) for table in report.dropped_columns if NSYS_TABLE.fullmatch(table))
        yield f"{columns} columns of {', '.join(tables)}", "not on the list of what a trace may hold"
    if report.dropped_rows:
        yield f"{sum(report.dropped_rows.values())} rows of metadata and diagnostics", "may name a person or a place"
    if report.dropped_strings:
        yield f"{report.dropped_strings:,} strings", "no row that is kept refers to them"
    if report.cropped_rows:
        yield f"{sum(report.cropped_rows.values()):,} rows", "outside the ranges that were asked for"


def _analyze(stage: Stage, built: Built, say: Say) -> None:
    """What `analyze` makes of the bundle, so that a stranger gets the same files."""
    from nsysprof.analysis.cases import fill_results
    from nsysprof.cli.analyze import analyze_trace
    from nsysprof.cli.record import read_record
    from nsysprof.report.write import write_analysis

    assert built.shared_trace is not None
    built.analysis = analyze_trace(built.shared_trace, say)
    record = read_record(built.folder)
    if record is not None:
        from dataclasses import replace

        record = replace(record, results=fill_results(record.results, built.analysis))
        built.environment = record.environment
    built.record = record
    out = built.folder / REPORT_FOLDER
    for path in write_analysis(built.analysis, record, out, figures=stage.figures, progress=say):
        if stage.html or path.name != "report.html":
            built.files[f"{REPORT_FOLDER}/{path.name}"] = path


def _report_bench(stage: Stage, built: Built) -> None:
    from nsysprof.capture.bench import SAMPLES, read_run
    from nsysprof.cli.bench import report_of, summarize
    from nsysprof.cli.tune import write_tuning
    from nsysprof.report.bench import write_bench

    run = read_run(built.folder / SAMPLES)
    results = summarize(run)
    if run.kind == "tune":
        write_tuning(run, results, built.folder, _COMMAND, figures=stage.figures)
    else:
        write_bench(report_of(run, results, built.folder, _COMMAND), built.folder, figures=stage.figures)
    built.files.update({path.name: path for path in sorted(built.folder.iterdir()) if path.is_file()})
    built.bench, built.notes, built.environment = results.table, tuple(results.notes), run.environment


def _facts(request: Request, built: Built) -> dict[str, Any]:
    """What bundle.json says beside the list of files."""
    report = built.report
    return {
        "kind": request.source.kind,
        "names_kept": request.names.keep,
        "names_replaced": request.names.counts(),
        "ranges": "all" if not request.ranges else f"{len(request.ranges)} patterns",
        "left_out": [{"what": what, "why": why} for what, why in built.left_out],
        "trace_rows": {} if report is None else {t: n for t, n in report.rows.items() if NSYS_TABLE.fullmatch(t)},
        "redacted_texts": 0 if report is None else report.redacted_texts,
        "secrets_searched": len(request.source.secrets),
    }
