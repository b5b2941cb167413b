"""Record a program again without the hook for attention, where the program crashed and the hook may be the cause."""

from __future__ import annotations

import signal
from collections.abc import Callable
from dataclasses import replace

from nsysprof.capture.measured_process import LOGS, tail
from nsysprof.capture.self_check.record_again import KeptRecording, may_run_after
from nsysprof.capture.user_program.attention_record import HOOK_FILES
from nsysprof.capture.user_program.program_run import CapturedProgram, ProgramRun
from nsysprof.capture.user_program.streamed import Ended
from nsysprof.notes import Note, make_note

_CRASHES = ("SIGSEGV", "SIGABRT", "SIGBUS", "SIGILL", "SIGFPE")


def record_without_hook(
    run: ProgramRun, first: CapturedProgram, notes: list[Note], record: Callable[[ProgramRun], CapturedProgram]
) -> CapturedProgram:
    """Return the first recording, or another one without the hook where the program crashed with it.

    notes: the notes from before the first recording.
    record: records once.
    """
    why = why_suspected(first.ended, tail(run.folder / LOGS / "stderr.log")) if run.plan.attention else ""
    code = first.ended.exit_code
    if not why:
        return first
    if not may_run_after(run.plan, first.ended):
        run.manifest.notes.append(make_note("attention-hook-suspected", code=code, why=why))
        return first
    run.say(f"The program ended with exit code {code} ({why}). Recording it again without --attention.")
    kept = KeptRecording.of(run)
    kept.put_aside()
    kept.forget()
    run.manifest.notes, run.manifest.missing = list(notes), []
    run.plan = replace(run.plan, attention=False)
    captured = record(run)
    if captured.ended.exit_code is not None:
        run.manifest.notes.append(make_note("attention-hook-off", code=code, why=why, again=captured.ended.exit_code))
    return captured


def why_suspected(ended: Ended, stderr: str) -> str:
    """Return why the hook may have caused a program's end; empty where nothing suggests that.

    stderr: the end of what the program wrote to standard error.
    """
    code = ended.exit_code
    if not code or ended.interrupted is not None or ended.ended_by_us:
        return ""
    names = [name for name in _CRASHES if code == 128 + getattr(signal, name, 0)]
    if names:
        return f"a crash by {names[0]}"
    trace = stderr[stderr.rfind("Traceback (most recent call last)") :] if "Traceback" in stderr else ""
    return "its traceback passes through the hook" if any(file in trace for file in HOOK_FILES) else ""
