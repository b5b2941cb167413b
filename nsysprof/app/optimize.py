"""Run the use case `optimize`: record a program's attention, tune its shapes, apply what won, and verify the gain."""

from __future__ import annotations

import math
import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from pathlib import Path

import numpy as np
from msgspec import Struct, json

from nsysprof.analysis.attention_tuning.program_attention import ProgramFacts, list_suggestions, read_program
from nsysprof.analysis.attention_tuning.program_gain import judge_optimization
from nsysprof.analysis.sampling.significance import check_prediction, is_better, saves_memory
from nsysprof.app.analyze import analyze_one
from nsysprof.app.inputs.reading_requests import AnalyzeRequest
from nsysprof.app.measuring.bench import dated_bench_folder
from nsysprof.app.measuring.bench_program import check_program_bench
from nsysprof.app.measuring.capture_program import capture_program, plan_program_capture
from nsysprof.app.measuring.program_request import (
    OptimizeRequest,
    ProgramBenchRequest,
    ProgramRequest,
    ProgramSide,
    ProgramTiming,
    parse_program_side,
)
from nsysprof.app.optimizing.code_diff import command_of, diff_of
from nsysprof.app.optimizing.remedies import Circumstances, read_remedies
from nsysprof.app.optimizing.search import LOOK, Search, Tried, name_of, precision_of
from nsysprof.app.optimizing.trials import Trial, circumstances, list_not_tried, list_trials
from nsysprof.app.optimizing.tune_uses import LEAST_TUNING_S, TunedProgram, predict_gain, tune_uses
from nsysprof.app.progress import SILENT, Progress
from nsysprof.app.trace_analysis.join_recorded import read_libraries
from nsysprof.app.tune import POLICY
from nsysprof.capture.manifest import NSYS_TRACE, TORCH_TRACE
from nsysprof.capture.user_program.time_program import END_STEPS
from nsysprof.errors import CaptureFailedError, InterruptedCaptureError, NsysprofError, UsageError
from nsysprof.files.folder_state import OPTIMIZATION
from nsysprof.files.plain_file import encode_json, read_plain_text, write_whole
from nsysprof.files.result_folder import claim_folder
from nsysprof.notes import Note, make_note
from nsysprof.report.document import count_of
from nsysprof.report.figure_files import write_report
from nsysprof.report.pages.program import optimize_report
from nsysprof.results.analysis import Analysis
from nsysprof.results.program_runs import (
    BETWEEN,
    OK,
    TIMED_OUT,
    Attempt,
    NotTried,
    Optimization,
    OptimizeStep,
    PredictedGain,
    ProgramTraits,
    ProvenSet,
    TimedRun,
)
from nsysprof.units import format_ns

RESULT = "optimize.json"
# The share of the budget left after the capture that tuning may take.
_TUNING_PART = 0.4
_LEAST_BUDGET_S = 10.0
# A program that takes longer than this part of the budget by itself is ended at a step, in every run alike.
_LOOK_PART, _LEAST_LOOK_S = 0.08, 5.0


def plan_optimize(request: OptimizeRequest) -> list[str]:
    """Return the steps as sentences. Raises UsageError, before anything runs, for what cannot work."""
    if request.budget_s < _LEAST_BUDGET_S:
        raise UsageError(f"--budget {request.budget_s:g} is too short.", f"Give at least {_LEAST_BUDGET_S:g} seconds.")
    if request.resume and request.out is None:
        raise UsageError("--resume needs the folder to continue in.", "Name it with --out.")
    for text in request.tries:
        if parse_program_side(text) == ProgramSide():
            raise UsageError("--try is empty.", "Give settings NAME=VALUE, or a policy.json.")
    probe = ProgramSide((("NSYSPROF_OPTIMIZE", "1"),))
    check_program_bench(_bench_request(request, probe, request.out, request.budget_s))
    if request.captured is None:
        plan_program_capture(_capture_request(request, Path("capture"), attention=True))
    elif not (request.captured / "manifest.json").is_file():
        raise UsageError(f"{request.captured} is not a capture.", "Give the folder of nsysprof capture --attention.")
    first = "capture the program once, with its attention, under nsys"
    return [
        "run the program as it is, and read what it does by itself",
        first if request.captured is None else f"read {request.captured}",
        f"tune its shapes in the time that the runs below leave of {request.budget_s:g} s, "
        f"or {100 * _TUNING_PART:.0f} % of it",
        f"run the program with and without each remedy that it leaves open, in {request.processes} turns",
        "put together what wins, and run the program with and without that once more",
        "write one page: what is faster, by how much, and what to paste",
    ]


