"""List every table file that nsysprof writes (FILES), with the meaning of each column: the registry of columns.

CSV writers, readers, joins and docs/files.md take names, types, units and sentences from here. To add a column, add it
to its file; to add a file, add it to FILES.
"""

from __future__ import annotations

from nsysprof.results.column_registry import analysis_columns, case_columns, rank_columns
from nsysprof.results.column_registry.column import TableFile, integer, text

_START, _END = (
    integer(f"{end}_ns", "ns", f"{end.capitalize()} since the start of the session.") for end in ("start", "end")
)
_PID = integer("global_pid", "", "Global id of the process, as nsys defines it.")
_TID = integer("global_tid", "", "Global id of the thread, as nsys defines it.")
_DEVICE = integer("device_id", "", "Number of the GPU on the machine.")

GPU = TableFile("export", "gpu.parquet", "One row per kernel, copy, fill or graph replay.", (
    _START, _END,
    text("kind", "`kernel`, `memcpy`, `memset` or `graph`."),
    text("name", "Demangled name."),
    text("short_name", "Name without namespaces and template arguments."),
    text("category", "Kind of kernel: `gemm`, `attention` and so on."),
    integer("bytes", "B", "Size of a copy or fill; 0 for kernels."),
    integer("call", "", "Row of `api.parquet`, from 0, that launched the work.", nullable=True),
    integer(
        "caused_by", "", "Row of `ranges.parquet`, from 0: the innermost range that captured the work, or for which a "
        "helper thread launched it.",
        nullable=True,
    ),
    _DEVICE,
    integer("context_id", "", "Number of the CUDA context."),
    integer("stream_id", "", "Number of the stream."),
    text("stream", "Label of the stream, unique over processes, devices and contexts."),
    _PID,
))  # fmt: skip
API = TableFile("export", "api.parquet", "One row per CUDA API call.", (
    _START, _END, text("name", "Name of the function."), _TID,
))  # fmt: skip
RANGES = TableFile("export", "ranges.parquet", "One row per instance of an NVTX range.", (
    _START, _END,
    text("name", "Name of the range."),
    text("style", "`PushPop` or `StartEnd`."),
    text("domain", "NVTX domain; empty for the default domain.", nullable=True),
    _TID, _PID,
    integer("level", "", "Depth of nesting, from 0."),
))  # fmt: skip
MEMORY = TableFile("export", "memory.parquet", "One row per allocation or free of device memory.", (
    integer("time_ns", "ns", "Time since the start of the session."),
    _DEVICE,
    integer("used_bytes", "B", "Device memory in use after it."),
))  # fmt: skip
GPU_METRICS = TableFile("export", "gpu_metrics.parquet", "One row per sample of a GPU metric.", (
    integer("time_ns", "ns", "Time since the start of the session."),
    integer("gpu", "", "Number of the GPU as nsys samples it."),
    integer("device_id", "", "Number of the GPU on the machine.", nullable=True),
    integer("value", "", "Value as nsys recorded it."),
    text("metric", "Name of the metric."),
))  # fmt: skip
EXPORT_FILES = (GPU, API, RANGES, MEMORY, GPU_METRICS)

FILES: tuple[TableFile, ...] = (
    *case_columns.FILES,
    *analysis_columns.FILES,
    *rank_columns.FILES,
    *EXPORT_FILES,
)
