"""Export nsys' recording of a program to SQLite, and check it for lost data."""

from __future__ import annotations

from pathlib import Path

from nsysprof.capture.user_program.program_run import ProgramRun
from nsysprof.errors import NsysprofError
from nsysprof.notes import split_losses
from nsysprof.nsight.nsys import run_export
from nsysprof.nsight.run_tool import Step
from nsysprof.results.checks import RecordingCheck, WatchedGpu


def export_recording(
    run: ProgramRun, report: Path, trace: Path, log: Path, watched: WatchedGpu
) -> tuple[Step, NsysprofError | None, RecordingCheck]:
    """Export a report; return the step, the failure (None: it succeeded), and what the trace lost.

    watched: what was observed of the program while it ran.
    """
    run.say(f"export {report.name}")
    step, refused = run_export(run.nsys, report, trace, log=log, say=run.say)
    nothing = RecordingCheck(split_losses(()))
    if refused is not None:
        return step, refused, nothing
    try:
        return step, None, run.inspect(trace, watched)
    except NsysprofError as error:
        return step, error, nothing
