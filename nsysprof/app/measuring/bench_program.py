"""Run the use case `bench` in turns: a program with two settings, or a grid by two installations or settings."""

from __future__ import annotations

import hashlib
import re
import secrets
import shlex
import shutil
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from msgspec import Struct

from nsysprof.analysis.comparison.compare_latency import Settings
from nsysprof.analysis.comparison.compare_programs import (
    METHOD,
    compare_memory,
    compare_program_runs,
    compare_values,
    summarize_side,
)
from nsysprof.analysis.comparison.compare_turns import EARLY_ALPHA, LAST_ALPHA
from nsysprof.analysis.comparison.gate.gate import GateRule, judge, margin_of, refuse_traced
from nsysprof.app.compare import compare, look_early, parse_rules
from nsysprof.app.inputs.attention_requests import BenchRequest, SidesRequest
from nsysprof.app.inputs.reading_requests import CompareRequest
from nsysprof.app.measuring.bench import dated_bench_folder, hold_clock, plan_bench, report_of, summarize
from nsysprof.app.measuring.program_request import ProgramBenchRequest, ProgramSide
from nsysprof.app.progress import SILENT, Progress
from nsysprof.capture.folder import prepare_folder, remove_work
from nsysprof.capture.sampling.bench import MOST_TURNS, prepare_bench_folder, run_in_turn
from nsysprof.capture.sampling.bench_run import BenchRun, new_run
from nsysprof.capture.user_program.time_program import TimedProgram, run_timed
from nsysprof.errors import CaptureFailedError, InterruptedCaptureError, NsysprofError, UsageError
from nsysprof.files.folder_state import PROGRAM_BENCH, SIDES, find_leftovers
from nsysprof.files.plain_file import VERSION, FileHeader, encode_json, read_json, write_whole
from nsysprof.files.result_folder import claim_folder
from nsysprof.notes import Note, make_note
from nsysprof.report.figure_files import write_report
from nsysprof.report.pages.bench import write_bench
from nsysprof.report.pages.compare import write_compare
from nsysprof.report.pages.program import program_report
from nsysprof.results.checks import GateFinding, GateResult, Outcome
from nsysprof.results.comparison import LatencyComparison, LatencyVerdict, VersionComparison
from nsysprof.results.program_runs import OK, ProgramComparison, TimedRun, ValueComparison

RUNS = "runs.json"
COMPARISON = "comparison.json"
BASELINE, CANDIDATE = "baseline", "candidate"
_FORMAT_VERSION = 1


def check_program_bench(request: ProgramBenchRequest) -> TimedProgram:
    """Return the program as it would be timed. Raises UsageError for contradictory options."""
    if shutil.which(request.argv[0]) is None:
        raise UsageError(
            f"The program {request.argv[0]} was not found, or cannot be run.",
            "Options of nsysprof come before the program: nsysprof bench --candidate SIDE -- PROGRAM [ARGUMENTS].",
        )
    if request.baseline == request.candidate:
        raise UsageError("Both sides are the same.", "Give a --candidate that differs: A=1, or a policy.json of tune.")
    if request.processes < 2:
        raise UsageError("One turn cannot show how much turns differ.", "Give at least --processes 2.")
    _pattern("--step-range", request.step_range)
    if request.step_range and request.step_pattern:
        raise UsageError("--step-pattern and --step-range both define a step.", "Give one of them.")
    if request.resume and request.out is None:
        raise UsageError("--resume needs the folder to continue in.", "Name it with --out.")
    _rules(request)
    return TimedProgram(
        request.argv,
        _pattern("--step-pattern", request.step_pattern),
        request.step_range,
        _pattern("--value-pattern", request.value_pattern, groups=1),
        request.warmup_steps,
        request.run_timeout_s,
    )


def _pattern(option: str, text: str, *, groups: int = 0) -> re.Pattern[str] | None:
    if not text:
        return None
    try:
        pattern = re.compile(text)
    except re.error as error:
        raise UsageError(f"{option} is not a valid regular expression: {error}.", "Python's syntax counts.") from error
    if pattern.groups < groups:
        raise UsageError(
            f"{option} needs a group around the value.", rf"For example {option} 'loss[ =:]+([-+.\deE]+|nan)'."
        )
    return pattern


