"""Run a tuning: process after process over the cells still worth measuring, within a budget of time; resumable."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from nsysprof.capture.bench import WORK, BenchRun, OnBlock, hopeless_cells, run_process
from nsysprof.capture.bench_plan import order_blocks
from nsysprof.case import Case

# Rounds of the processes one after the other: one to drop what is far behind, then what is left in earnest.
_ROUNDS = (1, 3, 4, 4)

Choose = Callable[[BenchRun], list[int]]


def axes_grid(cases: Sequence[Case], backends: Sequence[str]) -> list[Case]:
    """Of a full grid, the cases that differ from the first shape in one dimension at most, for every backend."""
    if not cases:
        return []
    base = cases[0]
    names = ("seq", "batch", "heads", "kv_heads", "head_dim", "dtype", "causal", "pass_")
    near = [case for case in cases if sum(getattr(case, name) != getattr(base, name) for name in names) <= 1]
    return [case for case in near if case.backend in backends]


def run_tuning(run: BenchRun, folder: Path, budget_s: float, choose: Choose, on_block: OnBlock) -> bool:
    """Go on until `choose` names no cell or the time is over; False when Ctrl-C ended it.

    choose: the cells that need more blocks, by what was measured so far. Blocks that are already in `run` count, so
    that a tuning that was ended can be resumed.
    """
    deadline = time.monotonic() + budget_s
    process = 1 + max((block.process for block in run.blocks), default=-1)
    try:
        while time.monotonic() < deadline:
            out = hopeless_cells(run)
            cells = [cell for cell in choose(run) if cell not in out]
            if not cells:
                run.complete = True
                break
            rounds = _ROUNDS[min(_steps(run), len(_ROUNDS) - 1)]
            order = order_blocks(cells, rounds, run.plan.seed, process)
            (folder / WORK / "stop").unlink(missing_ok=True)
            if not run_process(run, folder, process, order, 0, on_block, deadline):
                return False
            process += 1
    except KeyboardInterrupt:  # between two processes
        return False
    finally:
        run.save(folder)
    return True


def _steps(run: BenchRun) -> int:
    return len({block.process for block in run.blocks})
