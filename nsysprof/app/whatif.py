"""Run the use case `whatif`: replay the steps of a trace with the user's own changes."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from nsysprof.app.progress import SILENT, Progress
from nsysprof.app.trace_analysis.analyze_trace import resolve
from nsysprof.errors import UsageError

if TYPE_CHECKING:
    from nsysprof.results.findings.causes import WhatIf, WhatIfQuestion

# The finding that each change remedies.
KNOWN_CHANGES = {
    "--pin-copies": "pageable-copy", "--no-alloc": "alloc-in-loop", "--no-host-work": "host-bound",
    "--graph-launches": "launch-bound", "--fuse-attention": "unfused-attention",
    "--fuse-optimizer": "unfused-optimizer", "--no-stream-waits": "stream-dependency",
}  # fmt: skip
_EVERYWHERE = "all"


def what_if(request: WhatIfRequest, progress: Progress = SILENT) -> WhatIfResult:
    """Return what the steps would take with each change alone and with all of them."""
    from nsysprof.trace.inputs.resolve_input import identity_of
    from nsysprof.trace.open import open_trace

    questions = _questions(request)
    if not questions and not request.ranges:
        raise UsageError("Nothing is to be changed.", "Name a change, such as --pin-copies or --no-sync all.")
    with tempfile.TemporaryDirectory(prefix="nsysprof-") as scratch:
        path = resolve(request.source, request.nsys, Path(scratch), progress.say)
        with open_trace(path, identity_of(request.source, path)) as trace:
            from nsysprof.analysis.findings.what_if import ask
            from nsysprof.analysis.overview.trace_overview import attribute
            from nsysprof.trace.tables import read_tables

            tables = read_tables(trace, progress=progress.say)
            ranges = attribute(tables).attributed.ranges
            names = [str(name) for name in ranges["name"].unique()]
            questions = (*questions, *(_of_ranges(names, text, factor) for text, factor in request.ranges))
            return WhatIfResult(ask(tables, tables.launch, ranges, questions))


def _questions(request: WhatIfRequest) -> tuple[WhatIfQuestion, ...]:
    from nsysprof.results.findings.causes import WhatIfQuestion

    questions = [WhatIfQuestion(option, KNOWN_CHANGES[option]) for option in request.flags]
    for name in request.no_sync:
        questions.append(WhatIfQuestion(f"--no-sync {name}", "sync", range="" if name == _EVERYWHERE else name))
    for text, factor in request.kernels:
        questions.append(WhatIfQuestion(f"--kernel {text}={factor:g}", "", kernel=text, factor=factor))
    return tuple(questions)


def _of_ranges(names: list[str], text: str, factor: float) -> WhatIfQuestion:
    """Return the question for work that is launched in ranges with a text in their names."""
    from nsysprof.results.findings.causes import WhatIfQuestion

    chosen = tuple((name, (factor,) * 3) for name in names if text in name)
    if not chosen:
        raise UsageError(f"No range has {text!r} in its name.", "See ranges.csv for names.")
    return WhatIfQuestion(f"--launched-in {text}={factor:g}", "", range_factors=chosen)


@dataclass(frozen=True)
class WhatIfRequest:
    """A trace and what to change in it.

    flags: changes such as --pin-copies.
    no_sync: ranges in which to remove waits for the GPU; "all" for everywhere.
    kernels: texts in names of kernels, and the factors for their times.
    ranges: texts in names of ranges, and the factors for the times of what they launch.
    """

    source: Path
    flags: tuple[str, ...] = ()
    no_sync: tuple[str, ...] = ()
    kernels: tuple[tuple[str, float], ...] = ()
    nsys: Path | None = None
    ranges: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True)
class WhatIfResult:
    """What the steps would take."""

    found: WhatIf
