"""Run the use case `bench`: measure the untraced latency of a grid, with sound statistics."""

from __future__ import annotations

import random
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from nsysprof.analysis.sampling import latency, significance
from nsysprof.analysis.sampling.bench import BenchResults, SelfCheck, check_self, summarize_bench
from nsysprof.analysis.sampling.tune import NOT_RUN
from nsysprof.app.inputs.attention_requests import BenchRequest
from nsysprof.app.inputs.machine import default_dtype, require_torch, settle_device, shared_values
from nsysprof.app.progress import SILENT, Progress
from nsysprof.app.read_history import append_results, check_database
from nsysprof.attention.shape import CONVENTION
from nsysprof.capture.folder import remove_work
from nsysprof.capture.locked_clocks import locked_clocks, measured_gpu
from nsysprof.capture.sampling.bench import prepare_bench_folder, run_bench
from nsysprof.capture.sampling.bench_run import BenchPlan, BenchRun, check_plan, new_run
from nsysprof.errors import CaptureFailedError, InterruptedCaptureError, NsysprofError, UsageError
from nsysprof.files.folder_state import BENCH
from nsysprof.files.plain_file import json_value
from nsysprof.files.result_folder import claim_folder
from nsysprof.report.pages.bench import BenchReport, write_bench
from nsysprof.results.column_registry.csv_table import to_records
from nsysprof.results.samples import WARMUP_RULE


def plan_bench(request: BenchRequest) -> BenchPlan:
    """Return what `bench` would measure on this machine. Raises UsageError for contradictory options."""
    request.grid.expand()  # report a wrong grid before looking at the machine
    require_torch("bench")
    device = settle_device(request.device)
    settled = {
        "cases": tuple(request.grid.expand(default_dtype(device))),
        "device": device,
        "seed": draw_seed() if request.seed is None else request.seed,
        "copies": request.copies if request.self_check else 1,
    }
    plan = BenchPlan(**{**shared_values(request, BenchPlan), **settled})
    check_plan(plan)
    if device == "cpu" and (request.sustained or request.locked_clock_mhz is not None):
        raise UsageError(
            "The clock of a CPU cannot be locked or sustained.", "Leave out --sustained and --lock-clocks."
        )
    return plan


def hold_clock(plan: BenchPlan) -> AbstractContextManager[None]:
    """Return the context in which a plan is measured. It locks the SM clock if the plan says so."""
    return nullcontext() if plan.locked_clock_mhz is None else locked_clocks(measured_gpu(), plan.locked_clock_mhz)


def bench(request: BenchRequest, progress: Progress = SILENT) -> BenchResult:
    """Measure the grid, and write samples, results, figures and a report; a failure is part of the result."""
    plan, folder = plan_bench(request), request.out or dated_bench_folder("bench")
    if request.db is not None:
        check_database(request.db)
    with claim_folder(folder, BENCH, force=request.force) as claimed:
        prepare_bench_folder(claimed.path)
        run = new_run(plan)
        progress.tell(f"seed {plan.seed}")
        try:
            count = plan.processes * plan.rounds * len(plan.cells)
            with hold_clock(plan), progress.blocks(count) as on_block:
                finished = run_bench(run, claimed.path, on_block)
        finally:
            remove_work(claimed.path)
        results = summarize(run)
        write_bench(report_of(run, results, folder, request.command), claimed.path, figures=request.figures)
        claimed.commit()
    if request.db is not None:
        append_results(request.db, run, results.table)
    return BenchResult(run, results, folder, self_check(run), _failure(run, results, folder, finished))


def draw_seed() -> int:
    """Return a random seed for the order of the blocks."""
    return random.SystemRandom().randrange(2**31)


def dated_bench_folder(kind: str) -> Path:
    """Return where a bench or a tuning goes when the user names no folder."""
    return Path("traces") / f"{kind}-{datetime.now():%Y%m%d-%H%M%S}"


def summarize(run: BenchRun) -> BenchResults:
    """Return the results of a run, whether it is complete or not."""
    plan = run.plan
    names = [plan.name_of(cell) for cell in range(len(plan.cells))]
    return summarize_bench(
        plan.cells,
        names,
        run.blocks,
        run.ceilings,
        run.environment,
        copies=plan.copies,
        flush=plan.flush,
        allow_error=plan.allow_error,
    )


def self_check(run: BenchRun) -> SelfCheck | None:
    """Return the result of measuring each case against itself; None where that was not requested."""
    plan = run.plan
    return check_self(run.blocks, len(plan.cells), plan.copies) if plan.copies > 1 else None


