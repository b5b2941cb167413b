"""Run the use case `tune`: find the fastest backend for each shape (or a tie), and write a policy from it."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from nsysprof.analysis.attention_tuning.choose_shapes import cells_by_share
from nsysprof.analysis.sampling.bench import BenchResults
from nsysprof.analysis.sampling.replayed_calls import use_replays
from nsysprof.analysis.sampling.tune import cells_to_confirm, cells_to_measure, replace_by_again
from nsysprof.app.inputs.grid import Grid
from nsysprof.app.inputs.machine import default_dtype, require_torch, settle_device, shared_values
from nsysprof.app.inputs.options import LEAST_TUNING_BLOCKS
from nsysprof.app.measuring.bench import dated_bench_folder, draw_seed, nothing_measured, summarize
from nsysprof.app.progress import SILENT, Progress
from nsysprof.app.read_history import append_results, check_database
from nsysprof.app.requests.attention import TuneRequest
from nsysprof.app.tuning.from_program import ProgramShapes, cases_of, read_program_shapes
from nsysprof.app.tuning.write_tuning import Tuning, write_tuning
from nsysprof.attention.case import Case, check_names
from nsysprof.attention.shape import Shape
from nsysprof.capture.folder import remove_work
from nsysprof.capture.sampling.bench import prepare_bench_folder
from nsysprof.capture.sampling.bench_run import SAMPLES, BenchPlan, BenchRun, check_plan, new_run, read_run
from nsysprof.capture.sampling.tune import axes_grid, measure_again, run_tuning
from nsysprof.errors import InterruptedCaptureError, NsysprofError, OutputError, UsageError
from nsysprof.files.folder_state import BENCH, find_leftovers
from nsysprof.files.result_folder import claim_folder
from nsysprof.results.optimization import ProgramGain

SEARCHES = ("grid", "axes")
_SAMPLE_SECONDS = 0.5
# The share of the budget after which the search ends, so that winners can be measured again.
_SEARCH_SHARE = 0.75
_ON_GPU = ("auto", "math", "flash", "efficient", "cudnn")
_ON_CPU = ("auto", "math", "flash")


def plan_tuning(request: TuneRequest) -> BenchPlan:
    """Return the cells that `tune` would measure on this machine. Raises UsageError for contradictory options."""
    return _plan(request)[0]


def _plan(request: TuneRequest) -> tuple[BenchPlan, ProgramShapes | None]:
    _check_numbers(request)
    grid = request.grid
    replace(grid, backends=grid.backends or ("math",)).expand()  # report wrong options before looking at the machine
    require_torch("tune")
    device = settle_device(request.device)
    grid = replace(grid, backends=grid.backends or (_ON_GPU if device == "cuda" else _ON_CPU))
    shapes = None if request.source is None else read_program_shapes(request.source, device)
    settled: dict[str, Any] = {
        "cases": _cases(request, grid, device) if shapes is None else cases_of(shapes, grid.backends),
        "device": device,
        "processes": 1,
        "rounds": request.blocks,
        "sample_seconds": _SAMPLE_SECONDS,
        "seed": draw_seed() if request.seed is None else request.seed,
        "graph": "short",
    }
    plan = BenchPlan(**{**shared_values(request, BenchPlan), **settled})
    check_plan(plan)
    return plan, shapes


def _cases(request: TuneRequest, grid: Grid, device: str) -> tuple[Case, ...]:
    cases = grid.expand(default_dtype(device))
    return tuple(cases if request.search == "grid" else axes_grid(cases, grid.backends))


def tune(request: TuneRequest, progress: Progress = SILENT) -> TuneResult:
    """Search for winners, and write samples, winners, the policy and a report. A failure is part of the result."""
    (plan, shapes), folder = _plan(request), request.out or dated_bench_folder("tune")
    run = _begin(plan, folder, request)
    with claim_folder(folder, BENCH, force=request.force, resume=request.resume) as claimed:
        prepare_bench_folder(claimed.path)
        progress.tell(f"seed {run.plan.seed}")
        finished = _search(run, claimed.path, request, progress, shapes)
        results, again = summarize_tuning(run)
        told = (
            ""
            if run.complete
            else f"The budget of {request.budget_s:.4g} s is used up, or you ended the tuning; --resume continues it."
        )
        tuning = write_tuning(
            run,
            results,
            claimed.path,
            request.command,
            title=folder.resolve().name,
            price=request.gpu_hour_price,
            told=told,
            figures=request.figures,
            shapes=shapes,
            again=again,
        )
        claimed.commit()
    if tuning.policy is not None:
        tuning = replace(tuning, policy=claimed.final([tuning.policy])[0])
    if request.db is not None:
        append_results(request.db, run, results.table)
    failure = nothing_measured(results, folder)
    if not finished:
        failure = InterruptedCaptureError(
            f"Interrupted: {len(run.blocks)} blocks are kept in {folder}.", f"Continue with --resume --out {folder}."
        )
    return TuneResult(run, results, tuning, folder, told, failure)


def summarize_tuning(run: BenchRun) -> tuple[BenchResults, frozenset[Shape]]:
    """Return the results of a tuning, and the shapes whose best backends were measured again."""
    searched = summarize(_part(run, again=False))
    if run.again_from is None:
        return searched, frozenset()
    table, shapes = replace_by_again(searched.table, summarize(_part(run, again=True)).table)
    return replace(searched, table=table), shapes


def _part(run: BenchRun, *, again: bool) -> BenchRun:
    """Return the run with the blocks of its search only, or of measuring winners again only.

    Times of calls that are mostly launching are those of their replays.
    """
    replayed = use_replays(run.plan.cells, run.blocks)
    if run.again_from is None:
        return replace(run, blocks=replayed)
    blocks = [block for block in replayed if (block.process >= run.again_from) is again]
    return replace(run, blocks=blocks)


def _check_numbers(request: TuneRequest) -> None:
    price = request.gpu_hour_price
    check_names("search", [request.search], SEARCHES)
    if not request.budget_s > 0:
        raise UsageError(f"--budget {request.budget_s:g} is not a valid time.", "Give seconds above zero.")
    if request.blocks < LEAST_TUNING_BLOCKS:
        raise UsageError(
            f"--blocks {request.blocks} is too few for a verdict.", f"Give at least {LEAST_TUNING_BLOCKS}."
        )
    if price is not None and not price >= 0:
        raise UsageError(f"--gpu-hour-price {price:g} is not a price.", "Give zero or more.")
    if request.resume and request.out is None:
        raise UsageError("--resume needs the folder to continue in.", "Name it with --out.")


def _begin(plan: BenchPlan, folder: Path, request: TuneRequest) -> BenchRun:
    """Return a new run, or the run in `folder` to continue. Raises an error for an unsuitable folder or database."""
    if request.db is not None:
        check_database(request.db)
    run = new_run(plan, "tune")
    if request.resume:
        killed = (left / SAMPLES for left in find_leftovers(folder) if (left / SAMPLES).is_file())
        run = read_run(next(killed, folder / SAMPLES))
        if (run.kind, run.plan.cases, run.plan.device) != ("tune", plan.cases, plan.device):
            raise UsageError(
                f"{folder} contains a tuning of other cases.", "Give the options with which it was started."
            )
        run.complete = False
    return run


def _search(
    run: BenchRun, folder: Path, request: TuneRequest, progress: Progress, shapes: ProgramShapes | None
) -> bool:
    """Measure until every shape is settled or the budget is used up, and return False when Ctrl-C ended it."""
    begin = time.monotonic()
    begun_on = run.environment.get("comparable_hash")

    def check_machine(current: BenchRun) -> None:
        if begun_on is not None and current.environment.get("comparable_hash") != begun_on:
            raise OutputError(
                "The tuning was started on a different machine: GPU, driver or torch differ.",
                "Start a new tuning in another folder.",
            )

    def choose(current: BenchRun) -> list[int]:
        check_machine(current)
        cells = cells_to_measure(current.plan.cells, use_replays(current.plan.cells, current.blocks), request.blocks)
        return cells if shapes is None else cells_by_share(shapes.chosen, current.plan.cells, cells, current.blocks)

    try:
        with progress.search(request.budget_s) as on_block:
            finished = run.again_from is not None or run_tuning(
                run, folder, _SEARCH_SHARE * request.budget_s, choose, on_block
            )
            if not finished:
                return False
            cells = cells_to_confirm(run.plan.cells, summarize(_part(run, again=False)).table)

            def choose_again(current: BenchRun) -> list[int]:
                check_machine(current)
                return cells

            searched, deadline = run.complete, begin + request.budget_s
            finished = measure_again(run, folder, deadline, choose_again, on_block)
            run.complete &= searched or run.again_from is not None
            return finished
    finally:
        remove_work(folder)


@dataclass(frozen=True)
class TuneResult:
    """What was measured, what follows from it, and where it is.

    told: why the search ended before every shape was settled; empty where it did not.
    failure: why the result is incomplete, or None. What was measured is written in any case.
    """

    run: BenchRun
    results: BenchResults
    tuning: Tuning
    folder: Path
    told: str
    failure: NsysprofError | None

    @property
    def program(self) -> ProgramGain | None:
        """Return what the program saves, where its shapes were tuned."""
        return self.tuning.program
