"""Define BenchPlan: which blocks of samples `bench` takes and in which order, decided before anything runs."""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta

from nsysprof.attention.case import Case, check_names
from nsysprof.attention.range_name import format_range, varied_keys
from nsysprof.errors import UsageError

GRAPHS = ("auto", "always", "never", "short")


Count = Annotated[int, Meta(ge=1, le=10**9)]
Seconds = Annotated[float, Meta(ge=0)]


@dataclass(frozen=True)
class BenchPlan:
    """The grid, and how to measure it. A cell is a case or, with `copies`, one of several copies of a case.

    Each process goes through the cells `rounds` times, each time in another order drawn from `seed`. It takes one block
    of samples of each cell per round.
    """

    cases: tuple[Case, ...]
    device: str
    processes: Count = 3
    rounds: Count = 5
    # How many samples a block has; fewer where they would take longer than sample_seconds, but at least least_samples.
    samples: Count = 10
    sample_seconds: Seconds = 1.0
    # The longest warm-up of a block (s). It ends earlier when the times are stable.
    warmup_seconds: Seconds = 1.0
    seed: int = 0
    # Whether the caches are emptied before each sample.
    flush: bool = True
    # Whether a load precedes each block until the clocks have settled.
    sustained: bool = False
    # The SM clock at which the GPU is locked while it is measured (MHz); None: it is not locked.
    locked_clock_mhz: Annotated[int, Meta(ge=1, le=100_000)] | None = None
    # Whether CUDA graphs are timed too: one of GRAPHS. `auto` times the first block of a case in each process,
    # `short`, which tune uses, each block of a call that is mostly launching.
    graph: str = "auto"
    # Whether results are compared with the reference before they are timed.
    check: bool = True
    copies: Annotated[int, Meta(ge=1, le=1000)] = 1
    case_timeout_s: Seconds = 300.0
    least_samples: Count = 1
    # The number of warm-up calls, which captures use. None: warm up by time.
    warmup_calls: Annotated[int, Meta(ge=0, le=10**9)] | None = None
    # Whether the ceilings of the device are measured first.
    ceilings: bool = True

    @property
    def cells(self) -> tuple[Case, ...]:
        """Return every case `copies` times."""
        return tuple(case for case in self.cases for _ in range(self.copies))

    def name_of(self, cell: int) -> str:
        """Return a cell's short name: the name of its case's NVTX range without the prefix."""
        name = format_range(self.cells[cell], varied_keys(self.cases)).removeprefix("RUN::")
        return name if self.copies == 1 else f"{name}::copy={cell % self.copies}"


def check_plan(plan: BenchPlan) -> None:
    """Raise UsageError for numbers that are too small and for an unknown graph."""
    for name, value, least in (
        ("processes", plan.processes, 1), ("rounds", plan.rounds, 1), ("samples", plan.samples, 1),
        ("self-check", plan.copies, 1),
    ):  # fmt: skip
        if value < least:
            raise UsageError(f"--{name} {value} is too small.", f"Give at least {least}.")
    for name, seconds in (("sample-seconds", plan.sample_seconds), ("case-timeout", plan.case_timeout_s)):
        if not seconds > 0:
            raise UsageError(f"--{name} {seconds:g} is not a valid time.", "Give seconds above zero.")
    if plan.warmup_seconds < 0:
        raise UsageError(f"--warmup-seconds {plan.warmup_seconds:g} is not a valid time.", "Give zero or more seconds.")
    check_names("graph", [plan.graph], GRAPHS)


def order_blocks(
    cells: Sequence[int], rounds: int, seed: int, process: int, without: Collection[int] = ()
) -> list[int]:
    """Return the cells in the order in which one process measures them: each once per round, every round shuffled."""
    chosen = [cell for cell in cells if cell not in without]
    generator = random.Random(f"{seed} {process}")
    order = []
    for _ in range(rounds):
        order += generator.sample(chosen, len(chosen))
    return order
