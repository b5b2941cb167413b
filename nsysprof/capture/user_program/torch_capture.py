"""Record a Python program from outside with torch's own profiler, where nsys is not wanted or cannot run."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from msgspec import json

from nsysprof.capture.environment import collect_machine
from nsysprof.capture.folder import remove_work
from nsysprof.capture.manifest import TORCH_TRACE, Manifest, Program, write_manifest
from nsysprof.capture.measured_process import LOGS, WORK
from nsysprof.capture.self_check.gpu_watch import GpuWatch
from nsysprof.capture.user_program.program_hook import collect_recorded, hook_environment, hook_path
from nsysprof.capture.user_program.program_plan import ProgramPlan
from nsysprof.capture.user_program.program_run import CapturedProgram, Inspect
from nsysprof.capture.user_program.record_program import Say, Watchers, fork_notes, program_environment
from nsysprof.capture.user_program.streamed import Ended, Streams, run_streamed
from nsysprof.errors import NsysprofError, ToolFailedError
from nsysprof.notes import Note, make_note
from nsysprof.nsight.run_tool import Step
from nsysprof.results.checks import NOT_WATCHED, MissingSource, WatchedGpu

# The same names as in nsysprof.workload.program_start.torch_recorder, which is not imported because it imports torch.
_FOLDER, _SCHEDULE = "NSYSPROF_TORCH_FOLDER", "NSYSPROF_TORCH_SCHEDULE"
_RECORDED = "torch"
# The files of the hooks are named after a report of nsys, even where there is none.
_REPORT = "nsys.nsys-rep"
TORCH = "torch"
PROCESSES = "processes"
_MOST_NAMED = 4

# A function that makes one trace from what several processes recorded.
Merge = Callable[[Sequence[Path], Path], Mapping[Path, int]]


def run_torch_capture(
    plan: ProgramPlan,
    folder: Path,
    *,
    watchers: Watchers,
    say: Say,
    merge: Merge,
    inspect: Inspect,
    instead_of_nsys: str,
) -> CapturedProgram:
    """Run the plan's program into the prepared `folder`, and make a trace from what its processes recorded.

    If several processes recorded, each also has its own trace.

    instead_of_nsys: why nsys does not record; empty where the user asked for torch's.
    """
    manifest = Manifest(
        cases=(),
        range_keys=(),
        profiler=TORCH,
        traced_calls=0,
        method="",
        created_utc=datetime.now(UTC).isoformat(timespec="seconds"),
        program=Program(plan.argv),
        environment=collect_machine(None),
    )
    if instead_of_nsys:
        manifest.add_missing(MissingSource.NSYS, make_note("torch-in-place-of-nsys", reason=instead_of_nsys))
    logs, work = folder / LOGS, folder / WORK / _RECORDED
    work.mkdir(parents=True, exist_ok=True)
    watch = GpuWatch()
    with watch:
        ended = run_streamed(
            list(plan.argv),
            Streams(logs / "stdout.log", logs / "stderr.log", logs / "torch.log", watchers.stdout, watchers.stderr),
            program_environment() | watch.environment | _hook(plan, work, folder),
            say=say,
        )
    manifest.steps.append(Step("program", ended.argv, ended.exit_code, ended.duration_ns))
    manifest.program = Program(plan.argv, ended.exit_code)
    manifest.notes += [*collect_recorded(folder / _REPORT, _kinds(plan)), *fork_notes(logs / "stderr.log")]
    write_manifest(folder, manifest)
    captured = _collect(manifest, folder, ended, work, merge, inspect, say)
    has_schedule = plan.steps or plan.forward_steps or plan.skip_steps
    is_whole = plan.is_whole and not has_schedule and ended.interrupted is None
    manifest.notes += _unrecorded(captured, watch.seen(is_whole=is_whole))
    manifest.complete = captured.failure is None and ended.interrupted is None
    write_manifest(folder, manifest)
    remove_work(folder)
    return captured


def _unrecorded(captured: CapturedProgram, watched: WatchedGpu) -> list[Note]:
    """Return a note on processes that had a CUDA context and no recorder in them, such as programs of C++."""
    missing = watched.missing(captured.check.processes) if captured.check is not None else ()
    if not missing:
        return []
    names = ", ".join(f"{process.name} ({process.pid})" for process in missing[:_MOST_NAMED])
    more = f" and {len(missing) - _MOST_NAMED} more" if len(missing) > _MOST_NAMED else ""
    return [make_note("process-lost", "no-recorder", processes=names + more)]


def _hook(plan: ProgramPlan, work: Path, folder: Path) -> dict[str, str]:
    """Return the environment variables that make the program's Python record."""
    recorded = hook_environment(folder / _REPORT, os.environ, _kinds(plan))
    schedule = {
        "delay_s": plan.delay_s,
        "duration_s": plan.duration_s,
        "skip_steps": plan.skip_steps,
        "steps": plan.steps,
        "forward_steps": plan.forward_steps,
    }
    variables = {**recorded, **plan.layer_environment, **hook_path(os.environ)}
    return {**variables, _FOLDER: str(work.resolve()), _SCHEDULE: json.encode(schedule).decode()}


