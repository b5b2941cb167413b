"""`nsysprof bundle`: what can be shared of a capture, a bench or a trace, as an archive and Markdown to paste."""

from __future__ import annotations

import hashlib
import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nsysprof.errors import OutputError, UsageError

if TYPE_CHECKING:
    from nsysprof.bundle.name_tokens import NameTokens
    from nsysprof.cli.bundle_build import Built, Request


def bundle(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="INPUT",
            help="A capture, bench or tune folder, or any trace that analyze reads.",
            show_default=False,
        ),
    ],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="The archive. Default: NAME.zip in this folder.")
    ] = None,
    force: Annotated[bool, typer.Option(help="Replace an older bundle.")] = False,
    keep_names: Annotated[
        bool, typer.Option("--keep-names", help="Keep the names of your ranges, kernels and backends.")
    ] = False,
    ranges: Annotated[
        list[str] | None,
        typer.Option(
            "--range", help="Only what belongs to ranges of this name; * and ? match. May be repeated.", metavar="NAME"
        ),
    ] = None,
    max_size: Annotated[float, typer.Option(help="MB (of a million bytes) that the archive may have.")] = 25.0,
    show: Annotated[bool, typer.Option("--show", help="Print what would be shared, and write nothing.")] = False,
    nsys: Annotated[Path | None, typer.Option(help="The nsys that exports a .nsys-rep.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of Markdown.")] = False,
) -> None:
    """Make an archive that can be shared, without environment, user, host, paths and program output.

    It is rebuilt from a list of what may be in it, then every byte is searched for everything else. Prints Markdown
    to paste where you attach it.
    """
    from nsysprof.bundle_format import SUFFIX, plain_title
    from nsysprof.cli.analyze import default_name

    if not max_size > 0:
        raise UsageError(f"--max-size {max_size:g} is no size.", "Give megabytes above zero.")
    target = out or Path(plain_title(default_name(source)) + SUFFIX)
    if target.suffix.lower() != SUFFIX:
        raise UsageError(f"{target} does not end with {SUFFIX}.", "Choose another name with --out.")
    if not show:
        _check_target(target, force=force)
    title = plain_title(target.stem)
    try:
        with tempfile.TemporaryDirectory(prefix="nsysprof-") as scratch:
            request, built, archive = _build(
                source, title, Path(scratch), nsys, keep_names, tuple(ranges or ()), max_size
            )
            markdown, shared = _render(target, request, built, archive)
            searched = _verify(request, built, archive, markdown, Path(scratch))
            if show:
                _show(request.names, built, shared, archive, as_json=as_json)
                return
            _put(archive, target)
    except BrokenPipeError:
        raise
    except OSError as error:
        folder = tempfile.gettempdir()
        raise OutputError(f"{folder} cannot be written: {error.strerror}.", "Free space, or set TMPDIR.") from error
    _tell(target, built, shared | searched, request.names, markdown, as_json=as_json)


def _build(
    source: Path,
    title: str,
    scratch: Path,
    nsys: Path | None,
    keep_names: bool,
    ranges: tuple[str, ...],
    max_size: float,
) -> tuple[Request, Built, Path]:
    from nsysprof.analysis.categories import categorize
    from nsysprof.bundle.name_tokens import NameTokens
    from nsysprof.bundle.source import read_ranks, read_source, refuse_bundle
    from nsysprof.capture.find_nsys import find_nsys
    from nsysprof.cli.bundle_build import Request, build
    from nsysprof.cli.bundle_ranks import find_rank_traces
    from nsysprof.trace.locate import REPORTS

    work = scratch / "input"
    work.mkdir()
    reports_alone = source.is_dir() and not any(source.glob("*.sqlite*"))
    needs_nsys = source.suffix in REPORTS or (reports_alone and any(source.glob(f"*{REPORTS[0]}")))
    refuse_bundle(source)
    nsys_path = find_nsys(nsys) if needs_nsys else None
    ranks = find_rank_traces(source, nsys_path, work)
    read = read_ranks(source, ranks) if ranks else read_source(source, nsys_path, work)
    if ranges and not read.traces:
        raise UsageError(f"{source} has no trace to crop.", "Leave out --range.")
    names = NameTokens(keep=keep_names, categorize=categorize)
    request = Request(read, title, names, ranges, int(max_size * 1e6))
    made = scratch / "made"
    made.mkdir()
    built, archive = build(request, made, _say)
    return request, built, archive


