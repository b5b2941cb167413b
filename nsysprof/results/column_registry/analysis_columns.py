"""Name the files with rows in an analysis folder of one trace, and their columns that depend on causes and kinds."""

from __future__ import annotations

from nsysprof.results.column_registry.column import FILES, SECTIONS

KERNEL_COUNTERS = SECTIONS["kernel counters"]
KERNELS = FILES["analysis/kernels.csv"]
RANGES = FILES["analysis/ranges.csv"]
RANGE_KERNELS = FILES["analysis/range_kernels.csv"]
CAUSED_KERNELS = FILES["analysis/range_caused_kernels.csv"]
RANGE_TREE = FILES["analysis/range_tree.csv"]
API = FILES["analysis/api.csv"]
RANGE_API = FILES["analysis/range_api.csv"]
COLLECTIVES = FILES["analysis/collectives.csv"]
ENERGY = FILES["analysis/energy.csv"]
STREAMS = FILES["analysis/streams.csv"]
OS_CALLS = FILES["analysis/os_calls.csv"]
GPU_USE = FILES["analysis/gpu_use.csv"]
MEMOPS = FILES["analysis/memops.csv"]
RANGE_INSTANCES = FILES["analysis/range_instances.csv"]
WORK = FILES["analysis/work.csv"]
OPERATORS = FILES["analysis/operators.csv"]
LAYERS = FILES["analysis/layers.csv"]
IDLE = FILES["analysis/idle.csv"]
IDLE_INSTANCES = FILES["analysis/idle_instances.csv"]
STEPS = FILES["analysis/steps.csv"]
FINDINGS = FILES["analysis/findings.csv"]
ATTENTION = FILES["analysis/attention.csv"]
PHASES = FILES["analysis/phases.csv"]
MEMORY = FILES["analysis/memory.csv"]
RECORDING_COST = FILES["analysis/recording_cost.csv"]
# The columns that split the time of a step.
LEDGER = STEPS.names[STEPS.names.index("outside_ns") :]
# Every cause of idle time; docs/causes.md defines each. The position of a cause is its code.
CAUSES = (
    "sync-then-late-launch", "host-outside-cuda", "slow-call", "pageable-copy", "dependency", "collective", "profiler",
    "unknown", "python-gc", "jit-compile", "waiting-for-work",
)  # fmt: skip
# Every kind of work of a GPU. Where several run at once, the time counts for the first of them, so that communication
# and copies count only where nothing else hides them.
WORK_CATEGORIES = (
    "attention", "gemm", "convolution", "fft", "normalization", "softmax", "reduction", "index", "elementwise",
    "optimizer", "random", "graph", "other", "layout", "fill", "copy", "communication", "wait",
)  # fmt: skip


def cause_column(cause: str) -> str:
    """Return the name of the column that has the idle time with a cause."""
    return f"{cause.replace('-', '_')}_ns"


def work_column(category: str) -> str:
    """Return the name of the column that has the time in which a GPU ran work of a category."""
    return f"busy_{category}_ns"
