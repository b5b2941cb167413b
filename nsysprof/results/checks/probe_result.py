"""Define the result of trying out options of nsys with a program that does a known amount of work."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class ProbeVerdict(StrEnum):
    """The verdict of a trial."""

    COMPLETE = "complete"
    LOST = "lost"
    # nsys could not record or export at all.
    FAILED = "failed"
    # The program could not use a GPU, so the trial says nothing about nsys.
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class ProbeResult:
    """The result of trying one set of options."""

    name: str
    options: tuple[str, ...]
    verdict: ProbeVerdict
    # What was recorded, or why nothing was.
    text: str
    # How many kernels and whole graphs the program ran, and how many the trace has.
    expected: int
    recorded: int
    seconds: float
