"""Hardware counters of single launches: which are read, how they add up, and counters.csv, which keeps them.

Each case is counted twice, since one run cannot answer both questions:

- *traffic*: DRAM bytes and time alone fit one pass, so nothing is replayed, and caches are left as the kernels before
  left them. What a case moves is the sum over its launches.
- *detail*: more counters need several passes, for which each launch is replayed from cold caches. Rates and hit rates
  of a kernel by itself.
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
from nsysprof.ncu_csv import NcuKernel
from nsysprof.output import write_whole

COUNTERS = "counters.csv"


class Run(StrEnum):
    """Of ncu over the cases."""

    TRAFFIC = "traffic"
    DETAIL = "detail"


class Kind(StrEnum):
    """What becomes of a counter over several launches."""

    SUM = "sum"  # it adds up
    RATE = "rate"  # a share of time: the mean, weighted by duration
    LAUNCH = "launch"  # a property of the launch: that of the longest one


@dataclass(frozen=True)
class Counter:
    """metrics: what ncu calls it, with weights; those that the GPU has are added up."""

    column: str
    kind: Kind
    metrics: tuple[tuple[str, float], ...]


def _counter(column: str, kind: Kind, *metrics: str) -> Counter:
    return Counter(column, kind, tuple((metric, 1.0) for metric in metrics))


_FP32 = tuple(
    (f"smsp__sass_thread_inst_executed_op_{op}_pred_on.sum", flops)
    for op, flops in (("ffma", 2.0), ("fadd", 1.0), ("fmul", 1.0))
)
TRAFFIC_COUNTERS = (
    _counter("time_ns", Kind.SUM, "gpu__time_duration.sum"),
    _counter("dram_read_bytes", Kind.SUM, "dram__bytes_read.sum"),
    _counter("dram_write_bytes", Kind.SUM, "dram__bytes_write.sum"),
)
DETAIL_COUNTERS = (
    *TRAFFIC_COUNTERS,
    _counter("l2_bytes", Kind.SUM, "lts__t_bytes.sum"),
    _counter("l2_sectors", Kind.SUM, "lts__t_sectors.sum"),
    _counter("l2_hit_sectors", Kind.SUM, "lts__t_sectors_lookup_hit.sum"),
    _counter("l1_bytes", Kind.SUM, "l1tex__t_bytes.sum"),
    _counter(
        "tensor_flops", Kind.SUM,
        "sm__ops_path_tensor_src_fp16.sum", "sm__ops_path_tensor_src_bf16_dst_fp32.sum",
        "sm__ops_path_tensor_src_tf32_dst_fp32.sum", "sm__ops_path_tensor_src_fp8.sum",
        "sm__ops_path_tensor_src_fp16_dst_fp16.sum", "sm__ops_path_tensor_src_fp16_dst_fp32.sum",
        "sm__ops_path_tensor_src_fp4_dst_fp32.sum", "sm__ops_path_tensor_src_fp4_fp6_fp8_dst_fp16.sum",
        "sm__ops_path_tensor_src_fp4_fp6_fp8_dst_fp32.sum",
    ),
    Counter("fp32_flops", Kind.SUM, _FP32),
    _counter("l2_pct", Kind.RATE, "lts__throughput.avg.pct_of_peak_sustained_elapsed"),
    _counter("sm_pct", Kind.RATE, "sm__throughput.avg.pct_of_peak_sustained_elapsed"),
    _counter("tensor_pct", Kind.RATE, "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed"),
    _counter("fma_pct", Kind.RATE, "sm__inst_executed_pipe_fma.avg.pct_of_peak_sustained_elapsed"),
    _counter("occupancy_pct", Kind.RATE, "sm__warps_active.avg.pct_of_peak_sustained_active"),
    _counter("occupancy_limit_pct", Kind.LAUNCH, "sm__maximum_warps_per_active_cycle_pct"),
    _counter("registers", Kind.LAUNCH, "launch__registers_per_thread"),
    _counter("shared_bytes", Kind.LAUNCH, "launch__shared_mem_per_block"),
    _counter("waves", Kind.LAUNCH, "launch__waves_per_multiprocessor"),
    _counter("blocks_by_registers", Kind.LAUNCH, "launch__occupancy_limit_registers"),
    _counter("blocks_by_shared", Kind.LAUNCH, "launch__occupancy_limit_shared_mem"),
    _counter("blocks_by_warps", Kind.LAUNCH, "launch__occupancy_limit_warps"),
    _counter("blocks_by_slots", Kind.LAUNCH, "launch__occupancy_limit_blocks"),
    _counter("clock_hz", Kind.RATE, "gpc__cycles_elapsed.avg.per_second"),
)  # fmt: skip
_PASSES, _GPU = "profiler__replayer_passes", "device__attribute_display_name"
_FIXED = ("run", "range", "position", "kernel", "name", "symbol", "grid", "block", "gpu", "passes")
_OPTIONAL = {"kernel", "name", "symbol"}  # a bundle has the first alone


@dataclass(frozen=True)
class CountedKernel:
    """One launch of the one counted call of a case.

    position: in the order of launches in its range, from 0. name: demangled by ncu, symbol: mangled. kernel: the name
    that the capture's trace has for the symbol, empty where it is not known; the two tools demangle in their own ways.
    passes: how often it was replayed; None where ncu does not say. values: by column, None where the GPU has no such
    counter. more: metrics that the user asked for, by ncu's name.
    """

    run: Run
    range: str
    position: int
    name: str
    symbol: str
    grid: str
    block: str
    gpu: str
    passes: int | None
    values: dict[str, float | None]
    more: dict[str, float] = field(default_factory=dict)
    kernel: str = ""


def metrics_of(run: Run) -> list[str]:
    """The metrics to ask ncu for."""
    wanted = TRAFFIC_COUNTERS if run is Run.TRAFFIC else DETAIL_COUNTERS
    return [metric for counter in wanted for metric, _ in counter.metrics]


def count_kernels(
    run: Run, named: Sequence[NcuKernel], symbols: Sequence[NcuKernel], ranges: Sequence[str], more: Sequence[str] = ()
) -> list[CountedKernel]:
    """The launches inside `ranges`. named, symbols: the same report, its kernels' names demangled and mangled.

    more: metrics kept beside ours, by ncu's name or the beginning of it.
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
    """Our counters of one launch, None where none of a counter's metrics has a value."""
    values: dict[str, float | None] = {}
    for counter in DETAIL_COUNTERS:
        parts = [weight * kernel.metrics[name] for name, weight in counter.metrics if name in kernel.metrics]
        values[counter.column] = sum(parts) if parts else None
    return values


