"""The results of an analysis: frozen, without SQL, drawing or printing. `report` reads these and nothing else.

All times are integer ns, all sizes integer bytes. A number that the trace does not support is None (NA in a table),
and a Note says why.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pandas as pd

from nsysprof.notes import Note

_Make = Callable[[], pd.DataFrame]

KERNEL_COLUMNS = (
    "name", "short_name", "category", "instances", "total_ns", "avg_ns", "med_ns", "min_ns", "max_ns", "stddev_ns",
    "share_pct",
)  # fmt: skip
RANGE_COLUMNS = (
    "range", "style", "domain", "instances", "wall_ns", "projected_ns", "gpu_busy_ns", "kernel_total_ns",
    "kernel_count", "launch_count", "graph_launch_count", "memcpy_bytes", "memset_bytes", "peak_vram_bytes",
    "dram_read_bytes", "dram_write_bytes", "dram_read_error_bytes", "dram_write_error_bytes",
    "exclusive_kernel_count", "exclusive_kernel_total_ns",
)  # fmt: skip
RANGE_KERNEL_COLUMNS = (
    "range", "style", "name", "short_name", "category", "instances", "total_ns", "avg_ns", "med_ns", "min_ns",
    "max_ns", "stddev_ns",
)  # fmt: skip
API_COLUMNS = ("name", "calls", "total_ns", "avg_ns", "med_ns", "min_ns", "max_ns", "stddev_ns")
MEMOP_COLUMNS = ("operation", "count", "total_ns", "total_bytes", "avg_bytes", "max_bytes")


@dataclass(frozen=True)
class TraceInfo:
    """Where the numbers come from.

    tool: "nsys", or "torch" for the embedded profiler. work_kind: "kernel", or "operator" on a CPU-only machine,
    where a row of the kernel table is a leaf operator and every output has to say so.
    memory_kind: "driver" (nsys: cudaMalloc and the like), "allocator" (torch: live tensor storage), or None when no
    memory events were recorded.
    """

    path_name: str
    sha256: str
    bytes: int
    tool: str
    tool_version: str | None
    nsys_version: str | None
    schema_version: str | None
    work_kind: str
    memory_kind: str | None


@dataclass(frozen=True)
class Device:
    """One GPU (or the CPU of an operator trace). `device_id` is the id used in the tables below."""

    device_id: int
    name: str
    total_memory_bytes: int | None
    sm_count: int | None
    uuid: str | None = None


@dataclass(frozen=True)
class Coverage:
    """kernels = attributed_kernels + sum(reasons): every kernel is in a range or has a reason why not."""

    kernels: int
    attributed_kernels: int
    launches: int | None
    launches_without_gpu_record: int | None
    reasons: dict[str, int]


@dataclass(frozen=True)
class Totals:
    """Sums over the trace. `memcpy_bytes` is by operation name as nsys prints it; `peak_vram_bytes` by device id."""

    kernel_count: int | None
    launch_count: int | None
    graph_launch_count: int | None
    kernel_total_ns: int | None
    gpu_busy_ns: int | None
    gpu_span_ns: int | None
    memcpy_bytes: dict[str, int] | None
    memset_bytes: int | None
    peak_vram_bytes: dict[int, int] | None


class Timeline:
    """Rows to draw, sorted by start, in ns since the session's start; each table is made when it is first read.

    gpu: start_ns, end_ns, kind ("kernel" | "memcpy" | "memset" | "graph"), name, short_name, category, bytes (0 for
         kernels), call (row of api that launched it, or -1), device_id, context_id, stream_id, stream (label, unique
         over processes, devices and contexts), global_pid; the texts are categoricals
    api: start_ns, end_ns, name, global_tid
    nvtx: start_ns, end_ns, name, style ("PushPop" | "StartEnd"), domain, global_tid, global_pid, level
    memory: time_ns, device_id, used_bytes (running sum after each device allocation or free)
    """

    def __init__(self, gpu: _Make, api: _Make, nvtx: _Make, memory: _Make) -> None:
        self._make = {"gpu": gpu, "api": api, "nvtx": nvtx, "memory": memory}

    @cached_property
    def gpu(self) -> pd.DataFrame:
        """Work of the GPUs."""
        return self._make["gpu"]()

    @cached_property
    def api(self) -> pd.DataFrame:
        """CUDA API calls."""
        return self._make["api"]()

    @cached_property
    def nvtx(self) -> pd.DataFrame:
        """Ranges."""
        return self._make["nvtx"]()

    @cached_property
    def memory(self) -> pd.DataFrame:
        """Device memory in use."""
        return self._make["memory"]()


@dataclass(frozen=True)
class Analysis:
    """Everything `analyze` knows about one trace. Tables have the columns named above, in that order."""

    trace: TraceInfo
    devices: tuple[Device, ...]
    coverage: Coverage
    totals: Totals
    kernels: pd.DataFrame
    ranges: pd.DataFrame
    range_kernels: pd.DataFrame
    api: pd.DataFrame
    memops: pd.DataFrame
    timeline: Timeline
    notes: tuple[Note, ...]


@dataclass(frozen=True)
class CaptureRecord:
    """What a capture folder adds to its trace: the rows of results.csv and the manifest, already read.

    results: one row a case, columns RESULT_COLUMNS. environment: see nsysprof.environment. title: the folder's name.
    """

    title: str
    results: pd.DataFrame
    environment: dict[str, Any]
    method: str
    notes: tuple[Note, ...] = ()
    steps: tuple[dict[str, Any], ...] = field(default=())

    @property
    def has_cases(self) -> bool:
        """False for a capture of a program: it adds an environment and notes, and no rows."""
        return len(self.results) > 0


RESULT_COLUMNS = (
    "range", "backend", "batch", "heads", "kv_heads", "seq", "head_dim", "dtype", "causal", "pass", "status", "reason",
    "samples", "latency_median_ns", "latency_ci_low_ns", "latency_ci_high_ns",
    "input_bytes", "peak_allocated_bytes", "peak_reserved_bytes", "peak_beyond_inputs_bytes",
    "traced_calls", "launch_count", "kernel_count", "kernel_total_ns", "gpu_busy_ns", "memcpy_bytes", "memset_bytes",
    "trace_peak_vram_bytes",
    "sampled_read_bytes", "sampled_read_error_bytes", "sampled_write_bytes", "sampled_write_error_bytes",
    "counted_kernels", "counted_time_ns", "counted_read_bytes", "counted_write_bytes", "counted_l2_bytes",
    "counted_l1_bytes", "counted_flops", "l2_hit_pct", "l2_pct", "sm_pct", "tensor_pct", "fma_pct", "occupancy_pct",
    "flops", "least_bytes", "dram_bytes", "dram_error_bytes", "dram_source", "intensity", "flops_per_s",
    "flops_per_s_low", "flops_per_s_high", "roof_flops_per_s", "above_roof", "limiter", "why",
)  # fmt: skip
# What a capture of version 0.1.0 has in its results.csv; the rest came with hardware counters.
FIRST_RESULT_COLUMNS = RESULT_COLUMNS[: RESULT_COLUMNS.index("sampled_read_bytes")]
