"""Bundle several ranks: find their traces, and analyze the rebuilt traces as the reader of the bundle will."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from nsysprof.app.analyze import is_many
from nsysprof.app.progress import Say
from nsysprof.app.trace_analysis.analyze_ranks import analyze_folder
from nsysprof.bundle.source import BundledRank
from nsysprof.errors import NsysprofError, TraceError
from nsysprof.ranks.identity import RankSource, drop_copies, find_sources, rank_in_name, read_session
from nsysprof.results.rank_results import RanksAnalysis
from nsysprof.trace.inputs.bundle_format import CONTENTS
from nsysprof.trace.inputs.resolve_input import resolve_input
from nsysprof.trace.open import Trace, open_trace


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