def write_counters(folder: Path, kernels: Sequence[CountedKernel]) -> Path:
    """counters.csv: one row a launch and run, unknown is empty."""
    more = list(dict.fromkeys(name for kernel in kernels for name in kernel.more))
    columns = [counter.column for counter in DETAIL_COUNTERS]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*_FIXED, *columns, *more])
    for kernel in kernels:
        fixed = [getattr(kernel, name) for name in _FIXED]
        values = [*(kernel.values[column] for column in columns), *(kernel.more.get(name) for name in more)]
        writer.writerow(["" if cell is None else cell for cell in (*fixed, *map(_short, values))])
    return write_whole(folder / COUNTERS, text.getvalue().encode("utf-8", "replace"))


def _short(value: float | None) -> float | int | None:
    return int(value) if value is not None and value.is_integer() else value


def read_counters(path: Path) -> list[CountedKernel]:
    """Raises TraceError when the file is not one of ours, or damaged."""
    columns = [counter.column for counter in DETAIL_COUNTERS]
    try:
        with path.open(encoding="utf-8", newline="") as stream:
            reader = csv.DictReader(stream)
            header = list(reader.fieldnames or ())
            missing = [
                name for name in _FIXED if name not in header and name not in _OPTIONAL
            ]  # counters come and go with versions
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
        raise ValueError(f"{cell} is no measurement")
    return value
