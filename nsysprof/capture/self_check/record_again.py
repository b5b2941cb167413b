"""Record a program again after a loss: when that is allowed, what happens to the first recording, and its notes."""

from __future__ import annotations

import shlex
import shutil
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from nsysprof.capture.folder import RANKS
from nsysprof.capture.manifest import NSYS_TRACE, RANGES_ALONE, Manifest
from nsysprof.capture.measured_process import LOGS, WORK, tail
from nsysprof.capture.self_check.reduction import SHORT_S, Reduction
from nsysprof.capture.user_program.program_hook import HOOK_FILES
from nsysprof.capture.user_program.program_plan import ProgramPlan
from nsysprof.capture.user_program.program_run import CapturedProgram, ProgramRun
from nsysprof.capture.user_program.record_program import program_environment, record_program
from nsysprof.capture.user_program.streamed import Ended
from nsysprof.capture.user_program.time_program import TimedProgram, run_timed
from nsysprof.files.plain_file import encode_json, write_whole
from nsysprof.files.result_folder import remove_path
from nsysprof.notes import Loss, Note, make_note
from nsysprof.nsight.nsys import run_export
from nsysprof.nsight.run_tool import Step
from nsysprof.results.findings import UNRECORDED, UnrecordedSteps
from nsysprof.results.program_runs import OK, StepSource

# The name of the first recording's trace, which is kept where a later one has the kernels but not the ranges.
FIRST_TRACE = "first_recording.sqlite"
# What capture has options of its own for.
_OWN_OPTIONS = ("--trace=", "--gpu-metrics-frequency=")
# How often a program is recorded again at most.
MOST_ATTEMPTS = 3


def may_run_again(plan: ProgramPlan, ended: Ended) -> bool:
    """Return whether the program may run again: it ended well and by itself, and the user allows it or it is short.

    It may not where it reads from a pipe, because that input is gone.
    """
    return ended.exit_code == 0 and may_run_after(plan, ended)


def may_run_after(plan: ProgramPlan, ended: Ended) -> bool:
    """Return whether the program may run again whatever its exit code: it ended by itself, and the user allows it."""
    if plan.retry is False or ended.interrupted is not None or ended.ended_by_us:
        return False
    if plan.retry:
        return True
    return ended.duration_ns < SHORT_S * 1e9 and not _reads_what_is_gone()


def _reads_what_is_gone() -> bool:
    """Return whether standard input is a pipe or a file, which cannot be read twice."""
    if sys.stdin is None or sys.stdin.isatty():
        return False
    try:
        return Path("/proc/self/fd/0").resolve() != Path("/dev/null")
    except OSError:
        return True


class KeptRecording:
    """The best recording so far, moved out of the way while another is made.

    place, pattern: where it is and what belongs to it: everything called `nsys.*`, or the folder of the ranks.
    """

    def __init__(self, folder: Path, place: Path, pattern: str) -> None:
        self._place, self._pattern, self._aside = place, pattern, folder / WORK / "earlier"

    @staticmethod
    def of(run: ProgramRun) -> KeptRecording:
        """Return the recording of a capture."""
        if run.plan.per_rank:
            return KeptRecording(run.folder, run.folder / RANKS, "*")
        return KeptRecording(run.folder, run.folder, "nsys.*")

    def put_aside(self) -> None:
        """Move the recording out of the way of the next."""
        self._aside.mkdir(parents=True, exist_ok=True)
        for path in self._place.glob(self._pattern):
            path.replace(self._aside / path.name)

    def put_back(self) -> None:
        """Move the earlier recording back, replacing the later one."""
        for path in self._place.glob(self._pattern):
            remove_path(path)
        for path in self._aside.iterdir():
            path.replace(self._place / path.name)

    def keep_trace(self) -> bool:
        """Keep the earlier trace under another name, and return whether there is one."""
        earlier = self._aside / NSYS_TRACE
        if earlier.is_file():
            earlier.replace(self._place / FIRST_TRACE)
        return (self._place / FIRST_TRACE).is_file()

    def forget(self) -> None:
        shutil.rmtree(self._aside, ignore_errors=True)


def record_with_less(
    run: ProgramRun,
    first: CapturedProgram,
    ways: tuple[Reduction, ...],
    notes: list[Note],
    record: Callable[[ProgramRun], CapturedProgram],
) -> CapturedProgram:
    """Record again in these ways until nothing is lost, and return the best recording, which is in the folder.

    notes: the notes from before the first recording.
    record: records once.
    """
    best, kept, times, plan, metrics = first, KeptRecording.of(run), 1, run.plan, run.metrics
    for way in ways[:MOST_ATTEMPTS]:
        run.say(f"{best.losses[0].note.text} Recording again with {shlex.join(_given(way.options))}.")
        before = list(run.manifest.notes), list(run.manifest.missing), run.manifest.program
        kept.put_aside()
        run.manifest.notes, run.manifest.missing = list(notes), []
        run.plan, run.metrics = replace(plan, less=way.options), () if way.drops_metrics else _unless(metrics, way)
        captured, times = record(run), times + 1
        if _is_sound(captured):
            has_ranges = way.drops_ranges and kept.keep_trace()
            kept.forget()
            run.manifest.notes.append(recovered_note(way, first.losses[0], has_ranges=has_ranges))
            return captured
        if _work(captured) > _work(best) and captured.ended.exit_code == 0:
            kept.forget()
            best = captured
        else:
            kept.put_back()
            run.manifest.notes, run.manifest.missing, run.manifest.program = before
            run.manifest.complete = True
        if captured.ended.interrupted is not None:
            return replace(best, ended=captured.ended)
        if captured.ended.exit_code != 0:
            break
    run.manifest.notes.append(make_note("still-lost", times=times))
    return best


