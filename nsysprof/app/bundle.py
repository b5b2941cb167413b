"""Run the use case `bundle`: an archive of a capture, bench or trace that can be shared, and Markdown to paste."""

from __future__ import annotations

import hashlib
import json
import sqlite3
import tempfile
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Event
from typing import Any

import pandas as pd

from nsysprof.app.analyze import is_many
from nsysprof.app.inputs.reading_requests import BundleRequest
from nsysprof.app.measuring.bench import report_of, summarize
from nsysprof.app.progress import SILENT, Progress, Say
from nsysprof.app.trace_analysis.assemble import AnalysisOptions, Assembled, assemble, read_record
from nsysprof.app.trace_analysis.join_recorded import costs_to_share
from nsysprof.app.tune import write_tuning
from nsysprof.bundle.allow_list import NSYS_TABLE, SAMPLED, UNREAD, base_name
from nsysprof.bundle.archive import most_bytes_of, pack_trace, write_archive
from nsysprof.bundle.check import Searched, check_bundle, originals_of_traces, shared_texts
from nsysprof.bundle.name_tokens import NameTokens
from nsysprof.bundle.sanitize import SanitizeOptions, SanitizeReport, join_reports, sanitize_trace
from nsysprof.bundle.source import (
    BENCH,
    BundledRank,
    BundleSource,
    clean_texts,
    read_ranks,
    read_source,
    refuse_bundle,
    write_operators,
)
from nsysprof.bundle.verify import Originals
from nsysprof.capture.manifest import MANIFEST, read_manifest
from nsysprof.capture.sampling.bench_run import SAMPLES, read_run
from nsysprof.errors import NsysprofError, OutputError, TraceError, UsageError
from nsysprof.files.folder_lock import claim_file
from nsysprof.files.memory_reuse import return_freed_memory
from nsysprof.files.plain_file import encode_json, name_after, output_error, refuse_url, scratch_folder, write_whole
from nsysprof.kernels.names import categorize
from nsysprof.notes import Note
from nsysprof.nsight.run_tool import NSYS, find_tool
from nsysprof.ranks.identity import RankSource, drop_copies, find_sources, rank_in_name
from nsysprof.ranks.overview import analyze_folder
from nsysprof.report.formats.markdown import render_markdown
from nsysprof.report.pages.bench import write_bench
from nsysprof.report.pages.bundle import Shared, bundle_report
from nsysprof.report.pages.ranks import write_ranks
from nsysprof.report.write import write_analysis
from nsysprof.results.analysis import COSTS, Analysis, CaptureRecord
from nsysprof.results.rank_results import RanksAnalysis
from nsysprof.trace.inputs.bundle_file import CONTENTS, MAX_MEMBERS, REPORT_FOLDER, SUFFIX, plain_title
from nsysprof.trace.inputs.resolve_input import REPORTS, resolve_input
from nsysprof.trace.open import Trace, open_trace, quote
from nsysprof.trace.recorded import read_session


def bundle(request: BundleRequest, progress: Progress = SILENT) -> BundleResult:
    """Build an archive that can be shared, and move it into place only after searching it for everything private."""
    refuse_url(request.source)
    if not request.max_bytes > 0:
        raise UsageError(f"--max-size {request.max_bytes / 1e6:g} is not a valid size.", "Give megabytes above zero.")
    target = request.out or Path(plain_title(name_after(request.source)) + SUFFIX)
    if target.suffix.lower() != SUFFIX:
        raise UsageError(f"{target} does not end with {SUFFIX}.", "Choose another name with --out.")
    with ExitStack() as claimed:
        if not request.show:
            _check_target(target, force=request.force)
            claimed.enter_context(claim_file(target))
            _check_target(target, force=request.force)  # another run may have finished meanwhile
        return _make_in_scratch(request, target, progress)


def _make_in_scratch(request: BundleRequest, target: Path, progress: Progress) -> BundleResult:
    try:
        with scratch_folder() as scratch:
            return _make(request, target, plain_title(target.stem), scratch, progress.say)
    except OSError as error:
        folder = tempfile.gettempdir()
        raise OutputError(
            f"{folder} cannot be written: {error.strerror}.", "Free some space, or set TMPDIR to another folder."
        ) from error


