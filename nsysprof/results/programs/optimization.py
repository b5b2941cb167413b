"""Define what `optimize` finds: what a program's attention is, what was tried, and by how much each helps."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from msgspec import Struct

from nsysprof.attention.shape import Shape
from nsysprof.files.json_file import json_value
from nsysprof.notes import Note
from nsysprof.results.programs.program_runs import ProgramComparison

# History of the JSON. 1: first.
FORMAT_VERSION = 1
# The code of the finding of attention that is written out by hand.
UNFUSED_ATTENTION = "unfused-attention"


@dataclass(frozen=True)
class AttentionUse:
    """Calls of one shape that the program made.

    passes: fwd for calls without gradients, fwdbwd for those of a training.
    """

    # The line of the program.
    site: str
    # None where a size is unknown, or where no policy can have it.
    shape: Shape | None
    calls: int
    backend_ran: str | None
    # Forward and backward kernels together; None where the trace does not tell.
    kernel_total_ns: int | None
    share_pct: float | None
    # Why no backend was timed for it; empty where one was, or nothing hinders it.
    not_tuned: str = ""


@dataclass(frozen=True)
class TunedUse:
    """What tuning says of one shape: the best backend, and how much longer torch's own choice takes."""

    site: str
    shape: Shape
    backend: str
    # "winner", "tie" or "alone".
    why: str
    over_auto: float | None
    share_pct: float | None
    # Whether it is in the policy: only where it won.
    in_policy: bool


class OptimizeStep(Struct, frozen=True):
    """One step, how long it took, and what came of it."""

    name: str
    seconds: float
    outcome: str


@dataclass(frozen=True)
class PredictedGain:
    """How much shorter a step should be (percent), stated before it was tried."""

    pct: float
    # Bounds of the same.
    low_pct: float
    high_pct: float
    # "step", or "recorded part" where the trace has no steps.
    per: str
    # What predicts it, in words.
    by: str


class Prediction(StrEnum):
    """How a measured gain compares with the bounds of the predicted one."""

    MET = "met"
    GAINED_MORE = "gained more"
    GAINED_LESS = "gained less"
    NOT_MEASURED = "not measured"


@dataclass(frozen=True)
class Suggestion:
    """What a finding suggests that cannot be tried from outside. code: of the finding."""

    code: str
    text: str


@dataclass(frozen=True)
class Attempt:
    """One thing that was tried on the whole program.

    setting: what to set in the environment, as for `env`. paste: what to write into the program instead.
    predicted: how much shorter a step should be; None where nothing predicts it.
    """

    name: str
    why: str
    setting: str
    paste: str
    predicted: PredictedGain | None
    comparison: ProgramComparison
    # Whether it is better and its values are not different.
    is_better: bool
    folder: str
    # None where nothing was predicted.
    prediction: Prediction | None = None


@dataclass(frozen=True)
class Optimization:
    """Everything that `optimize` found about a program."""

    program: tuple[str, ...]
    uses: tuple[AttentionUse, ...]
    # The part of the time of all kernels that attention has; None where that is unknown.
    attention_share_pct: float | None
    tuned: tuple[TunedUse, ...]
    attempts: tuple[Attempt, ...]
    # What findings suggest that cannot be tried from outside.
    suggestions: tuple[Suggestion, ...]
    steps: tuple[OptimizeStep, ...]
    notes: tuple[Note, ...] = ()
    policy: str | None = None
    # What tuning says of the whole program, of what it left out, and of why it ended.
    remarks: tuple[str, ...] = ()
    # Why there is no answer, such as a program that fails by itself; empty where there is one.
    failure: str = ""

    @property
    def best(self) -> Attempt | None:
        """Return the attempt that helps the most; None where none does."""
        better = [attempt for attempt in self.attempts if attempt.is_better]
        return min(better, key=lambda attempt: attempt.comparison.change.ratio or 1.0, default=None)

    def to_json(self) -> dict[str, Any]:
        """Return it as files and --json have it; unknown is null."""
        best = self.best
        attempts = [{**json_value(attempt), "comparison": attempt.comparison.to_json()} for attempt in self.attempts]
        found = {**json_value(self), "attempts": attempts, "best": None if best is None else best.name}
        return {"format_version": FORMAT_VERSION, **found}
