"""Simulate busy machines, where cases share the effects of their process and samples stall, and count verdicts.

Real processes differ in all their cases at once, by a factor of two where the host is the bottleneck; hosts pause, and
clocks have states. The families here ask of the same functions as those of calibrate.py what they say of such samples.
Unchanged pairs of the repository are a family of their own.
"""

from __future__ import annotations

import json
import lzma
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from nsysprof.analysis.comparison.compare import compare_steps, judge_steps_and_walls
from nsysprof.analysis.comparison.compare_latency import Settings, compare_latencies
from nsysprof.analysis.comparison.compare_ranges import compare_ranges
from nsysprof.analysis.comparison.compare_turns import EARLY_ALPHA, LAST_ALPHA, compare_in_turn
from nsysprof.analysis.comparison.gate.gate import judge, parse_gate
from nsysprof.analysis.comparison.rank_cases import rank_cases
from nsysprof.analysis.sampling.bench import summarize_bench
from nsysprof.analysis.sampling.significance import estimate, fit
from nsysprof.analysis.sampling.tune import find_winners, insights
from nsysprof.api.use_cases import compare
from nsysprof.app.inputs.compare_inputs import case_names, read_input
from nsysprof.arrays import Floats
from nsysprof.attention.shape import Case, row_of_case
from nsysprof.capture.collect import latency_cells
from nsysprof.capture.sampling.bench import LOOKS, MOST_TURNS
from nsysprof.results.checks import Outcome
from nsysprof.results.comparison import (
    METRICS,
    Input,
    LatencyChange,
    LatencyComparison,
    LatencyVerdict,
    Measured,
    RangeFacts,
    StepWalls,
)
from nsysprof.results.samples import Block
from scripts.calibration_rows import ALARMS, COVERS, FINDS, HOLDS, NEVER, Row

ROOT = Path(__file__).resolve().parents[1]
TRUE_NS = 100_000.0
LIMIT_PCT = 3.0
DECIDED = (LatencyVerdict.SLOWER, LatencyVerdict.FASTER)
BACKENDS = ("math", "flash", "efficient", "auto")
# Instances of a range of a trace, and a range of every fifth is slower where something changed.
INSTANCES, EVERY_FIFTH = 30, 5


@dataclass(frozen=True)
class Busy:
    """A noise model. Standard deviations are of logarithms."""

    name: str
    # Between processes: shared by all cases of a process, and of each case by itself.
    shared: float = 0.0
    own: float = 0.003
    # Between blocks, and between samples, of which each keeps a part of the one before.
    block: float = 0.004
    sample: float = 0.01
    rho: float = 0.0
    # The share of processes that are slower by a factor of 1.1 to 1.7, in all cases.
    slow: float = 0.0
    # The share of samples that stall, by so many times their own time; it varies by block.
    stalls: float = 0.0
    stall_times: tuple[float, float] = (10.0, 100.0)
    # The factor between two states of the clock, which lasts for a block.
    clock: float = 1.0


QUIET = Busy("quiet")
LIKE_HOSTS = Busy("a busy host", shared=0.076, own=0.03, sample=0.05, rho=0.5, stalls=0.02, stall_times=(1.0, 5.0))
SLOW = Busy("a fifth of the processes slow", slow=0.2)
TAILS = Busy("heavy tails", sample=0.3, stalls=0.05, stall_times=(1.0, 10.0))
LASTING = Busy("lasting deviations of 10 %", sample=0.1, rho=0.95)
SHARED = tuple(Busy(f"processes share {percent} %", shared=percent / 100) for percent in (2, 8, 27))
CLOCK = Busy("two clocks", clock=1.2)
STALLS = tuple(Busy(f"{percent} % of samples stall", stalls=percent / 100) for percent in (5, 15, 30))
# Reports of 40 ranges are so many times as many as others.
MANY_TIMES = 2
OF_TRACES = (QUIET, LIKE_HOSTS, SLOW, TAILS, LASTING)