def report_of(run: BenchRun, results: BenchResults, folder: Path, command: str) -> BenchReport:
    """Return the report of a run.

    command: the command line that the user typed.
    """
    return BenchReport(
        title=folder.resolve().name,
        table=results.table,
        floor_pct=results.floor_pct,
        floor_pairs=results.floor_pairs,
        ceilings=run.ceilings,
        environment=run.environment,
        notes=results.notes,
        method=method_lines(run.plan, results),
        command=command,
        self_check=self_check_lines(self_check(run)),
    )


def method_lines(plan: BenchPlan, results: BenchResults) -> list[str]:
    """Return how the run was measured and judged, one text per line."""
    caches = "caches emptied before each sample by writing four times the L2's size" if plan.flush else "caches warm"
    clock = (
        "one pair of CUDA events around each call" if plan.device == "cuda" else "a monotonic clock around each call"
    )
    return [
        f"Untraced; {clock}; {caches}; cases interleaved, in an order drawn from seed {plan.seed}; "
        f"{plan.processes} processes, {plan.rounds} rounds in each, up to {plan.samples} samples a round.",
        f"Warm-up before each round: {_warmup_of(plan)}.",
        f"{latency.METHOD[0].upper()}{latency.METHOD[1:]}.",
        f"{significance.METHOD[0].upper()}{significance.METHOD[1:]}.",
        _smallest_difference(plan, results),
        f"{CONVENTION}.",
    ]


def _smallest_difference(plan: BenchPlan, results: BenchResults) -> str:
    """Return what the run could tell apart, as a sentence."""
    if results.floor_pct is None:
        return "The smallest difference that could be told is unknown: it needs two backends and two processes."
    percent = f"{results.floor_pct:.2g} %"
    if plan.copies > 1:
        return f"Noise floor: {percent} from {results.floor_pairs} pairs of copies, of which 95 % differ by less."
    return (
        f"A difference of {percent} between two backends would be told in {100 * significance.POWER:g} % of such runs "
        f"(median of {results.floor_pairs} pairs)."
    )


def _warmup_of(plan: BenchPlan) -> str:
    """Return, as a text, how each block is prepared and at which clock it runs."""
    if plan.sustained:
        text = "calls back to back until ten readings of the SM clock agree within 1 %, for 2 to 20 s"
    else:
        text = WARMUP_RULE.format(seconds=plan.warmup_seconds)
    return text if plan.locked_clock_mhz is None else f"{text}; the SM clock is locked at {plan.locked_clock_mhz} MHz"


def self_check_lines(found: SelfCheck | None) -> list[str]:
    """Return the result of a self-check as sentences; none where there was no self-check."""
    if found is None:
        return []
    if found.pairs == 0 or found.floor_pct is None:
        return ["A self-check needs at least two processes."]
    return [
        f"Self-check: {found.pairs} pairs of the same code; called a difference: {found.alarms} "
        f"({100 * found.alarms / found.pairs:.1f} %); shown to be the same: {found.same}. 95 % of the pairs differ by "
        f"less than {found.floor_pct:.2f} %."
    ]


def _failure(run: BenchRun, results: BenchResults, folder: Path, finished: bool) -> NsysprofError | None:
    if not finished:
        return InterruptedCaptureError(
            f"Interrupted: {len(run.blocks)} blocks are kept in {folder}.",
            f"Their results are in {folder / 'report.md'}.",
        )
    return nothing_measured(results, folder)


def nothing_measured(results: BenchResults, folder: Path) -> NsysprofError | None:
    """Return the error for a run in which no case could be measured; None for other runs."""
    if results.table["median_ns"].notna().any():
        return None

    if (results.table["status"] == NOT_RUN).all():
        return CaptureFailedError(
            f"The time ended before one of {len(results.table)} cases was measured.",
            "Give a longer --budget, or smaller shapes.",
        )
    ran = results.table[results.table["status"] != NOT_RUN]
    reasons = sorted({f"{row['status']}: {row['reason']}" for row in ran.to_dict("records")})
    return CaptureFailedError(
        f"None of {len(results.table)} cases could be measured. {reasons[0]}",
        f"The reason for each case is in {folder / 'results.csv'}.",
    )


@dataclass(frozen=True)
class BenchResult:
    """What was measured, what follows from it, and where it is.

    failure: why the result is incomplete, or None. What was measured is written in any case.
    """

    run: BenchRun
    results: BenchResults
    folder: Path
    self_check: SelfCheck | None
    failure: NsysprofError | None

    def to_json(self) -> dict[str, Any]:
        """Return what `--json` prints."""
        return {
            "folder": str(self.folder),
            "seed": self.run.plan.seed,
            "floor_pct": self.results.floor_pct,
            "cases": to_records(self.results.table),
            **({} if self.self_check is None else {"self_check": json_value(self.self_check)}),
            "notes": json_value(self.results.notes),
        }
