"""Define the result of a gate: pass, regression or inconclusive, with what did not pass.

Reports of every kind may show one, so it is separate from the types of a comparison.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Outcome(StrEnum):
    """The outcome of a gate, and of each of its rules."""

    PASS = "pass"
    REGRESSION = "regression"
    INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True)
class GateFinding:
    """What one rule of the gate found in one case or range, as text."""

    where: str
    outcome: Outcome
    text: str
    next_step: str = ""


@dataclass(frozen=True)
class GateResult:
    """The outcome of one rule."""

    # The rule as the user wrote it.
    rule: str
    outcome: Outcome
    # How many numbers were compared with it.
    checked: int
    # The findings that do not pass.
    findings: tuple[GateFinding, ...]
