"""Define the results of `doctor`: one check for each thing that was tried on the machine."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class State(StrEnum):
    """The state of one thing that was checked."""

    OK = "ok"
    WARNING = "warning"  # something works less well, or changes the numbers
    PROBLEM = "problem"  # something does not work although it should
    ABSENT = "absent"  # it is not installed, and not everybody needs it


@dataclass(frozen=True)
class Check:
    """One thing that was checked."""

    name: str
    state: State
    # What was found.
    found: str
    # What to do about it; empty when there is nothing to do.
    fix: str = ""
