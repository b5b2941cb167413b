"""Choose the hardware counters to request from ncu, and compute ours from what ncu reports for each launch.

Each case is counted twice, because one run cannot answer both questions:

- *traffic*: only DRAM bytes and time, which fit into one pass. So nothing is replayed, and caches stay as earlier
  kernels left them. The sum over its launches is what a case moves.
- *detail*: more counters need several passes, for which each launch is replayed from cold caches. This gives the rates
  and hit rates of a single kernel.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from nsysprof.nsight.ncu_csv import NcuKernel
from nsysprof.results.kernel_counters import CountedKernel, Run


@dataclass(frozen=True)
class Counter:
    """One of our counters: a weighted sum of those of its ncu metrics that the GPU has."""

    column: str
    metrics: tuple[tuple[str, float], ...]


def _counter(column: str, *metrics: str) -> Counter:
    return Counter(column, tuple((metric, 1.0) for metric in metrics))


_FP32 = tuple(
    (f"smsp__sass_thread_inst_executed_op_{op}_pred_on.sum", flops)
    for op, flops in (("ffma", 2.0), ("fadd", 1.0), ("fmul", 1.0))
)
TRAFFIC_COUNTERS = (
    _counter("time_ns", "gpu__time_duration.sum"),
    _counter("dram_read_bytes", "dram__bytes_read.sum"),
    _counter("dram_write_bytes", "dram__bytes_write.sum"),
)
DETAIL_COUNTERS = (
    *TRAFFIC_COUNTERS,
    _counter("l2_bytes", "lts__t_bytes.sum"),
    _counter("l2_sectors", "lts__t_sectors.sum"),
    _counter("l2_hit_sectors", "lts__t_sectors_lookup_hit.sum"),
    _counter("l1_bytes", "l1tex__t_bytes.sum"),
    _counter(
        "tensor_flops",
        "sm__ops_path_tensor_src_fp16.sum", "sm__ops_path_tensor_src_bf16_dst_fp32.sum",
        "sm__ops_path_tensor_src_tf32_dst_fp32.sum", "sm__ops_path_tensor_src_fp8.sum",
        "sm__ops_path_tensor_src_fp16_dst_fp16.sum", "sm__ops_path_tensor_src_fp16_dst_fp32.sum",
        "sm__ops_path_tensor_src_fp4_dst_fp32.sum", "sm__ops_path_tensor_src_fp4_fp6_fp8_dst_fp16.sum",
        "sm__ops_path_tensor_src_fp4_fp6_fp8_dst_fp32.sum",
    ),
    Counter("fp32_flops", _FP32),
    _counter("l2_pct", "lts__throughput.avg.pct_of_peak_sustained_elapsed"),
    _counter("sm_pct", "sm__throughput.avg.pct_of_peak_sustained_elapsed"),
    _counter("tensor_pct", "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed"),
    _counter("fma_pct", "sm__inst_executed_pipe_fma.avg.pct_of_peak_sustained_elapsed"),
    _counter("occupancy_pct", "sm__warps_active.avg.pct_of_peak_sustained_active"),
    _counter("occupancy_limit_pct", "sm__maximum_warps_per_active_cycle_pct"),
    _counter("registers", "launch__registers_per_thread"),
    _counter("shared_bytes", "launch__shared_mem_per_block"),
    _counter("waves", "launch__waves_per_multiprocessor"),
    _counter("blocks_by_registers", "launch__occupancy_limit_registers"),
    _counter("blocks_by_shared", "launch__occupancy_limit_shared_mem"),
    _counter("blocks_by_warps", "launch__occupancy_limit_warps"),
    _counter("blocks_by_slots", "launch__occupancy_limit_blocks"),
    _counter("clock_hz", "gpc__cycles_elapsed.avg.per_second"),
)  # fmt: skip
_PASSES, _GPU = "profiler__replayer_passes", "device__attribute_display_name"


def metrics_of(run: Run) -> list[str]:
    """Return the metrics to ask ncu for."""
    wanted = TRAFFIC_COUNTERS if run is Run.TRAFFIC else DETAIL_COUNTERS
    return [metric for counter in wanted for metric, _ in counter.metrics]


def count_kernels(
    run: Run,
    named: Sequence[NcuKernel],
    symbols: Sequence[NcuKernel],
    ranges: Sequence[str] | None,
    more: Sequence[str] = (),
) -> list[CountedKernel]:
    """Return the launches inside `ranges`; all launches, without a range, for None.

    named, symbols: the same report with demangled and with mangled names of kernels.
    more: further metrics to keep, by ncu's name or its beginning.
    """
    known, position, counted = set(ranges or ()), defaultdict[str, int](int), []
    by_number = {kernel.number: kernel.name for kernel in symbols}
    for kernel in named:
        inside = "" if ranges is None else next((name for name in kernel.ranges if name in known), None)
        if inside is None:
            continue
        extra = {name: value for name, value in kernel.metrics.items() if more and name.startswith(tuple(more))}
        passes = kernel.metrics.get(_PASSES)
        counted.append(
            CountedKernel(
                run=run,
                range=inside,
                position=position[inside],
                name=kernel.name,
                symbol=by_number.get(kernel.number, ""),
                grid=kernel.grid,
                block=kernel.block,
                gpu=kernel.texts.get(_GPU, ""),
                passes=None if passes is None else int(passes),
                values=values_of(kernel),
                more=extra,
            )
        )
        position[inside] += 1
    return counted


def values_of(kernel: NcuKernel) -> dict[str, float | None]:
    """Return our counters of one launch; None where no metric of a counter has a value."""
    values: dict[str, float | None] = {}
    for counter in DETAIL_COUNTERS:
        parts = [weight * kernel.metrics[name] for name, weight in counter.metrics if name in kernel.metrics]
        values[counter.column] = sum(parts) if parts else None
    return values
