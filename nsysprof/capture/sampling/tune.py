"""Run a tuning: process after process over the cells that are still worth measuring, within a time budget."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec.structs import asdict

from nsysprof.attention.shape import LIKE, Case
from nsysprof.capture.measured_process import WORK
from nsysprof.capture.sampling.bench import OnBlock, hopeless_cells, run_bench_process
from nsysprof.capture.sampling.bench_run import BenchRun, order_blocks

# The rounds of the first process and of later ones: one to drop what is far behind, then more for what is left.
_ROUNDS = (1, 3, 4, 4)
# Winners are measured again in this many fresh processes, with this many rounds each.
AGAIN_PROCESSES, _AGAIN_ROUNDS = 3, 3

Choose = Callable[[BenchRun], list[int]]
# Returns the order of blocks for a process by its number, without hopeless cells; empty where none is left.
NextOrder = Callable[[int, set[int]], list[int]]


def axes_grid(cases: Sequence[Case], backends: Sequence[str]) -> list[Case]:
    """Return the cases of a full grid that differ from the first shape in at most one dimension, for every backend."""
    if not cases:
        return []
    base = _dimensions(cases[0])
    near = [case for case in cases if sum(a != b for a, b in zip(_dimensions(case), base, strict=True)) <= 1]
    return [case for case in near if case.backend in backends]


def _dimensions(case: Case) -> list[object]:
    """Return the values that a sweep varies one at a time. Sizes of k that equal those of q do not vary separately."""
    own = {name: getattr(case, f"own_{name}") for name in LIKE}
    shape = asdict(case.shape) | own
    return list(shape.values())


def run_tuning(run: BenchRun, folder: Path, budget_s: float, choose: Choose, on_block: OnBlock) -> bool:
    """Measure until `choose` returns no cell or the time is over, and return False when Ctrl-C ended it.

    Blocks that are already in `run` count, so that a tuning can be resumed.

    budget_s: the time limit (s).
    choose: returns the cells that need more blocks, given what was measured so far.
    """

    def next_order(process: int, hopeless: set[int]) -> list[int]:
        rounds = _ROUNDS[min(_steps(run), len(_ROUNDS) - 1)]
        return order_blocks(choose(run), rounds, run.plan.seed, process, hopeless)

    return _run_processes(run, folder, time.monotonic() + budget_s, next_order, on_block)


def measure_again(run: BenchRun, folder: Path, deadline: float, choose: Choose, on_block: OnBlock) -> bool:
    """Measure cells in fresh processes that the search has not seen, and return False when Ctrl-C ended it.

    Processes of an earlier call count. The run is complete when every cell has had its processes.

    deadline: the time.monotonic() at which it ends with the blocks that it has.
    choose: returns the cells to measure again. It is called before each process, so that it can refuse to continue.
    """
    if not choose(run):
        return True
    run.complete = False
    if run.again_from is None:
        run.again_from = _next_process(run)

    def next_order(process: int, hopeless: set[int]) -> list[int]:
        left = [cell for cell in choose(run) if _times_again(run, cell) < AGAIN_PROCESSES]
        return order_blocks(left, _AGAIN_ROUNDS, run.plan.seed, process, hopeless)

    return _run_processes(run, folder, deadline, next_order, on_block)


def _run_processes(run: BenchRun, folder: Path, deadline: float, next_order: NextOrder, on_block: OnBlock) -> bool:
    """Run processes until there is no order for the next one or the time is over, and return False on Ctrl-C.

    The run is saved however that ends, and is complete where nothing was left to measure.
    """
    process = max(run.again_from or 0, _next_process(run))
    try:
        while time.monotonic() < deadline:
            order = next_order(process, hopeless_cells(run))
            if not order:
                run.complete = True
                break
            (folder / WORK / "stop").unlink(missing_ok=True)
            ended = run_bench_process(run, folder, process, order, 0, on_block, deadline)
            if ended is not None and ended.interrupted:
                return False
            process += 1
    except KeyboardInterrupt:  # between two processes
        return False
    finally:
        run.save(folder)
    return True


def _next_process(run: BenchRun) -> int:
    return 1 + max((block.process for block in run.blocks), default=-1)


def _times_again(run: BenchRun, cell: int) -> int:
    """Return in how many processes a cell has been measured again."""
    least = run.again_from or 0
    return len({block.process for block in run.blocks if block.cell == cell and block.process >= least})


def _steps(run: BenchRun) -> int:
    return len({block.process for block in run.blocks})