def _unless(options: Sequence[str], way: Reduction) -> tuple[str, ...]:
    """Return the options without those that this way of recording replaces."""
    replaced = {option.partition("=")[0] for option in way.options}
    return tuple(option for option in options if option.partition("=")[0] not in replaced)


def _is_sound(captured: CapturedProgram) -> bool:
    return captured.check is not None and not captured.check.lost and captured.ended.exit_code == 0


def _work(captured: CapturedProgram) -> int:
    return -1 if captured.check is None else captured.check.gpu_work


def recovered_note(way: Reduction, loss: Loss, *, has_ranges: bool = False) -> Note:
    """Return the note that a recording with fewer options lost nothing.

    has_ranges: whether the first trace is kept because it has the NVTX ranges.
    """
    return make_note(
        "recorded-again",
        why=loss.note.text,
        without=f"{way.without}, which {FIRST_TRACE} has" if has_ranges else way.without,
        options=shlex.join(_given(way.options)),
    )


def suspect_note(way: Reduction, plan: ProgramPlan, folder: Path) -> Note:
    """Return the note with the suspected options and the command that records without them."""
    options = [*_asked(plan, way), *_given(way.options)]
    command = ["nsysprof", "capture", "--force", "--out", str(folder), *options, "--", *plan.argv]
    how = "known" if way.is_known else "suspected"
    return make_note("suspect-option", suspects=" ".join(way.suspects), how=how, command=shlex.join(command))


def _given(options: Sequence[str]) -> list[str]:
    """Return options of nsys in the form in which capture takes them; for some it has options of its own."""
    return [option if option.startswith(_OWN_OPTIONS) else f"--nsys-option={option}" for option in options]


def _asked(plan: ProgramPlan, way: Reduction) -> list[str]:
    """Return the options of capture that a plan was made of, without those that this way of recording replaces."""
    usual = ProgramPlan(plan.argv)
    kinds = ("per_rank", "memory", "stacks", "attention", "operators", "layers", "end_program", "power", "measure_cost",
             "ceilings", "counters")  # fmt: skip
    wanted = [f"--{kind.replace('_', '-')}" for kind in kinds if getattr(plan, kind)]
    if plan.gpu_metrics_hz and not way.drops_metrics:
        wanted += ["--gpu-metrics", f"--gpu-metrics-frequency={plan.gpu_metrics_hz}"]
    for name, value, default in (
        ("layer-depth", plan.layer_depth, None),
        ("layer-pattern", plan.layer_pattern, ""),
        ("trace", plan.trace, usual.trace),
        ("capture-range", plan.capture_range, usual.capture_range),
        ("delay", plan.delay_s, 0),
        ("duration", plan.duration_s, 0),
        ("ranks", ",".join(map(str, plan.ranks)), ""),
        ("max-recording", plan.max_bytes / 1e6, 0),
    ):
        if value != default:
            wanted.append(f"--{name}={value}")
    wanted += [] if plan.keep_report else ["--no-keep-report"]
    return [*_unless(wanted, way), *_given(_unless(plan.nsys_options, way))]


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
    options = tuple(option for option in run.plan.nsys_options if option.partition("=")[0] in _KEPT)
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


# A program that took longer is not run again only to time its steps (s).
_LONGEST_S = 60.0
# It may take so many times as long without a profiler as with one, and at least so long (s).
_TIMES, _LEAST_TIMEOUT_S = 2.0, 30.0


def may_time_steps(plan: ProgramPlan, captured: CapturedProgram) -> bool:
    """Return whether the program may run once more, so that its steps are timed without a profiler.

    --measure-cost asks for it, --no-measure-cost forbids it; otherwise a short program that was recorded whole may.
    """
    ended = captured.ended
    is_whole = plan.is_whole and not plan.per_rank and captured.failure is None and not captured.losses
    if plan.measure_cost is False or not captured.traces or not is_whole or not may_run_again(plan, ended):
        return False
    return bool(plan.measure_cost) or ended.duration_ns < _LONGEST_S * 1e9


def time_steps(manifest: Manifest, folder: Path, argv: Sequence[str], recorded_ns: int) -> None:
    """Run the program once more without a profiler, and write how long its steps take into the file UNRECORDED.

    Steps are those of the optimizer, or else the calls of the outermost module. Without them, no file is written.

    recorded_ns: how long the recorded run took.
    """
    logs = folder / LOGS
    logs.mkdir(exist_ok=True)
    timeout_s = max(_LEAST_TIMEOUT_S, _TIMES * recorded_ns / 1e9)
    program = TimedProgram(tuple(argv), warmup_steps=0, timeout_s=timeout_s, is_remedied=True)
    try:
        done = run_timed(program, "unrecorded", 0, program_environment(), logs, lambda: False)
    except (OSError, KeyboardInterrupt):  # the capture itself is whole
        return
    manifest.steps.append(Step("program, not recorded", program.argv, done.exit_code, done.wall_ns))
    if done.status == OK and done.source in (StepSource.OPTIMIZER, StepSource.CALLS):
        steps = UnrecordedSteps(format_version=1, steps_ns=list(done.times_ns), source=done.source)
        write_whole(folder / UNRECORDED, encode_json(steps))


_NOTHING_ELSE = ("--sample=none", "--cpuctxsw=none", "--cuda-memory-usage=false")
# Options that decide how processes are followed apply to both runs.
_KEPT = ("--trace-fork-before-exec", "--wait", "--env-var", "--kill")
