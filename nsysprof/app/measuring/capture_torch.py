"""Run the use case `capture` for a program with torch's own profiler, on request or where nsys cannot run."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from nsysprof.app.measuring.program_request import ProgramRequest
from nsysprof.app.progress import Progress, Say
from nsysprof.app.trace_analysis.check_trace import check_trace
from nsysprof.capture.folder import dated_folder, prepare_folder
from nsysprof.capture.rank import own_identity
from nsysprof.capture.user_program.program_plan import USUAL_TRACE, ProgramPlan
from nsysprof.capture.user_program.program_run import CapturedProgram
from nsysprof.capture.user_program.record_program import own_watchers
from nsysprof.capture.user_program.torch_capture import run_torch_capture
from nsysprof.errors import UsageError
from nsysprof.files.folder_state import CAPTURE
from nsysprof.files.result_folder import claim_folder
from nsysprof.nsight.run_tool import NSYS, find_tool
from nsysprof.trace.inputs.kineto_json import merge_kineto_files

PROFILERS = ("auto", "nsys", "torch", "cupti")
_STARTS_PYTHON = ("torchrun", "accelerate", "deepspeed", "pytest", "ipython", "uvicorn", "gunicorn", "vllm", "ray")


@dataclass(frozen=True)
class TorchChoice:
    """The choice of torch's own profiler instead of nsys.

    reason: why; empty where the user asked for it.
    """

    reason: str = ""
    # "torch", or "cupti" for CUPTI in the program's own processes.
    recorder: str = "torch"


def choose_torch(request: ProgramRequest) -> TorchChoice | None:
    """Return the choice of torch's own profiler, or None for nsys. Raises UsageError for contradictory options."""
    if request.profiler not in PROFILERS:
        raise UsageError(
            f"--profiler {request.profiler} cannot record a program.", f"Known for a program: {', '.join(PROFILERS)}."
        )
    if request.profiler in ("torch", "cupti"):
        _refuse_options_of_nsys(request)
        return TorchChoice(recorder=request.profiler)
    if request.steps or request.forward_steps or request.skip_steps:
        raise UsageError(
            "--optimizer-steps, --forward-steps and --skip-steps count what nsys does not see.",
            "Add --profiler torch, or use --capture-range.",
        )
    if request.profiler == "nsys" or find_tool(NSYS, request.nsys) is not None or not may_use_torch(request):
        return None
    return TorchChoice("nsys was not found")


def may_use_torch(request: ProgramRequest) -> bool:
    """Return whether torch's profiler could record instead of nsys.

    It can where the program is Python and no option is given that only nsys has.
    """
    return request.profiler == "auto" and not _options_of_nsys(request) and starts_python(request.argv[0])


def capture_with_torch(request: ProgramRequest, plan: ProgramPlan, choice: TorchChoice, progress: Progress) -> tuple[
    CapturedProgram, Path
]:  # fmt: skip
    """Record the program with torch's profiler, and return the capture and its folder."""
    folder = request.out or dated_folder()
    with claim_folder(folder, CAPTURE, force=request.force) as claimed:
        prepare_folder(claimed.path)
        captured = record_with_torch(request, plan, claimed.path, choice, progress.tell)
        claimed.commit()
    return replace(captured, traces=claimed.final(captured.traces)), folder


def record_with_torch(
    request: ProgramRequest, plan: ProgramPlan, folder: Path, choice: TorchChoice, say: Say
) -> CapturedProgram:
    """Record the program into a prepared folder."""
    if choice.reason:
        say(f"{choice.reason}: torch's own profiler records instead")
    return run_torch_capture(
        plan,
        folder,
        watchers=own_watchers(quiet_stdout=request.stdout_to_stderr),
        say=say,
        merge=partial(merge_kineto_files, tool=choice.recorder),
        inspect=check_trace,
        instead_of_nsys=choice.reason,
        recorder=choice.recorder,
    )


def starts_python(program: str) -> bool:
    """Return whether a program is Python or a Python script, as far as its file shows."""
    found = shutil.which(program)
    if found is None:
        return False
    if Path(program).name.startswith(("python", "pypy", *_STARTS_PYTHON)):
        return True
    try:
        with Path(found).open("rb") as file:
            line = file.readline(200)
    except OSError:
        return False
    return line.startswith(b"#!") and b"python" in line


def _options_of_nsys(request: ProgramRequest) -> list[str]:
    """Return the given options that only nsys supports."""
    given = {
        "--per-rank": request.per_rank,
        "--ranks": bool(request.ranks),
        "--trace": request.trace != USUAL_TRACE,
        "--capture-range": request.capture_range != "none",
        "--end-program": request.end_program,
        "--gpu-metrics": bool(request.gpu_metrics_hz),
        "--memory": request.memory,
        "--stacks": request.stacks,
        "--operators": request.operators,
        "--nsys-option": bool(request.nsys_options),
        "--measure-cost": request.measure_cost,
        "--ceilings": request.ceilings,
        "--counters": request.counters,
        "--power": request.power,
        "--max-recording": bool(request.max_bytes),
    }
    return [option for option, is_given in given.items() if is_given]


def _refuse_options_of_nsys(request: ProgramRequest) -> None:
    found = _options_of_nsys(request)
    if found:
        raise UsageError(
            f"{found[0]} does not work with --profiler {request.profiler}.",
            "Leave it out, or record with nsys (--profiler nsys).",
        )
    if own_identity() is not None:
        raise UsageError(
            f"--profiler {request.profiler} records a single program, and this process is one rank of a job.",
            "Start nsysprof once, around the launcher: its workers are recorded too.",
        )
    has_steps = request.steps or request.forward_steps
    if request.profiler == "cupti" and (has_steps or request.delay_s or request.duration_s):
        raise UsageError(
            "--profiler cupti records a program from beginning to end.",
            "Leave out --delay, --duration, --optimizer-steps and --forward-steps.",
        )
    if min(request.steps, request.forward_steps, request.skip_steps) < 0 or (request.skip_steps and not has_steps):
        text = "--skip-steps needs --optimizer-steps or --forward-steps, and none may be negative."
        raise UsageError(text, "Give e.g. --skip-steps 5 --optimizer-steps 20.")
    if request.steps and request.forward_steps:
        text = "--optimizer-steps and --forward-steps count different steps."
        raise UsageError(text, "Give --optimizer-steps for training, --forward-steps for inference.")
    if has_steps and (request.delay_s or request.duration_s):
        text = "--optimizer-steps and --forward-steps do not work with --delay or --duration."
        raise UsageError(text, "Give only one of them.")
