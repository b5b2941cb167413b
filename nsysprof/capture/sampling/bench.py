"""Run a BenchPlan, one process after another. Every finished block is on disk within seconds."""

from __future__ import annotations

import dataclasses
import os
import time
from bisect import bisect_right
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from nsysprof.capture.environment import HARMLESS_CLOCK_REASONS, merge_environment, summarize_clocks
from nsysprof.capture.measured_process import (
    HERE,
    LOGS,
    WORK,
    ProcessEnd,
    Setting,
    run_supervised,
    supervisor_argv,
)
from nsysprof.capture.sampling.bench_run import BenchRun, order_blocks
from nsysprof.environment import collect_gpus, collect_host
from nsysprof.files.plain_file import output_error
from nsysprof.results.samples import OK, Block
from nsysprof.workload.job import TIMED, Job

_SAVE_EVERY_S = 2.0
# A case with one of these results would fail in the same way in every process. A crash or a hang might not, and is
# tried again.
_FOR_GOOD = frozenset({"ineligible", "wrong", "out_of_memory"})
_CHANCES = 2


def prepare_bench_folder(folder: Path) -> None:
    """Create what a run needs in a claimed folder. Raises OutputError where it cannot be written."""
    try:
        (folder / LOGS).mkdir(parents=True, exist_ok=True)
        (folder / WORK).mkdir(exist_ok=True)
        for stale in (folder / WORK).iterdir():
            stale.unlink()
        probe = folder / WORK / "probe"
        probe.write_bytes(b"\0" * 65536)  # shows a full disk now, and not after an hour of measuring
        probe.unlink()
    except OSError as error:
        raise output_error(folder, error) from error


OnBlock = Callable[[BenchRun, int, int | None], None]


def run_bench(run: BenchRun, folder: Path, on_block: OnBlock) -> bool:
    """Measure the whole plan into the prepared `folder`, and return False when Ctrl-C ended it early.

    on_block: called at each check for progress with the run, the number of blocks left, and the current cell.
    """
    plan = run.plan
    cells = list(range(len(plan.cells)))
    try:
        for process in range(plan.processes):
            order = order_blocks(cells, plan.rounds, plan.seed, process, hopeless_cells(run))
            later = (plan.processes - process - 1) * plan.rounds * len(cells)
            ended = run_bench_process(run, folder, process, order, later, on_block)
            if ended is not None and ended.interrupted:
                break
        else:
            run.complete = True
    except KeyboardInterrupt:  # between two processes
        pass
    run.save(folder)
    return run.complete


Side = tuple[BenchRun, Path, Setting]
# The numbers of turns after which a bench in turn checks whether they are enough. The last is the most it takes.
LOOKS = (3, 6, 12)
MOST_TURNS = 24


def run_in_turn(
    baseline: Side, candidate: Side, on_block: OnBlock, is_decided: Callable[[], bool] | None = None
) -> bool:
    """Measure two runs of one plan in turn, and return False when Ctrl-C ended it early.

    A turn is one process of each side over the same cells in the same order. The sides alternate in going first, and
    the seed decides which side begins.

    baseline, candidate: the run, its prepared folder, and the setting of its processes.
    is_decided: called after each number of turns in LOOKS, and returns whether they are enough; None takes all turns of
        the plan.
    """
    plan = baseline[0].plan
    cells, finished = list(range(len(plan.cells))), False
    try:
        for turn in range(plan.processes):
            sides = (baseline, candidate) if (turn + plan.seed) % 2 == 0 else (candidate, baseline)
            out = hopeless_cells(baseline[0]) | hopeless_cells(candidate[0])
            order = order_blocks(cells, plan.rounds, plan.seed, turn, out)
            for place, (run, folder, setting) in enumerate(sides):
                later = (2 * (plan.processes - turn) - place - 1) * plan.rounds * len(cells)
                ended = run_bench_process(run, folder, turn, order, later, on_block, setting=setting)
                if ended is not None and ended.interrupted:
                    break
            else:
                done = turn + 1
                if is_decided is None or done not in LOOKS or done == plan.processes or not is_decided():
                    continue
                for run, _, _ in (baseline, candidate):
                    run.plan = dataclasses.replace(plan, processes=done)
                finished = True
            break
        else:
            finished = True
    except KeyboardInterrupt:  # between two processes
        pass
    for run, folder, _ in (baseline, candidate):
        run.complete = finished
        run.save(folder)
    return finished


def hopeless_cells(run: BenchRun) -> set[int]:
    """Return the cells that are not tried again: refused or wrong once, or failed in another way in two processes."""
    failures: dict[int, set[int]] = {}
    for block in run.blocks:
        if block.status != OK:
            failures.setdefault(block.cell, set()).add(block.process)
    for_good = {block.cell for block in run.blocks if block.status in _FOR_GOOD}
    return for_good | {cell for cell, processes in failures.items() if len(processes) >= _CHANCES}


