"""Measure two installations or environments in turn from Python, as `nsysprof bench --baseline --candidate` does."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from nsysprof.api.use_cases import Device, Source
from nsysprof.app.inputs.grid import Grid
from nsysprof.app.progress import SILENT, Progress

if TYPE_CHECKING:
    from nsysprof.app.measuring.bench_sides import SidesResult


def bench_sides(
    grid: Grid,
    baseline: str,
    candidate: str,
    *,
    turns: int | None = None,
    rounds: int = 5,
    samples: int = 10,
    sample_seconds: float = 1.0,
    warmup_seconds: float = 1.0,
    seed: int | None = None,
    device: Device = "auto",
    fail_on: str = "",
    margin_pct: float | None = None,
    out: Source | None = None,
    force: bool = False,
    figures: bool = True,
    progress: Progress = SILENT,
) -> SidesResult:
    """Measure the grid with two settings in turn and compare them; write the folder of both.

    `result.comparison` has a verdict for each case, and `result.comparison.outcome` the answer of the gate.

    baseline, candidate: settings NAME=VALUE and at most one Python, as in a command of `env`; empty for this one.
    turns: how often each side is measured; None for as many as decide every case (3 to 24).
    fail_on: the rules of a gate, such as "slower:3%".
    margin_pct: the smallest difference that matters (percent of the latency).
    """
    from nsysprof.app.measuring.bench import BenchRequest
    from nsysprof.app.measuring.bench_sides import SidesRequest, parse_side
    from nsysprof.app.measuring.bench_sides import bench_sides as run

    measured = BenchRequest(
        grid=grid,
        processes=3 if turns is None else turns,
        rounds=rounds,
        samples=samples,
        sample_seconds=sample_seconds,
        warmup_seconds=warmup_seconds,
        seed=seed,
        device=device,
        out=None if out is None else Path(out),
        force=force,
        figures=figures,
    )
    sides = parse_side(baseline), parse_side(candidate)
    request = SidesRequest(measured, *sides, fail_on=fail_on, margin_pct=margin_pct, until_decided=turns is None)
    result = run(request, progress)
    if result.failure is not None:
        raise result.failure
    return result
