"""Run the use case `bundle`: an archive of a capture, bench or trace that can be shared, and Markdown to paste."""

from __future__ import annotations

import hashlib
import tempfile
import zipfile
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from nsysprof.app.build_bundle import BuildRequest, Built, build, find_rank_traces
from nsysprof.app.inputs.reading_requests import BundleRequest
from nsysprof.app.progress import SILENT, Progress, Say
from nsysprof.app.trace_analysis.join_recorded import costs_to_share
from nsysprof.bundle.check import Searched, check_bundle, shared_texts
from nsysprof.bundle.name_tokens import NameTokens
from nsysprof.bundle.source import read_ranks, read_source, refuse_bundle
from nsysprof.errors import OutputError, UsageError
from nsysprof.files.folder_lock import claim_file
from nsysprof.files.memory_reuse import return_freed_memory
from nsysprof.files.plain_file import encode_json, name_after, output_error, refuse_url, scratch_folder, write_whole
from nsysprof.kernels.names import categorize
from nsysprof.nsight.run_tool import NSYS, find_tool
from nsysprof.report.formats.markdown import render_markdown
from nsysprof.report.pages.bundle import Shared, bundle_report
from nsysprof.results.analysis import COSTS
from nsysprof.trace.inputs.bundle_file import CONTENTS, SUFFIX, plain_title
from nsysprof.trace.inputs.resolve_input import REPORTS


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
