"""Run the use case `tune`: find the fastest backend for each shape (or a tie), and write a policy from it."""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
from msgspec.structs import asdict

from nsysprof.analysis.attention_tuning.choose_shapes import ChosenShapes, cells_by_share, choose_shapes
from nsysprof.analysis.attention_tuning.program_gain import compute_gain
from nsysprof.analysis.attention_tuning.winning_rules import fill_groups, settle_own_choices
from nsysprof.analysis.sampling.bench import METHOD, BenchResults
from nsysprof.analysis.sampling.replayed_calls import METHOD as REPLAYS
from nsysprof.analysis.sampling.replayed_calls import leave_launching, replayed_shapes, say_replayed, use_replays
from nsysprof.analysis.sampling.tune import (
    LAUNCHING,
    OPEN,
    UNKNOWN,
    Choice,
    cells_to_confirm,
    cells_to_measure,
    choose_backends,
    decides_something,
    failed_shapes,
    find_winners,
    insights,
    replace_by_again,
)
from nsysprof.app.analyze import resolve
from nsysprof.app.inputs.attention_requests import TuneRequest
from nsysprof.app.inputs.grid import Grid
from nsysprof.app.inputs.machine import default_dtype, require_torch, settle_device, shared_values
from nsysprof.app.inputs.options import LEAST_TUNING_BLOCKS
from nsysprof.app.measuring.bench import dated_bench_folder, draw_seed, method_lines, nothing_measured, summarize
from nsysprof.app.progress import SILENT, Progress
from nsysprof.app.read_history import append_results, check_database
from nsysprof.app.trace_analysis.assemble import assemble
from nsysprof.attention.backend_limits import why_refused
from nsysprof.attention.policy_file import AUTO, POLICY_BACKENDS, PolicyFile, PolicyRule, write_policy
from nsysprof.attention.shape import Case, Shape, check_names, make_case
from nsysprof.capture.folder import remove_work
from nsysprof.capture.sampling.bench import prepare_bench_folder
from nsysprof.capture.sampling.bench_run import SAMPLES, BenchPlan, BenchRun, check_plan, new_run, read_run
from nsysprof.capture.sampling.tune import axes_grid, measure_again, run_tuning
from nsysprof.environment import collect_gpus
from nsysprof.errors import InterruptedCaptureError, NsysprofError, OutputError, TraceError, UsageError
from nsysprof.files.folder_state import BENCH, find_leftovers
from nsysprof.files.plain_file import json_value, scratch_folder, write_whole
from nsysprof.files.result_folder import claim_folder
from nsysprof.report.document import Figure
from nsysprof.report.figure_files import write_figures
from nsysprof.report.figures.benches import describe_winners, draw_winners
from nsysprof.report.pages.bench import BenchReport, tuning_sections, write_bench
from nsysprof.results.column_registry.analysis_columns import ATTENTION
from nsysprof.results.column_registry.case_columns import WINNERS
from nsysprof.results.column_registry.csv_table import render_csv, set_dtypes, to_records
from nsysprof.results.program_runs import CapturedAttention, CapturedUse, ProgramGain, known_cells

if TYPE_CHECKING:
    pass


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
    replace(grid, backends=grid.backends or ("naive",)).expand()  # report wrong options before looking at the machine
    require_torch("tune")
    device = settle_device(request.device)
    grid = replace(grid, backends=grid.backends or _default_backends(grid, device))
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


def _default_backends(grid: Grid, device: str) -> tuple[str, ...]:
    """Return the backends that a tuning tries unless it is told: torch's own where one takes the shapes, else ours."""
    shapes = [case.shape for case in replace(grid, backends=("naive",)).expand()]
    names = _ON_GPU if device == "cuda" else _ON_CPU
    return names if any(not why_refused(AUTO, shape) for shape in shapes) else ("naive", "flex")


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
        plan = current.plan
        cells = cells_to_measure(plan.cells, use_replays(plan.cells, current.blocks), request.blocks, plan.allow_error)
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


@dataclass(frozen=True)
class ProgramShapes:
    """The attention that a program ran, and which of its shapes are tuned."""

    captured: CapturedAttention
    chosen: ChosenShapes


def read_program_shapes(source: Path, device: str) -> ProgramShapes:
    """Return what the program in a capture or analysis ran. Raises UsageError where it cannot be tuned here.

    device: where the tuning measures, "cuda" or "cpu".
    """
    captured = read_captured_attention(source)
    _check_machine(captured, device)
    chosen = choose_shapes(captured.uses)
    if not chosen.chosen:
        reasons = "; ".join(f"{each.calls:,} calls: {each.reason}" for each in chosen.refused)
        raise UsageError(
            f"None of the attention in {source} can be tuned: {reasons}.",
            "Change the program as these reasons suggest.",
        )
    return ProgramShapes(captured, chosen)


