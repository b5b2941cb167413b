"""Simulate ranks that differ by chance, and programs whose steps pause, and count what nsysprof says of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from nsysprof.analysis.steps.step_bounds import mark_slow_steps
from nsysprof.analysis.stragglers.late_ranks import find_outliers, late_by_work
from nsysprof.arrays import Floats
from nsysprof.results.rank_results import RankRow
from scripts.calibration_rows import ALARMS, FINDS, Row

# What ranks that do the same differ by: factors for so many ranks.
CHANCES: dict[str, Callable[[np.random.Generator, int], Floats]] = {
    "ranks differ by 2 %": lambda rng, ranks: 1 + 0.02 * rng.normal(size=ranks),
    "ranks differ by 30 %, lognormal": lambda rng, ranks: np.exp(0.3 * rng.normal(size=ranks)),
    "ranks differ by 5 %, tails of Student's t with 3 degrees of freedom": lambda rng, ranks: np.maximum(
        0.01, 1 + 0.05 * rng.standard_t(3, size=ranks)
    ),
}
# The quantities of a rank that vary independently, and a usual value of each.
QUANTITIES = ("compute_ns", "exposed_comm_ns", "idle_ns", "api_total_ns", "memcpy_bytes", "peak_vram_bytes")
USUAL = 1_000_000_000
STEP_NS, STEPS = 10_000_000, 200


def ranks_of(rng: np.random.Generator, chance: Callable[[np.random.Generator, int], Floats], ranks: int):
    values = {name: (USUAL * chance(rng, ranks)).astype(int).tolist() for name in QUANTITIES}
    return [RankRow(rank, "t", rank=rank, **{name: values[name][rank] for name in QUANTITIES}) for rank in range(ranks)]


def outliers(seed: int, runs: int) -> Iterator[Row]:
    """Count jobs in which a rank is an outlier or computes for too long, where ranks differ by chance alone."""
    for index, (name, chance) in enumerate(CHANCES.items()):
        for ranks in (2, 6, 8, 64):
            rng = np.random.default_rng([seed, index, ranks])
            jobs = [ranks_of(rng, chance, ranks) for _ in range(10 * runs)]
            if ranks > 2:
                found = sum(bool(find_outliers(job)) for job in jobs)
                yield Row(name, f"{ranks} equal ranks: one is an outlier", found, len(jobs), ALARMS)
            # Of two ranks it is unknown how much ranks vary.
            asked = ALARMS if ranks > 2 or index == 0 else ""
            late = sum(bool(late_by_work(job)) for job in jobs)
            yield Row(name, f"{ranks} equal ranks: one computes for too long", late, len(jobs), asked)
    for ranks in (2, 8, 64):
        rng = np.random.default_rng([seed, 9, ranks])
        late = 0
        for _ in range(10 * runs):
            values = USUAL * (1 + 0.01 * rng.normal(size=ranks))
            values[1] *= 1.5
            rows = [RankRow(rank, "t", rank=rank, compute_ns=int(value)) for rank, value in enumerate(values)]
            late += [straggler.rank for straggler in late_by_work(rows)] == [1]
        yield Row(
            "ranks differ by 1 %", f"{ranks} ranks, one computes 50 % longer: it alone is named", late, 10 * runs, FINDS
        )


def pauses(seed: int, runs: int) -> Iterator[Row]:
    """Count programs whose usual step is told from the steps that pause, however often they do."""
    for every in (4, 8, 12, 30):
        rng = np.random.default_rng([seed, every])
        right = 0
        for _ in range(runs):
            walls = STEP_NS * (1 + 0.02 * rng.normal(size=STEPS))
            walls[every - 1 :: every] *= 3
            slow = mark_slow_steps(walls.astype(np.int64))
            right += int(slow.sum()) == STEPS // every and abs(walls[~slow].mean() / STEP_NS - 1) < 0.02
        yield Row("steps vary by 2 %", f"one step in {every} takes 3 times as long: both are told", right, runs, FINDS)
    rng = np.random.default_rng([seed, 99])
    alone = sum(
        bool(mark_slow_steps((STEP_NS * (1 + 0.1 * rng.normal(size=STEPS))).astype(np.int64)).any())
        for _ in range(10 * runs)
    )
    yield Row("steps vary by 10 %", "steps without pauses: one is slow", alone, 10 * runs, ALARMS)


RANK_FAMILIES: dict[str, Callable[[int, int], Iterator[Row]]] = {"outliers": outliers, "steps": pauses}