def _rules(request: ProgramBenchRequest) -> tuple[GateRule, ...]:
    names = (Path(BASELINE),), (Path(CANDIDATE),)
    rules = parse_rules(CompareRequest(*names, request.fail_on, margin_pct=request.margin_pct))
    refuse_traced(rules)
    return rules


def bench_program(request: ProgramBenchRequest, progress: Progress = SILENT) -> ProgramBenchResult:
    """Run both sides in turn, compare them, and write the runs and a report.

    A failure is part of the result.
    """
    program = check_program_bench(request)
    folder = request.out or dated_bench_folder("bench")
    session = _Session(program, request, progress)
    with claim_folder(folder, PROGRAM_BENCH, force=request.force, resume=request.resume) as claimed:
        session.runs = _earlier_runs(request, folder) if request.resume else []
        session.folder = claimed.path
        _prepare(claimed.path)
        interrupted = session.run_all()
        found = conclude(session.runs, request, session.notes)
        _write(found, session, claimed.path)
        claimed.commit()
    failure: NsysprofError | None = None
    if interrupted:
        failure = InterruptedCaptureError(
            f"Interrupted: {len(session.runs)} runs are kept in {folder}.", f"Continue with --resume --out {folder}."
        )
    elif not any(run.side == BASELINE and run.status == OK for run in session.runs):
        reason = session.runs[0].reason if session.runs else "it was not run"
        failure = CaptureFailedError(f"The program itself fails: it {reason}.", f"See {folder / 'logs'}.")
    return ProgramBenchResult(found, folder, failure)


class _Session:
    """The runs of a bench while it is running."""

    def __init__(self, program: TimedProgram, request: ProgramBenchRequest, progress: Progress) -> None:
        self.program, self.request, self.progress = program, request, progress
        self.runs: list[TimedRun] = []
        self.notes: list[Note] = []
        self.folder = Path()

    def run_all(self) -> bool:
        """Run every missing turn that fits into the budget, and return whether Ctrl-C ended it."""
        sides = {BASELINE: self.request.baseline, CANDIDATE: self.request.candidate}
        began = time.monotonic()
        try:
            for turn in range(self.request.processes):
                before = time.monotonic()
                for side in (BASELINE, CANDIDATE) if turn % 2 == 0 else (CANDIDATE, BASELINE):
                    if not any((run.side, run.turn) == (side, turn) for run in self.runs):
                        self._run(side, turn, sides[side])
                    if self.runs[-1].status != OK:
                        return False
                now = time.monotonic()
                if turn >= 1 and now + (now - before) > began + self.request.budget_s:
                    left = self.request.processes - turn - 1
                    if left:
                        self.notes.append(make_note("bench-budget", left=left, budget=f"{self.request.budget_s:g}"))
                    return False
        except KeyboardInterrupt:
            return True
        return False

    def _run(self, side: str, turn: int, setting: ProgramSide) -> None:
        self.progress.say(f"turn {turn + 1} of {self.request.processes}: {side}")
        logs, environment = self.folder / "logs", setting.environment()
        try:
            run = run_timed(self.program, side, turn, environment, logs, lambda: False)
            if run.status != OK and side == BASELINE and not self.runs and self.program.is_watched:
                # Check whether the program fails, or only fails while it is watched.
                plain = replace(self.program, is_watched=False)
                again = run_timed(plain, side, turn, environment, logs, lambda: False)
                if again.status == OK:
                    self.program, run = plain, again
                    self.notes.append(make_note("program-not-watched", reason=run.reason or "it failed"))
        except OSError as error:
            raise UsageError(
                f"The program could not be started: {error.strerror}.", "Check that it is executable."
            ) from error
        self.runs.append(run)
        write_runs(self.folder, _about(self.request), self.runs)


