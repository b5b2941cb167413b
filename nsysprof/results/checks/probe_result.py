"""Define the result of trying options of nsys with a program that does a known amount of work."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class ProbeVerdict(StrEnum):
    """What a trial showed."""

    COMPLETE = "complete"
    LOST = "lost"
    # nsys could not record or export at all.
    FAILED = "failed"
    # The program could not use a GPU, so that nothing was learned of nsys.
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class ProbeResult:
    """What became of one set of options."""

    name: str
    options: tuple[str, ...]
    verdict: ProbeVerdict
    # What was recorded, or why nothing was.
    text: str
    # Kernels and whole graphs that the program ran, and that the trace has.
    expected: int
    recorded: int
    seconds: float
