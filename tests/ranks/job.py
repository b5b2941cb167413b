"""Traces of a job as its ranks would have recorded it: everybody leaves a collective when the last one has come."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from tests.builders.build_trace import OTHER_TID, TraceBuilder

MS = 1_000_000
UTC = 1_790_000_000 * 10**9
ALL_REDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"
Cost = Callable[[int, str], int]


def usual(_rank: int, part: str) -> int:
    """ns that a rank computes in a part of a step."""
    return {"forward": 2 * MS, "backward": 4 * MS}[part]


def slow_in_backward(rank: int, part: str) -> int:
    """Rank 2 takes half as long again in the backward pass."""
    return usual(rank, part) + (2 * MS if rank == 2 and part == "backward" else 0)


def write_job(
    folder: Path,
    ranks: int,
    cost: Cost = usual,
    *,
    steps: int = 12,
    hosts: Sequence[str | None] | None = None,
    skew_ns: Callable[[int], int] = lambda rank: rank * 37 * MS,
    drift: Callable[[int, int], int] = lambda _rank, _step: 0,
    utc_error_ns: Callable[[int], int] = lambda _rank: 0,
    name: str = "rank{}.sqlite",
    collective: str = ALL_REDUCE,
) -> list[Path]:
    """skew_ns: how much later than UTC each rank's session began. drift: added to a rank's clock in a step."""
    folder.mkdir(parents=True, exist_ok=True)
    builders = [TraceBuilder() for _ in range(ranks)]
    clock = 100 * MS
    for step in range(steps):
        arrivals = [clock + cost(rank, "forward") + cost(rank, "backward") for rank in range(ranks)]
        done = max(arrivals) + MS // 2
        for rank, builder in enumerate(builders):
            _step(builder, step, clock - skew_ns(rank) + drift(rank, step), cost, rank, done - clock, collective)
        clock = done + MS
    for rank, builder in enumerate(builders):
        start = UTC + skew_ns(rank) + utc_error_ns(rank)
        builder.row("TARGET_INFO_SESSION_START_TIME", "utcEpochNs INTEGER", (start,))
        host = hosts[rank] if hosts else None
        if host is not None:
            builder.row("TARGET_INFO_SYSTEM_ENV", "name TEXT, value TEXT", ("Hostname", host))
        builder.fact("EXPORT_PRODUCT_VERSION", "2025.3.2.0", "META_DATA_EXPORT")
    return [builder.write(folder / name.format(rank)) for rank, builder in enumerate(builders)]


def _step(builder: TraceBuilder, step: int, begin: int, cost: Cost, rank: int, until: int, collective: str) -> None:
    forward, backward = cost(rank, "forward"), cost(rank, "backward")
    number = 10 * step + 1
    builder.range(begin, begin + until, f"step{step}")
    builder.range(begin + 10, begin + 1000, "forward")
    builder.range(begin + 1000, begin + 5000, "backward")
    builder.call(begin + 20, begin + 30, number)
    builder.kernel(begin + 100, begin + forward, number, "gemm")
    # Autograd launches from a thread of its own, without ranges.
    builder.call(begin + 1100, begin + 1200, number + 1, tid=OTHER_TID)
    builder.kernel(begin + forward, begin + forward + backward, number + 1, "gemm_backward")
    builder.call(begin + 1300, begin + 1400, number + 2, tid=OTHER_TID)
    builder.kernel(begin + forward + backward, begin + until, number + 2, collective, stream=17)
    builder.call(begin + 5100, begin + until, number + 3, "cudaStreamSynchronize_v3020")