def conclude(runs: Sequence[TimedRun], request: ProgramBenchRequest, notes: Sequence[Note]) -> ProgramComparison:
    """Return the comparison of the runs."""
    rules = _rules(request)
    settings = Settings(margin_of(rules) if request.margin_pct is None else request.margin_pct)
    name = shlex.join(Path(word).name if "/" in word else word for word in request.argv)
    change = compare_program_runs(runs, name, settings)
    values = compare_values(runs, request.value_tolerance_pct) if request.value_pattern else None
    gate: tuple[GateResult, ...] = ()
    if rules:
        gate = judge(rules, LatencyComparison((change,), unit="turn"), (), ())
        if values is not None:
            gate = (*gate, _values_gate(values))
    return ProgramComparison(
        tuple(Path(word).name if "/" in word else word for word in request.argv),
        summarize_side(runs, BASELINE, request.baseline.label),
        summarize_side(runs, CANDIDATE, request.candidate.label),
        next((run.source for run in runs if run.status == OK), ""),
        change,
        values,
        gate,
        tuple(notes),
        METHOD,
        compare_memory(runs),
    )


def _values_gate(values: ValueComparison) -> GateResult:
    """Return the gate's result for the values. Different values are a regression, however fast the candidate is."""
    outcome = {"equal": Outcome.PASS, "different": Outcome.REGRESSION}.get(values.verdict, Outcome.INCONCLUSIVE)
    rule = f"values within {values.tolerance_pct:g} %"
    largest = "" if values.largest_pct is None else f"they differ by up to {values.largest_pct:.2g} %"
    text = "; ".join(filter(None, (largest, values.reason)))
    findings = () if outcome is Outcome.PASS else (GateFinding("values", outcome, text),)
    return GateResult(rule, outcome, values.count, findings)


def _earlier_runs(request: ProgramBenchRequest, folder: Path) -> list[TimedRun]:
    """Return the successful runs that a killed or interrupted bench of the same program has left."""
    killed = (left / RUNS for left in find_leftovers(folder) if (left / RUNS).is_file())
    path = next(killed, folder / RUNS)
    if not path.is_file():
        return []
    file = read_runs(path)
    if file.about != _about(request):
        raise UsageError(
            f"{folder} holds runs of another program or other sides.", "Give the options of the first run."
        )
    return [run for run in file.runs if run.status == OK]


class _RunsFile(FileHeader, kw_only=True):
    """The content of runs.json.

    about: a digest of the program and its sides, so that a resumed bench measures the same.
    """

    about: str
    runs: tuple[TimedRun, ...]


class _About(Struct):
    argv: tuple[str, ...]
    sides: tuple[tuple[tuple[tuple[str, str], ...], str], ...]
    patterns: tuple[str, str, str, int]


def _about(request: ProgramBenchRequest) -> str:
    sides = tuple(
        (side.variables, "" if side.policy is None else hashlib.sha256(side.policy.read_bytes()).hexdigest())
        for side in (request.baseline, request.candidate)
    )
    patterns = (request.step_pattern, request.step_range, request.value_pattern, request.warmup_steps)
    return hashlib.sha256(encode_json(_About(request.argv, sides, patterns))).hexdigest()


def read_runs(path: Path) -> _RunsFile:
    """Return what write_runs wrote. Raises TraceError."""
    return read_json(path, _RunsFile, kind="the runs of a program", advice="Measure anew.", newest=_FORMAT_VERSION)


def write_runs(folder: Path, about: str, runs: Sequence[TimedRun]) -> None:
    """Write all runs so far. After a crash, --resume continues with them."""
    file = _RunsFile(format_version=_FORMAT_VERSION, nsysprof_version=VERSION, about=about, runs=tuple(runs))
    write_whole(folder / RUNS, encode_json(file))


def _prepare(folder: Path) -> None:
    prepare_folder(folder)
    remove_work(folder)


def _write(found: ProgramComparison, session: _Session, folder: Path) -> None:
    write_runs(folder, _about(session.request), session.runs)
    write_whole(folder / COMPARISON, encode_json(found.to_json()))
    write_report(program_report(found), folder)


@dataclass(frozen=True)
class ProgramBenchResult:
    """The comparison and its folder.

    failure: why the result is incomplete, or None.
    """

    comparison: ProgramComparison
    folder: Path
    failure: NsysprofError | None