def cases_of(shapes: ProgramShapes, backends: Sequence[str]) -> tuple[Case, ...]:
    """Return the cases to measure, with torch's own choice among the backends."""
    names = tuple(dict.fromkeys((AUTO, *backends)))
    return tuple(make_case(backend, use.shape) for use in shapes.chosen.chosen for backend in names)


def _check_machine(captured: CapturedAttention, device: str) -> None:
    if captured.gpu_name is None:
        return
    if device == "cpu" and "NVIDIA" in captured.gpu_name:
        raise UsageError(
            f"The program ran on {captured.gpu_name}, and this tuning would measure on the CPU.",
            "Tune on the machine of the program.",
        )
    if device == "cuda":
        here = {str(gpu["name"]) for gpu in collect_gpus()}
        if here and captured.gpu_name not in here:
            raise UsageError(
                f"The program ran on {captured.gpu_name}, and this machine has {', '.join(sorted(here))}.",
                "Tune on the machine of the program, or capture it here.",
            )


def read_captured_attention(source: Path) -> CapturedAttention:
    """Return the attention of a capture folder, a trace or an analysis folder.

    Raises UsageError where it has none, and TraceError for what cannot be read.
    """
    if (source / "attention.csv").is_file():
        table, gpu_name, steps = _read_analysis(source)
    else:
        table, gpu_name, steps = _analyze(source)
    rows = known_cells(table)
    uses = tuple(CapturedUse(row) for row in rows if row["function"] is not None)
    if uses:
        return CapturedAttention(uses, gpu_name, steps)
    if rows:
        raise UsageError(
            f"{source} contains attention kernels of {len(rows)} kinds, but no recorded calls, so their shapes are "
            f"unknown.",
            "Record the program with nsysprof capture --attention; attention written by hand, or called by a C++ "
            "extension, has no shapes.",
        )
    raise UsageError(
        f"{source} contains no attention.", "Record the program with nsysprof capture --attention -- PROGRAM."
    )


def _read_analysis(source: Path) -> tuple[pd.DataFrame, str | None, int | None]:
    try:
        table = pd.read_csv(source / "attention.csv", dtype="string", keep_default_na=False, na_values=[""])
        table = set_dtypes(table.reindex(columns=list(ATTENTION.names)), ATTENTION)
        summary = json.loads((source / "summary.json").read_bytes())
        names = {str(device["name"]) for device in summary["devices"]}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise TraceError(f"{source} cannot be read: {error}.", "Analyze the capture again.") from error
    return table, names.pop() if len(names) == 1 else None, _count_steps(source)


def _count_steps(source: Path) -> int | None:
    """Return the number of steps in an analysis, or None where it has none."""
    try:
        steps = int(pd.read_csv(source / "steps.csv", usecols=["step"])["step"].nunique())
    except (OSError, ValueError):
        return None
    return steps if steps > 1 else None


def _analyze(source: Path) -> tuple[pd.DataFrame, str | None, int | None]:
    with scratch_folder() as scratch:
        trace = resolve(source, None, scratch, lambda _: None)
        analysis = assemble(source, trace).analysis
    assert analysis.attention is not None
    names = {device.name for device in analysis.devices}
    times = analysis.step_times
    steps = len(times.steps) if times is not None and times.are_steps else None
    return analysis.attention, names.pop() if len(names) == 1 else None, steps


POLICY = "policy.json"


