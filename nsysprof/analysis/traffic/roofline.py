"""Compute how fast each case is compared with what the device can do, and what limits it."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from nsysprof.attention.shape import Case, attention_flops, case_of_row, least_bytes
from nsysprof.results.column_registry.case_columns import CAPTURE_RESULTS
from nsysprof.results.column_registry.column import Dtype
from nsysprof.results.column_registry.csv_table import pandas_dtype
from nsysprof.results.kernel_counters import Run
from nsysprof.results.roof import (
    COMPUTE,
    COUNTED,
    FEW_WARPS_PCT,
    L2,
    LAUNCH,
    LAUNCH_BOUND_SHARE,
    MEMORY,
    NEAR_PCT,
    OCCUPANCY,
    OTHER,
    UNKNOWN,
    Roof,
    dram_of,
    known,
    sampled_of,
)
from nsysprof.results.samples import Block, event_over_graph, steady_samples
from nsysprof.units import format_bytes, format_ns, format_rate

ROOFLINE_COLUMNS = (
    "flops", "least_bytes", "dram_bytes", "dram_error_bytes", "dram_source", "intensity", "flops_per_s",
    "flops_per_s_low", "flops_per_s_high", "roof_flops_per_s", "above_roof", "limiter", "why",
    "dram_beyond_error_bytes",
)  # fmt: skip
# Where a flush of the L2 cache hides the launching, samples scatter by less than this share of their mean.
_SCATTER = 0.1


def fill_roofline(results: pd.DataFrame, counted: pd.DataFrame, roof: Roof | None, *, on_gpu: bool) -> pd.DataFrame:
    """Return `results` with ROOFLINE_COLUMNS per call; NA where unknown.

    flops and least_bytes come from a formula. dram_bytes were counted or else sampled (with an error), as dram_source
    says. intensity is FLOP by formula per byte of DRAM.

    counted: the result of counted_table.
    """
    launches = {str(name): rows for name, rows in counted.groupby("range", sort=False)}
    rows = [_point(row, launches.get(str(row["range"])), roof, on_gpu) for row in results.to_dict("records")]
    filled = results.copy()
    for column in ROOFLINE_COLUMNS:
        values = [row.get(column) for row in rows]
        registered = CAPTURE_RESULTS.by_name[column]
        if registered.dtype is Dtype.TEXT:
            filled[column] = [value or "" for value in values]
        else:
            filled[column] = pd.array(values, dtype=pandas_dtype(registered))
    return filled


def _point(row: Mapping[Any, Any], launches: pd.DataFrame | None, roof: Roof | None, on_gpu: bool) -> dict[str, Any]:
    case = _case_of(row)
    flops = attention_flops(case)
    point: dict[str, Any] = {"flops": flops, "least_bytes": least_bytes(case)}
    moved, error, source = dram_of(row)
    if moved is not None:
        point |= {"dram_bytes": moved, "dram_error_bytes": error, "dram_source": source}
        if moved > 0:
            point["intensity"] = flops / moved
    point["dram_beyond_error_bytes"] = _beyond_error(row)
    for end, column in (("", "median"), ("_high", "ci_low"), ("_low", "ci_high")):
        time = known(row[f"latency_{column}_ns"])
        if time:
            point[f"flops_per_s{end}"] = flops / (time * 1e-9)
    if roof is not None and moved is not None and "flops_per_s" in point:
        top = roof.flops_at(point.get("intensity", math.inf), case.dtype)
        if top is not None:
            point |= {"roof_flops_per_s": top, "above_roof": bool(point["flops_per_s"] > top)}
    if on_gpu and row["status"] == "ok":
        point["limiter"], point["why"] = find_limit(row, launches, roof)
    return point


def _beyond_error(row: Mapping[Any, Any]) -> int | None:
    """Return how far counted and sampled bytes of DRAM differ beyond the error of the sampled; None without both."""
    counted, _, source = dram_of(row)
    sampled, error = sampled_of(row)
    if source != COUNTED or counted is None or sampled is None or error is None:
        return None
    return max(0, abs(counted - sampled) - error)


def _case_of(row: Mapping[Any, Any]) -> Case:
    causal = row["causal"] if isinstance(row["causal"], bool) else str(row["causal"]) == "True"
    return case_of_row({**row, "causal": causal})


def find_limit(row: Mapping[Any, Any], launches: pd.DataFrame | None, roof: Roof | None) -> tuple[str, str]:
    """Return what limits a case, the numbers that show it, and what was not measured."""
    latency, calls = known(row["latency_median_ns"]), known(row["traced_calls"])
    total, count = known(row["kernel_total_ns"]), known(row["launch_count"])
    idle = ""
    if latency and calls and total is not None:
        busy = total / calls
        share = busy / latency
        launches_per_call = None if count is None else count / calls
        launched = (
            ""
            if launches_per_call is None
            else f" of {launches_per_call:g} launch{'' if launches_per_call == 1 else 'es'}"
        )
        idle = f"kernels{launched} fill {format_ns(busy)} of {format_ns(latency)}"
        if is_launch_bound(busy, latency, known(row.get("event_over_graph"))):
            return LAUNCH, f"{idle}: the GPU waits for the CPU for {_percent(100 * (1 - share))} of a call"
    detail = None if launches is None else launches[launches["run"] == Run.DETAIL.value]
    if detail is None or not len(detail):
        return _without_counters(row, roof, idle)
    return _by_kernels(launches, detail, roof, idle)


def _without_counters(row: Mapping[Any, Any], roof: Roof | None, idle: str) -> tuple[str, str]:
    moved, error = sampled_of(row)
    busy, calls = known(row["gpu_busy_ns"]), known(row["traced_calls"])
    missing = "utilisation and occupancy were not measured (no hardware counters)"
    said = f"{idle}; " if idle else ""
    if moved is None or error is None or roof is None or not busy:
        return UNKNOWN, f"{said}DRAM traffic, {missing}"
    rate = (moved - error) / (busy / calls * 1e-9)
    share = 100 * rate / roof.bytes_per_s
    traffic = f"at least {format_rate(max(rate, 0.0), 'B/s')} of DRAM, {_percent(max(share, 0.0))} of a copy's rate"
    return (MEMORY if share >= NEAR_PCT else UNKNOWN), f"{said}{traffic}; {missing}"


@dataclass(frozen=True)
class _LimitedLaunch:
    """One launch: how long it took, what limited it, and the numbers that show it."""

    time_ns: float
    limiter: str
    text: str


def _by_kernels(launches: pd.DataFrame | None, detail: pd.DataFrame, roof: Roof | None, idle: str) -> tuple[str, str]:
    """Return the limiter with the most kernel time. Each launch is judged separately."""
    assert launches is not None
    traffic = launches[launches["run"] == Run.TRAFFIC.value].set_index("position")
    held = [_limit_of_launch(row, traffic, roof) for row in detail.to_dict("records")]
    total = sum(launch.time_ns for launch in held)
    shares: dict[str, float] = {}
    for launch in held:
        shares[launch.limiter] = shares.get(launch.limiter, 0.0) + launch.time_ns
    order = sorted(shares, key=lambda limiter: -shares[limiter])
    first = order[0]
    worst = max((launch for launch in held if launch.limiter == first), key=lambda launch: launch.time_ns)
    parts = [worst.text if len(held) == 1 else f"its longest such kernel: {worst.text}"]
    if len(order) > 1 or len(held) > 1:
        mix = ", ".join(f"{limiter} {_percent(100 * shares[limiter] / total)}" for limiter in order)
        parts.insert(0, f"of {format_ns(total)} of kernels: {mix}")
    if idle:
        parts.append(idle)
    unmeasured = (
        "stall reasons were not measured" if roof is not None else "the ceilings of this device were not measured"
    )
    return first, "; ".join([*parts, unmeasured])


def _limit_of_launch(row: Mapping[Any, Any], traffic: pd.DataFrame, roof: Roof | None) -> _LimitedLaunch:
    time = known(row["time_ns"]) or 0.0
    natural = traffic.loc[row["position"]] if row["position"] in traffic.index else None
    facts = list(_shares(row, natural, roof))
    near = [fact for fact in facts if fact[1] >= NEAR_PCT]
    if any(limiter == MEMORY for limiter, _, _ in near):  # data from DRAM passes through the L2 as well
        near = [fact for fact in near if fact[0] != L2]
    if near:
        limiter, _, text = max(near, key=lambda fact: fact[1])
        return _LimitedLaunch(time, limiter, text)
    reached = ", ".join(text for _, _, text in facts) or "no utilisation is known"
    limit = known(row["occupancy_limit_pct"])
    few = limit is not None and limit <= FEW_WARPS_PCT
    text = reached if limit is None else f"{_fits(row, limit)}; {reached}"
    return _LimitedLaunch(time, OCCUPANCY if few else OTHER, text)


def _shares(row: Mapping[Any, Any], natural: Any, roof: Roof | None) -> Iterator[tuple[str, float, str]]:
    """Yield (limiter, percent of its ceiling, words) for each ceiling that a launch can be compared with.

    DRAM is compared with the rate of a copy here, in the same cache state as the case; the rest with ncu's own peaks.
    """
    if roof is not None and natural is not None:
        moved = [known(natural["dram_read_bytes"]), known(natural["dram_write_bytes"]), known(natural["time_ns"])]
        if None not in moved and moved[2]:
            rate = (moved[0] + moved[1]) / (moved[2] * 1e-9)
            share = 100 * rate / roof.bytes_per_s
            text = f"{format_bytes(moved[0] + moved[1])} of DRAM at {format_rate(rate, 'B/s')}"
            yield MEMORY, share, f"{text}, {_percent(share)} of a copy's rate"
    through = known(row["l2_pct"])
    if through is not None:
        yield L2, through, f"L2 {_percent(through)} busy"
    pipes = [(known(row[column]), name) for column, name in (("tensor_pct", "tensor cores"), ("fma_pct", "FMA pipe"))]
    pipes_text = ", ".join(f"{name} {_percent(share)}" for share, name in pipes if share is not None)
    busiest = known(row["sm_pct"])
    if busiest is not None:
        yield COMPUTE, busiest, f"SMs {_percent(busiest)} busy ({pipes_text})"


def _percent(share: float) -> str:
    return f"{share:.0f} %" if share >= 1 or share == 0 else "<1 %"


def _fits(row: Mapping[Any, Any], limit: float) -> str:
    """Return why no more warps fit on an SM, and how many do."""
    blocks = {
        "registers": known(row["blocks_by_registers"]),
        "shared memory": known(row["blocks_by_shared"]),
        "warps": known(row["blocks_by_warps"]),
        "block slots": known(row["blocks_by_slots"]),
    }
    least = min((count for count in blocks.values() if count is not None), default=None)
    by = " and ".join(name for name, count in blocks.items() if count is not None and count == least)
    numbers = []
    registers, shared, waves = (known(row[name]) for name in ("registers", "shared_bytes", "waves"))
    if registers is not None:
        numbers.append(f"{registers:g} registers a thread")
    if shared is not None:
        numbers.append(f"{format_bytes(shared)} of shared memory a block")
    if waves is not None and waves < 1:
        numbers.append(f"{waves:g} waves of blocks, so that some SMs have nothing to do")
    achieved = known(row["occupancy_pct"])
    held = "" if achieved is None else f" ({_percent(achieved)} achieved)"
    return f"{_percent(limit)} of an SM's warps fit{held}, limited by {by or 'unknown'} ({', '.join(numbers)})"


def is_launch_bound(kernel_ns: float | None, latency_ns: float | None, event_over_graph: float | None = None) -> bool:
    """Return whether launching on the CPU determines the latency of a call; False where unknown.

    kernel_ns: the time of the call's kernels, which decides where there was no graph.
    latency_ns: the time of the whole call, untraced.
    event_over_graph: the latency divided by the time of a replay as a CUDA graph; None where there was no graph.
    """
    if event_over_graph is not None:
        return event_over_graph > 1 / LAUNCH_BOUND_SHARE
    return kernel_ns is not None and bool(latency_ns) and kernel_ns < LAUNCH_BOUND_SHARE * (latency_ns or 0)


def is_bench_launch_bound(blocks: Sequence[Block]) -> bool:
    """Return whether launching on the CPU determines the samples of a case; False where unknown.

    A replay as a CUDA graph decides. Without one, two things must hold: launching takes most of a call, and the samples
    scatter.

    blocks: the blocks of one case that have samples; at least one.
    """
    ratio = event_over_graph(blocks)
    if ratio is not None:
        return ratio > 1 / LAUNCH_BOUND_SHARE
    shares = [block.launch_share for block in blocks if block.launch_share is not None]
    if not shares or statistics.median(shares) < LAUNCH_BOUND_SHARE:
        return False
    values = [value for block in blocks for value in steady_samples(block.values_ns)]
    return statistics.pstdev(values) / statistics.fmean(values) > _SCATTER
