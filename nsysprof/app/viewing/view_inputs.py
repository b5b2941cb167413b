"""List what `view` shows: each trace, capture, bench and result folder of the arguments, or why it is unreadable."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from nsysprof.app.analyze import is_many
from nsysprof.app.inputs.compare_inputs import is_input, is_trace
from nsysprof.app.read_history import is_results_database
from nsysprof.errors import NsysprofError, TraceError
from nsysprof.files.plain_file import refuse_url
from nsysprof.ranks.identity import rank_in_name
from nsysprof.report.document import clean

HISTORY = "results database"
RANKS = "ranks"
_REPORT = "report.html"
_MOST_INPUTS = 500
# Kinds of result folders by the file that each contains, the most specific first.
_KINDS = {
    "manifest.json": "capture",
    "compare.json": "comparison",
    "ranks.json": "analysis of ranks",
    "summary.json": "analysis",
    "samples.json": "bench",
    "samples.json.xz": "bench",
}


@dataclass(frozen=True)
class ViewInput:
    """One row of the list.

    name: the name that the user sees, unique in the list.
    kind: trace, capture, bench, ranks (a folder with a trace of each), results database, or the kind of result folder.
    error: why it cannot be read; None where no problem is known yet.
    """

    name: str
    path: Path
    kind: str
    error: NsysprofError | None = None

    @property
    def report(self) -> Path | None:
        """Return the page that the folder already contains; None where the input must be analyzed first."""
        page = self.path / _REPORT
        return page if self.kind != "capture" and self.path.is_dir() and page.is_file() else None


def list_inputs(sources: Sequence[Path]) -> tuple[ViewInput, ...]:
    """Return the inputs that the arguments name, in order. One that cannot be read has an error; the others stay.

    Raises TraceError where nothing is left to show.
    """
    found: list[ViewInput] = []
    for source in sources:
        try:
            found += [ViewInput(clean(str(path)), path, _kind(path)) for path in _find(source)]
        except NsysprofError as error:
            found.append(ViewInput(clean(str(source)), source, "unknown", error))
    errors = [each.error for each in found if each.error is not None]
    if len(errors) == len(found) and errors:
        raise errors[0]
    return tuple(found[:_MOST_INPUTS])


def _find(source: Path) -> Iterator[Path]:
    """Yield the inputs that one argument names: itself, or each of those in a folder."""
    refuse_url(source)
    if not source.exists():
        raise TraceError(f"{source} does not exist.", "Check the path.")
    if not source.is_dir():
        yield source
        return
    try:
        if _is_shown(source):
            yield source
            return
        inside = [path for path in sorted(source.iterdir()) if not path.name.startswith(".")]
        shown = [path for path in inside if (_is_shown(path) if path.is_dir() else _is_shown_file(path))]
    except OSError as error:
        raise TraceError(f"{source} cannot be read: {error.strerror}.", "Check its permissions.") from error
    if not shown:
        raise TraceError(
            f"{source} contains no trace, no capture and no report.",
            "Give a trace, a folder of traces, or a folder that nsysprof wrote.",
        )
    if are_ranks(source, shown):
        yield source
    yield from shown


def are_ranks(folder: Path, shown: Sequence[Path]) -> bool:
    """Return whether a folder contains the traces of one job."""
    ranks = [rank_in_name(path) for path in shown]
    return len(ranks) > 1 and None not in ranks and len(set(ranks)) == len(ranks) and is_many([folder])


def _is_shown(folder: Path) -> bool:
    return (folder / _REPORT).is_file() or is_input(folder)


def _is_shown_file(path: Path) -> bool:
    return path.is_file() and (is_trace(path) or (path.suffix == ".db" and is_results_database(path)))


def _kind(path: Path) -> str:
    if path.is_dir():
        known = next((kind for name, kind in _KINDS.items() if (path / name).is_file()), "")
        if known:
            return known
        traces = [each for each in sorted(path.iterdir()) if not each.name.startswith(".") and _is_shown_file(each)]
        return RANKS if are_ranks(path, traces) else "trace"
    if is_results_database(path):
        return HISTORY
    return "bench" if path.name.startswith("samples.json") else "trace"