def process_effects(rng: np.random.Generator, noise: Busy, cases: int) -> Floats:
    """Return the logarithm of what one process adds to each case."""
    slow = np.log(rng.uniform(1.1, 1.7)) if rng.random() < noise.slow else 0.0
    effects: Floats = slow + rng.normal(0, noise.shared) + rng.normal(0, noise.own, cases)
    return effects


def draw_samples(rng: np.random.Generator, noise: Busy, shape: tuple[int, int, int]) -> Floats:
    """Return the logarithms of samples of (cases, blocks, samples of a block), around 0."""
    values: Floats = rng.normal(0, noise.sample, shape)
    fresh = np.sqrt(1 - noise.rho**2)
    for index in range(1, shape[2] if noise.rho else 0):
        values[..., index] = noise.rho * values[..., index - 1] + fresh * values[..., index]
    values += rng.normal(0, noise.block, (*shape[:2], 1))
    if noise.clock > 1:
        values += np.log(noise.clock) * (rng.random((*shape[:2], 1)) < rng.uniform(0.3, 0.5))
    if noise.stalls:
        share = np.minimum(1.0, noise.stalls * rng.gamma(0.5, 2.0, (*shape[:2], 1)))
        times = 1 + np.exp(rng.uniform(*np.log(noise.stall_times), shape))
        values += np.log(times) * (rng.random(shape) < share)
    return values


def process_samples(rng: np.random.Generator, noise: Busy, factors: Sequence[float], blocks: int) -> Floats:
    """Return samples (ns) of one process: (cases, blocks, 10)."""
    level = np.log(TRUE_NS) + np.log(factors) + process_effects(rng, noise, len(factors))
    return np.exp(level[:, None, None] + draw_samples(rng, noise, (len(factors), blocks, 10)))


# Traces


def trace(rng: np.random.Generator, noise: Busy, factors: Sequence[float]) -> Input:
    """Return a trace of ranges that take `factors` times TRUE_NS, which follow one another in each step."""
    level = np.log(TRUE_NS) + np.log(factors) + process_effects(rng, noise, len(factors))
    walls = np.exp(level[:, None] + draw_samples(rng, noise, (len(factors), 1, INSTANCES))[:, 0]).astype(int)
    ranges = {(f"range {number}", ""): facts(tuple(values.tolist())) for number, values in enumerate(walls)}
    steps = tuple(walls.sum(axis=0).tolist())
    return Input("trace", "trace", {}, ranges=ranges, steps=StepWalls("step", float(np.mean(steps)), steps))


def facts(walls: tuple[int, ...]) -> RangeFacts:
    metrics = dict.fromkeys(METRICS, 0) | {"wall": sum(walls)}
    return RangeFacts(len(walls), None, metrics, None, {}, walls_ns=walls)


@dataclass(frozen=True)
class TraceAnswer:
    """What `compare` and its gate say of two sides of traces."""

    # The verdicts on the ranges and on the step; None where there is none.
    ranges: tuple[LatencyChange | None, ...]
    step: LatencyChange | None
    wall: Outcome
    step_time: Outcome

    def alarms(self, first: int = 0) -> bool:
        """Return whether a range from this one on, or the step, is called slower or faster."""
        changes = (*self.ranges[first:], None if first else self.step)
        return any(change is not None and change.verdict in DECIDED for change in changes)


def compare_traces(rng: np.random.Generator, noise: Busy, count: int, ranges: int, factor: float = 1.0) -> TraceAnswer:
    """Return the answer for `count` traces a side; every fifth range of the candidate takes `factor` times."""
    changed = [factor if number % EVERY_FIFTH == 0 else 1.0 for number in range(ranges)]
    old, new = ([trace(rng, noise, side) for _ in range(count)] for side in ([1.0] * ranges, changed))
    facts_of = [[source.ranges or {} for source in side] for side in (old, new)]
    changes = compare_ranges(facts_of[0], facts_of[1])
    step, changes = judge_steps_and_walls(compare_steps(old, new), changes, old, new, Settings(LIMIT_PCT))
    rules = parse_gate("wall:5%,step:3%")
    wall, step_time = judge(rules, LatencyComparison(), changes, (), step=step)
    by_name = {change.range: change.wall_verdict for change in changes}
    verdicts = tuple(by_name[f"range {number}"] for number in range(ranges))
    return TraceAnswer(verdicts, None if step is None else step.verdict, wall.outcome, step_time.outcome)