def write_tuning(
    run: BenchRun,
    results: BenchResults,
    folder: Path,
    command: str,
    *,
    title: str = "",
    price: float | None = None,
    told: str = "",
    figures: bool = True,
    shapes: ProgramShapes | None = None,
    again: Collection[Shape] = (),
) -> Tuning:
    """Write everything that a tuning leaves beside its samples, and return it.

    command: the command line that the user typed.
    title: the title of the report; empty for the folder's name.
    price: the price of an hour of the GPU, if costs are wanted.
    told: why the search ended, if that is worth saying.
    shapes: the program for which the shapes were tuned.
    again: the shapes whose best backends were measured again.
    """
    winners = find_winners(results.table, again)
    choices, launching = leave_launching(choose_backends(winners), run.plan.cells, run.blocks, flush=run.plan.flush)
    replayed = replayed_shapes(run.plan.cells, run.blocks)
    lines = [*say_replayed(replayed), *launching, *insights(results.table, winners, results.floor_pct)]
    gain = None
    if shapes is not None:
        choices = settle_own_choices(shapes.captured, choices, winners)
        failed = failed_shapes(results.table)
        undecided = sum(choice.why == OPEN for choice in choices)
        undecided += int((winners["verdict"] == UNKNOWN).sum()) - len(failed)
        backends = {choice.shape: choice.backend for choice in choices}
        gain = compute_gain(
            shapes.captured,
            shapes.chosen,
            backends,
            results.table,
            undecided,
            failed,
            search_ended=run.complete,
            launching=sum(choice.why == LAUNCHING for choice in choices),
        )
        choices = fill_groups(shapes.chosen, choices)
        lines = [gain.text, *lines, *gain.refused]
    found = _policy_of(run, choices) if choices else None
    has_policy = found is not None and decides_something(choices)
    pictures = _draw(winners, folder) if figures else []
    write_whole(folder / WINNERS.name, render_csv(winners, WINNERS))
    if found is not None and has_policy:
        write_policy(folder / POLICY, found)
    report = BenchReport(
        title=title or folder.resolve().name,
        table=results.table,
        floor_pct=results.floor_pct,
        floor_pairs=results.floor_pairs,
        ceilings=run.ceilings,
        environment=run.environment,
        notes=results.notes,
        method=[*method_lines(run.plan, results), METHOD, *([REPLAYS] if run.plan.device == "cuda" else [])],
        command=command,
        extra=tuning_sections(
            winners, lines, price=price, policy=POLICY if has_policy else None, budget_note=told, figures=pictures
        ),
    )
    write_bench(report, folder, figures=figures)
    data = _to_json(run, results, winners, lines, gain)
    write_whole(folder / "results.json", (json.dumps(data, indent=1) + "\n").encode())
    return Tuning(winners, tuple(lines), found, folder / POLICY if has_policy else None, data, gain, replayed)


def _draw(winners: pd.DataFrame, folder: Path) -> list[Figure]:
    draw, alts = {"winners": lambda: draw_winners(winners)}, {"winners": lambda: describe_winners(winners)}
    return write_figures(draw, alts, folder)


def _to_json(
    run: BenchRun, results: BenchResults, winners: pd.DataFrame, lines: list[str], gain: ProgramGain | None
) -> dict[str, Any]:
    return {
        "program": json_value(gain),
        "seed": run.plan.seed,
        "complete": run.complete,
        "floor_pct": results.floor_pct,
        "insights": lines,
        "winners": to_records(winners),
        "cases": to_records(results.table),
        "environment": run.environment,
        "notes": json_value(results.notes),
    }


@dataclass(frozen=True)
class Tuning:
    """What a tuning found.

    winners: one row per shape.
    insights: what follows from the data, one sentence each.
    choices: what was found for each shape, as a policy says it; None where no shape could be measured.
    policy: the file of the choices; None where there are none, or all are torch's own and some are undecided.
    data: the content of results.json.
    program: what the program saves, where its shapes were tuned.
    replayed: the shapes that were judged by replays of CUDA graphs.
    """

    winners: pd.DataFrame
    insights: tuple[str, ...]
    choices: PolicyFile | None
    policy: Path | None
    data: dict[str, Any]
    program: ProgramGain | None = None
    replayed: frozenset[Shape] = frozenset()


def _policy_of(run: BenchRun, choices: Sequence[Choice]) -> PolicyFile:
    """Return the policy, without the shapes whose best backend a policy cannot name.

    Shapes with a window, a cap, sinks, pages or an fp8 cache are left out too: a call of torch has none of them. A
    window is a mask there, whose content nobody reads.
    """
    rules = []
    for choice in choices:
        if choice.backend in POLICY_BACKENDS and choice.shape.window is None and not choice.shape.is_beyond_torch:
            rules.append(
                PolicyRule(
                    choice.backend,
                    **asdict(choice.shape),
                    why=choice.why,
                    median_ns=None if choice.median_ns is None else float(choice.median_ns),
                    over_auto=choice.over_auto,
                )
            )
    environment = run.environment
    return PolicyFile(
        tuple(rules),
        device=run.plan.device,
        gpu_name=environment.get("gpu_name"),
        torch_version=environment.get("torch_version"),
        cudnn_version=environment.get("cudnn_loaded_version") if run.plan.device == "cuda" else None,
        created_utc=run.created_utc,
    )
