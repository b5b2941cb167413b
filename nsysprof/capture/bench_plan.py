"""BenchPlan: which blocks of samples `bench` takes, in which order, decided before anything runs."""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from nsysprof.case import Case
from nsysprof.errors import UsageError
from nsysprof.range_name import format_range, varied_keys

GRAPHS = ("auto", "always", "never")


@dataclass(frozen=True)
class BenchPlan:
    """The grid and how it is measured. A cell is a case, or with `copies` one of several of the same case.

    Each of `processes` processes goes through the cells `rounds` times, each time in another order drawn from `seed`,
    and takes `samples` samples of a cell in a block: fewer where they would take longer than `sample_seconds`.
    """

    cases: tuple[Case, ...]
    device: str
    processes: int = 3
    rounds: int = 5
    samples: int = 10
    sample_seconds: float = 1.0
    warmup_seconds: float = 1.0
    seed: int = 0
    flush: bool = True
    graph: str = "auto"
    check: bool = True
    copies: int = 1
    case_timeout_s: float = 300.0

    @property
    def cells(self) -> tuple[Case, ...]:
        """Every case, `copies` times."""
        return tuple(case for case in self.cases for _ in range(self.copies))

    def name_of(self, cell: int) -> str:
        """A cell's short name: that of its case's NVTX range without the prefix."""
        name = format_range(self.cells[cell], varied_keys(self.cases)).removeprefix("RUN::")
        return name if self.copies == 1 else f"{name}::copy={cell % self.copies}"

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "cases": [case.to_json() for case in self.cases]}

    @staticmethod
    def from_json(data: dict[str, Any]) -> BenchPlan:
        """Raises KeyError or TypeError for what is no plan."""
        known = {field.name for field in fields(BenchPlan)}
        cases = tuple(Case.from_json(cell) for cell in data["cases"])
        return BenchPlan(**{**{key: value for key, value in data.items() if key in known}, "cases": cases})


def check_plan(plan: BenchPlan) -> None:
    """Raises UsageError for numbers that make no sense."""
    for name, value, least in (
        ("processes", plan.processes, 1), ("rounds", plan.rounds, 1), ("samples", plan.samples, 1),
        ("self-check", plan.copies, 1),
    ):  # fmt: skip
        if value < least:
            raise UsageError(f"--{name} {value} is too small.", f"Give at least {least}.")
    for name, seconds in (("sample-seconds", plan.sample_seconds), ("case-timeout", plan.case_timeout_s)):
        if not seconds > 0:
            raise UsageError(f"--{name} {seconds:g} is not a time.", "Give seconds above zero.")
    if plan.warmup_seconds < 0:
        raise UsageError(f"--warmup-seconds {plan.warmup_seconds:g} is not a time.", "Give zero or more seconds.")
    if plan.graph not in GRAPHS:
        raise UsageError(f"Unknown --graph '{plan.graph}'.", f"Known: {', '.join(GRAPHS)}.")


def order_blocks(
    cells: Sequence[int], rounds: int, seed: int, process: int, without: Collection[int] = ()
) -> list[int]:
    """The cells in the order in which one process measures them: each once a round, every round shuffled anew."""
    chosen = [cell for cell in cells if cell not in without]
    generator = random.Random(f"{seed} {process}")
    order = []
    for _ in range(rounds):
        order += generator.sample(chosen, len(chosen))
    return order
