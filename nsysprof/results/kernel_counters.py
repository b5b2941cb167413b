"""Define the hardware counters that ncu measured for each launch of a kernel, and their columns."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from nsysprof.results.column_registry.case_columns import COUNTERS

# What ncu counts of programs beside the columns: FLOP of single threads in fp64 by metric, and how metrics of tensor
# cores begin, which have a dtype each.
FP64_METRICS = {
    f"smsp__sass_thread_inst_executed_op_{op}_pred_on.sum": flops
    for op, flops in (("dfma", 2.0), ("dadd", 1.0), ("dmul", 1.0))
}
TENSOR_METRICS = "sm__ops_path_tensor_"


class Run(StrEnum):
    """The two runs of ncu over the cases."""

    TRAFFIC = "traffic"
    DETAIL = "detail"


@dataclass(frozen=True)
class CountedKernel:
    """One launch within the one counted call of a case."""

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
    # The counters by column; None where the GPU does not have one.
    values: dict[str, float | None]
    # Metrics that the user asked for, by ncu's name.
    more: dict[str, float] = field(default_factory=dict)
    # The trace's name for the symbol, which nsys demangles in its own way; empty when unknown.
    kernel: str = ""


@dataclass(frozen=True)
class CountedLaunches:
    """All launches of one kernel with one grid in a trace; ncu counted at most one of them.

    grid, block: as ncu writes them, `(64, 32, 1)`. counted: None where none was counted.
    """

    kernel: str
    symbol: str
    grid: str
    block: str
    instances: int
    total_ns: int
    counted: CountedKernel | None = None


_FIXED = ("run", "range", "position", "kernel", "name", "symbol", "grid", "block", "gpu", "passes")
# The columns of counters.csv that ncu's metrics fill, in the order of the file.
COUNTED_COLUMNS = tuple(name for name in COUNTERS.names if name not in _FIXED)