def busy_traces(seed: int, runs: int) -> Iterator[Row]:
    with ProcessPoolExecutor() as workers:
        tasks = [(number, count) for number in range(len(OF_TRACES)) for count in (1, 2, 4, 8)]
        several = workers.map(
            rows_of_traces, *zip(*((seed, number, count, runs) for number, count in tasks), strict=True)
        )
        numbers, times = range(len(OF_TRACES)), MANY_TIMES * runs
        alarms = list(workers.map(alarms_of_many, [seed] * len(numbers), numbers, [times] * len(numbers)))
        yield from chain.from_iterable(several)
    text = "4 traces a side, 40 unchanged ranges: any range or the step is told apart"
    for noise, hits in zip(OF_TRACES, alarms, strict=True):
        yield Row(noise.name, text, hits, times, ALARMS)
    yield Row("all of these noises", text, sum(alarms), times * len(OF_TRACES), ALARMS)


def rows_of_traces(seed: int, number: int, count: int, runs: int) -> list[Row]:
    """Return what is said of so many traces a side with the noise of this number, unchanged and changed."""
    rng, noise = np.random.default_rng([seed, 500 + number, count]), OF_TRACES[number]
    return [*unchanged_traces(rng, noise, count, runs), *changed_traces(rng, noise, count, max(1, runs // 3))]


def alarms_of_many(seed: int, number: int, runs: int) -> int:
    """Return how many reports of 40 unchanged ranges tell any of them apart, or the step."""
    rng = np.random.default_rng([seed, 540 + number])
    return sum(compare_traces(rng, OF_TRACES[number], 4, 40).alarms() for _ in range(runs))


def unchanged_traces(rng: np.random.Generator, noise: Busy, count: int, runs: int) -> Iterator[Row]:
    answers = [compare_traces(rng, noise, count, 10) for _ in range(runs)]
    of_side = f"{count} trace{'s' if count > 1 else ''} a side, 10 unchanged ranges"
    for text, hits in (
        ("any range or the step is told apart", [answer.alarms() for answer in answers]),
        ("`wall:5%` calls a regression", [answer.wall is Outcome.REGRESSION for answer in answers]),
        ("`step:3%` calls a regression", [answer.step_time is Outcome.REGRESSION for answer in answers]),
    ):
        yield Row(noise.name, f"{of_side}: {text}", sum(hits), runs, ALARMS)
    outside = [
        change.verdict in DECIDED and (change.low or 0) <= 1 <= (change.high or 0)
        for answer in answers
        for change in (*answer.ranges, answer.step)
        if change is not None
    ]
    yield Row(noise.name, f"{of_side}: told apart by an interval that holds 1", sum(outside), len(outside), ALARMS)


def changed_traces(rng: np.random.Generator, noise: Busy, count: int, runs: int) -> Iterator[Row]:
    for percent in (10, 20):
        answers = [compare_traces(rng, noise, count, 10, 1 + percent / 100) for _ in range(runs)]
        text = f"{count} trace{'s' if count > 1 else ''} a side, 2 of 10 ranges {percent} % slower"
        changed = [answer.ranges[number] for answer in answers for number in range(0, 10, EVERY_FIFTH)]
        named = sum(change is not None and change.verdict is LatencyVerdict.SLOWER for change in changed)
        reach = FINDS if noise is QUIET and count > 1 else ""
        yield Row(noise.name, f"{text}: called slower", named, len(changed), reach)
        failed = sum(answer.wall is Outcome.REGRESSION for answer in answers)
        yield Row(noise.name, f"{text}: `wall:5%` calls a regression", failed, runs, reach)


# Captures, of one process each

LIKE_NEIGHBOURS = Busy("neighbours alike, 2 %", sample=0.02, rho=0.9)
TIMES_SLOWER = (1.03, 1.1, 1.2, 2.0, 6.0)


def ranked_captures(seed: int, runs: int) -> Iterator[Row]:
    """Count what one capture says of backends in its own process, from 50 samples or, where they are long, from 10."""
    for number, noise in enumerate((QUIET, LIKE_HOSTS, TAILS, CLOCK, LASTING, LIKE_NEIGHBOURS, *STALLS)):
        # A clock's state lasts for a block: one block of ten samples does not see it.
        for blocks in (5,) if noise is CLOCK else (5, 1):
            rng, own = np.random.default_rng([seed, 620 + number, blocks]), replace(noise, own=0.0, slow=0.0)
            told = held = known = refused = 0
            found = dict.fromkeys(TIMES_SLOWER, 0)
            truth = np.median(draw_samples(rng, own, (1, 20_000, 10)))
            for _ in range(runs):
                level = process_effects(rng, own, 1)[0]
                rows = captured_rows(rng, own, level, [1.0] * 4, blocks)
                told += any(ranking.slower for ranking in rank_cases(pd.DataFrame(rows), on_gpu=False))
                refused += any(row["latency_ci_low_ns"] is None for row in rows)
                for row in rows:
                    if row["latency_ci_low_ns"] is not None:
                        median = TRUE_NS * np.exp(level + truth)
                        held += row["latency_ci_low_ns"] <= median <= row["latency_ci_high_ns"]
                        known += 1
                for times in TIMES_SLOWER:
                    table = pd.DataFrame(captured_rows(rng, own, level, [1.0, times], blocks))
                    (ranking,) = rank_cases(table, on_gpu=False)
                    found[times] += [case.backend for case in ranking.slower] == [BACKENDS[1]]
            text = f"capture of {10 * blocks} samples"
            yield Row(noise.name, f"{text}, 4 equal backends: any is told apart", told, runs, ALARMS)
            yield Row(noise.name, f"{text}, 4 equal backends: one stalls, refused as slower", refused, runs)
            yield Row(noise.name, f"{text}: 95 % interval of the latency holds the truth", held, known)
            for times, hits in found.items():
                slower = f"{times:g} times" if times >= 2 else f"{100 * (times - 1):.0f} %"
                reach = FINDS if noise is QUIET and times > 1.03 else ""
                yield Row(noise.name, f"{text}, one of 2 backends {slower} slower: found", hits, runs, reach)


def captured_rows(
    rng: np.random.Generator, noise: Busy, level: float, factors: Sequence[float], blocks: int
) -> list[dict[str, Any]]:
    """Return rows of results.csv of backends of one shape, which one process measured after one another."""
    samples = TRUE_NS * np.exp(level + np.log(factors)[:, None] + draw_samples(rng, noise, (len(factors), blocks, 10))
                               .reshape(len(factors), -1))  # fmt: skip
    return [
        {**row_of_case(Case(name, seq=64)), "status": "ok", "kernel_total_ns": None, "traced_calls": None,
         **cells}
        for name, cells in zip(BACKENDS, latency_cells(samples.astype(int).tolist()), strict=False)
    ]  # fmt: skip


def busy_captures(seed: int, runs: int) -> Iterator[Row]:
    cases = [Case("flash", seq=64 * (index + 1)) for index in range(8)]
    names, rules = {case: str(case.seq) for case in cases}, parse_gate(f"slower:{LIMIT_PCT:g}%")
    for number, noise in enumerate((QUIET, *SHARED, SLOW)):
        for count in (1, 4):
            rng = np.random.default_rng([seed, 520 + number, count])
            told = failed = 0
            for _ in range(runs):
                old, new = ([capture(rng, noise, cases) for _ in range(count)] for _ in range(2))
                answer = compare_latencies(old, new, names, Settings(LIMIT_PCT))
                told += any(change.verdict in DECIDED for change in answer.changes)
                failed += judge(rules, answer, (), ())[0].outcome is Outcome.REGRESSION
            text = f"{count} capture{'s' if count > 1 else ''} a side, 8 unchanged launch-bound cases"
            yield Row(noise.name, f"{text}: any is told apart", told, runs, ALARMS)
            yield Row(noise.name, f"{text}: `slower:3%` calls a regression", failed, runs, ALARMS)


def capture(rng: np.random.Generator, noise: Busy, cases: Sequence[Case]) -> dict[Case, Measured]:
    samples = process_samples(rng, noise, [1.0] * len(cases), 5).astype(int).reshape(len(cases), -1)
    return {
        case: Measured("ok", processes=((tuple(values),),), in_order=True, host_bound=True)
        for case, values in zip(cases, samples.tolist(), strict=True)
    }


# Both sides in turn, until the gate is decided


def busy_turns(seed: int, runs: int) -> Iterator[Row]:
    for number, noise in enumerate((QUIET, *SHARED)):
        for count in (1, 20):
            rng = np.random.default_rng([seed, 540 + number, count])
            repeats = runs if count > 1 else 4 * runs
            answers = [in_turn_until_decided(rng, noise, count) for _ in range(repeats)]
            told = sum(any(change.verdict in DECIDED for change in answer.changes) for answer in answers)
            missed = [not (change.low or 0) <= 1 <= (change.high or 0) for look in answers for change in look.changes]
            text = f"in turn until decided, {count} unchanged case{'s' if count > 1 else ''}"
            yield Row(noise.name, f"{text}: any is told apart", told, repeats, ALARMS)
            yield Row(noise.name, f"{text}: the interval misses the truth", sum(missed), len(missed), ALARMS)


def in_turn_until_decided(rng: np.random.Generator, noise: Busy, count: int) -> LatencyComparison:
    cases = [Case("flash", seq=64 * (index + 1)) for index in range(count)]
    names, rules = {case: str(case.seq) for case in cases}, parse_gate(f"slower:{LIMIT_PCT:g}%")
    turns: list[list[Floats]] = [[], []]
    for look in (*LOOKS, MOST_TURNS):
        for side in turns:
            side += [process_samples(rng, noise, [1.0] * count, 5).astype(int) for _ in range(look - len(side))]
        old, new = (
            {case: Measured("ok", processes=tuple(tuple(map(tuple, turn[index].tolist())) for turn in side),
                            turns=tuple(range(look))) for index, case in enumerate(cases)}
            for side in turns
        )  # fmt: skip
        alpha = LAST_ALPHA if look == MOST_TURNS else EARLY_ALPHA
        answer = compare_in_turn(old, new, names, Settings(LIMIT_PCT, alpha=alpha))
        if judge(rules, answer, (), ())[0].outcome is not Outcome.INCONCLUSIVE:
            break
    return answer


# bench and tune


def bench(
    rng: np.random.Generator, noise: Busy, shapes: int, factors: Sequence[float], stalls: Mapping[int, float]
) -> pd.DataFrame:
    """Return the table of a bench of 3 processes x 5 rounds x 10; `stalls` are shares of samples, by backend."""
    cells = [Case(name, seq=64 * (shape + 1)) for shape in range(shapes) for name in BACKENDS[: len(factors)]]
    blocks = []
    for process in range(3):
        samples = process_samples(rng, noise, list(factors) * shapes, 5)
        for backend, share in stalls.items():
            own = samples[backend :: len(factors)]
            own += (rng.random(own.shape) < share) * rng.uniform(1e7, 1e8, own.shape)
        blocks += [
            Block(cell, process, turn, "ok", started_ns=1000 * (5 * process + turn), values_ns=tuple(values))
            for cell, rounds in enumerate(samples.astype(int).tolist())
            for turn, values in enumerate(rounds)
        ]
    return summarize_bench(cells, [f"{case.backend} {case.seq}" for case in cells], blocks, {}, {}).table


def busy_bench(seed: int, runs: int) -> Iterator[Row]:
    for number, noise in enumerate((QUIET, *SHARED, SLOW, TAILS, CLOCK, LASTING, *STALLS)):
        rng = np.random.default_rng([seed, 560 + number])
        said = shapes_apart = outside = refused = 0
        count = 4 * runs
        for _ in range(count):
            table = bench(rng, noise, 10, [1.0] * 4, {})
            apart = table["verdict"].isin(("slower", "far behind"))
            said += apart.any()
            shapes_apart += table[apart]["seq"].nunique()
            refused += table[(table["rank"] > 1) & table["against_best_low"].isna()]["seq"].nunique()
            outside += ((table["median_ns"] < table["low_ns"]) | (table["median_ns"] > table["high_ns"])).sum()
        text = "bench, 10 shapes of 4 equal backends"
        yield Row(noise.name, f"{text}: a shape is told apart", shapes_apart, 10 * count, ALARMS)
        yield Row(noise.name, f"{text}: anything is told apart in a report", said, count, ALARMS)
        yield Row(noise.name, f"{text}: a time outside its own interval", outside, 40 * count, ALARMS)
        if noise.stalls:
            yield Row(noise.name, f"{text}: a shape is refused, as the machine stalls", refused, 10 * count)
        if not (noise.stalls or noise.clock > 1):
            yield from bench_intervals(np.random.default_rng([seed, 580 + number]), noise, 40 * runs)
    yield from uneven_stalls(seed, runs)


def bench_intervals(rng: np.random.Generator, noise: Busy, runs: int) -> Iterator[Row]:
    """Count intervals of the latency of the first of 40 cases of 3 processes, as all cases of a run miss together.

    The truth is the time of a process that is not slow. Where some are, the mean of all processes is counted beside it:
    three processes often have none of the slow ones, and then they say nothing of them.
    """
    logs = np.log(np.linspace(1.1, 1.7, 1001))
    mean, held, mean_held, none = np.log(TRUE_NS) + noise.slow * logs.mean(), 0, 0, 0
    for _ in range(runs):
        levels = [np.log(process_samples(rng, noise, [1.0] * 40, 5)[:, :, 1:]) for _ in range(3)]
        cases = list(np.stack([np.median(own, axis=2).mean(axis=1) for own in levels], axis=1))
        found = estimate(cases[0], fit(cases))
        assert found is not None
        held += abs(found.value - np.log(TRUE_NS)) <= found.reach()
        mean_held += abs(found.value - mean) <= found.reach()
        none += max(own.mean() for own in levels) < np.log(TRUE_NS * 1.05)
    text = "bench, 40 cases: 95 % interval of a latency holds the truth"
    if noise.slow:
        yield Row(noise.name, f"{text}, the time of a process that is not slow", held, runs, HOLDS)
        yield Row(noise.name, f"{text}, the mean of processes that are slow or not", mean_held, runs)
        yield Row(noise.name, "bench: none of the 3 processes was slow: nothing is known of slow ones", none, runs)
    else:
        yield Row(noise.name, text, held, runs, COVERS)


def uneven_stalls(seed: int, runs: int) -> Iterator[Row]:
    """Count shapes in which the faster of two backends, which are 2.5 times apart, is called slower, as it stalls."""
    for number, shares in enumerate(((0.0, 0.0), (0.05, 0.6), (0.3, 0.6), (0.05, 0.9))):
        rng = np.random.default_rng([seed, 590, number])
        wrong = right = refused = 0
        for _ in range(runs):
            table = bench(rng, QUIET, 1, [1.0, 2.5], {1: shares[0], 0: shares[1]})
            verdicts = dict(zip(table["backend"], table["verdict"], strict=True))
            wrong += verdicts[BACKENDS[0]] in ("slower", "far behind")
            right += verdicts[BACKENDS[1]] in ("slower", "far behind")
            refused += verdicts[BACKENDS[1]] == "inconclusive"
        name = f"{100 * shares[1]:g} % of samples of the faster stall, {100 * shares[0]:g} % of the slower"
        yield Row(name, "2 backends, 2.5 times apart: the faster is called slower", wrong, runs, ALARMS)
        yield Row(name, "2 backends, 2.5 times apart: the slower is called slower", right, runs)
        yield Row(name, "2 backends, 2.5 times apart: refused, as the machine stalls", refused, runs)


def busy_tune(seed: int, runs: int) -> Iterator[Row]:
    """Count tunings that say that no policy is needed, where torch's own choice takes twice as long."""
    for number, noise in enumerate((QUIET, *SHARED, *STALLS)):
        rng = np.random.default_rng([seed, 600 + number])
        none_needed = 0
        for _ in range(runs):
            table = bench(rng, noise, 2, [1.0, 2.0, 2.0, 2.0], {})
            none_needed += any("no policy is needed" in line for line in insights(table, find_winners(table), None))
        text = "tune, torch's own choice takes twice as long on 2 of 2 shapes: says that no policy is needed"
        yield Row(noise.name, text, none_needed, runs, ALARMS)


# Unchanged pairs of the repository

PAIRS = (("h200-ddp-even/rank00000", "h200-ddp-even/rank00001"),)


def real_pairs(seed: int, runs: int) -> Iterator[Row]:
    """Count what is said of pairs of the repository that ran the same code. The seed and the runs change nothing."""
    told = failed = 0
    for pair in PAIRS:
        old, new = (str(ROOT / f"traces/{name}.sqlite.xz") for name in pair)
        answer = compare(old, new, fail_on="wall:5%").comparison
        told += any(
            change.wall_verdict is not None and change.wall_verdict.verdict in DECIDED for change in answer.ranges
        )
        failed += answer.outcome is Outcome.REGRESSION
    yield Row("ranks of an even job", "2 traces of the same code: any range is told apart", told, len(PAIRS), NEVER)
    yield Row("ranks of an even job", "2 traces of the same code: `wall:5%` fails", failed, len(PAIRS), NEVER)
    yield from processes_of_the_same_code()


def processes_of_the_same_code() -> Iterator[Row]:
    """Count pairs of single processes of two runs on an H200 whose cases are told apart."""
    runs = json.loads(lzma.decompress((ROOT / "analysis/h200-same-code/runs.json.xz").read_bytes()))
    told = of = failed = 0
    rules = parse_gate(f"slower:{LIMIT_PCT:g}%")
    for pair in zip(runs[::2], runs[1::2], strict=True):
        old, new = (one_process_of(run) for run in pair)
        answer = compare_latencies([old.cases], [new.cases], case_names((old, new)), Settings(LIMIT_PCT))
        told += any(change.verdict in DECIDED for change in answer.changes)
        failed += judge(rules, answer, (), ())[0].outcome is Outcome.REGRESSION
        of += 1
    yield Row("processes on an H200", "1 process a side, the same code: any case is told apart", told, of, ALARMS)
    yield Row("processes on an H200", "1 process a side, the same code: `slower:3%` fails", failed, of, ALARMS)


def one_process_of(run: dict[str, Any]) -> Input:
    """Return what the first process of a bench measured."""
    with tempfile.TemporaryDirectory() as work:
        content = {**run, "blocks": [block for block in run["blocks"] if block["process"] == 0]}
        (Path(work) / "samples.json").write_text(json.dumps(content), encoding="utf-8")
        return read_input(Path(work), None, lambda _: None)


BUSY_FAMILIES: dict[str, Callable[[int, int], Iterator[Row]]] = {
    "busy-traces": busy_traces,
    "busy-captures": busy_captures,
    "ranked-captures": ranked_captures,
    "busy-turns": busy_turns,
    "busy-bench": busy_bench,
    "busy-tune": busy_tune,
    "pairs": real_pairs,
}
