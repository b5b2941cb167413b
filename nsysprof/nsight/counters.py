"""Choose the hardware counters to ask ncu for, and keep what each launch counted in counters.csv.

Each case is counted twice, because one run cannot answer both questions:

- *traffic*: DRAM bytes and time alone fit into one pass. So nothing is replayed, and caches stay as the kernels before
  left them. The sum over its launches is what a case moves.
- *detail*: more counters need several passes, for which each launch is replayed from cold caches. This gives the rates
  and hit rates of a kernel alone.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from nsysprof.errors import TraceError
from nsysprof.files.output import write_whole
from nsysprof.nsight.ncu_csv import NcuKernel
from nsysprof.results.column_registry.case_columns import COUNTERS as COUNTERS_FILE
from nsysprof.results.column_registry.csv_table import format_cell

COUNTERS = COUNTERS_FILE.name


class Run(StrEnum):
    """Names one of the two runs of ncu over the cases."""

    TRAFFIC = "traffic"
    DETAIL = "detail"


class CounterKind(StrEnum):
    """How a counter is combined over several launches."""

    SUM = "sum"  # it adds up
    RATE = "rate"  # a share of time: the mean, weighted by duration
    LAUNCH = "launch"  # a property of a launch: the longest launch gives the value


@dataclass(frozen=True)
class Counter:
    """One of our counters: a weighted sum of those of its ncu metrics that the GPU has."""

    column: str
    kind: CounterKind
    metrics: tuple[tuple[str, float], ...]


def _counter(column: str, kind: CounterKind, *metrics: str) -> Counter:
    return Counter(column, kind, tuple((metric, 1.0) for metric in metrics))


_FP32 = tuple(
    (f"smsp__sass_thread_inst_executed_op_{op}_pred_on.sum", flops)
    for op, flops in (("ffma", 2.0), ("fadd", 1.0), ("fmul", 1.0))
)
TRAFFIC_COUNTERS = (
    _counter("time_ns", CounterKind.SUM, "gpu__time_duration.sum"),
    _counter("dram_read_bytes", CounterKind.SUM, "dram__bytes_read.sum"),
    _counter("dram_write_bytes", CounterKind.SUM, "dram__bytes_write.sum"),
)
DETAIL_COUNTERS = (
    *TRAFFIC_COUNTERS,
    _counter("l2_bytes", CounterKind.SUM, "lts__t_bytes.sum"),
    _counter("l2_sectors", CounterKind.SUM, "lts__t_sectors.sum"),
    _counter("l2_hit_sectors", CounterKind.SUM, "lts__t_sectors_lookup_hit.sum"),
    _counter("l1_bytes", CounterKind.SUM, "l1tex__t_bytes.sum"),
    _counter(
        "tensor_flops", CounterKind.SUM,
        "sm__ops_path_tensor_src_fp16.sum", "sm__ops_path_tensor_src_bf16_dst_fp32.sum",
        "sm__ops_path_tensor_src_tf32_dst_fp32.sum", "sm__ops_path_tensor_src_fp8.sum",
        "sm__ops_path_tensor_src_fp16_dst_fp16.sum", "sm__ops_path_tensor_src_fp16_dst_fp32.sum",
        "sm__ops_path_tensor_src_fp4_dst_fp32.sum", "sm__ops_path_tensor_src_fp4_fp6_fp8_dst_fp16.sum",
        "sm__ops_path_tensor_src_fp4_fp6_fp8_dst_fp32.sum",
    ),
    Counter("fp32_flops", CounterKind.SUM, _FP32),
    _counter("l2_pct", CounterKind.RATE, "lts__throughput.avg.pct_of_peak_sustained_elapsed"),
    _counter("sm_pct", CounterKind.RATE, "sm__throughput.avg.pct_of_peak_sustained_elapsed"),
    _counter("tensor_pct", CounterKind.RATE, "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed"),
    _counter("fma_pct", CounterKind.RATE, "sm__inst_executed_pipe_fma.avg.pct_of_peak_sustained_elapsed"),
    _counter("occupancy_pct", CounterKind.RATE, "sm__warps_active.avg.pct_of_peak_sustained_active"),
    _counter("occupancy_limit_pct", CounterKind.LAUNCH, "sm__maximum_warps_per_active_cycle_pct"),
    _counter("registers", CounterKind.LAUNCH, "launch__registers_per_thread"),
    _counter("shared_bytes", CounterKind.LAUNCH, "launch__shared_mem_per_block"),
    _counter("waves", CounterKind.LAUNCH, "launch__waves_per_multiprocessor"),
    _counter("blocks_by_registers", CounterKind.LAUNCH, "launch__occupancy_limit_registers"),
    _counter("blocks_by_shared", CounterKind.LAUNCH, "launch__occupancy_limit_shared_mem"),
    _counter("blocks_by_warps", CounterKind.LAUNCH, "launch__occupancy_limit_warps"),
    _counter("blocks_by_slots", CounterKind.LAUNCH, "launch__occupancy_limit_blocks"),
    _counter("clock_hz", CounterKind.RATE, "gpc__cycles_elapsed.avg.per_second"),
)  # fmt: skip
_PASSES, _GPU = "profiler__replayer_passes", "device__attribute_display_name"
_MEASURED = tuple(counter.column for counter in DETAIL_COUNTERS)
_FIXED = tuple(name for name in COUNTERS_FILE.names if name not in _MEASURED)
_OPTIONAL = {"kernel", "name", "symbol"}  # a bundle has only the first one


@dataclass(frozen=True)
class CountedKernel:
    """One launch of the one counted call of a case."""

    run: Run
    range: str
    # The position in the order of launches of its range, from 0.
    position: int
    # The name as ncu demangles it, and the mangled name.
    name: str
    symbol: str
    grid: str
    block: str
    gpu: str
    # How often it was replayed; None where ncu does not say.
    passes: int | None
    # By column; None where the GPU does not have the counter.
    values: dict[str, float | None]
    # Metrics that the user asked for, by ncu's name.
    more: dict[str, float] = field(default_factory=dict)
    # The trace's name for the symbol, which nsys demangles in its own way; empty when unknown.
    kernel: str = ""


def metrics_of(run: Run) -> list[str]:
    """Return the metrics to ask ncu for."""
    wanted = TRAFFIC_COUNTERS if run is Run.TRAFFIC else DETAIL_COUNTERS
    return [metric for counter in wanted for metric, _ in counter.metrics]


def count_kernels(
    run: Run, named: Sequence[NcuKernel], symbols: Sequence[NcuKernel], ranges: Sequence[str], more: Sequence[str] = ()
) -> list[CountedKernel]:
    """Return the launches inside `ranges`.

    named, symbols: the same report with demangled and with mangled names of kernels.
    more: further metrics to keep, by ncu's name or its beginning.
    """
    known, position, counted = set(ranges), dict.fromkeys(ranges, 0), []
    by_number = {kernel.number: kernel.name for kernel in symbols}
    for kernel in named:
        inside = next((name for name in kernel.ranges if name in known), None)
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


def write_counters(folder: Path, kernels: Sequence[CountedKernel]) -> Path:
    """Write counters.csv, with one row per launch and run; unknown is empty. Return its path."""
    more = list(dict.fromkeys(name for kernel in kernels for name in kernel.more))
    columns = [counter.column for counter in DETAIL_COUNTERS]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*_FIXED, *columns, *more])
    for kernel in kernels:
        fixed = [getattr(kernel, name) for name in _FIXED]
        values = [*(kernel.values[column] for column in columns), *(kernel.more.get(name) for name in more)]
        writer.writerow([format_cell(cell) for cell in (*fixed, *values)])
    return write_whole(folder / COUNTERS, text.getvalue().encode("utf-8", "replace"))


def read_counters(path: Path) -> list[CountedKernel]:
    """Return the content of counters.csv. Raises TraceError when the file is damaged or from another program."""
    columns = [counter.column for counter in DETAIL_COUNTERS]
    try:
        with path.open(encoding="utf-8", newline="") as stream:
            reader = csv.DictReader(stream)
            header = list(reader.fieldnames or ())
            missing = [
                name for name in _FIXED if name not in header and name not in _OPTIONAL
            ]  # the set of counters changes with versions
            if missing:
                raise TraceError(f"{path} lacks the columns {', '.join(missing)}.", "It was not written by nsysprof.")
            more = [name for name in header if name not in _FIXED and name not in columns]
            return [_read(row, columns, more) for row in reader]
    except (OSError, ValueError, csv.Error) as error:
        raise TraceError(f"{path} cannot be read: {error}.", "Capture again, or delete the file.") from error


def _read(row: dict[str, Any], columns: list[str], more: list[str]) -> CountedKernel:
    extra = {name: value for name in more if (value := _number(row[name])) is not None}
    passes = _number(row["passes"])
    return CountedKernel(
        run=Run(row["run"]),
        range=row["range"],
        position=int(row["position"]),
        passes=None if passes is None else int(passes),
        values={column: _number(row.get(column, "")) for column in columns},
        more=extra,
        **{name: row.get(name) or "" for name in ("kernel", "name", "symbol", "grid", "block", "gpu")},
    )


def _number(cell: str | None) -> float | None:
    if cell is None:
        raise ValueError("a row is cut off")
    if cell == "":
        return None
    value = float(cell)
    if not math.isfinite(value):
        raise ValueError(f"{cell} is not a measurement")
    return value
