"""Measure two installations or environments in turn from Python, as `nsysprof bench --baseline --candidate` does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nsysprof.api.request_fields import make_request, takes_fields_of
from nsysprof.app.inputs.grid import Grid
from nsysprof.app.progress import SILENT, Progress
from nsysprof.app.requests.attention import BenchRequest

if TYPE_CHECKING:
    from nsysprof.app.measuring.bench_sides import SidesResult


@takes_fields_of(BenchRequest, but=("processes", "self_check", "copies", "db"))
def bench_sides(
    grid: Grid,
    baseline: str,
    candidate: str,
    *,
    turns: int | None = None,
    fail_on: str = "",
    margin_pct: float | None = None,
    progress: Progress = SILENT,
    **fields: Any,
) -> SidesResult:
    """Measure the grid with two settings in turn and compare them; write the folder of both.

    `result.comparison` has a verdict for each case, and `result.comparison.outcome` the answer of the gate.

    baseline, candidate: settings NAME=VALUE and at most one Python, as in a command of `env`; empty for this one.
    turns: how often each side is measured; None for as many as decide every case (3 to 24).
    fail_on: the rules of a gate, such as "slower:3%".
    margin_pct: the smallest difference that matters (percent of the latency).
    """
    from nsysprof.app.measuring.bench_sides import bench_sides as run
    from nsysprof.app.requests.attention import SidesRequest, parse_side

    bench = make_request(BenchRequest, grid=grid, processes=3 if turns is None else turns, **fields)
    sides = parse_side(baseline), parse_side(candidate)
    result = run(SidesRequest(bench, *sides, fail_on, margin_pct, until_decided=turns is None), progress)
    if result.failure is not None:
        raise result.failure
    return result