def _kinds(plan: ProgramPlan) -> tuple[str, ...]:
    """Return what the program's Python records in addition to torch's profiler."""
    return tuple(kind for kind in ("attention", "layers") if getattr(plan, kind))


def _collect(
    manifest: Manifest, folder: Path, ended: Ended, work: Path, merge: Merge, inspect: Inspect, say: Say
) -> CapturedProgram:
    files = sorted(work.glob("*.json"))
    lost = sorted(work.glob("*.json.part"))
    if lost:
        manifest.notes.append(make_note("torch-trace-cut", processes=", ".join(_process(path) for path in lost)))
    if not files:
        return CapturedProgram(manifest, ended, (), None if ended.refused else _nothing(ended))
    trace = folder / TORCH_TRACE
    say(f"convert what {len(files)} process{'' if len(files) == 1 else 'es'} recorded")
    try:
        rows = merge(files, trace)
        with_rows = [path for path in files if rows[path]]
        if len(with_rows) > 1:
            (folder / PROCESSES).mkdir()
            for path in with_rows:
                merge([path], folder / PROCESSES / f"torch-{_process(path)}.sqlite")
        check = inspect(trace, NOT_WATCHED)
    except NsysprofError as error:
        _keep(files, folder)
        return CapturedProgram(manifest, ended, (), error)
    except OSError as error:
        _keep(files, folder)
        failure = ToolFailedError(f"The trace could not be written: {error.strerror}.", "Free some space.")
        return CapturedProgram(manifest, ended, (), failure)
    manifest.notes += check.remarks.notes
    return CapturedProgram(manifest, ended, (trace,), None, check.remarks.losses, check)


def _keep(files: Sequence[Path], folder: Path) -> None:
    """Keep the profiler's files when no trace could be made from them: analyze reads such a file too."""
    for path in files:
        shutil.move(path, folder / LOGS / f"torch-{path.name}")


def _process(path: Path) -> str:
    return path.name.partition(".")[0]


def _nothing(ended: Ended) -> ToolFailedError:
    how = f"it ended with {ended.exit_code}" if ended.exit_code else "it ended by itself"
    return ToolFailedError(
        f"Torch's profiler recorded nothing: no process of the program left a trace ({how}).",
        "A program without torch needs nsys: nsysprof help nsys. A process with torch leaves a trace if its Python "
        "uses PYTHONPATH, on a GPU uses CUDA, and ends by itself, by an exception or by SIGTERM; check the schedule "
        "(--delay, --skip-steps; --forward-steps for a program "
        "without an optimizer), and logs/stderr.log.",
    )
