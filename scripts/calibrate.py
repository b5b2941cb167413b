#!/usr/bin/env python3
"""Simulate measurements with a known truth, and count how often nsysprof's verdicts and intervals are right.

    scripts/calibrate.py                        simulate every family of rows, and print them
    scripts/calibrate.py --only compare gate    simulate some families
    scripts/calibrate.py --only gate --write    write analysis/calibration/gate.json, and the page from all files
    scripts/calibrate.py --page                 write the page from the files, without simulations
    scripts/calibrate.py --check                simulate nothing; exit code 1 where the page is not what the files say,
                                                or functions that a family calls have changed since it was simulated

The verdicts come from the functions that `bench`, `tune`, the gate and `analyze` of many traces call. The samples are
simulated: they come in blocks and processes, each with an effect of its own, and may be autocorrelated. Jobs of several
ranks are simulated too. Each row of the table names the noise model, the counted event, how often it happened, how
often it could have happened, and the 95 % interval of that share (Clopper and Pearson).
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from nsysprof.analysis.comparison.compare_latency import Settings, compare_latencies
from nsysprof.analysis.comparison.compare_programs import compare_program_runs
from nsysprof.analysis.comparison.compare_turns import EARLY_ALPHA, LAST_ALPHA, compare_in_turn
from nsysprof.analysis.comparison.gate.gate import GateRule, judge, parse_gate
from nsysprof.analysis.overview.recording_cost import cost_of
from nsysprof.analysis.sampling.bench import summarize_bench
from nsysprof.analysis.sampling.significance import (
    MARGIN_PCT,
    CaseVerdict,
    Turns,
    compare_shape,
    estimate,
    fit,
    fit_differences,
    process_levels,
    turns_of,
)
from nsysprof.analysis.sampling.tune import (
    WINNER,
    cells_to_confirm,
    cells_to_measure,
    find_winners,
    replace_by_again,
)
from nsysprof.analysis.traffic.dram import dram_in_ranges
from nsysprof.arrays import Floats
from nsysprof.attention.shape import Case
from nsysprof.capture.sampling.bench import LOOKS, MOST_TURNS
from nsysprof.ranks.collective_waits.collectives import Arrivals
from nsysprof.ranks.collective_waits.stragglers import COLLECTIVES, find_late, judged_collectives
from nsysprof.ranks.job_facts import JobFacts
from nsysprof.ranks.job_findings import find_in_job
from nsysprof.results.analysis import STEPS
from nsysprof.results.column_registry.rank_columns import STRAGGLERS
from nsysprof.results.comparison import (
    LatencyChange,
    LatencyComparison,
    LatencyVerdict,
    Measured,
    Outcome,
)
from nsysprof.results.program_runs import TimedRun
from nsysprof.results.samples import Block
from nsysprof.trace.schema import DramSeries, GpuMetrics, Int64s
from scripts.busy_noise import BUSY_FAMILIES
from scripts.calibration_rows import ALARMS, COVERS, FINDS, HOLDS, NEVER, PASSES, Row
from scripts.rank_noise import RANK_FAMILIES
from scripts.studies.tables import template
from tests.builders.simulated_job import SimulatedJob

ROOT = Path(__file__).resolve().parents[1]
TRUE_NS = 100_000.0
BACKENDS = ("math", "flash", "efficient", "cudnn", "auto")


@dataclass(frozen=True)
class Noise:
    """A noise model."""

    name: str
    # Relative standard deviations between processes, between blocks, and between samples.
    process: float
    block: float
    sample: float = 0.01
    # The part of a sample's deviation that the next sample keeps.
    rho: float = 0.0
    # Cases differ in how noisy they are, by this factor up or down.
    uneven: float = 1.0
    # The first sample of each block is slower by this share.
    first: float = 0.0


MODELS = (
    Noise("blocks alone", 0.0, 0.005),
    Noise("processes half of blocks", 0.0025, 0.005),
    Noise("processes equal to blocks", 0.005, 0.005),
    Noise("processes twice blocks", 0.01, 0.005),
    Noise("autocorrelated samples", 0.003, 0.003, 0.02, 0.9),
    Noise("noisy and quiet cases", 0.005, 0.005, uneven=4.0),
    Noise("slow first samples", 0.005, 0.005, first=0.2),
)


# The cases of a gate; one of them is this much slower where something changed.
GATED = [Case("flash", seq=64 * (index + 1)) for index in range(20)]
GATED_NAMES = {case: str(case.seq) for case in GATED}
LIMIT_PCT = 3.0
# Steps of one run of a program that is measured in turn, and steps that are recorded of a running program.
STEPS_OF_RUN, RECORDED_STEPS = 30, 20
# Steps of a program whose sequences grow: the last one takes five times as long as the first (logarithms).
GROWTH = np.log(np.linspace(1.0, 5.0, STEPS_OF_RUN))
# Relative standard deviation of what is the same in both processes of a turn, as clocks are.
DRIFT = 0.02
# What two runs of the same code differ by, by the product's own assumption of 2 % (95 % of pairs), for each run.
BETWEEN_RUNS = 0.02 / 1.96 / np.sqrt(2)
# How much of its deviation a rank keeps from one step to the next where deviations last.
LASTING = 0.5
NOISY = Noise("processes of 2 %", 0.02, 0.005)
JITTERED = {
    "2 ranks, GPU-bound": SimulatedJob(2),
    "8 ranks, GPU-bound": SimulatedJob(8),
    "2 ranks, launch-bound": SimulatedJob(2, host_ns=2_500_000.0, gpu_ns=500_000.0),
    "4 ranks, no waits": SimulatedJob(4, waits=False, host_ns=2_200_000.0, gpu_ns=1_000_000.0),
    "2 ranks, a constant lag": SimulatedJob(2, waits=False, host_ns=2_500_000.0, gpu_ns=500_000.0, lag_ns=[0, 3e6]),
    "4 ranks, lasting deviations": SimulatedJob(4, rho=LASTING),
    "2 ranks, as FSDP: 12 collectives a step, launch-bound": SimulatedJob(
        2, collectives=12, host_ns=400_000.0, gpu_ns=100_000.0, waits=False, lag_ns=[0, 3e6]
    ),
}
# Of these, more collectives were recorded than are looked at.
LONG = {
    "2 ranks, 1200 collectives": SimulatedJob(2, steps=300),
    "2 ranks, 1200 collectives, lasting deviations": SimulatedJob(2, steps=300, rho=LASTING),
    "2 ranks, 1200 collectives, one a step": SimulatedJob(2, steps=1200, collectives=1),
}
# Ranks are the slower one in turn: for so many steps of a recording.
IN_TURN = {
    "2 ranks, one slower for some 5 of 40 steps in turn": SimulatedJob(2, in_turn_ns=2e6, in_turn_steps=5),
    "4 ranks, one slower for some 5 of 40 steps in turn": SimulatedJob(4, in_turn_ns=2e6, in_turn_steps=5),
    "2 ranks, one slower for some 20 of 150 steps in turn": SimulatedJob(2, 150, in_turn_ns=2e6, in_turn_steps=20),
}
# In these, ranks vary far more from step to step.
VARYING = {
    "2 ranks, steps vary by 8 %": SimulatedJob(2, jitter=0.08),
    "2 ranks, steps vary by 15 %": SimulatedJob(2, jitter=0.15),
    "2 ranks, the slower one in turn": SimulatedJob(2, in_turn_ns=2e6),
    "8 ranks, steps vary by 10 %": SimulatedJob(8, jitter=0.1),
}
# One rank takes so much longer on its GPU in each step, which takes about 9 ms.
SLOW_NS = (100_000.0, 200_000.0, 500_000.0)
# What a planted straggler costs is compared with the same job without it.
COSTLY_NS = (500_000.0, 2_000_000.0, 5_000_000.0)
RATES_HZ = (10_000, 20_000, 50_000, 100_000, 200_000)
PEAK_BYTES_PER_S = 4_800_000_000_000


FOLDER, PAGE = ROOT / "analysis/calibration", ROOT / "docs/calibration.md"
# So few runs are simulated again to see that the code still says what it said.
PROBE_RUNS = 3


@dataclass(frozen=True)
class Family:
    """Rows that were simulated together."""

    name: str
    seed: int
    runs: int
    rows: tuple[Row, ...]
    # How often the event of each row happens in PROBE_RUNS runs of the same seed.
    probe: tuple[int, ...]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=300, help="simulated runs for each row (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="+", choices=FAMILIES, default=list(FAMILIES), help="some families of rows")
    parser.add_argument("--write", action="store_true", help="write the families' files and the page")
    parser.add_argument("--page", action="store_true", help="write the page from the files alone")
    parser.add_argument("--check", action="store_true", help="simulate a few runs; say what is out of date")
    options = parser.parse_args()
    if options.check:
        found = problems()
        print("\n".join(found) or "the calibration is up to date")
        return int(bool(found))
    for name in [] if options.page else options.only:
        family = simulate(name, options.seed, options.runs)
        print("\n".join([f"## {name}", "", *table(family.rows), ""]), flush=True)
        if options.write:
            write_family(family)
    if options.write or options.page:
        PAGE.write_text(page(read_families()), encoding="utf-8")
    return 0


def simulate(name: str, seed: int, runs: int) -> Family:
    return Family(name, seed, runs, tuple(FAMILIES[name](seed, runs)), probe(name, seed))


def probe(name: str, seed: int) -> tuple[int, ...]:
    """Return how often the event of each row of a family happens in a few runs with the code as it is."""
    return tuple(int(row.hits) for row in FAMILIES[name](seed, PROBE_RUNS))


def write_family(family: Family) -> None:
    rows = [[row.model, row.what, int(row.hits), row.of, row.reach] for row in family.rows]
    lines = ",\n".join(f"    {json.dumps(row)}" for row in rows)
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / f"{family.name}.json").write_text(
        f'{{\n  "seed": {family.seed},\n  "runs": {family.runs},\n  "rows": [\n{lines}\n  ],\n'
        f'  "probe": {json.dumps(family.probe)}\n}}\n',
        encoding="utf-8",
    )


def read_families() -> list[Family]:
    """Return the families that have a file, in the order of the page."""
    found = []
    for name in FAMILIES:
        if (FOLDER / f"{name}.json").exists():
            data = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
            rows = tuple(Row(*row) for row in data["rows"])
            found.append(Family(name, data["seed"], data["runs"], rows, tuple(data["probe"])))
    return found


def problems() -> list[str]:
    """Return what is wrong with the files and the page."""
    families = read_families()
    found = [f"{name}: never simulated" for name in FAMILIES if name not in {each.name for each in families}]
    for family in families:
        if probe(family.name, family.seed) != family.probe:
            found.append(f"{family.name}: a verdict has changed; scripts/calibrate.py --only {family.name} --write")
    if PAGE.read_text(encoding="utf-8") != page(families):
        found.append(f"{PAGE.name} is not what the files say; scripts/calibrate.py --page")
    return found


def benches(seed: int, runs: int) -> Iterator[Row]:
    for index, noise in enumerate(MODELS):
        rng = np.random.default_rng([seed, index])
        for shapes, repeats in ((1, 4 * runs), (20, max(1, runs // 3))):
            yield from false_alarms(rng, noise, shapes, repeats)
            yield from coverage(rng, noise, shapes, repeats)
        yield from tuning(rng, noise, max(1, runs // 10))
    for difference in (0.02, 0.03, 0.05):
        yield from power(np.random.default_rng([seed, 99]), MODELS[2], difference, max(1, runs // 10))


def gates(seed: int, runs: int) -> Iterator[Row]:
    for index, noise in enumerate(MODELS):
        yield from gates_in_turn(np.random.default_rng([seed, 200 + index]), noise, runs)


def programs(seed: int, runs: int) -> Iterator[Row]:
    for index, noise in enumerate(MODELS):
        yield from programs_in_turn(np.random.default_rng([seed, 220 + index]), noise, 2 * runs)
    for index, noise in enumerate(MODELS):
        rng = np.random.default_rng([seed, 240 + index])
        yield from programs_in_turn(rng, noise, 2 * runs, "a program whose steps grow fivefold, in 3 turns", GROWTH)


def recordings(seed: int, runs: int) -> Iterator[Row]:
    for index, noise in enumerate(MODELS):
        if not noise.first:  # the first step does not count
            yield from steps_recorded(np.random.default_rng([seed, 230 + index]), noise, 4 * runs)


def comparisons(seed: int, runs: int) -> Iterator[Row]:
    for index, noise in enumerate(MODELS):
        yield from versions(np.random.default_rng([seed, 250 + index]), noise, runs)


def advices(seed: int, runs: int) -> Iterator[Row]:
    yield from advice(np.random.default_rng([seed, 300]), max(1, runs // 3))
    yield from advice_after_three(np.random.default_rng([seed, 310]), runs)


def dram(seed: int, runs: int) -> Iterator[Row]:
    yield from traffic(np.random.default_rng([seed, 400]), runs)


def false_alarms(rng: np.random.Generator, noise: Noise, shapes: int, repeats: int) -> Iterator[Row]:
    """Count shapes whose equal backends are told apart."""
    for count in (2, 5):
        told = sum(told_apart(measure(rng, noise, shapes, [1.0] * count)) for _ in range(repeats))
        yield Row(noise.name, f"{count} equal backends, {shapes} shapes: told apart", told, repeats * shapes, ALARMS)


def coverage(rng: np.random.Generator, noise: Noise, shapes: int, repeats: int) -> Iterator[Row]:
    """Count intervals of the latency and of the ratio that hold the truth, and false ties."""
    truth, apart = np.array([1.0, 1.02]), 1 + 1.05 * MARGIN_PCT / 100
    levels = ratios = same = 0
    for _ in range(repeats):
        measured = measure(rng, noise, shapes, truth)
        per_process = [process_levels(turns) for shape in measured for turns in shape.values()]
        prior = fit(per_process)
        for index, values in enumerate(per_process):
            found = estimate(values, prior)
            assert found is not None
            levels += abs(found.value - np.log(TRUE_NS * truth[index % 2])) <= found.reach()
        prior = fit_differences(measured)
        for shape in measured:
            pair = compare_shape(shape, prior)[BACKENDS[0], BACKENDS[1]]
            ratios += pair.low <= truth[1] <= pair.high
        same += sum(
            pair is CaseVerdict.SAME for shape in verdicts(measure(rng, noise, shapes, [1.0, apart])) for pair in shape
        )
    count = repeats * shapes
    yield Row(noise.name, f"95 % interval of the latency, {shapes} shapes: holds the truth", levels, 2 * count, COVERS)
    yield Row(noise.name, f"95 % interval of the ratio, {shapes} shapes: holds the truth", ratios, count, COVERS)
    yield Row(noise.name, f"{1.05 * MARGIN_PCT:.3g} % apart, {shapes} shapes: called a tie", same, count, ALARMS)


def power(rng: np.random.Generator, noise: Noise, difference: float, repeats: int) -> Iterator[Row]:
    """Count how often a true difference is found."""
    found = sum(told_apart(measure(rng, noise, 10, [1.0, 1 + difference])) for _ in range(repeats))
    yield Row(noise.name, f"{100 * difference:g} % slower, 10 shapes: found", found, repeats * 10)


def tuning(rng: np.random.Generator, noise: Noise, repeats: int) -> Iterator[Row]:
    """Count shapes of equal backends that get a winner from a tuner, which looks after each process, and again."""
    shapes, backends = 5, 4
    cells = [Case(name, seq=64 * (shape + 1)) for shape in range(shapes) for name in BACKENDS[:backends]]
    names = [f"{case.backend} {case.seq}" for case in cells]
    won = 0
    for _ in range(repeats):
        spreads = uneven(rng, noise, shapes)
        blocks: list[Block] = []
        for process in range(6):
            for cell in cells_to_measure(cells, blocks, 12) if blocks else range(len(cells)):
                blocks += process_blocks(rng, noise, cell, process, 2, 1.0, spreads[cell // backends])
        table = summarize_bench(cells, names, blocks, {}, {}).table
        again = [
            block
            for cell in cells_to_confirm(cells, table)
            for process in range(6, 9)
            for block in process_blocks(rng, noise, cell, process, 3, 1.0, spreads[cell // backends])
        ]
        table, _ = replace_by_again(table, summarize_bench(cells, names, again, {}, {}).table)
        won += int((find_winners(table)["verdict"] == WINNER).sum())
    yield Row(noise.name, "tune, 4 equal backends, 5 shapes, 6 looks: a winner", won, repeats * shapes, ALARMS)


def gates_in_turn(rng: np.random.Generator, noise: Noise, runs: int) -> Iterator[Row]:
    """Count answers of a gate of 3 % on twenty cases that are measured in turn until they are decided."""
    rules = parse_gate(f"slower:{LIMIT_PCT:g}%")
    regression, most = Outcome.REGRESSION, 1.029
    for text, factor, slower, outcome, reach, repeats in (
        ("20 unchanged cases: the gate passes", 1.0, 0, Outcome.PASS, PASSES, runs // 3),
        ("20 cases, one 2.9 % slower: the gate calls a regression", most, 1, regression, ALARMS, 2 * runs // 5),
        ("20 cases, all 2.9 % slower: the gate calls a regression", most, 20, regression, ALARMS, 4 * runs // 5),
        ("20 cases, one 3.15 % slower: the gate passes", 1.0315, 1, Outcome.PASS, ALARMS, 2 * runs // 3),
        ("20 cases, one 6 % slower: the gate calls a regression", 1.06, 1, regression, FINDS, runs // 5),
    ):
        hits = told = missed = 0
        for _ in range(max(1, repeats)):
            found = until_decided(rng, noise, factor, slower, rules)
            hits += judge(rules, found, (), ())[0].outcome is outcome
            told += any(change.verdict in (LatencyVerdict.SLOWER, LatencyVerdict.FASTER) for change in found.changes)
            missed += sum(not (change.low or 0) <= 1.0 <= (change.high or 0) for change in found.changes)
        yield Row(noise.name, f"in turn, {text}", hits, max(1, repeats), reach)
        if factor == 1.0:
            yield Row(noise.name, "in turn, 20 unchanged cases: any is told apart", told, max(1, repeats), ALARMS)
            misses = "in turn until decided, interval of the ratio: misses the truth"
            yield Row(noise.name, misses, missed, max(1, repeats) * len(GATED), ALARMS)


def until_decided(
    rng: np.random.Generator, noise: Noise, factor: float, slower: int, rules: Sequence[GateRule]
) -> LatencyComparison:
    """Return the comparison of two sides that are measured in turn for as long as `bench` does without --processes.

    The first `slower` cases of the candidate take `factor` times.
    """
    spreads = uneven(rng, noise, len(GATED))
    sides: list[dict[Case, list[tuple[tuple[int, ...], ...]]]] = [{case: [] for case in GATED} for _ in range(2)]
    for turns in (*LOOKS, MOST_TURNS):
        more = turns - len(sides[0][GATED[0]])
        drift = np.exp(rng.normal(0, DRIFT, more))
        for side, first in zip(sides, (1.0, factor), strict=True):
            for number, (case, spread) in enumerate(zip(GATED, spreads, strict=True)):
                levels = drift * (first if number < slower else 1.0)
                side[case] += measured(rng, noise, spread, levels).processes
        own = [
            {case: Measured("ok", processes=tuple(each), turns=tuple(range(turns))) for case, each in side.items()}
            for side in sides
        ]
        alpha = LAST_ALPHA if turns == MOST_TURNS else EARLY_ALPHA
        found = compare_in_turn(own[0], own[1], GATED_NAMES, Settings(LIMIT_PCT, alpha=alpha))
        if judge(rules, found, (), ())[0].outcome is not Outcome.INCONCLUSIVE:
            break
    return found


def programs_in_turn(
    rng: np.random.Generator,
    noise: Noise,
    repeats: int,
    text: str = "a program in 3 turns",
    course: Floats | float = 0.0,
) -> Iterator[Row]:
    """Count what `bench -- PROGRAM` says of two settings of a program, measured in turn three times.

    course: the logarithm by which each step takes longer than the first, in every run.
    """
    apart = 1 + 1.05 * LIMIT_PCT / 100
    told = held = same = found = 0
    for _ in range(repeats):
        equal, slower, far = (program_change(rng, noise, factor, course) for factor in (1.0, apart, 1.06))
        told += equal.verdict in (LatencyVerdict.SLOWER, LatencyVerdict.FASTER)
        held += (equal.low or 0) <= 1.0 <= (equal.high or 0)
        held += (slower.low or 0) <= apart <= (slower.high or 0)
        same += slower.verdict is LatencyVerdict.SAME
        found += far.verdict is LatencyVerdict.SLOWER
    yield Row(noise.name, f"{text}, equal settings: told apart", told, repeats, ALARMS)
    yield Row(noise.name, f"{text}, one 3.15 % slower: called the same", same, repeats, ALARMS)
    yield Row(noise.name, f"{text}: 95 % interval of the ratio holds the truth", held, 2 * repeats, COVERS)
    yield Row(noise.name, f"{text}, one 6 % slower: found", found, repeats)


def program_change(rng: np.random.Generator, noise: Noise, factor: float, course: Floats | float) -> LatencyChange:
    """Return what is said of a program whose steps take `factor` times as long with the candidate's settings.

    Both runs of a turn share a drift, and each process has an effect of its own.
    """
    spread = float(uneven(rng, noise, 1)[0])
    runs = []
    for turn, drift in enumerate(rng.normal(0, DRIFT, 3)):
        for side, level in (("baseline", 1.0), ("candidate", factor)):
            process = np.log(TRUE_NS * level) + drift + spread * rng.normal(0, noise.process)
            steps = process + course + spread * autocorrelated(rng, (1, STEPS_OF_RUN), noise)[0]
            steps[0] += noise.first
            times = tuple(np.exp(steps).astype(int).tolist())
            runs.append(TimedRun(side=side, turn=turn, status="ok", times_ns=times))
    return compare_program_runs(runs, "program", Settings(LIMIT_PCT))


def steps_recorded(rng: np.random.Generator, noise: Noise, repeats: int) -> Iterator[Row]:
    """Count what is said of recording a running program: steps while it is on, and before and after in the same run."""
    text = "steps of a run, recorded in between"
    held = 0
    for costs, reach in ((0.0, ALARMS), (0.05, ALARMS), (0.2, "")):
        distorted = 0
        for spread in uneven(rng, noise, repeats):
            steps = np.log(TRUE_NS) + spread * autocorrelated(rng, (1, 3 * RECORDED_STEPS), noise)[0]
            steps[RECORDED_STEPS:-RECORDED_STEPS] += np.log1p(costs)
            times = np.exp(steps).astype(int).tolist()
            plain = times[:RECORDED_STEPS] + times[-RECORDED_STEPS:]
            cost = cost_of(STEPS, plain, times[RECORDED_STEPS:-RECORDED_STEPS], before=RECORDED_STEPS)
            assert cost is not None
            distorted += cost.is_distorted
            held += (cost.slowdown_low or 0) <= 1 + costs <= (cost.slowdown_high or 0)
        slower = f"which slows them by {100 * costs:g} %" if costs else "which costs nothing"
        yield Row(noise.name, f"{text}, {slower}: called distorted", distorted, repeats, reach)
    yield Row(noise.name, f"{text}: 95 % interval of the slowdown holds the truth", held, 3 * repeats, COVERS)


def versions(rng: np.random.Generator, noise: Noise, repeats: int) -> Iterator[Row]:
    """Count what `compare` says of runs that were not measured in turn: three of each side, and one.

    Of eight cases one is slower by more than the limit; the others are the same code. Then all eight are nearly as much
    slower as the gate allows.
    """
    slower, most, cases = 1.05 * LIMIT_PCT / 100 + 1, 1.029, 8
    rules, name = parse_gate(f"slower:{LIMIT_PCT:g}%"), f"{noise.name}, runs of 0.7 %"
    for runs in (3, 1):
        told = same = held = failed = 0
        for _ in range(repeats):
            changed, *others = in_runs(rng, noise, slower, runs, cases).changes
            told += any(change.verdict in (LatencyVerdict.SLOWER, LatencyVerdict.FASTER) for change in others)
            held += sum((change.low or 0) <= 1.0 <= (change.high or 0) for change in others)
            held += (changed.low or 0) <= slower <= (changed.high or 0)
            same += changed.verdict is LatencyVerdict.SAME
        for _ in range(max(1, repeats // 2)):
            found = in_runs(rng, noise, most, runs, cases, changed=cases)
            failed += judge(rules, found, (), ())[0].outcome is Outcome.REGRESSION
        each = f"compare, {runs} run{'s' if runs > 1 else ''} a side, {cases} cases"
        yield Row(name, f"{each}, unchanged ones: any is told apart", told, repeats, ALARMS)
        yield Row(name, f"{each}, one {1.05 * LIMIT_PCT:.3g} % slower: called the same", same, repeats, ALARMS)
        yield Row(name, f"{each}: 95 % interval of the ratio holds the truth", held, repeats * cases, COVERS)
        text = f"{each}, all 2.9 % slower: the gate calls a regression"
        yield Row(name, text, failed, max(1, repeats // 2), ALARMS)


def advice(rng: np.random.Generator, repeats: int) -> Iterator[Row]:
    """Count how often the advised number of turns, or of runs, finds one case that is slower by the margin."""
    found = of = 0
    for _ in range(repeats):
        (pilot, *_) = in_turn(rng, NOISY, 1.0, 3).changes
        if pilot.more:
            again = in_turn(rng, NOISY, 1 + LIMIT_PCT / 100, 3 + pilot.more).changes[0]
            found, of = found + (again.verdict is LatencyVerdict.SLOWER), of + 1
    yield Row(NOISY.name, "20 cases, one 3 % slower: found with the advised number of turns", found, of, FINDS)
    found = of = 0
    for _ in range(repeats):
        (pilot, *_) = in_runs(rng, MODELS[2], 1.0, 1, cases=3).changes
        if pilot.more:
            again = in_runs(rng, MODELS[2], 1 + LIMIT_PCT / 100, 1 + pilot.more, cases=3).changes[0]
            found, of = found + (again.verdict is LatencyVerdict.SLOWER), of + 1
    text = "3 cases, one 3 % slower: found with the number of runs advised after one"
    yield Row(f"{MODELS[2].name}, runs of 0.7 %", text, found, of, FINDS)


def advice_after_three(rng: np.random.Generator, repeats: int) -> Iterator[Row]:
    """Count how often the number of runs that is advised after three noisy ones finds a case slower by the margin."""
    found = of = 0
    for _ in range(repeats):
        (pilot, *_) = in_runs(rng, NOISY, 1.0, 3, cases=3).changes
        if pilot.more:
            again = in_runs(rng, NOISY, 1 + LIMIT_PCT / 100, 3 + pilot.more, cases=3).changes[0]
            found, of = found + (again.verdict is LatencyVerdict.SLOWER), of + 1
    text = "3 cases, one 3 % slower: found with the number of runs advised after three"
    yield Row(f"{NOISY.name}, runs of 0.7 %", text, found, of, FINDS)


def traffic(rng: np.random.Generator, runs: int) -> Iterator[Row]:
    """Count DRAM bytes of ranges that lie within their error bars, for samples whose clock is off by up to 5 us."""
    for rate in RATES_HZ:
        period = round(1e9 / rate)
        held = of = 0
        for _ in range(max(1, runs // 20)):
            series, start, end, truth = sampled_reads(rng, period)
            found = dram_in_ranges(GpuMetrics((series,)), start, end)
            known = found.known
            held += int((np.abs(found.read_bytes - truth) <= found.read_error_bytes)[known].sum())
            of += int(known.sum())
        yield Row(f"samples at {rate // 1000} kHz", "DRAM bytes: within the error bar", held, of, HOLDS)


def sampled_reads(rng: np.random.Generator, period: int) -> tuple[DramSeries, Int64s, Int64s, Int64s]:
    """Return samples of bursts of reads, and when each burst began and ended by another clock, and its bytes."""
    tick = 200
    lengths = rng.integers(period + tick, 40 * period, 40)
    rates, pauses = rng.uniform(0.1, 0.95, 40), rng.integers(0, 4 * period, 40)
    end = np.cumsum(lengths + pauses)
    start = end - lengths
    ticks = np.arange(0, int(end[-1]) + 4 * period, tick)
    burst = np.searchsorted(end, ticks, side="right").clip(max=39)
    rate = np.where(ticks >= start[burst], rates[burst], 0.02) * (ticks < end[-1])
    # Within a burst the rate is not even: it begins slowly, and it varies.
    rate = rate * np.where(ticks - start[burst] < 2_000, 0.5, 1.0) * rng.uniform(0.9, 1.0, len(ticks))
    moved = np.concatenate(([0.0], np.cumsum(rate * tick)))
    edges = np.arange(0, int(ticks[-1]), period)
    percent = np.rint(100 * np.diff(np.interp(edges, np.append(ticks, ticks[-1] + tick), moved)) / period)
    lag = round(rng.uniform(-5_000, 5_000))
    series = DramSeries(0, 0, PEAK_BYTES_PER_S, period, edges[:-1] + lag, percent.astype(np.int16),
                        np.zeros(len(percent), np.int16), 100, 0)  # fmt: skip
    at = np.append(ticks, ticks[-1] + tick)
    truth = (np.interp(end, at, moved) - np.interp(start, at, moved)) * PEAK_BYTES_PER_S / 1e9
    return series, start, end, np.rint(truth).astype(np.int64)


def in_turn(rng: np.random.Generator, noise: Noise, factor: float, turns: int) -> LatencyComparison:
    """Return the comparison of two sides measured in turn; the first case of the candidate takes `factor` times."""
    drift, spreads = np.exp(rng.normal(0, DRIFT, turns)), uneven(rng, noise, len(GATED))
    sides = [
        {case: measured(rng, noise, spread, drift * (first if case is GATED[0] else 1))
         for case, spread in zip(GATED, spreads, strict=True)}
        for first in (1.0, factor)
    ]  # fmt: skip
    return compare_in_turn(sides[0], sides[1], GATED_NAMES, Settings(LIMIT_PCT))


def in_runs(
    rng: np.random.Generator, noise: Noise, factor: float, runs: int, cases: int = len(GATED), changed: int = 1
) -> LatencyComparison:
    """Return the comparison of so many runs of each side, each of three processes and with an effect of its own.

    The first `changed` cases of the candidate take `factor` times.
    """
    own, spreads = GATED[:cases], uneven(rng, noise, cases)
    sides = [
        [{case: measured(rng, noise, spread, np.full(3, effect * (first if case in GATED[:changed] else 1)))
          for case, spread, effect in zip(own, spreads, np.exp(rng.normal(0, BETWEEN_RUNS, cases)), strict=True)}
         for _ in range(runs)]
        for first in (1.0, factor)
    ]  # fmt: skip
    return compare_latencies(sides[0], sides[1], GATED_NAMES, Settings(LIMIT_PCT))


def measured(rng: np.random.Generator, noise: Noise, spread: float, levels: Sequence[float]) -> Measured:
    """Return a case whose processes take `levels` times TRUE_NS."""
    blocks = [process_blocks(rng, noise, 0, process, 5, level, spread) for process, level in enumerate(levels)]
    processes = tuple(tuple(block.values_ns for block in own) for own in blocks)
    return Measured("ok", processes=processes, turns=tuple(range(len(processes))))


def stragglers(seed: int, runs: int) -> Iterator[Row]:
    """Count jobs in which a straggler is named: where there is none, and where there is one."""
    for name, job in (JITTERED | IN_TURN | LONG).items():
        count = runs // 3 if name in LONG else runs
        arrivals = (job.run([seed, run])[0] for run in range(count))
        found = [
            (bool(find_late(COLLECTIVES, each, [])[1]), name in JITTERED and is_uneven(job, each)) for each in arrivals
        ]
        yield Row(name, "jobs without a straggler: one is named", sum(late for late, _ in found), count, ALARMS)
        if name in JITTERED:
            yield Row(name, "jobs of even work: uneven-work is named", sum(each for _, each in found), count, ALARMS)
    for slow in SLOW_NS:
        job = SimulatedJob(4, slow_gpu_ns=[0, 0, slow])
        late = [find_late(COLLECTIVES, job.run([seed, run])[0], [])[1] for run in range(runs // 4)]
        named = sum([each.rank for each in found] == [2] for found in late)
        yield Row(
            "4 ranks, GPU-bound", f"one is {slow / 1e6:g} ms slower in each step: it alone is named", named, runs // 4
        )


def is_uneven(job: SimulatedJob, arrived: Arrivals) -> bool:
    """Return whether the findings of a job say that its work is uneven, by what ranks did between collectives."""
    count = job.steps
    last = ends(arrived).reshape(count, -1)[:, -1]
    walls = np.diff(last)
    facts = {}
    for rank, waited, matched in zip(arrived.ranks, arrived.duration_ns, arrived.matched, strict=True):
        own = walls - waited.reshape(count, -1).sum(axis=1)[1:]
        computed = np.diff(matched.collectives.computed_ns.reshape(count, -1)[:, -1])
        facts[rank] = JobFacts("step", *(tuple(times.tolist()) for times in (walls, own, computed)))
    return any(item.code == "uneven-work" for item in find_in_job(facts, pd.DataFrame(columns=list(STRAGGLERS.names))))


def costs(seed: int, runs: int) -> Iterator[Row]:
    """Count costs of planted stragglers near to the time that the job takes less without them, and their intervals."""
    jobs = [
        (f"{ranks} ranks, {'lasting deviations' if rho else 'GPU-bound'}", SimulatedJob(ranks, rho=rho), slow,
         [seed, ranks, number], runs)
        for ranks, rho in ((2, 0.0), (4, 0.0), (2, LASTING), (4, LASTING))
        for number, slow in enumerate(COSTLY_NS)
    ]  # fmt: skip
    jobs += [(name, varying, 3e6, [seed, 20, number], runs) for number, (name, varying) in enumerate(VARYING.items())]
    jobs += [(name, long, COSTLY_NS[0], [seed, long.ranks, 9], runs // 2) for name, long in LONG.items()]
    with ProcessPoolExecutor() as workers:
        for rows in workers.map(cost, *zip(*jobs, strict=True)):
            yield from rows


def cost(name: str, plain: SimulatedJob, slow: float, seed: list[int], runs: int) -> list[Row]:
    """Count for jobs whose last rank takes so much longer (ns) in each step."""
    job = replace(plain, slow_gpu_ns=[0] * (plain.ranks - 1) + [slow])
    judged, truths, found = [], [], []
    for run in range(runs):
        (arrived, _), (without, _) = (each.run([*seed, run]) for each in (job, plain))
        first, last = judged_collectives(arrived) or (0, 0)
        span, less = (float(np.diff(ends(each)[[first, last]])[0]) for each in (arrived, without))
        judged.append(last - first)
        truths.append(span - less)
        found.append([late for late in find_late(COLLECTIVES, arrived, [])[1] if late.rank == plain.ranks - 1])
    # What such jobs take less on average, for as many steps.
    usual = sum(truths) / sum(judged)
    named = [
        (late[0].cost_ns or 0, late[0].cost_low_ns or 0, late[0].cost_high_ns or 0, truth, usual * count)
        for late, truth, count in zip(found, truths, judged, strict=True)
        if late
    ]
    near = sum(abs(cost - truth) <= 0.2 * truth for cost, _, _, truth, _ in named)
    held = sum(low <= mean <= high for _, low, high, _, mean in named)
    what = f"one is {slow / 1e6:g} ms slower in each step, and named"
    return [
        Row(name, f"{what}: its cost is within 20 % of what this job takes less without", near, len(named), HOLDS),
        Row(name, f"{what}: 95 % interval of its cost holds what such jobs take less", held, len(named), COVERS),
    ]


def ends(arrived: Arrivals) -> Int64s:
    """Return when each collective ended (ns), in order."""
    return np.sort((arrived.begin_ns + arrived.duration_ns).max(axis=0))


def verdicts(measured: Sequence[Mapping[str, Turns]]) -> Iterator[list[CaseVerdict]]:
    """Yield for each shape the verdicts on all other backends against the one with the lowest level."""
    prior = fit_differences(measured)
    for shape in measured:
        best = min(shape, key=lambda name: float(process_levels(shape[name]).mean()))
        pairs = compare_shape(shape, prior)
        yield [pair.verdict() for (baseline, _), pair in pairs.items() if baseline == best]


def told_apart(measured: Sequence[Mapping[str, Turns]]) -> int:
    return sum(CaseVerdict.SLOWER in shape or CaseVerdict.FASTER in shape for shape in verdicts(measured))


def measure(
    rng: np.random.Generator, noise: Noise, shapes: int, factors: Sequence[float], processes: int = 3
) -> list[dict[str, Turns]]:
    """Return what a bench of `shapes` shapes measures, whose backends take `factors` times TRUE_NS."""
    found = []
    for spread in uneven(rng, noise, shapes):
        blocks = [
            [block for process in range(processes) for block in process_blocks(rng, noise, 0, process, 5, each, spread)]
            for each in factors
        ]
        found.append({name: turns_of(own) for name, own in zip(BACKENDS, blocks, strict=False)})
    return found


def uneven(rng: np.random.Generator, noise: Noise, count: int):
    return np.exp(rng.uniform(-1, 1, count) * np.log(noise.uneven))


def process_blocks(
    rng: np.random.Generator, noise: Noise, cell: int, process: int, rounds: int, factor: float, spread: float
) -> list[Block]:
    level = np.log(TRUE_NS * factor) + spread * rng.normal(0, noise.process)
    samples = level + spread * (rng.normal(0, noise.block, (rounds, 1)) + autocorrelated(rng, (rounds, 10), noise))
    samples[:, 0] += noise.first
    values = np.exp(samples).astype(int).tolist()
    return [
        Block(cell, process, turn, "ok", started_ns=1000 * (process * rounds + turn), values_ns=tuple(own))
        for turn, own in enumerate(values)
    ]


def autocorrelated(rng: np.random.Generator, shape: tuple[int, int], noise: Noise):
    """Return series of samples, one a row, of which each keeps a part of the one before."""
    found = rng.normal(0, noise.sample, shape)
    fresh = np.sqrt(1 - noise.rho**2)
    for index in range(1, shape[1] if noise.rho else 0):
        found[:, index] = noise.rho * found[:, index - 1] + fresh * found[:, index]
    return found


def page(families: Sequence[Family]) -> str:
    """Return the page of the documentation."""
    rows = [row for family in families for row in family.rows]
    every = [(family, row) for family in families for row in family.rows]
    missed = [(family, row) for family, row in every if not row.is_met and not row.is_short]
    refused = [(family, row) for family, row in every if row.is_refusal and row.hits]
    captures = _captures_of(next((family.rows for family in families if family.name == "ranked-captures"), ()))
    return template("calibration").format(
        steps_of_run=STEPS_OF_RUN, recorded_steps=RECORDED_STEPS, probe_runs=PROBE_RUNS,
        summary="\n".join(_summary(rows)), families="\n".join(map(_family_line, families)),
        captures="\n".join(captures), refused="\n".join(_rows_of(refused)),
        missed="\n".join(["", "## Not met", "", *_rows_of(missed), ""]) if missed else "",
    )  # fmt: skip


def _captures_of(rows: Sequence[Row]) -> list[str]:
    """Return the table of what captures tell, by noise and the number of samples."""
    shown: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        samples = row.what.removeprefix("capture of ").split()[0]
        if row.what.endswith((": any is told apart", ": found")):
            shown.setdefault((row.model, samples), []).append(f"{100 * row.share:.0f} %")
    lines = ["| noise | samples | equal | 3 % | 10 % | 20 % | 2 times | 6 times |", "|---|--:|--:|--:|--:|--:|--:|--:|"]
    return lines + [f"| {model} | {samples} | {' | '.join(cells)} |" for (model, samples), cells in shown.items()]


def _rows_of(named: Sequence[tuple[Family, Row]]) -> list[str]:
    """Return the table of rows that stand beside the name of their family."""
    lines = ["| family | noise | counted | share | interval | asked |", "|---|---|---|--:|--:|---|"]
    for family, row in named:
        low, high = row.interval
        share, interval = f"{100 * row.share:.1f} %", f"{100 * low:.1f} to {100 * high:.1f} %"
        lines.append(f"| {family.name} | {row.model} | {row.what} | {share} | {interval} | {row.reach} |")
    return lines


def table(rows: Sequence[Row]) -> list[str]:
    lines = ["| noise | counted | times | of | share | interval | asked |", "|---|---|--:|--:|--:|--:|---|"]
    for row in rows:
        low, high = row.interval
        met = "" if row.is_met else ": **not met**"
        lines.append(
            f"| {row.model} | {row.what} | {row.hits:,} | {row.of:,} | {100 * row.share:.1f} % "
            f"| {100 * low:.1f} to {100 * high:.1f} % | {row.reach}{met} |"
        )
    return lines


def _summary(rows: Sequence[Row]) -> list[str]:
    asked = [row for row in rows if row.reach]
    met, short = sum(row.is_met for row in asked), sum(row.is_short and not row.is_met for row in asked)
    return [
        f"{met} of {len(asked)} rows are as asked.",
        f"{short} others have errors of at most 5 %, but too few runs to bound them by 7 %.",
        f"{len(asked) - met - short} are not as asked; the table below has each.",
    ]


def _family_line(family: Family) -> str:
    """Return the line of a family in the summary."""
    asked = [row for row in family.rows if row.reach]
    errors = [row.share for row in asked if row.reach in (ALARMS, NEVER)]
    held = [row.share for row in asked if row.reach == COVERS]
    worst = f"{100 * max(errors):.1f} %" if errors else ""
    intervals = f"{100 * min(held):.1f} to {100 * max(held):.1f} %" if held else ""
    command = f"scripts/calibrate.py --only {family.name} --runs {family.runs} --seed {family.seed} --write"
    met = f"{sum(row.is_met for row in asked)} of {len(asked)}"
    return f"| {family.name} | {len(family.rows)} | {met} | {worst} | {intervals} | `{command}` |"


# The names are those of the files.
FAMILIES = {
    "bench": benches,
    "gate": gates,
    "programs": programs,
    "recording": recordings,
    "compare": comparisons,
    "advice": advices,
    "dram": dram,
    "stragglers": stragglers,
    "cost": costs,
    **RANK_FAMILIES,
    **BUSY_FAMILIES,
}


if __name__ == "__main__":
    raise SystemExit(main())
