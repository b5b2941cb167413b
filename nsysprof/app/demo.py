"""Run the use case `demo`: analyze a real training whose trace comes with the package."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from nsysprof.app.progress import SILENT, Progress
from nsysprof.errors import MissingToolError

if TYPE_CHECKING:
    from nsysprof.app.trace_analysis.analyze_trace import TraceResult

# What the trace is of, in words for somebody who has just installed nsysprof.
ABOUT = (
    "A small Llama that trains on an H200. Eight faults were planted in it; the trace was recorded there, and only "
    "its analysis runs here."
)
# The wheel has the trace beside this module, a copy of the repository where its provenance is.
_PACKAGED = Path(__file__).with_name("demo-training.sqlite.xz")
_IN_REPOSITORY = Path(__file__).parents[2] / "traces" / "h200-programs" / "train-all.sqlite.xz"


def demo(request: DemoRequest, progress: Progress = SILENT) -> TraceResult:
    """Analyze the demo's trace, and write the analysis folder."""
    from nsysprof.app.trace_analysis.analyze_request import AnalyzeRequest
    from nsysprof.app.trace_analysis.analyze_trace import analyze_one

    return analyze_one(AnalyzeRequest((demo_trace(),), request.out, request.force, request.figures), progress)


def demo_trace() -> Path:
    """Return where the demo's trace is. Raises MissingToolError for an installation that lacks it."""
    found = next((path for path in (_PACKAGED, _IN_REPOSITORY) if path.is_file()), None)
    if found is None:
        raise MissingToolError(
            "This installation of nsysprof lacks the demo's trace.", "Install it again: pip install --force-reinstall."
        )
    return found


@dataclass(frozen=True)
class DemoRequest:
    """Where to write the demo's analysis, whether to replace an older one there, and whether to draw figures."""

    out: Path
    force: bool = False
    figures: bool = True