def optimize(request: OptimizeRequest, progress: Progress = SILENT) -> OptimizeResult:
    """Run every step within the budget, and write the page. A failure is part of the result."""
    plan_optimize(request)
    folder = request.out or dated_bench_folder("optimize")
    failure: NsysprofError | None = None
    with claim_folder(folder, OPTIMIZATION, force=request.force, resume=request.resume) as claimed:
        if request.resume and not claimed.goes_on:
            _bring_parts(folder, claimed.path)
        session = _Session(request, claimed.path, progress)
        try:
            with tempfile.TemporaryDirectory(prefix="nsysprof-") as caches:
                session.search.caches = Path(caches)
                session.run_all()
        except (KeyboardInterrupt, InterruptedCaptureError):
            text = f"Interrupted: what was measured is kept in {folder}."
            failure = InterruptedCaptureError(text, f"Continue with --resume --out {folder}.")
        except CaptureFailedError as error:
            failure, session.failed = error, error.text
        found = session.conclude()
        session.write(found)
        claimed.commit()
    if found.policy is not None:
        found = replace(found, policy=str(claimed.final([Path(found.policy)])[0]))
    return OptimizeResult(found, folder, failure)


def tuning_budget_s(
    left_s: float, run_s: float | None, trials: int, turns: int, share_pct: float | None = None
) -> float:
    """Return how long tuning may take (s): what the attempts leave, and at least a part of what is left.

    The part is fixed, and beyond the shortest time of a tuning no larger than attention's: what takes a tenth of the
    time can save a tenth at most.

    Where the attempts that are certain leave the shortest time of a tuning, it is at least that. The attempt of a
    policy is not certain: without tuning there is none.

    left_s: of the whole budget. run_s: how long the program runs; None where that is unknown.
    trials: how many attempts may follow, the policy's included. turns: of each attempt, with two runs each.
    share_pct: the share of attention in the time of all kernels (percent); None where it is unknown.
    """
    least = _TUNING_PART * max(0.0, left_s)
    if share_pct is not None:
        least = min(least, max(LEAST_TUNING_S, share_pct / 100 * left_s))
    if run_s is not None and run_s > least:  # it would end before its process has begun
        least = 0.0
    certain_s = (trials - 1) * (_LEAST_BUDGET_S if run_s is None else turns * 2 * run_s)
    if left_s - certain_s >= LEAST_TUNING_S:
        least = max(least, LEAST_TUNING_S)
    return least if run_s is None else max(least, left_s - trials * turns * 2 * run_s)


def spare_tuning_s(left_s: float, run_s: float | None, trials: int, turns: int) -> float:
    """Return how long tuning may go on where shapes are undecided (s): what the attempts leave.

    A policy that this finds is tried as well, so its turns are left, or half of the time where that is less.
    left_s, run_s, turns: as in tuning_budget_s. trials: how many attempts follow anyway.
    """
    if run_s is None:
        return _TUNING_PART * left_s if trials == 0 else 0.0
    attempt_s = turns * 2 * run_s
    rest = left_s - trials * attempt_s
    return max(rest - attempt_s, 0.5 * rest)


def _read_earlier(path: Path) -> dict[str, float]:
    """Return how long each step took in the runs that are resumed (s), as the last of them wrote it."""
    try:
        steps = json.decode(read_plain_text(path), type=_Steps).steps
    except (OSError, ValueError):  # it was killed before its first step ended, or the file is damaged
        return {}
    return {step.name: step.seconds + step.earlier_s for step in steps}


class _Steps(Struct):
    steps: tuple[OptimizeStep, ...] = ()


def _bring_parts(older: Path, folder: Path) -> None:
    """Copy the finished parts of an earlier run into this one. Files are replaced, never changed in place."""
    for part in older.iterdir():
        if part.is_dir() and part.name in ("capture", "tune", "search"):
            shutil.copytree(part, folder / part.name, copy_function=_link_or_copy)