def _make(request: BundleRequest, target: Path, title: str, scratch: Path, say: Say) -> BundleResult:
    wanted = _read(request, title, scratch)
    made = scratch / "made"
    made.mkdir()
    built, archive = build(wanted, made, say)
    markdown, digest = _render(target, wanted, built, archive)
    built.analysis = built.ranks = None  # as large as the trace, and no longer needed
    return_freed_memory()
    say("search every byte for private content")
    searched = _search(wanted, built, archive, markdown, scratch)
    contents = _contents(wanted, built) if request.show else None
    size = archive.stat().st_size
    if not request.show:
        write_whole(target, archive.read_bytes())
    return BundleResult(
        path=None if request.show else target,
        bytes=size,
        sha256=digest,
        sizes={name: path.stat().st_size for name, path in sorted(built.files.items())},
        names_replaced=wanted.names.counts(),
        left_out=tuple(built.left_out),
        markdown=markdown,
        secrets_searched=searched.secrets,
        texts_searched=searched.texts,
        contents=contents,
    )


def _read(request: BundleRequest, title: str, scratch: Path) -> BuildRequest:
    """Read what there is to share, and decide which tokens replace its names."""
    source, work = request.source, scratch / "input"
    work.mkdir()
    reports_alone = source.is_dir() and not any(source.glob("*.sqlite*"))
    needs_nsys = source.suffix in REPORTS or (reports_alone and any(source.glob(f"*{REPORTS[0]}")))
    refuse_bundle(source)
    nsys = find_tool(NSYS, request.nsys) if needs_nsys else None
    ranks = find_rank_traces(source, nsys, work)
    read = read_ranks(source, ranks) if ranks else read_source(source, nsys, work)
    if request.ranges and not read.traces:
        raise UsageError(f"{source} has no trace to crop.", "Leave out --range.")
    names = NameTokens(keep=request.keep_names, categorize=categorize)
    costs = None if read.trace is None else costs_to_share(source, read.trace, names.keeps_range)
    if costs is not None:
        read = replace(read, texts={**read.texts, COSTS: encode_json(costs).decode()})
    return BuildRequest(read, title, names, request.ranges, request.max_bytes)


def _render(target: Path, wanted: BuildRequest, built: Built, archive: Path) -> tuple[str, str]:
    """Return the Markdown to paste, and the SHA-256 of the archive."""
    with archive.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    has_trace = any(name.endswith(".sqlite.xz") for name in built.files)
    shared = Shared(
        target.name, archive.stat().st_size, digest, wanted.title, has_trace, wanted.names.keep, built.left_out
    )
    report = bundle_report(
        shared, built.analysis, built.record, built.bench, built.environment, built.notes, built.ranks
    )
    return render_markdown(report, level=3), digest


def _search(wanted: BuildRequest, built: Built, archive: Path, markdown: str, scratch: Path) -> Searched:
    """Unpack the archive as its reader would, and search it and the Markdown.

    Raises SecretLeakError where something private is found.
    """
    text = scratch / "issue.md"
    text.write_text(markdown, encoding="utf-8")
    unpacked = scratch / "unpacked"
    unpacked.mkdir()
    return check_bundle(
        wanted.source, built.shared_traces, archive, text, wanted.title, wanted.names, unpacked, built.originals
    )


def _contents(wanted: BuildRequest, built: Built) -> BundleContents:
    rows = {} if built.report is None else built.report.rows
    return BundleContents(rows, shared_texts(*built.shared_traces), wanted.names.replaced())


def _check_target(target: Path, *, force: bool) -> None:
    if target.is_dir():
        raise OutputError(f"{target} is a folder.", "Choose another name with --out.")
    if target.exists() and not force:
        raise OutputError(f"{target} exists.", "Give --force to replace it, or another name with --out.")
    if target.exists():
        try:
            with zipfile.ZipFile(target) as archive:
                ours = CONTENTS in archive.namelist()
        except (zipfile.BadZipFile, OSError):
            ours = False
        if not ours:
            raise OutputError(
                f"{target} exists and is not a bundle, so it is not replaced.", "Choose another name with --out."
            )
    if not target.resolve().parent.is_dir():
        raise output_error(target, FileNotFoundError(2, "its folder does not exist"))


@dataclass(frozen=True)
class BundleContents:
    """What would be shared of the traces: rows by table, texts by column, and the tokens that replace names."""

    rows: dict[str, int]
    texts: dict[str, list[str]]
    replaced: dict[str, str]


