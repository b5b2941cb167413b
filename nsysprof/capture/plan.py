"""CapturePlan: what a capture will do, decided before anything runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nsysprof.case import Case
from nsysprof.errors import UsageError
from nsysprof.range_name import format_range, varied_keys
from nsysprof.units import format_bytes

PROFILERS = ("auto", "nsys", "torch", "none")
DEVICES = ("auto", "cuda", "cpu")


@dataclass(frozen=True)
class CapturePlan:
    """The grid and how it is measured. `profiler` and `device` are settled: no `auto` is left in them."""

    cases: tuple[Case, ...]
    profiler: str
    device: str
    samples: int = 50
    sample_seconds: float = 3.0
    warmup: int = 10
    traced_calls: int = 10
    case_timeout_s: float = 300.0
    check: bool = True

    @property
    def range_keys(self) -> tuple[str, ...]:
        return varied_keys(self.cases)

    def range_of(self, case: Case) -> str:
        return format_range(case, self.range_keys)


def plan_capture(
    cases: Sequence[Case],
    *,
    profiler: str,
    device: str,
    memory_bytes: int | None,
    samples: int = 50,
    sample_seconds: float = 3.0,
    warmup: int = 10,
    traced_calls: int = 10,
    case_timeout_s: float = 300.0,
    check: bool = True,
) -> CapturePlan:
    """Check the numbers and that every case's inputs and output fit the device's memory (bytes; None: unknown).

    A case whose intermediates alone do not fit is left in: running out of memory is a result. Raises UsageError.
    """
    for name, value, least in (
        ("samples", samples, 1), ("traced-calls", traced_calls, 1), ("warmup", warmup, 0),
    ):  # fmt: skip
        if value < least:
            raise UsageError(f"--{name} {value} is too small.", f"Give at least {least}.")
    for name, seconds in (("case-timeout", case_timeout_s), ("sample-seconds", sample_seconds)):
        if not seconds > 0:
            raise UsageError(f"--{name} {seconds:g} is not a time.", "Give seconds above zero.")
    if memory_bytes is not None:
        for case in cases:
            least_bytes = case.input_bytes + case.output_bytes
            if least_bytes > memory_bytes:
                raise UsageError(
                    f"{case.backend} at S={case.seq}, B={case.batch}, H={case.heads}, D={case.head_dim} needs "
                    f"{format_bytes(least_bytes)} for its inputs and output alone; "
                    f"the device has {format_bytes(memory_bytes)}.",
                    "Make the largest shape smaller.",
                )
    return CapturePlan(
        tuple(cases), profiler, device, samples, sample_seconds, warmup, traced_calls, case_timeout_s, check
    )
