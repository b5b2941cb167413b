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
REPLAYS = ("auto", "kernel", "application")
_SAMPLES_A_RANGE = 100
METRICS_HZ = (10, 200_000)  # what nsys takes


@dataclass(frozen=True)
class CountingPlan:
    """How ncu counts one call of each case.

    metrics, sections: passed through to ncu. replay: "auto", "kernel" or "application". kernels: of a call, above
    which only the first are counted.
    """

    metrics: tuple[str, ...] = ()
    sections: tuple[str, ...] = ()
    replay: str = "auto"
    kernels: int = 200


@dataclass(frozen=True)
class CapturePlan:
    """The grid and how it is measured. `profiler` and `device` are settled: no `auto` is left in them.

    gpu_metrics_hz: DRAM bandwidth is sampled under nsys at this frequency; 0: not. counting: None without ncu.
    """

    cases: tuple[Case, ...]
    profiler: str
    device: str
    samples: int = 50
    sample_seconds: float = 3.0
    warmup: int = 10
    traced_calls: int = 10
    case_timeout_s: float = 300.0
    check: bool = True
    gpu_metrics_hz: int = 0
    counting: CountingPlan | None = None

    @property
    def traced_seconds(self) -> float:
        """The least time of a case's range: enough samples that their edges matter little."""
        return _SAMPLES_A_RANGE / self.gpu_metrics_hz if self.gpu_metrics_hz else 0.0

    @property
    def ceilings(self) -> tuple[str, ...]:
        """The dtypes whose ceilings are measured, since traffic is compared with them; none on a CPU."""
        wanted = self.device == "cuda" and (self.counting is not None or self.gpu_metrics_hz > 0)
        return tuple(dict.fromkeys(case.dtype for case in self.cases)) if wanted else ()

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
    gpu_metrics_hz: int = 0,
    counting: CountingPlan | None = None,
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
    if gpu_metrics_hz and not METRICS_HZ[0] <= gpu_metrics_hz <= METRICS_HZ[1]:
        raise UsageError(f"--gpu-metrics-frequency {gpu_metrics_hz} is out of range.", "nsys takes 10 to 200000 Hz.")
    if counting is not None and counting.kernels < 1:
        raise UsageError(f"--count-kernels {counting.kernels} is too small.", "Give at least 1.")
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
        cases=tuple(cases),
        profiler=profiler,
        device=device,
        samples=samples,
        sample_seconds=sample_seconds,
        warmup=warmup,
        traced_calls=traced_calls,
        case_timeout_s=case_timeout_s,
        check=check,
        gpu_metrics_hz=gpu_metrics_hz,
        counting=counting,
    )