@dataclass(frozen=True)
class BundleResult:
    """The archive that was made.

    path: None when it was only shown.
    sizes: the size of each file in it (bytes).
    left_out: what is not in it, and why.
    markdown: the text to paste where the archive is attached.
    contents: only present when it was only shown.
    """

    path: Path | None
    bytes: int
    sha256: str
    sizes: dict[str, int]
    names_replaced: dict[str, int]
    left_out: tuple[tuple[str, str], ...]
    markdown: str
    secrets_searched: int
    texts_searched: int
    contents: BundleContents | None

    def to_json(self) -> dict[str, Any]:
        """Return the description of the archive, without the Markdown and the contents."""
        return {
            "file": None if self.path is None else str(self.path),
            "bytes": self.bytes,
            "sha256": self.sha256,
            "members": sorted(self.sizes),
            "names_replaced": self.names_replaced,
            "left_out": [{"what": what, "why": why} for what, why in self.left_out],
        }


_OUR_RANGES = ("RUN::*",)
_MOST_RANKS = MAX_MEMBERS - 50  # these are shared in addition to tables, figures and reports
# Tables that take at most this part of the limit cannot make a trace fit that is too large by as much.
_SMALL_PART = 10
_COMMAND = "(the command is not shared; the plan is in samples.json)"


@dataclass(frozen=True)
class BuildRequest:
    """What to share, and how.

    title: the bundle's name.
    ranges: patterns of range names; if there are any, only what belongs to these ranges is shared.
    """

    source: BundleSource
    title: str
    names: NameTokens
    ranges: tuple[str, ...]
    max_bytes: int


@dataclass
class Built:
    """The content of a bundle."""

    folder: Path
    # The files by their names inside the archive.
    files: dict[str, Path]
    left_out: list[tuple[str, str]]
    # The rebuilt traces that stand for the source's traces, and what of these they must not contain, where it is known.
    shared_traces: tuple[Path, ...] = ()
    originals: Originals | None = None
    report: SanitizeReport | None = None
    analysis: Analysis | None = None
    ranks: RanksAnalysis | None = None
    record: CaptureRecord | None = None
    bench: pd.DataFrame | None = None
    notes: tuple[Note, ...] = ()
    environment: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Extent:
    """How much goes into a bundle.

    dropped: what is left out to stay below the size limit.
    """

    dropped: tuple[str, ...] = ()
    html: bool = True
    figures: bool = True
    without: frozenset[str] = frozenset()
    ranges: tuple[str, ...] = ()
    trace: bool = True

    def leaves_out(self, request: BuildRequest) -> bool:
        """Return whether parts of the trace are left out that were asked for."""
        return bool(self.without) or self.ranges != request.ranges

    def less(self, what: str, **changes: Any) -> Extent:
        """Return this stage with one more part left out."""
        return replace(self, dropped=(*self.dropped, what), **changes)


def stages(request: BuildRequest, tables: frozenset[str]) -> Iterator[Extent]:
    """Yield the stages, from everything down to the tables and the report alone.

    tables: the tables of the traces that have rows. To leave out an empty one would save nothing.
    """
    yield (stage := Extent(ranges=request.ranges))
    if request.source.kind == BENCH:
        yield Extent(("figures",), figures=False)
    if not request.source.traces:
        return
    yield (stage := stage.less(f"{REPORT_FOLDER}/report.html", html=False))
    yield (stage := stage.less("figures", figures=False))
    if tables & UNREAD:
        yield (stage := stage.less("tables of the trace that no number depends on", without=UNREAD))
    if tables & SAMPLED:
        yield (stage := stage.less("GPU metrics", without=stage.without | SAMPLED))
    if not request.ranges:
        yield (stage := stage.less(f"everything outside the ranges {_OUR_RANGES[0]}", ranges=_OUR_RANGES))
    yield Extent(("the trace", *stage.dropped[:2]), html=False, figures=False, ranges=request.ranges, trace=False)


def build(request: BuildRequest, work: Path, say: Say) -> tuple[Built, Path]:
    """Return as much as fits into the size limit, and its archive in the folder `work`.

    Raises OutputError when not even the smallest stage fits.
    """
    if len(request.source.ranks) > _MOST_RANKS:
        raise UsageError(
            f"{len(request.source.ranks):,} ranks are more than the {_MOST_RANKS} that a bundle may hold.",
            "Copy the traces of the important ranks into a folder, and bundle that folder.",
        )
    size = 0
    traces: dict[tuple[tuple[str, ...], frozenset[str]], _Shared] = {}
    for number, stage in enumerate(stages(request, _tables_with_rows(request.source.traces))):
        whole = traces.get((request.ranges, frozenset()))
        if whole is not None and whole.fits_never and stage.without and stage.ranges == request.ranges:
            continue
        folder = work / str(number)
        try:
            built = _build_stage(request, folder, stage, traces, say)
        except UsageError:
            if stage.ranges != request.ranges:
                continue  # this trace has none of the requested ranges
            raise
        archive = work / f"{number}.zip"
        size = sum(path.stat().st_size for path in built.files.values() if path.suffix == ".xz")
        if size <= request.max_bytes:
            size = write_archive(archive, built.files, request.title, _facts(request, built))
            if size <= request.max_bytes:
                return built, archive
            archive.unlink()
        say(f"it has more than {request.max_bytes:,} bytes: parts are left out")
    raise OutputError(
        f"Even the tables alone take {size:,} bytes, more than {request.max_bytes:,}.", "Give a larger --max-size."
    )


