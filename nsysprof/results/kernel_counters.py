"""Define the hardware counters that ncu measured for each launch of a kernel, and their columns."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from nsysprof.results.column_registry.case_columns import COUNTERS


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


_FIXED = ("run", "range", "position", "kernel", "name", "symbol", "grid", "block", "gpu", "passes")
# The columns of counters.csv that ncu's metrics fill, in the order of the file.
COUNTED_COLUMNS = tuple(name for name in COUNTERS.names if name not in _FIXED)
