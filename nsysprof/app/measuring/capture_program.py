"""Run the use case `capture` for a program: under nsys, alone or as ranks of a job, or with torch's profiler."""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
import sys
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path

from nsysprof.analysis.overview.self_check import check_recording
from nsysprof.app.inputs.machine import find_ncu, shared_values
from nsysprof.app.inputs.options import given_options
from nsysprof.app.measuring.program_request import ProgramRequest
from nsysprof.app.progress import SILENT, Progress, Say
from nsysprof.app.trace_analysis.join_recorded import cost_notes, read_costs
from nsysprof.capture.folder import NSYS_REPORT, RANKS, dated_folder, prepare_folder
from nsysprof.capture.live.process_tree import process_name
from nsysprof.capture.manifest import write_manifest
from nsysprof.capture.rank import RankIdentity, job_token, names_a_job, own_identity
from nsysprof.capture.self_check.record_again import may_time_steps, time_steps
from nsysprof.capture.user_program.measure_floors import count_program, measure_ceilings
from nsysprof.capture.user_program.program import run_program_capture
from nsysprof.capture.user_program.program_plan import ProgramPlan, is_torch_launcher, plan_program
from nsysprof.capture.user_program.program_run import CapturedProgram
from nsysprof.capture.user_program.rank_record import has_all_ranks, has_rank, prepare_rank, report_of
from nsysprof.capture.user_program.record_program import own_watchers
from nsysprof.capture.user_program.torch_capture import run_torch_capture
from nsysprof.errors import (
    DataLossError,
    InterruptedCaptureError,
    MissingToolError,
    NsysprofError,
    OutputError,
    ToolFailedError,
    TraceError,
    UsageError,
)
from nsysprof.files.folder_state import CAPTURE
from nsysprof.files.plain_file import output_error
from nsysprof.files.result_folder import JointFolder, claim_folder, join_folder
from nsysprof.notes import make_loss, make_note, split_losses
from nsysprof.nsight.nsys import profile_argv
from nsysprof.nsight.run_tool import GET_NSYS, NSYS, find_tool
from nsysprof.results.checks import NOT_WATCHED, Lost, MissingSource, RecordingCheck, WatchedGpu
from nsysprof.results.kernel_counters import CountedLaunches
from nsysprof.trace.inputs.kineto_json import merge_kineto_files
from nsysprof.trace.open import open_trace
from nsysprof.trace.recorded import count_by_process, read_recorded, read_session, write_process_trace
from nsysprof.trace.table_readers.native_stacks import read_launches
from nsysprof.trace.tables import read_strings, read_tables

FOLDER = "processes"
# Each trace begins as a copy of the whole. More than this (bytes) is not copied after a capture, unasked.
_MOST_COPIED_BYTES = 4_000_000_000


def split_trace(trace: Path, folder: Path, names: Mapping[int, str]) -> dict[int, Path]:
    """Write the traces into `folder/processes`, and return their places in `folder` by process.

    Raises OutputError and ToolFailedError.

    names: the processes, with a name for each; empty where none is known.
    """
    written: dict[int, Path] = {}
    try:
        (folder / FOLDER).mkdir()
        for pid, name in names.items():
            target = Path(FOLDER) / f"{_file_name(name)}-{pid}.sqlite"
            write_process_trace(trace, pid, folder / target)
            written[pid] = target
    except OSError as error:
        raise output_error(folder, error) from error
    except sqlite3.Error as error:
        text = f"The recording could not be split by process: {error}."
        raise ToolFailedError(text, f"The whole recording is in {trace.name}.") from error
    return written


