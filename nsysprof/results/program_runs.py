"""Define what `bench -- PROGRAM` measures and concludes: runs of a program in turn, and the comparison of two sides."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from msgspec import Struct

from nsysprof.files.plain_file import json_value
from nsysprof.notes import Note
from nsysprof.results.checks import GateResult, Outcome, worst_outcome
from nsysprof.results.comparison import LatencyChange
from nsysprof.results.policy_use import PolicyUse

# The version of the JSON. 1: the first.
FORMAT_VERSION = 1
OK, FAILED, TIMED_OUT = "ok", "failed", "timeout"


class StepSource(StrEnum):
    """Where the times of steps come from."""

    LINES = "printed lines"
    NUMBERS = "numbers in printed lines"
    OPTIMIZER = "steps of the optimizer"
    RANGES = "NVTX ranges of torch"
    CALLS = "calls of the outermost module"
    RUN = "the run from the import of torch to its end"
    WHOLE = "the whole run"


class RemedyEffect(Struct, frozen=True):
    """Whether a remedy was in force in the measured process, and what shows it.

    evidence: what was read back, or why it is not in force.
    replaced: the settings of the program that it took the place of, each with its line.
    """

    name: str
    took_effect: bool
    evidence: str = ""
    replaced: tuple[str, ...] = ()


class ValueSamples(Struct, frozen=True):
    """A part of what a run computed. None stands for NaN or infinity.

    gradients: before the first step. update: how parameters changed in the first `steps` steps.
    outputs: of the first calls of the outermost module; empty where there is an optimizer.
    """

    losses: tuple[float | None, ...] = ()
    gradients: tuple[float | None, ...] = ()
    update: tuple[float | None, ...] = ()
    outputs: tuple[tuple[float | None, ...], ...] = ()
    steps: int = 0


class ProgramTraits(Struct, frozen=True, kw_only=True):
    """What a program does by itself, as far as it decides what can be tried. applied_remedies writes these fields.

    settings: each flag that it sets, with the value and the line. modules: its outermost modules.
    """

    optimizer_steps: int = 0
    outer_calls: int = 0
    ended_early: bool = False
    problem: str = ""
    flags: dict[str, Any] = {}
    settings: tuple[tuple[str, str, str], ...] = ()
    modules: tuple[dict[str, Any], ...] = ()
    optimizers: tuple[dict[str, Any], ...] = ()
    loaders: tuple[dict[str, Any], ...] = ()
    wrapped: tuple[dict[str, Any], ...] = ()
    zeroing: tuple[str, ...] = ()
    garbage_ns: int | None = None
    libraries: tuple[str, ...] = ()
    installed: tuple[str, ...] = ()
    expandable: bool | None = None
    attention_backend: str | None = None


class TimedRun(Struct, frozen=True, kw_only=True):
    """One run of the program on one side."""

    side: str
    turn: int
    status: str
    # What went wrong: the last line of standard error, or why there is no time.
    reason: str = ""
    exit_code: int | None = None
    wall_ns: int = 0
    # One value for each step after the warm-up, in order; one for the whole run where there are no steps.
    times_ns: tuple[int, ...] = ()
    source: str = ""
    # The values that the pattern found, in order. None stands for NaN or infinity.
    values: tuple[float | None, ...] = ()
    # The memory that torch's allocator gave out on a GPU, else what the process held in RAM (bytes).
    peak_bytes: int | None = None
    reserved_bytes: int | None = None
    # Which backends the attention calls got, where the side has a policy.
    use: PolicyUse | None = None
    # What the program's Python tells of its remedies, its values and itself, where it was asked to.
    effects: tuple[RemedyEffect, ...] = ()
    samples: ValueSamples | None = None
    traits: ProgramTraits | None = None


class Sameness(StrEnum):
    """Whether the values of a program are the same on both sides."""

    EQUAL = "equal"
    # They differ by no more than what the lower precision, or other random numbers, explain.
    APPROXIMATE = "approximate"
    DIFFERENT = "different"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class ValueComparison:
    """The values that the program printed on both sides, such as its loss."""

    verdict: Sameness
    reason: str
    # How many values were compared in each turn.
    count: int
    tolerance_pct: float
    # The largest difference between the sides, and between two runs of the baseline, relative to the value (percent).
    largest_pct: float | None = None
    noise_pct: float | None = None


class MemoryKind(StrEnum):
    """What of a program's memory is compared."""

    # What torch's allocator gave out at most; without a GPU, what the process held in RAM.
    PEAK = "peak"
    # What torch's allocator took from the GPU at most, whether it was in use or not.
    RESERVED = "reserved"


@dataclass(frozen=True)
class MemoryChange:
    """Memory that differs between the sides in every run: the largest of one side is below the least of the other.

    baseline_bytes, candidate_bytes: of every run, in order of turns.
    """

    kind: MemoryKind
    baseline_bytes: tuple[int, ...]
    candidate_bytes: tuple[int, ...]

    @property
    def is_lower(self) -> bool:
        """Return whether the candidate needs less."""
        return max(self.candidate_bytes) < min(self.baseline_bytes)

    @property
    def saved_bytes(self) -> int:
        """Return by how much the candidate needs less in any case (bytes), and negative where it needs more."""
        return min(self.baseline_bytes) - max(self.candidate_bytes)


@dataclass(frozen=True)
class ProgramSideSummary:
    """One side: its name for people, and the summary of its runs."""

    label: str
    runs: int
    failed: int
    # The median step time over the runs.
    step_ns: float | None
    # The median number of steps of a run.
    steps: int
    peak_bytes: int | None
    reserved_bytes: int | None
    use: PolicyUse | None = None


@dataclass(frozen=True)
class ProgramComparison:
    """How a program runs on two sides."""

    program: tuple[str, ...]
    baseline: ProgramSideSummary
    candidate: ProgramSideSummary
    source: str
    change: LatencyChange
    values: ValueComparison | None
    gate: tuple[GateResult, ...] = ()
    notes: tuple[Note, ...] = ()
    method: tuple[str, ...] = ()
    # The memory that certainly differs.
    memory: tuple[MemoryChange, ...] = ()

    @property
    def outcome(self) -> Outcome | None:
        """Return the worst outcome of the gate's rules; None without a gate."""
        return worst_outcome(self.gate)

    def to_json(self) -> dict[str, Any]:
        """Return the comparison as it is written to files and printed by --json; unknown is null."""
        return {"format_version": FORMAT_VERSION, "outcome": self.outcome, **json_value(self)}