@dataclass(frozen=True)
class _Shared:
    """The rebuilt traces and their analysis, of one trace or of the ranks of a job together.

    originals: what the traces must not contain; None where it is not known yet.
    fits_never: whether the packed trace is too large by more than all tables that may be left out take.
    """

    traces: tuple[Path, ...]
    packed: tuple[Path, ...]
    report: SanitizeReport
    assembled: Assembled | None = None
    ranks: RanksAnalysis | None = None
    originals: Originals | None = None
    fits_never: bool = False
    # The files of operators.
    operators: tuple[Path, ...] = ()


def _tables_with_rows(traces: Iterable[Path]) -> frozenset[str]:
    """Return the tables that may be left out, of those that have rows in any of the traces."""
    found: set[str] = set()
    for trace in traces:
        with open_trace(trace) as opened:
            for table in opened.columns:
                name = base_name(table)
                if name in UNREAD | SAMPLED and _has_rows(opened.connection, quote(table)):
                    found.add(name)
    return frozenset(found)


def _has_rows(connection: sqlite3.Connection, table: str) -> bool:
    try:
        return connection.execute(f"SELECT 1 FROM {table} LIMIT 1").fetchone() is not None
    except sqlite3.DatabaseError:  # it is damaged, which the rebuild tells
        return True


def _build_stage(
    request: BuildRequest,
    work: Path,
    stage: Extent,
    traces: dict[tuple[tuple[str, ...], frozenset[str]], _Shared],
    say: Say,
) -> Built:
    folder = work / request.title
    folder.mkdir(parents=True)
    source = request.source
    files, dropped_fields = clean_texts(source, request.names, folder)
    left_out = [(what, "to stay below the size limit") for what in stage.dropped]
    left_out += [(f"{name}: {', '.join(sorted(what))}", "not on the list") for name, what in dropped_fields.items()]
    left_out += source.left_behind.items()
    built = Built(folder, files, left_out)
    if source.traces:
        key = (stage.ranges, stage.without)
        if key not in traces:
            say("rebuild the traces" if source.ranks else "rebuild the trace")
            share = _share_ranks if source.ranks else _share_trace
            traces[key] = share(request, stage, folder, say)
        packed = sum(path.stat().st_size for path in traces[key].packed) if stage.trace else 0
        if packed > request.max_bytes:  # leaving out the report does not make it smaller
            _take_traces(traces[key], stage, built)
        else:
            (_report_ranks if source.ranks else _report_trace)(traces[key], stage, built, say)
    elif source.kind == BENCH:
        _report_bench(stage, built)
    else:
        built.record = read_record(folder)
    return built


