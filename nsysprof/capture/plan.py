"""Define CapturePlan: what a capture will do, decided before anything runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from nsysprof.attention.range_name import format_range, varied_keys
from nsysprof.attention.shape import Case
from nsysprof.capture.sampling.bench_run import BenchPlan, check_plan
from nsysprof.errors import UsageError
from nsysprof.units import format_bytes

PROFILERS = ("auto", "nsys", "torch", "none")
REPLAYS = ("auto", "kernel", "application")
_SAMPLES_A_RANGE = 100
_LEAST_SAMPLES = 10
_METHODS = {
    "cuda": "untraced; one pair of CUDA events around each call, calls queued back to back, L2 warm; median",
    "cpu": "untraced; monotonic clock around each call on the CPU; median",
}


@dataclass(frozen=True)
class CountingPlan:
    """How ncu counts one call of each case."""

    # Passed on to ncu.
    metrics: tuple[str, ...] = ()
    sections: tuple[str, ...] = ()
    # One of REPLAYS.
    replay: str = "auto"
    # If a call has more kernels than this, only the first ones are counted.
    kernels: int = 200


@dataclass(frozen=True)
class CapturePlan:
    """The grid, and how to measure it. `profiler` and `device` are decided: neither is `auto`."""

    cases: tuple[Case, ...]
    profiler: str
    device: str
    # How many untraced samples a case gets; fewer where they would take longer than sample_seconds, but at least ten.
    samples: int = 50
    sample_seconds: float = 3.0
    warmup: int = 10
    traced_calls: int = 10
    case_timeout_s: float = 300.0
    check: bool = True
    # The rate at which DRAM bandwidth is sampled under nsys (Hz); 0: not at all.
    gpu_metrics_hz: int = 0
    # How ncu counts; None when ncu is not used.
    counting: CountingPlan | None = None

    @property
    def traced_seconds(self) -> float:
        """Return the shortest duration of a case's range (s) that has enough samples for its edges to matter little."""
        return _SAMPLES_A_RANGE / self.gpu_metrics_hz if self.gpu_metrics_hz else 0.0

    @property
    def untraced(self) -> BenchPlan:
        """Return the plan of the untraced pass: a bench of one process, with warm caches and a fixed warm-up.

        The ceilings of a GPU are only measured where traffic is measured, which is compared with them.
        """
        return BenchPlan(
            cases=self.cases,
            device=self.device,
            processes=1,
            rounds=1,
            samples=self.samples,
            least_samples=_LEAST_SAMPLES,
            sample_seconds=self.sample_seconds,
            warmup_calls=self.warmup,
            flush=False,
            check=self.check,
            case_timeout_s=self.case_timeout_s,
            ceilings=self.device == "cuda" and (self.counting is not None or self.gpu_metrics_hz > 0),
        )

    @property
    def method(self) -> str:
        """Return a sentence on how the untraced samples are taken."""
        return _METHODS[self.device]

    @property
    def range_keys(self) -> tuple[str, ...]:
        return varied_keys(self.cases)

    def range_of(self, case: Case) -> str:
        return format_range(case, self.range_keys)


def plan_capture(cases: Sequence[Case], memory_bytes: int | None, **settings: Any) -> CapturePlan:
    """Return the plan, after checking the numbers, and that inputs and output of every case fit the device.

    A case whose intermediates do not fit stays in the plan, because running out of memory is a result. Raises
    UsageError.

    memory_bytes: the memory of the device; None when unknown.
    settings: the other fields of the plan.
    """
    plan = CapturePlan(tuple(cases), **settings)
    check_plan(plan.untraced)
    if memory_bytes is not None:
        for case in cases:
            least_bytes = case.input_bytes + case.output_bytes
            if least_bytes > memory_bytes:
                raise UsageError(
                    f"{case.backend} at S={case.seq}, B={case.batch}, H={case.heads}, D={case.head_dim} needs "
                    f"{format_bytes(least_bytes)} for its inputs and output alone, but the device has "
                    f"{format_bytes(memory_bytes)}.",
                    "Make the largest shape smaller.",
                )
    return plan
