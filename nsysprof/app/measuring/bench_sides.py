"""Run the use case `bench` for two sides in turn: two installations, or two settings of one installation."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from nsysprof.analysis.comparison.compare_turns import EARLY_ALPHA, LAST_ALPHA
from nsysprof.analysis.comparison.gate.gate import refuse_traced
from nsysprof.app.compare import compare, look_early, parse_rules
from nsysprof.app.measuring.bench import dated_bench_folder, hold_clock, plan_bench, report_of, summarize
from nsysprof.app.progress import SILENT, Progress
from nsysprof.app.requests.attention import BenchRequest, SidesRequest
from nsysprof.app.requests.reading import CompareRequest
from nsysprof.capture.folder import remove_work
from nsysprof.capture.sampling.bench import MOST_TURNS, prepare_bench_folder, run_in_turn
from nsysprof.capture.sampling.bench_run import BenchRun, new_run
from nsysprof.errors import InterruptedCaptureError, NsysprofError, UsageError
from nsysprof.files.folder_state import SIDES
from nsysprof.files.result_folder import claim_folder
from nsysprof.report.pages.bench import write_bench
from nsysprof.report.pages.compare import write_compare
from nsysprof.results.checks import Outcome
from nsysprof.results.comparison import LatencyVerdict, VersionComparison

BASELINE, CANDIDATE = "baseline", "candidate"


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