def bench_sides(request: SidesRequest, progress: Progress = SILENT) -> SidesResult:
    """Measure both sides in turn, write a bench folder for each, and compare them.

    A failure is part of the result.
    """
    own = turns_of_sides(request)
    _check(request)
    plan, folder = plan_bench(own), own.out or dated_bench_folder("bench")
    session = secrets.token_hex(8)
    sides = {BASELINE: request.baseline, CANDIDATE: request.candidate}
    with claim_folder(folder, SIDES, force=own.force) as claimed:
        runs: dict[str, BenchRun] = {name: new_run(plan, session=session) for name in sides}
        folders = {name: claimed.path / name for name in sides}
        for each in folders.values():
            prepare_bench_folder(each)
        progress.say(f"seed {plan.seed}")
        try:
            with progress.blocks(2 * plan.processes * plan.rounds * len(plan.cells)) as on_block:
                turns = [(runs[name], folders[name], sides[name]) for name in sides]
                is_decided = partial(_is_decided, request, folders) if request.until_decided else None
                with hold_clock(plan):
                    finished = run_in_turn(turns[0], turns[1], on_block, is_decided)
                if request.until_decided:
                    _keep_level(runs.values(), folders.values())
        finally:
            for each in folders.values():
                remove_work(each)
        for name, run in runs.items():
            write_bench(report_of(run, summarize(run), folders[name], own.command), folders[name], figures=own.figures)
        found = compare(
            CompareRequest((folders[BASELINE],), (folders[CANDIDATE],), request.fail_on, margin_pct=request.margin_pct)
        ).comparison
        write_compare(found, claimed.path, figures=own.figures)
        claimed.commit()
    failure = None
    if not finished:
        failure = InterruptedCaptureError(
            f"Interrupted: what was measured is kept in {folder}.", f"Its comparison is in {folder / 'report.md'}."
        )
    return SidesResult(found, folder, plan.seed, failure)


def turns_of_sides(request: SidesRequest) -> BenchRequest:
    """Return the bench of each side, with the largest number of turns that it takes."""
    return replace(request.bench, processes=MOST_TURNS) if request.until_decided else request.bench


def _keep_level(runs: Iterable[BenchRun], folders: Iterable[Path]) -> None:
    """Write into both folders the significance level that the looks left, so that every comparison of them uses it."""
    for run, folder in zip(runs, folders, strict=True):
        run.alpha = LAST_ALPHA if run.plan.processes == MOST_TURNS else EARLY_ALPHA
        run.save(folder)


def _is_decided(request: SidesRequest, folders: Mapping[str, Path]) -> bool:
    """Return whether both folders decide every case, at the significance level of an interim test."""
    sides = (folders[BASELINE],), (folders[CANDIDATE],)
    found = look_early(CompareRequest(*sides, request.fail_on, margin_pct=request.margin_pct), EARLY_ALPHA)
    if request.fail_on:
        return found.outcome is not Outcome.INCONCLUSIVE
    return all(change.verdict is not LatencyVerdict.INCONCLUSIVE for change in found.latency.changes)


def _check(request: SidesRequest) -> None:
    """Raise UsageError, before anything is measured, for options that contradict two sides."""
    if request.baseline == request.candidate:
        raise UsageError(
            "Both sides are the same.", "Give a --candidate that differs, or measure the noise with --self-check."
        )
    if request.bench.self_check:
        raise UsageError("--self-check measures a single side.", "Leave out --baseline and --candidate.")
    if request.bench.db is not None:
        raise UsageError("--db collects the results of a single side.", "Leave it out; both sides are in --out.")
    if request.bench.processes < 2:
        raise UsageError("One turn cannot show how much turns differ.", "Give at least --processes 2.")
    sides = (Path(BASELINE),), (Path(CANDIDATE),)
    rules = parse_rules(CompareRequest(*sides, request.fail_on, margin_pct=request.margin_pct))
    refuse_traced(rules)


@dataclass(frozen=True)
class SidesResult:
    """The comparison, and the folder with both sides.

    failure: why the result is incomplete, or None. What was measured is written in any case.
    """

    comparison: VersionComparison
    folder: Path
    seed: int
    failure: NsysprofError | None
