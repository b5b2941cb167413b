"""Build the trace of a program with steps."""

from collections.abc import Sequence

from tests.builders.build_trace import TraceBuilder


def training(walls: Sequence[int] = (1000,) * 10) -> TraceBuilder:
    """Return a builder of steps of 100 ns of gemm and, beginning in its middle, 100 ns of NCCL on another stream."""
    made = TraceBuilder()
    at, number = 10_000, 1
    for step, wall in enumerate(walls):
        made.range(at, at + wall, f"step{step}")
        for name, begin, stream in (("sgemm", 100, 7), ("ncclAllReduce", 150, 13)):
            made.call(at + begin - 50, at + begin - 40, number)
            made.kernel(at + begin, at + begin + 100, number, name=name, stream=stream)
            number += 1
        at += wall
    return made