def split_capture(captured: CapturedProgram, folder: Path, progress: Progress) -> None:
    """Give each process with GPU work a trace of its own where a finished capture has several in one trace."""
    if len(captured.traces) != 1 or captured.failure is not None:
        return
    (trace,) = captured.traces
    with open_trace(trace) as opened:
        pids = [pid for pid, events in sorted(count_by_process(opened).items()) if events.has_gpu_work]
    if len(pids) < 2:
        return
    if len(pids) * trace.stat().st_size > _MOST_COPIED_BYTES:
        progress.tell(f"the trace of {len(pids)} processes is too large to be split; it is analyzed as a whole")
        return
    seen = {each.pid: process_name(list(each.command), each.name) for each in captured.processes}
    try:
        split_trace(trace, folder, {pid: seen.get(pid, "") for pid in pids})
    except (OutputError, ToolFailedError) as error:  # the capture itself is whole
        progress.tell(f"no trace for each process: {error.text}")
        return
    progress.tell(f"each of {len(pids)} processes has a trace of its own in {FOLDER}/")


def _file_name(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.")[:40] or "process"


_UPDATE_NSYS = "nsys is probably older than the driver: use a newer nsys (nsys --version, nvidia-smi)."


def check_trace(trace_path: Path, watched: WatchedGpu = NOT_WATCHED) -> RecordingCheck:
    """Return what a trace lacks compared with what was observed of the program."""
    with open_trace(trace_path) as trace:
        began_ns = read_session(trace).start_utc_ns
        return check_recording(read_tables(trace), read_recorded(trace), watched, began_ns=began_ns)


def check_grid(trace_path: Path, *, cases: int) -> RecordingCheck:
    """Return what the trace of a grid on a GPU lost.

    cases: how many cases were traced; each of them ran kernels.
    """
    check = check_trace(trace_path)
    if check.gpu_work or check.lost:
        return check
    remarks = split_losses((make_loss("no-kernels", "lost-in-ranges", ranges=cases, update_nsys=_UPDATE_NSYS),))
    return replace(check, remarks=remarks, lost=(Lost.KERNELS,))


# In the names of torch's own kernels.
_OF_TORCH = re.compile(r"\bat::native::")


def plan_program_capture(request: ProgramRequest) -> PlannedProgram:
    """Return how the program would be recorded here. Raises UsageError for contradictory options."""
    plan, identity = _plan(request)
    reason = choose_torch(request)
    nsys = None if reason is not None else _find_nsys(request.nsys)
    ncu = find_ncu("--counters", request.ncu) if plan.counters else None
    return PlannedProgram(plan, request.out or _default_folder(plan, identity), nsys, identity, reason, ncu)


def _plan(request: ProgramRequest) -> tuple[ProgramPlan, RankIdentity | None]:
    if sys.platform == "win32":
        raise UsageError("Programs can be captured only on Linux.", "Run nsys profile here, then nsysprof analyze.")
    identity, argv = own_identity(), list(request.argv)
    # A rank of a job records itself, unless its program is a launcher; --per-rank does not change this.
    launches = request.per_rank and (identity is None or is_torch_launcher(argv))
    plan = plan_program(**{**shared_values(request, ProgramPlan), "argv": argv, "per_rank": launches})
    if plan.measure_cost and (launches or identity):
        raise UsageError("--measure-cost works with a single trace, and this job makes one per rank.", "Leave it out.")
    is_part, is_rank = bool(request.hold or request.keep), identity is not None and not launches
    if (plan.ceilings and (is_part or is_rank)) or (plan.counters and (is_part or is_rank or launches)):
        raise UsageError(
            "--counters is for a program that is recorded in a single trace, from its start, and --ceilings for such a "
            "program or a launcher of ranks.",
            "Leave them out here, and capture one process of it alone.",
        )
    if plan.ranks and not (launches or identity):
        raise UsageError("--ranks selects ranks of a job, but this program is not a job.", "Give --per-rank too.")
    if shutil.which(argv[0]) is None:
        raise UsageError(
            f"The program {argv[0]} was not found, or cannot be run.",
            "Options of nsysprof come before the program: nsysprof capture [OPTIONS] -- PROGRAM [ARGUMENTS].",
        )
    return plan, identity


def capture_program(request: ProgramRequest, progress: Progress = SILENT) -> ProgramResult:
    """Record one program, and fill the capture folder. A failure is part of the result."""
    planned = plan_program_capture(request)
    if planned.torch_because is not None:
        captured, folder = capture_with_torch(request, planned.plan, planned.torch_because, progress)
        return ProgramResult(captured, folder, True, _failure(captured, folder), _size(captured.traces))
    nsys = planned.nsys
    assert nsys is not None
    say = (progress if planned.is_first else SILENT).tell

    def record(folder: Path) -> CapturedProgram:
        watchers = own_watchers(quiet_stdout=request.stdout_to_stderr)
        return run_program_capture(
            planned.plan,
            folder,
            nsys=nsys,
            identity=planned.identity,
            watchers=watchers,
            say=say,
            inspect=check_trace,
            compare=lambda trace, plain: cost_notes(read_costs(trace, plain)),
        )

    if planned.identity is None:
        with claim_folder(planned.folder, CAPTURE, force=request.force) as claimed:
            _prepare_alone(planned.plan, claimed.path)
            captured = record(claimed.path)
            if _never_started(captured) and may_use_torch(request):
                reason = captured.failure.text.rstrip(".") if captured.failure else "nsys did not start the program"
                prepare_folder(claimed.path)
                captured = record_with_torch(request, planned.plan, claimed.path, reason, say)
            else:
                if not planned.plan.per_rank:
                    split_capture(captured, claimed.path, progress)
                _time_steps(planned, captured, claimed.path, say)
                _measure_floors(planned, captured, claimed.path, say)
            trace_bytes = _size(captured.traces)
            claimed.commit()
        captured = replace(captured, traces=claimed.final(captured.traces))
        failure = _failure(captured, planned.folder)
        return ProgramResult(captured, planned.folder, planned.is_first, failure, trace_bytes)
    with _join_ranks(planned, planned.identity, force=request.force) as joint:
        prepare_rank(joint.path, planned.identity.rank, again=request.force and joint.is_restarted)
        captured = record(joint.path)
        trace_bytes = _size(captured.traces)
    if joint.is_left:
        text = f"some ranks of this job recorded nothing, so {planned.folder} keeps its older capture; see {joint.path}"
        progress.tell(text)
    where = joint.path if joint.is_left else planned.folder
    captured = replace(captured, traces=joint.final(captured.traces))
    return ProgramResult(captured, where, planned.is_first, _failure(captured, where), trace_bytes)


def _time_steps(planned: PlannedProgram, captured: CapturedProgram, folder: Path, say: Say) -> None:
    """Time the steps of a finished capture's program without a profiler, where it may run again and uses torch."""
    if not may_time_steps(planned.plan, captured) or not _runs_torch(captured.traces[0]):
        return
    say("the program runs again without a profiler, which times its steps (--no-measure-cost leaves this out)")
    time_steps(captured.manifest, folder, planned.plan.argv, captured.ended.duration_ns)
    write_manifest(folder, captured.manifest)


def _runs_torch(trace: Path) -> bool:
    """Return whether kernels of torch ran on a GPU."""
    try:
        with open_trace(trace) as opened:
            has_kernels = opened.find("CUPTI_ACTIVITY_KIND_KERNEL") is not None
            return has_kernels and any(_OF_TORCH.search(str(text)) for text in read_strings(opened))
    except TraceError:
        return False


def _measure_floors(planned: PlannedProgram, captured: CapturedProgram, folder: Path, say: Say) -> None:
    """Measure the rates of the GPU and count the kernels of a finished capture, as far as they are wanted."""
    manifest, plan = captured.manifest, planned.plan
    if not captured.traces or captured.ended.interrupted is not None:
        return
    if plan.ceilings:
        say("measuring what the GPU reaches")
        measure_ceilings(manifest)
    if planned.ncu is not None:
        try:
            launches = [CountedLaunches(*launched) for launched in read_launches(captured.traces[0])]
        except TraceError as error:
            manifest.add_missing(
                MissingSource.COUNTERS, make_note("no-counters", problem=error.text, next_step=error.next_step)
            )
        else:
            say(f"the program runs again under ncu, for at most {plan.counters_budget_s} s")
            count_program(manifest, folder, planned.ncu, plan.argv, launches, plan.counters_budget_s)
    if plan.ceilings or planned.ncu is not None:
        write_manifest(folder, manifest)


def _never_started(captured: CapturedProgram) -> bool:
    """Return whether nsys failed before the program ran, so that running it again is safe."""
    ended = captured.ended
    return ended.exit_code is None and not ended.refused and ended.interrupted is None and not captured.traces


def _size(traces: tuple[Path, ...]) -> int:
    return sum(path.stat().st_size for path in traces)


def _find_nsys(named: Path | None) -> Path:
    found = find_tool(NSYS, named)
    if found is None:
        raise MissingToolError(
            "Capturing a program needs nsys, which was not found.",
            f"{GET_NSYS}; --profiler torch records a Python program without it.",
        )
    return found


def _default_folder(plan: ProgramPlan, identity: RankIdentity | None) -> Path:
    if identity is None:
        return dated_folder()
    if not names_a_job(os.environ):
        raise UsageError(
            f"The {identity.world_size} ranks of this job need a common folder, and the job has no name to choose it "
            "by.",
            "Give --out.",
        )
    return Path("traces") / f"job-{job_token(os.environ, list(plan.argv), identity.world_size)}"


def _prepare_alone(plan: ProgramPlan, folder: Path) -> None:
    prepare_folder(folder)
    if plan.per_rank:
        try:
            (folder / RANKS).mkdir()
        except OSError as error:
            raise output_error(folder, error) from error


def _join_ranks(planned: PlannedProgram, identity: RankIdentity, *, force: bool) -> AbstractContextManager[JointFolder]:
    """Return the folder that all ranks of this job write into."""
    return join_folder(
        planned.folder,
        CAPTURE,
        job_token(os.environ, list(planned.plan.argv), identity.world_size),
        force=force,
        is_taken=lambda folder: has_rank(folder, identity.rank),
        has_all=lambda folder: has_all_ranks(folder, identity, planned.plan),
    )


def _failure(captured: CapturedProgram, folder: Path) -> NsysprofError | None:
    """Return what went wrong. If the program itself failed, nothing else is reported."""
    ended = captured.ended
    if ended.refused:
        return UsageError(f"The program could not be started: {ended.refused}.", "Check that it is executable.")
    if ended.interrupted is not None:
        if captured.traces:
            text, step = f"what was recorded is kept in {folder}", f"nsysprof analyze {folder} reads what is there."
        else:
            text, step = "nothing that can be read was recorded", f"{folder / 'logs'} shows what the program did."
        return InterruptedCaptureError(f"Interrupted; {text}.", step)
    if captured.failure is not None:
        return captured.failure
    if captured.losses:
        return DataLossError(captured.losses[0].note.text, captured.losses[0].note.next_step)
    return None


@dataclass(frozen=True)
class PlannedProgram:
    """How a program will be recorded.

    identity: which rank of a job this process is, or None.
    """

    plan: ProgramPlan
    folder: Path
    # The nsys to use; None where torch's own profiler records.
    nsys: Path | None
    identity: RankIdentity | None
    # Why torch's own profiler records; see choose_torch.
    torch_because: str | None = None
    # The ncu that counts; None where nothing is counted.
    ncu: Path | None = None

    @property
    def is_first(self) -> bool:
        """Return whether this process reports for the whole job."""
        return self.identity is None or self.identity.rank == 0

    @property
    def nsys_argv(self) -> list[str]:
        """Return the command line of nsys; empty where torch's own profiler records."""
        if self.nsys is None:
            return []
        report = self.folder / NSYS_REPORT
        if self.identity or self.plan.per_rank:
            report = report_of(self.folder, self.identity.rank if self.identity else 0)
        program = ["WORKER"] if self.plan.per_rank else list(self.plan.argv)
        return profile_argv(self.nsys, report.with_suffix(""), program, self.plan.profile_options)


@dataclass(frozen=True)
class ProgramResult:
    """What was recorded, and where it is.

    is_first: whether this process reports for the whole job.
    failure: why the recording is incomplete, or None. What was recorded is kept in any case.
    """

    captured: CapturedProgram
    folder: Path
    is_first: bool
    failure: NsysprofError | None
    # The size of what this process recorded (bytes).
    trace_bytes: int


PROFILERS = ("auto", "nsys", "torch")
_STARTS_PYTHON = ("torchrun", "accelerate", "deepspeed", "pytest", "ipython", "uvicorn", "gunicorn", "vllm", "ray")


def choose_torch(request: ProgramRequest) -> str | None:
    """Return why torch's own profiler records in place of nsys: "" where it was asked for, None where nsys records.

    Raises UsageError for contradictory options.
    """
    if request.profiler not in PROFILERS:
        raise UsageError(
            f"--profiler {request.profiler} cannot record a program.", f"Known for a program: {', '.join(PROFILERS)}."
        )
    if request.profiler == "torch":
        _refuse_options_of_nsys(request)
        return ""
    if request.steps or request.forward_steps or request.skip_steps:
        raise UsageError(
            "--optimizer-steps, --forward-steps and --skip-steps count what nsys does not see.",
            "Add --profiler torch, or use --capture-range.",
        )
    if request.profiler == "nsys" or find_tool(NSYS, request.nsys) is not None or not may_use_torch(request):
        return None
    return "nsys was not found"


def may_use_torch(request: ProgramRequest) -> bool:
    """Return whether torch's profiler could record instead of nsys.

    It can where the program is Python and no option is given that only nsys has.
    """
    return request.profiler == "auto" and not _options_of_nsys(request) and starts_python(request.argv[0])


def capture_with_torch(request: ProgramRequest, plan: ProgramPlan, reason: str, progress: Progress) -> tuple[
    CapturedProgram, Path
]:  # fmt: skip
    """Record the program with torch's profiler, and return the capture and its folder."""
    folder = request.out or dated_folder()
    with claim_folder(folder, CAPTURE, force=request.force) as claimed:
        prepare_folder(claimed.path)
        captured = record_with_torch(request, plan, claimed.path, reason, progress.tell)
        claimed.commit()
    return replace(captured, traces=claimed.final(captured.traces)), folder


def record_with_torch(
    request: ProgramRequest, plan: ProgramPlan, folder: Path, reason: str, say: Say
) -> CapturedProgram:
    """Record the program into a prepared folder."""
    if reason:
        say(f"{reason}: torch's own profiler records instead")
    return run_torch_capture(
        plan,
        folder,
        watchers=own_watchers(quiet_stdout=request.stdout_to_stderr),
        say=say,
        merge=merge_kineto_files,
        inspect=check_trace,
        instead_of_nsys=reason,
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
    return given_options(
        request, "per_rank", "ranks", "trace", "capture_range", "end_program", "gpu_metrics", "memory", "stacks",
        "operators", "nsys_options", "measure_cost", "ceilings", "counters", "power", "max_bytes",
    )  # fmt: skip


def _refuse_options_of_nsys(request: ProgramRequest) -> None:
    found = _options_of_nsys(request)
    if found:
        raise UsageError(
            f"{found[0]} does not work with --profiler torch.",
            "Leave it out, or record with nsys (--profiler nsys).",
        )
    if own_identity() is not None:
        raise UsageError(
            "--profiler torch records a single program, and this process is one rank of a job.",
            "Start nsysprof once, around the launcher: its workers are recorded too.",
        )
    has_steps = request.steps or request.forward_steps
    if min(request.steps, request.forward_steps, request.skip_steps) < 0 or (request.skip_steps and not has_steps):
        text = "--skip-steps needs --optimizer-steps or --forward-steps, and none may be negative."
        raise UsageError(text, "Give e.g. --skip-steps 5 --optimizer-steps 20.")
    if request.steps and request.forward_steps:
        text = "--optimizer-steps and --forward-steps count different steps."
        raise UsageError(text, "Give --optimizer-steps for training, --forward-steps for inference.")
    if has_steps and (request.delay_s or request.duration_s):
        text = "--optimizer-steps and --forward-steps do not work with --delay or --duration."
        raise UsageError(text, "Give only one of them.")
