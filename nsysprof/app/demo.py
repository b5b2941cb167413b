"""Run the use case `demo`: analyze the trace of a real training, which is part of the package."""

from __future__ import annotations

from pathlib import Path

from nsysprof.app.analyze import TraceResult, analyze_one
from nsysprof.app.inputs.reading_requests import AnalyzeRequest, DemoRequest
from nsysprof.app.progress import SILENT, Progress
from nsysprof.errors import MissingToolError

# What the trace shows, for somebody who has just installed nsysprof.
ABOUT = (
    "The trace of a small Llama in training, recorded on an H200. Eight performance problems were planted in the "
    "program. Only the analysis runs here."
)
# An installed wheel has the trace beside this module; a copy of the repository has it in traces/.
_PACKAGED = Path(__file__).with_name("demo-training.sqlite.xz")
_IN_REPOSITORY = Path(__file__).parents[2] / "traces" / "h200-programs" / "train-all.sqlite.xz"


def demo(request: DemoRequest, progress: Progress = SILENT) -> TraceResult:
    """Analyze the demo's trace, and write the analysis folder."""
    out, force = request.out or Path("nsysprof-demo"), request.force or request.out is None
    wanted = AnalyzeRequest((demo_trace(),), out=out, force=force, figures=request.figures)
    return analyze_one(wanted, progress, timeline=True)


def demo_trace() -> Path:
    """Return the path of the demo's trace. Raises MissingToolError where the installation lacks it."""
    found = next((path for path in (_PACKAGED, _IN_REPOSITORY) if path.is_file()), None)
    if found is None:
        raise MissingToolError(
            "This installation of nsysprof lacks the demo's trace.", "Install it again: pip install --force-reinstall."
        )
    return found
