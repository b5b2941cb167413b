"""Run the program once more with only its NVTX ranges recorded, to measure what the full recording costs."""

from __future__ import annotations

from dataclasses import replace

from nsysprof.capture.measured_process import LOGS, WORK
from nsysprof.capture.user_program.program_run import CapturedProgram, ProgramRun
from nsysprof.capture.user_program.record_program import program_environment, record_program
from nsysprof.notes import make_note
from nsysprof.nsight.nsys import run_export

RANGES_ALONE = "ranges_alone.sqlite"


def record_ranges_alone(run: ProgramRun, captured: CapturedProgram) -> bool:
    """Record only the ranges in addition to a finished capture, and return whether that was possible.

    Only a program that ended well and was recorded as a whole can be compared. Otherwise a note says why.
    """
    ended = captured.ended
    if not captured.traces or ended.exit_code != 0 or ended.interrupted is not None or not run.plan.is_whole:
        run.manifest.notes.append(make_note("recording-cost", "not-run"))
        return False
    run.say("the program runs again, and only its NVTX ranges are recorded")
    logs, report = run.folder / LOGS, run.folder / WORK / "ranges_alone.nsys-rep"
    report.parent.mkdir(parents=True, exist_ok=True)
    options = tuple(each for each in run.plan.nsys_options if each.partition("=")[0] in _KEPT)
    plan = replace(
        run.plan, trace="nvtx", memory=False, stacks=False, nsys_options=options, settled=(), less=_NOTHING_ELSE
    )
    names = ("stdout", "stderr", "nsys")
    recorded = record_program(
        plan,
        run.nsys,
        report,
        (logs / f"ranges_alone.{names[0]}.log", logs / f"ranges_alone.{names[1]}.log", logs / "ranges_alone.nsys.log"),
        run.watchers,
        metrics=(),
        environment=program_environment(),
        say=run.say,
    )
    run.manifest.steps += [replace(step, name=f"{step.name}, ranges alone") for step in recorded.steps]
    failed = recorded.failure is not None or recorded.ended.exit_code != 0
    if not failed:
        step, refused = run_export(run.nsys, report, run.folder / RANGES_ALONE, log=logs / "ranges_alone.export.log")
        run.manifest.steps.append(replace(step, name=f"{step.name}, ranges alone"))
        failed = refused is not None
    if failed:
        (run.folder / RANGES_ALONE).unlink(missing_ok=True)
        run.manifest.notes.append(make_note("recording-cost", "failed"))
    return not failed


_NOTHING_ELSE = ("--sample=none", "--cpuctxsw=none", "--cuda-memory-usage=false")
# Options that decide how processes are followed apply to both runs.
_KEPT = ("--trace-fork-before-exec", "--wait", "--env-var", "--kill")