def run_bench_process(
    run: BenchRun,
    folder: Path,
    process: int,
    order: list[int],
    later: int,
    on_block: OnBlock,
    deadline: float = float("inf"),
    setting: Setting = HERE,
) -> ProcessEnd | None:
    """Run one process over the cells in `order`, and add its blocks to `run`; None when there is nothing to do.

    later: how many blocks come after this process.
    deadline: the time.monotonic() at which the process ends with the blocks that it has.
    setting: where the process runs.
    """
    if not order:
        return None
    job, path = _write_job(run, folder, process, order)
    seen, saved = _Seen(run, process, order), time.monotonic()

    def take(events: list[dict[str, Any]]) -> None:
        nonlocal saved
        seen.take(events)
        if events and time.monotonic() > saved + _SAVE_EVERY_S:
            run.save(folder)
            saved = time.monotonic()
        on_block(run, seen.left + later, seen.current)

    log = folder / LOGS / f"process-{process}.log"
    argv, environment = supervisor_argv(path, setting.python), setting.environment()
    ended = run_supervised(TIMED, argv, job, log, take, deadline=deadline, environment=environment)
    _mark_throttled(run, process)
    run.environment["clocks"] = summarize_clocks(run.clocks)
    run.save(folder)
    on_block(run, seen.left + later, None)
    return ended


class _Seen:
    """Turns the events of one process into blocks of its run."""

    def __init__(self, run: BenchRun, process: int, order: list[int]) -> None:
        self._run, self._process, self._order = run, process, order
        self.left = len(order)
        self.current: int | None = None

    def take(self, events: list[dict[str, Any]]) -> None:
        for event in events:
            kind = event.pop("event")
            if kind == "environment":
                self._run.environment.update(self._environment(event["facts"]))
            elif kind == "ceilings":
                self._run.ceilings = event
            elif kind == "clocks":
                self._run.clocks.append({**event, "process": self._process})
            elif kind == "start":
                self.current = self._order[event["case"]]
            elif kind == "done":
                self._finish(event)

    def _environment(self, facts: dict[str, Any]) -> dict[str, Any]:
        return merge_environment(facts, collect_host(), collect_gpus(), self._run.plan.locked_clock_mhz)

    def _finish(self, event: dict[str, Any]) -> None:
        self.left -= 1
        self.current = None
        position = event["case"]
        cell = self._order[position]
        if event["status"] == "skipped":
            return
        place = {"cell": cell, "process": self._process, "round": self._order[:position].count(cell)}
        measured = event.get("measured") or {}
        block = {**place, "status": event["status"], "reason": event["reason"], **measured}
        self._run.blocks.append(msgspec.convert(block, Block))


def _write_job(run: BenchRun, folder: Path, process: int, order: list[int]) -> tuple[Job, Path]:
    plan, work = run.plan, folder.resolve() / WORK
    cells = plan.cells
    job = Job(
        cases=tuple(cells[cell] for cell in order),
        range_keys=(),
        pass_name=TIMED,
        profiler="none",
        device=plan.device,
        case_timeout_s=plan.case_timeout_s,
        events_path=str(work / f"process-{process}.events"),
        stop_path=str(work / "stop"),
        parent_pid=os.getpid(),
        samples=plan.samples,
        least_samples=plan.least_samples,
        sample_seconds=plan.sample_seconds,
        warmup_calls=plan.warmup_calls,
        warmup_seconds=plan.warmup_seconds,
        sustained=plan.sustained,
        flush=plan.flush,
        graph=plan.graph,
        allow_error=plan.allow_error,
        check=plan.check and not any(block.process < process for block in run.blocks),
        ceilings=tuple(dict.fromkeys(case.dtype for case in plan.cases)) if plan.ceilings and not run.ceilings else (),
    )
    path = work / f"process-{process}.json"
    job.write(path)
    return job, path


def _mark_throttled(run: BenchRun, process: int) -> None:
    """Mark the samples of a process that are next to a clock reading that reports throttling."""
    clocks = sorted((c for c in run.clocks if c["process"] == process), key=lambda clock: clock["time_ns"])
    times = [clock["time_ns"] for clock in clocks]
    bad = [bool(set(clock["throttle_reasons"]) - HARMLESS_CLOCK_REASONS) for clock in clocks]
    if not any(bad):
        return
    for index, block in enumerate(run.blocks):
        if block.process == process and block.status == OK:
            marked = tuple(i for i, at in enumerate(block.offsets_ns) if _is_bad(block.started_ns + at, times, bad))
            run.blocks[index] = replace(block, throttled=marked)


def _is_bad(at_ns: int, times: list[int], bad: list[bool]) -> bool:
    """Return whether the last reading before a moment, or the next one after it, reports throttling."""
    after = bisect_right(times, at_ns)
    return any(bad[index] for index in (after - 1, after) if 0 <= index < len(bad))