def _render(target: Path, request: Request, built: Built, archive: Path) -> tuple[str, dict[str, Any]]:
    from nsysprof.report.bundle import Shared, render_bundle

    with archive.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    has_trace = any(name.endswith(".sqlite.xz") for name in built.files)
    shared = Shared(
        target.name, archive.stat().st_size, digest, request.title, has_trace, request.names.keep, built.left_out
    )
    markdown = render_bundle(
        shared, built.analysis, built.record, built.bench, built.environment, built.notes, built.ranks
    )
    facts = {
        "file": str(target),
        "bytes": shared.bytes,
        "sha256": digest,
        "members": sorted(built.files),
        "names_replaced": request.names.counts(),
        "left_out": [{"what": what, "why": why} for what, why in built.left_out],
    }
    return markdown, facts


def _verify(request: Request, built: Built, archive: Path, markdown: str, scratch: Path) -> dict[str, Any]:
    """Unpack the archive as a stranger would and search it, and the Markdown. Raises SecretLeakError."""
    from nsysprof.bundle.check import check_bundle

    _say("search every byte for what must not be in it")
    text = scratch / "issue.md"
    text.write_text(markdown, encoding="utf-8")
    unpacked = scratch / "unpacked"
    unpacked.mkdir()
    searched = check_bundle(request.source, built.shared_traces, archive, text, request.title, request.names, unpacked)
    return {"secrets_searched": searched.secrets, "texts_searched": searched.texts}


def _check_target(target: Path, *, force: bool) -> None:
    from nsysprof.bundle_format import CONTENTS
    from nsysprof.output import output_error

    if target.is_dir():
        raise OutputError(f"{target} is a folder.", "Choose another name with --out.")
    if target.exists() and not force:
        raise OutputError(f"{target} exists.", "Give --force to replace it, or another name with --out.")
    if target.exists():
        import zipfile

        try:
            with zipfile.ZipFile(target) as archive:
                ours = CONTENTS in archive.namelist()
        except (zipfile.BadZipFile, OSError):
            ours = False
        if not ours:
            raise OutputError(f"{target} exists and is no bundle of ours.", "Choose another name with --out.")
    if not target.resolve().parent.is_dir():
        raise output_error(target, FileNotFoundError(2, "its folder does not exist"))


def _put(archive: Path, target: Path) -> None:
    from nsysprof.output import write_whole

    write_whole(target, archive.read_bytes())


def _tell(
    target: Path, built: Built, facts: dict[str, Any], names: NameTokens, markdown: str, *, as_json: bool
) -> None:
    if as_json:
        typer.echo(json.dumps({**facts, "markdown": markdown}, indent=1))
        return
    typer.echo(markdown, nl=False)
    for what, why in built.left_out:
        _say(f"left out: {what} ({why})")
    counts = ", ".join(f"{count} {kind}{'s' * (count > 1)}" for kind, count in names.counts().items())
    if counts:
        _say(f"names replaced by tokens: {counts}; --keep-names keeps them, --show lists them")
    _say(
        f"{target}: {facts['bytes']:,} bytes; searched for {facts['secrets_searched']} private values and "
        f"{facts['texts_searched']:,} texts of the original"
    )


def _show(names: NameTokens, built: Built, facts: dict[str, Any], archive: Path, *, as_json: bool) -> None:
    from nsysprof.bundle.check import shared_texts

    texts = shared_texts(*built.shared_traces)
    sizes = {name: path.stat().st_size for name, path in sorted(built.files.items())}
    rows = {} if built.report is None else built.report.rows
    if as_json:
        shown = {**facts, "file": None, "sizes": sizes, "rows": rows, "texts": texts, "replaced": names.replaced()}
        typer.echo(json.dumps(shown, indent=1))
        return
    from nsysprof.report.escape import clean

    typer.echo(f"{archive.stat().st_size:,} bytes would be shared:")
    for name, size in sizes.items():
        typer.echo(f"  {name}  {size:,} bytes")
    for title, lines in (
        ("rows of the trace", [f"{table}  {count:,}" for table, count in rows.items()]),
        *((f"{column}, {len(found)} texts", found) for column, found in texts.items()),
        ("names replaced, here and for your eyes only", [f"{t}  was  {o}" for t, o in names.replaced().items()]),
        ("left out", [f"{what}: {why}" for what, why in built.left_out]),
    ):
        if lines:
            typer.echo(f"{title}:")
        for line in lines:
            typer.echo(f"  {clean(line, 300)}")


def _say(text: str) -> None:
    typer.echo(text, err=True)