def _link_or_copy(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:  # the folders are on different file systems, or the file system has no links
        shutil.copy2(source, target)


class _Session:
    """An optimization while it runs. Everything that is finished is on disk at every moment."""

    def __init__(self, request: OptimizeRequest, folder: Path, progress: Progress) -> None:
        self.request, self.folder, self.progress = request, folder, progress
        self.begun = time.monotonic()
        self.steps: list[OptimizeStep] = []
        self.notes: list[Note] = []
        self.facts = ProgramFacts((), None, 0.0, {})
        self.tuning = TunedProgram()
        self.predicted: PredictedGain | None = None
        self.tried: list[Tried] = []
        self.proven: ProvenSet | None = None
        self.traits: ProgramTraits | None = None
        # The time of all steps of the run as it is (ns).
        self.look_ns = 0
        self.search = self._begin_search()
        self.failed = ""
        self.earlier = _read_earlier(folder / RESULT) if request.resume else {}
        # How long the recorded run took (s), which is longer than a run by itself; None where none was made now.
        self.run_s: float | None = None

    def _begin_search(self) -> Search:
        request, folder = self.request, self._below("search")
        probe = _bench_request(request, ProgramSide((("NSYSPROF_OPTIMIZE", "1"),)), folder, request.budget_s)
        return Search(
            check_program_bench(replace(probe, resume=False)), folder, request.processes,
            lambda side: _bench_request(request, side, folder, request.budget_s), lambda: self.left_s, self.progress,
        )  # fmt: skip

    @property
    def left_s(self) -> float:
        """Return how much of the budget is left (s)."""
        return self.request.budget_s - (time.monotonic() - self.begun)

    def run_all(self) -> None:
        with self._step("look"):
            self._look()
        with self._step("capture"):
            self._capture()
        with self._step("analyze"):
            captured = self.request.captured or self.folder / "capture"
            self.facts = replace(read_program(self._analyze()), libraries=read_libraries(captured))
            self._outcome(f"{count_of(len(self.facts.uses), 'shape')} of attention")
        self.tuning = TunedProgram(uses=self.facts.uses)
        if self.facts.uses:
            with self._step("tune"):
                trials = 1 + len(self._candidates())
                turns, share = self.request.processes, self.facts.attention_share_pct
                budget = tuning_budget_s(self.left_s, self.run_s, trials, turns, share)
                self._tune(budget, resume=self.request.resume)
            spare = spare_tuning_s(self.left_s, self.run_s, len(self._candidates()), self.request.processes)
            if spare >= LEAST_TUNING_S and any(use.needs_budget for use in self.tuning.tuned):
                with self._step("tune on"):
                    self._tune(spare, resume=True)
        with self._step("try"):
            self._try_alone()
        with self._step("combine"):
            chosen = self.search.combine(self.tried)
            self._outcome(name_of(chosen) if len(chosen) > 1 else "nothing to combine")
        if chosen:
            with self._step("prove"):
                self._prove(chosen)

    def _look(self) -> None:
        """Run the program as it is, and read what it does by itself. One that takes long is ended at a step."""
        if self.request.resume:
            self.search.resume()
        end_s = max(_LEAST_LOOK_S, _LOOK_PART * self.request.budget_s)
        run = self.search.run(LOOK, ProgramSide(), 0, end_s=end_s, timeout_s=max(_LEAST_BUDGET_S, self.left_s))
        if run.status == TIMED_OUT:
            self._refuse(run)
        if run.status != OK:
            left_s = max(_LEAST_BUDGET_S, self.left_s)
            plain = self.search.run(LOOK, ProgramSide(), 1, is_watched=False, is_remedied=False, timeout_s=left_s)
            if plain.status != OK:
                self._refuse(run)
            self.search.program = replace(self.search.program, is_watched=False, is_remedied=False)
            self.notes.append(make_note("program-not-watched", reason=run.reason or "it failed"))
            run = plain
        self.traits, self.look_ns = run.traits, sum(run.times_ns)
        if run.traits is not None and run.traits.ended_early:
            steps = run.traits.optimizer_steps or run.traits.outer_calls
            self.search.program = replace(self.search.program, end_steps=steps)
            self.notes.append(make_note("optimize-ended-early", steps=steps, seconds=f"{end_s:.0f}"))
        step_ns = float(np.median(run.times_ns))
        self._outcome(f"{format_ns(round(step_ns))} for {run.source}; {count_of(len(run.times_ns), 'time')}")

    def _refuse(self, run: TimedRun) -> None:
        """Raise the error of a program that cannot be measured. It says what the program needs, where that is known."""
        advice = f"See {self.folder / 'search' / 'logs'}."
        if run.status == TIMED_OUT:
            text = "The program does not end within the budget, and takes fewer than twelve steps in it"
            raise CaptureFailedError(f"{text}.", "Give a larger --budget, or let the program do less.")
        if "EOF" in run.reason or "tty" in run.reason.lower():
            advice = "It reads from a terminal, which it does not have here. Give it its input another way."
        raise CaptureFailedError(f"The program itself fails: it {run.reason}.", advice)

    def _around(self) -> Circumstances:
        return circumstances(
            self.facts, self.traits, self.request.argv, self.look_ns, allow_precision=self.request.allow_precision
        )

    def _try_alone(self) -> None:
        self.tried = self.search.try_alone(self._candidates())
        wins = sum(item.wins for item in self.tried)
        text = f"{wins} of {count_of(len(self.tried), 'attempt')} won alone"
        lacking = len(self.search.lacking_s)
        if not self.tried:
            text = (
                f"the budget has no time for {count_of(lacking, 'attempt')}" if lacking else "there is nothing to try"
            )
        self._outcome(text)

    def _prove(self, chosen: Sequence[Trial]) -> None:
        found = self.search.prove(chosen)
        if found is None:
            self._outcome("the budget ended before a proof: give more --budget")
            return
        comparison, pays_after = found
        names = tuple(trial.name for trial in chosen)
        paste = "\n".join(filter(None, (trial.paste for trial in chosen)))
        self.proven = ProvenSet(
            names, command_of(chosen, self.request.argv), paste, diff_of(chosen, self.traits, self.request.argv),
            comparison, is_better(comparison), precision_of(chosen), pays_after,
        )  # fmt: skip
        self._outcome("confirmed" if self.proven.is_confirmed else "not confirmed")

    def _tune(self, budget_s: float, *, resume: bool) -> None:
        folder, source = self._below("tune"), self.folder / "analysis"
        self.tuning = tune_uses(self.facts.uses, source, folder, budget_s, self.progress, resume=resume)
        won = sum(use.in_policy for use in self.tuning.tuned)
        text = "no shape was tuned"
        if self.tuning.tuned:
            text = f"another backend won for {won} of {count_of(len(self.tuning.tuned), 'shape')}"
            between = sum(use.why == BETWEEN for use in self.tuning.tuned)
            if between:
                text += f", {len(self.tuning.tuned) - between} of which were measured and {between} lie between those"
        self._outcome(text + self._predict())

    @contextmanager
    def _step(self, name: str) -> Iterator[None]:
        """Time a step, and write what is known after it, even if it fails."""
        self.progress.tell(f"{name} ({max(0.0, self.left_s):.0f} s left)")
        before, self._said = time.monotonic(), ""
        try:
            yield
        except NsysprofError as error:
            self._said = error.text
            raise
        finally:
            took = time.monotonic() - before
            self.steps.append(OptimizeStep(name, took, self._said, self.earlier.get(name, 0.0)))
            write_whole(self.folder / RESULT, encode_json(self.conclude().to_json()))

    def _outcome(self, text: str) -> None:
        self._said = text

    def _below(self, name: str) -> Path:
        path = self.folder / name
        path.mkdir(exist_ok=True)
        return path

    def _capture(self) -> None:
        """Record the program with its attention. If that fails, record it without."""
        target = self.folder / "capture"
        if self.request.captured is not None:
            self._outcome(f"taken from {self.request.captured.name}")
            return
        if self.request.resume and any((target / name).is_file() for name in (NSYS_TRACE, TORCH_TRACE)):
            self._outcome("kept from the run before")
            return
        with _ended_after(self.search.program.end_steps):
            result = capture_program(_capture_request(self.request, target, attention=True), self.progress)
        if isinstance(result.failure, InterruptedCaptureError):
            raise result.failure
        ended = result.captured.ended
        self.run_s = ended.duration_ns * 1e-9
        self.notes += result.captured.manifest.notes
        by = "torch's own profiler, because nsys cannot record here" if _is_of_torch(target) else "nsys"
        self._outcome(f"recorded by {by}; the program ended with exit code {ended.exit_code}")
        if not ended.exit_code and result.captured.traces:
            return
        again = capture_program(_capture_request(self.request, target, attention=False), self.progress)
        if isinstance(again.failure, InterruptedCaptureError):
            raise again.failure
        if again.captured.ended.exit_code:
            code = again.captured.ended.exit_code
            raise CaptureFailedError(f"The program itself fails: exit code {code}.", f"See {target / 'logs'}.")
        if not again.captured.traces:
            raise again.failure or CaptureFailedError("Nothing was recorded.", f"See {target / 'logs'}.")
        self.notes.append(make_note("optimize-without-hook", code=ended.exit_code))

    def _analyze(self) -> Analysis:
        request = AnalyzeRequest(
            (self.request.captured or self.folder / "capture",),
            out=self.folder / "analysis",
            force=True,
            figures=False,
            nsys=self.request.nsys,
        )
        return analyze_one(request, self.progress).analysis

    def _candidates(self) -> list[Trial]:
        name = f"{self.request.out or self.folder}/tune/{POLICY}"
        return list_trials(self.facts, self.tuning, name, self.predicted, self.request.tries, self._around())

    def _predict(self) -> str:
        """Predict what the policy saves, before it is tried, and return the prediction as text."""
        self.predicted = None
        if self.tuning.policy is None:
            return ""
        source = self.request.captured or self.folder / "capture"
        self.predicted = predict_gain(
            source, self.request.nsys, self.tuning.ratios, self.progress, self.facts.strided_masks
        )
        if self.predicted is None:
            return "; what that saves a step cannot be predicted, because the trace cannot be replayed"
        found = self.predicted
        return f"; a {found.per} should be {found.pct:.1f} % shorter [{found.low_pct:.1f}, {found.high_pct:.1f}]"

    def _attempt(self, tried: Tried) -> Attempt:
        trial, effect, found, lost = tried.trial, tried.effect, tried.comparison, tried.lost
        if tried.turns == 1 and not lost and (self.proven is None or trial.name not in self.proven.names):
            lost = "the budget had no time for a second turn"
        return Attempt(
            trial.name, trial.why, trial.setting, trial.paste, trial.predicted, found, tried.wins, "search",
            check_prediction(trial.predicted, found.change), not tried.lost and saves_memory(found), trial.precision,
            trial.changes, None if effect is None else effect.took_effect, "" if effect is None else effect.evidence,
            () if effect is None else effect.replaced, lost, tried.turns, tried.pays_after,
        )  # fmt: skip

    def conclude(self) -> Optimization:
        policy = self.tuning.policy
        found = Optimization(
            tuple(Path(word).name if "/" in word else word for word in self.request.argv),
            self.tuning.uses or self.facts.uses,
            self.facts.attention_share_pct,
            self.tuning.tuned,
            tuple(self._attempt(tried) for tried in self.tried),
            tuple(item for item in list_suggestions(self.facts) if item.code not in self._answered()),
            tuple(self.steps),
            tuple(self.notes),
            None if policy is None else str(policy),
            self.tuning.remarks,
            self.failed,
            proven=self.proven,
            not_tried=self._not_tried(),
        )
        return judge_optimization(found)

    def _answered(self) -> set[str]:
        """Return the codes of findings that a remedy that was tried answers."""
        remedies = {remedy.title: remedy for remedy in read_remedies().values()}
        return {
            code for tried in self.tried if tried.trial.name in remedies for code in remedies[tried.trial.name].answers
        }

    def _not_tried(self) -> tuple[NotTried, ...]:
        if self.traits is None:
            return ()
        return (*self._without_time(), *list_not_tried(self._around()))

    def _without_time(self) -> list[NotTried]:
        """Return the remedies that the budget had no time for, and the budget that has (in whole tens of seconds).

        Those that were tried on top of others alone have what came of it.
        """
        needed = {
            name: 10 * math.ceil((self.request.budget_s + lacking_s) / 10)
            for name, lacking_s in self.search.lacking_s.items()
        }
        told = [NotTried(name, text) for name, text in self.search.told_on_top.items()]
        return told + [
            NotTried(name, f"--budget {seconds} has time for it", seconds) for name, seconds in needed.items()
        ]

    def write(self, found: Optimization) -> None:
        write_whole(self.folder / RESULT, encode_json(found.to_json()))
        write_report(optimize_report(found), self.folder)


@contextmanager
def _ended_after(steps: int) -> Iterator[None]:
    """Let programs that are captured end after so many steps, as the other runs do; 0: by themselves."""
    if steps:
        os.environ[END_STEPS] = str(steps)
    try:
        yield
    finally:
        os.environ.pop(END_STEPS, None)


def _is_of_torch(capture: Path) -> bool:
    return (capture / TORCH_TRACE).is_file() and not (capture / NSYS_TRACE).is_file()


def _capture_request(request: OptimizeRequest, out: Path, *, attention: bool) -> ProgramRequest:
    return ProgramRequest(
        request.argv, attention=attention, nsys=request.nsys, out=out, force=True, measure_cost=False,
        stdout_to_stderr=request.stdout_to_stderr,
    )  # fmt: skip


def _bench_request(
    request: OptimizeRequest, side: ProgramSide, out: Path | None, budget_s: float
) -> ProgramBenchRequest:
    timing = {field.name: getattr(request, field.name) for field in fields(ProgramTiming)}
    return ProgramBenchRequest(**timing, candidate=side, budget_s=budget_s, out=out)


@dataclass(frozen=True)
class OptimizeResult:
    """What was found, and its folder.

    failure: why the result is incomplete, or None.
    """

    optimization: Optimization
    folder: Path
    failure: NsysprofError | None