def _share_trace(request: BuildRequest, stage: Extent, folder: Path, say: Say) -> _Shared:
    """Rebuild the trace beside the cleaned files of its folder, and analyze both as `analyze` does.

    So the reader of the bundle gets the same files.
    """
    assert request.source.trace is not None
    trace = folder / ("torch.sqlite" if _is_of_torch(request.source.trace) else "nsys.sqlite")
    report = sanitize_trace(request.source.trace, trace, _options(request, stage))
    # A part of a trace has few operators of a step, and a step is what they describe.
    whole = not stage.ranges
    operators = tuple(write_operators(request.source, request.names, report.numbers, folder)) if whole else ()
    most_bytes = request.max_bytes
    # A little more is packed where that shows that leaving out tables saves too little.
    saved = None if stage.leaves_out(request) else most_bytes_of(trace, UNREAD | SAMPLED, most_bytes // _SMALL_PART)
    cancelled = Event()
    with ThreadPoolExecutor(1, thread_name_prefix="pack") as pool:  # compression releases the GIL
        packed = pool.submit(pack_trace, trace, folder / f"{trace.name}.xz", most_bytes + (saved or 0), cancelled)
        try:
            # A trace of which parts are left out is only of use where it fits. That of the first stage is analysed in
            # any case: its report is shared where no trace fits.
            if stage.leaves_out(request) and packed.result().stat().st_size > request.max_bytes:
                return _Shared((trace,), (packed.result(),), report)
            assembled = assemble(folder, trace, AnalysisOptions(grids=stage.figures), say=say)
            originals = originals_of_traces(request.source, (trace,))  # while the trace is still being packed
            fits_never = saved is not None and packed.result().stat().st_size > most_bytes + saved
            return _Shared(
                (trace,), (packed.result(),), report, assembled,
                originals=originals, fits_never=fits_never, operators=operators,
            )  # fmt: skip
        except BaseException:
            cancelled.set()
            raise


def _options(request: BuildRequest, stage: Extent) -> SanitizeOptions:
    return SanitizeOptions(
        request.names, stage.ranges, stage.without, public=request.source.public, secrets=request.source.secrets
    )


def _share_ranks(request: BuildRequest, stage: Extent, cleaned: Path, say: Say) -> _Shared:
    work = cleaned.parent
    folder = work / "ranks" / request.title
    folder.mkdir(parents=True)
    targets, packed, reports = [], [], []
    for rank in request.source.ranks:
        if rank.trace is None:
            continue
        target = folder / rank.name
        reports.append(sanitize_trace(rank.trace, target, _options(request, stage)))
        packed.append(pack_trace(target, work / f"{rank.name}.xz", request.max_bytes))
        targets.append(target)
    found = analyze_rank_traces(request.source.ranks, folder, work / "parts", say)
    return _Shared(tuple(targets), tuple(packed), join_reports(reports), ranks=found)


def _is_of_torch(trace: Path) -> bool:
    with open_trace(trace) as opened:
        if not {"name", "value"} <= set(opened.columns.get("META_DATA_CAPTURE", ())):
            return False
        return ("NSYSPROF:TOOL", "torch") in opened.connection.execute("SELECT name, value FROM META_DATA_CAPTURE")


def _left_out_of_trace(report: SanitizeReport) -> Iterator[tuple[str, str]]:
    why = "not on the list of what a trace may hold"
    names = sorted({name for name in report.dropped_tables if NSYS_TABLE.fullmatch(name)})
    others = len(report.dropped_tables) - len(names)
    known = [name for name in names if not name.startswith("ENUM_")]
    if known:
        yield f"tables {', '.join(known)}", why
    if len(names) > len(known):
        yield f"{len(names) - len(known)} tables of labels (ENUM_...)", "no table that is kept needs them"
    if others > 0:
        yield f"{others} tables that nsys does not write", why
    columns = sum(map(len, report.dropped_columns.values()))
    if columns:
        tables = sorted({base_name(table) for table in report.dropped_columns if NSYS_TABLE.fullmatch(table)})
        yield f"{columns} columns of {', '.join(tables)}", why
    if report.dropped_rows:
        yield f"{sum(report.dropped_rows.values()):,} rows of metadata and events", "may name a person or a place"
    if report.dropped_strings:
        yield f"{report.dropped_strings:,} strings", "no row that is kept refers to them"
    if report.cropped_rows:
        yield f"{sum(report.cropped_rows.values()):,} rows", "outside the requested ranges"


def _report_trace(shared: _Shared, stage: Extent, built: Built, say: Say) -> None:
    """Write the report of the rebuilt trace, as `analyze` does."""
    assert shared.assembled is not None
    _take_traces(shared, stage, built)
    built.record, built.analysis = shared.assembled.record, shared.assembled.analysis
    if built.record is not None:
        built.environment = built.record.environment
    out = built.folder / REPORT_FOLDER
    for path in write_analysis(
        built.analysis, built.record, out, figures=stage.figures, timeline=stage.figures, progress=say
    )[0]:
        if stage.html or path.name != "report.html":
            built.files[f"{REPORT_FOLDER}/{path.name}"] = path


def _report_ranks(shared: _Shared, stage: Extent, built: Built, say: Say) -> None:
    """Write the report of the ranks of a job, as `analyze` does."""
    assert shared.ranks is not None
    _take_traces(shared, stage, built)
    built.ranks = shared.ranks
    if (built.folder / MANIFEST).is_file():
        built.environment = read_manifest(built.folder).environment
    out = built.folder / REPORT_FOLDER
    for path in write_ranks(shared.ranks, out, figures=stage.figures, svg=False, progress=say):
        if stage.html or path.name != "report.html":
            built.files[f"{REPORT_FOLDER}/{path.name}"] = path


def _take_traces(shared: _Shared, stage: Extent, built: Built) -> None:
    built.shared_traces, built.report, built.originals = shared.traces, shared.report, shared.originals
    built.left_out += _left_out_of_trace(shared.report)
    if stage.trace:
        built.files |= {path.name: path for path in (*shared.packed, *shared.operators)}


def _report_bench(stage: Extent, built: Built) -> None:
    run = read_run(built.folder / SAMPLES)
    results = summarize(run)
    if run.kind == "tune":
        write_tuning(run, results, built.folder, _COMMAND, figures=stage.figures)
    else:
        write_bench(report_of(run, results, built.folder, _COMMAND), built.folder, figures=stage.figures)
    built.files.update({path.name: path for path in sorted(built.folder.iterdir()) if path.is_file()})
    built.bench, built.notes, built.environment = results.table, tuple(results.notes), run.environment


def _facts(request: BuildRequest, built: Built) -> dict[str, Any]:
    """Return what bundle.json contains besides the list of files."""
    report = built.report
    return {
        "kind": request.source.kind,
        **({"ranks": [rank.to_json() for rank in request.source.ranks]} if request.source.ranks else {}),
        "names_kept": request.names.keep,
        "names_replaced": request.names.counts(),
        "ranges": "all" if not request.ranges else f"{len(request.ranges)} patterns",
        "left_out": [{"what": what, "why": why} for what, why in built.left_out],
        "trace_rows": {} if report is None else {t: n for t, n in report.rows.items() if NSYS_TABLE.fullmatch(t)},
        "redacted_texts": 0 if report is None else report.redacted_texts,
        "secrets_searched": len(request.source.secrets),
    }


def find_rank_traces(source: Path, nsys: Path | None, work: Path) -> list[BundledRank]:
    """Return the ranks of a capture or of a folder of traces; none for a single trace.

    Raises TraceError where no trace can be read or found.

    work: a folder for temporary files.
    """
    if not is_many([source]):
        return []
    sources, _copies = drop_copies(find_sources([source], nsys), by_order=False)
    found = [_find(each, work / str(each.position)) for each in sources]
    if all(rank.trace is None for rank in found):
        raise TraceError(f"{source} contains no trace that can be read: {found[0].reason}", "Check the folder.")
    return _named(found)


def _find(source: RankSource, work: Path) -> BundledRank:
    try:
        work.mkdir()
        path = resolve_input(source.path, source.nsys, work)
        with open_trace(path) as trace:
            return _identify(source, path, trace)
    except NsysprofError as error:
        rank = source.rank if source.rank is not None else rank_in_name(source.path)
        return BundledRank("", rank, source.world_size, source.host, None, error.text)


def _identify(source: RankSource, path: Path, trace: Trace) -> BundledRank:
    """Return the rank of a trace.

    It comes from the manifest, else from the environment in the trace (which is not shared), else from the file's name.
    """
    session = read_session(trace)
    of_trace = session.rank if session.rank is not None else rank_in_name(source.path)
    return BundledRank(
        "",
        source.rank if source.rank is not None else of_trace,
        source.world_size if source.world_size is not None else session.world_size,
        source.host or session.host,
        path,
    )


def _named(found: Sequence[BundledRank]) -> list[BundledRank]:
    """Return the ranks with names for their traces, and with hosts replaced by numbers."""
    hosts: dict[str, str] = {}
    numbers = [rank.rank for rank in found]
    are_ranks = None not in numbers and len(set(numbers)) == len(numbers)
    named = []
    for position, rank in enumerate(found):
        number = rank.rank if are_ranks else None
        name = f"trace{position:05d}.sqlite" if number is None else f"rank{number:05d}.sqlite"
        host = None if rank.host is None else hosts.setdefault(rank.host, f"host-{len(hosts) + 1}")
        named.append(BundledRank(name, number, rank.world_size, host, rank.trace, rank.reason))
    return named


def analyze_rank_traces(ranks: Sequence[BundledRank], folder: Path, work: Path, say: Say) -> RanksAnalysis:
    """Analyze the rebuilt traces in `folder` as ranks.

    work: a folder for the partial result of each rank.
    """
    (folder / CONTENTS).write_text(json.dumps({"ranks": [rank.to_json() for rank in ranks]}), encoding="utf-8")
    try:
        return analyze_folder(folder, work, lambda _more, name: say(f"read {name}"))
    finally:
        (folder / CONTENTS).unlink()
