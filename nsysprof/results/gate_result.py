"""Define the answer of a gate: pass, regression or inconclusive, with what does not pass.

Reports of every kind may show one, so it stands apart from the many types of a comparison.
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
    """What one rule of the gate says about one case or range, in words."""

    where: str
    outcome: Outcome
    text: str
    next_step: str = ""


@dataclass(frozen=True)
class GateResult:
    """The outcome of one rule."""

    # The rule as it was given.
    rule: str
    outcome: Outcome
    # How many numbers were compared with it.
    checked: int
    # The findings that do not pass.
    findings: tuple[GateFinding, ...]
