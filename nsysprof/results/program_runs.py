"""Define what `bench -- PROGRAM` measures and concludes: runs of a program in turn, and the comparison of two sides.

Define the results of `optimize`: a program's attention, what was tried, and how much each attempt helps or would.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import pandas as pd
from msgspec import Struct

from nsysprof.attention.shape import Shape
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


# The version of the JSON. 1: the first.
# The code of the finding about attention that runs as separate kernels.
UNFUSED_ATTENTION = "unfused-attention"
# The verdict on a shape for which the measurements decide nothing yet.
UNDECIDED = "inconclusive"
# Its `why` where it was not measured, and has the answer of its neighbours.
BETWEEN = "between"


@dataclass(frozen=True)
class AttentionUse:
    """Calls of one shape that the program made.

    passes: fwd for calls without gradients, fwdbwd for those of a training.
    """

    # The line of the program.
    site: str
    # The shape; None where a size is unknown, or where a policy cannot contain it.
    shape: Shape | None
    calls: int
    backend_ran: str | None
    # The time of forward and backward kernels together (ns); None where the trace does not have it.
    kernel_total_ns: int | None
    share_pct: float | None
    # Why no backend was timed for it; empty where one was, or where nothing prevents it.
    not_tuned: str = ""


@dataclass(frozen=True)
class TunedUse:
    """What tuning found for one shape: the best backend, and how much longer torch's own choice takes."""

    site: str
    shape: Shape
    backend: str
    # "winner", "tie", "alone" or UNDECIDED.
    why: str
    # Where it is undecided: of the backend that was fastest so far.
    over_auto: float | None
    share_pct: float | None
    # Whether it is in the policy: only where it won.
    in_policy: bool
    # Whether the search took all samples that it takes of a shape, so that a larger budget decides nothing.
    search_ended: bool = False
    # The part of torch's own time in which the GPU only waits for launches (0 to 1); None where unknown.
    launch_share: float | None = None

    @property
    def needs_budget(self) -> bool:
        """Return whether it is undecided because the budget ended."""
        return self.why == UNDECIDED and not self.search_ended


class OptimizeStep(Struct, frozen=True):
    """One step of the optimization, how long it took, and its result."""

    name: str
    seconds: float
    outcome: str
    # What earlier runs took for it, where this one resumed them (s). A step that was killed is not counted.
    earlier_s: float = 0.0


@dataclass(frozen=True)
class PredictedGain:
    """How much shorter a step should be (percent), predicted before it was tried."""

    pct: float
    # Bounds of the same.
    low_pct: float
    high_pct: float
    # "step", or "recorded part" where the trace has no steps.
    per: str
    # How it was predicted, as text.
    by: str


class Prediction(StrEnum):
    """How a measured gain compares with the bounds of the predicted one."""

    MET = "met"
    GAINED_MORE = "gained more"
    GAINED_LESS = "gained less"
    NOT_MEASURED = "not measured"


@dataclass(frozen=True)
class Suggestion:
    """What a finding suggests that cannot be tried without changing the program.

    code: the code of the finding.
    """

    code: str
    text: str


@dataclass(frozen=True)
class Attempt:
    """One thing that was tried on the whole program.

    setting: what to type, without a change of the code; empty where there is no such way.
    paste: what to write into the program instead; empty where only the user knows.
    predicted: how much shorter a step should be; None where nothing predicts it.
    """

    name: str
    why: str
    setting: str
    paste: str
    predicted: PredictedGain | None
    comparison: ProgramComparison
    # Whether it is faster and the values are the same.
    is_better: bool
    folder: str
    # The comparison with the prediction; None where nothing was predicted.
    prediction: Prediction | None = None
    # Whether it needs less memory in every run, at a time that is not shown to be worse and with the same values.
    saves_memory: bool = False
    # The class of its precision (same, random, tf32, bf16), and what it may change in results; empty where unknown.
    precision: str = ""
    changes: str = ""
    # Whether it was in force in the measured process, and what shows that; None where nothing reads it back.
    took_effect: bool | None = None
    evidence: str = ""
    # The program's own settings whose place it took, each with its line.
    replaced: tuple[str, ...] = ()
    # Why it was given up, where it was: it failed, had no effect, or was slower early on.
    lost: str = ""
    turns: int = 0
    # After how many steps the longer start is paid for; None where the start is not longer, or nothing is saved.
    pays_after: int | None = None

    @property
    def saved_bytes(self) -> int:
        """Return how much less memory it needs in any case, of the kind that falls the most (bytes)."""
        return max((memory.saved_bytes for memory in self.comparison.memory), default=0)


@dataclass(frozen=True)
class ProvenSet:
    """The remedies that help together, and runs of their own that confirm it.

    names: the attempts. setting, paste: as in Attempt; diff: what to change in the program's files, where known.
    comparison: with the program as it is, in turns that no choice was made by.
    """

    names: tuple[str, ...]
    setting: str
    paste: str
    diff: str
    comparison: ProgramComparison
    is_confirmed: bool
    precision: str = ""
    pays_after: int | None = None


@dataclass(frozen=True)
class NotTried:
    """A remedy that was not tried, and the reason."""

    name: str
    reason: str
    # The budget (s) that has the time for it; None where time was not the reason.
    needs_budget_s: int | None = None


class OptimizationAnswer(StrEnum):
    """What an optimization found, in the order in which the first that holds is the answer."""

    FASTER = "faster"
    FAILED = "failed"
    # No attempt is certainly faster, and one needs less memory at a time that is not shown to be worse.
    LESS_MEMORY = "less memory"
    # No attempt is certainly faster, and more turns would decide some.
    UNDECIDED_ATTEMPTS = "undecided attempts"
    # The program computes attention in separate operations, which only a change of the program can fuse.
    FUSE_FIRST = "fuse attention first"
    # No backend was shown to be faster, and some shapes are undecided.
    UNDECIDED_SHAPES = "undecided shapes"
    NO_OTHER_BACKEND = "no gain from another backend"
    NOT_TUNED = "not tuned"
    NOTHING = "nothing found"


@dataclass(frozen=True)
class ChangingSite:
    """A line of the program that calls attention with so many shapes that they probably change at each step."""

    site: str
    shapes: int


@dataclass(frozen=True)
class Optimization:
    """Everything that `optimize` found about a program."""

    program: tuple[str, ...]
    uses: tuple[AttentionUse, ...]
    # The share of attention in the time of all kernels; None where unknown.
    attention_share_pct: float | None
    tuned: tuple[TunedUse, ...]
    attempts: tuple[Attempt, ...]
    # What findings suggest that cannot be tried without changing the program.
    suggestions: tuple[Suggestion, ...]
    steps: tuple[OptimizeStep, ...]
    notes: tuple[Note, ...] = ()
    policy: str | None = None
    # What tuning says about the whole program, about what it left out, and why it ended.
    remarks: tuple[str, ...] = ()
    # Why there is no answer, such as a program that fails by itself; empty where there is one.
    failure: str = ""
    # The answer as a whole, and the lines whose shapes change; both are judged from the fields above.
    answer: OptimizationAnswer = OptimizationAnswer.NOTHING
    # The remedies that help together; None where none helps, or where the budget left no time to prove them.
    proven: ProvenSet | None = None
    not_tried: tuple[NotTried, ...] = ()
    changing_sites: tuple[ChangingSite, ...] = ()

    @property
    def best(self) -> Attempt | None:
        """Return the attempt that helps the most; None where none does."""
        better = [attempt for attempt in self.attempts if attempt.is_better]
        return min(better, key=lambda attempt: attempt.comparison.change.ratio or 1.0, default=None)

    @property
    def smallest(self) -> Attempt | None:
        """Return the attempt that saves the most memory; None where none does."""
        smaller = [attempt for attempt in self.attempts if attempt.saves_memory]
        return max(smaller, key=lambda attempt: attempt.saved_bytes, default=None)

    def to_json(self) -> dict[str, Any]:
        """Return the result as it is written to files and printed by --json; unknown is null."""
        best = self.best
        return {"format_version": FORMAT_VERSION, **json_value(self), "best": None if best is None else best.name}


@dataclass(frozen=True)
class ShapeRatio:
    """The time of a shape's faster backend divided by torch's own choice: as measured, and its bounds."""

    shape: Shape
    ratio: float
    low: float
    high: float


@dataclass(frozen=True)
class ProgramGain:
    """The expected saving of GPU time, by the shapes for which another backend is shown to be faster."""

    # "step", or "recorded part" where the program has no steps.
    per: str
    # The time of the attention that was tuned (ns); None where the kernels of the program are unknown.
    baseline_ns: float | None
    saved_ns: float | None
    # The bounds of the saving: sums of those of each shape.
    saved_low_ns: float | None
    saved_high_ns: float | None
    # The share of all attention in the time of all kernels (%); None where unknown.
    attention_share_pct: float | None
    # The saving as a share of the time of all kernels (%); None where unknown.
    saved_pct: float | None
    # Shapes with a faster backend, and those that were tuned.
    faster_shapes: int
    shapes: int
    # The result, in one sentence.
    text: str
    # Calls that were not tuned, with the reasons.
    refused: tuple[str, ...] = ()
    # The shapes with a faster backend, and those between two of them.
    ratios: tuple[ShapeRatio, ...] = ()


@dataclass(frozen=True)
class CapturedUse:
    """Calls of one shape in one pass, from one line of a program, that ran on one backend."""

    # The columns of attention.csv; None where unknown.
    row: dict[str, Any]

    @property
    def calls(self) -> int:
        return int(self.row["calls"])

    @property
    def kernel_total_ns(self) -> int | None:
        total_ns = self.row["kernel_total_ns"]
        return None if total_ns is None else int(total_ns)

    @property
    def share_pct(self) -> float | None:
        share_pct = self.row["share_pct"]
        return None if share_pct is None else float(share_pct)


@dataclass(frozen=True)
class CapturedAttention:
    """What a program ran."""

    uses: tuple[CapturedUse, ...]
    # The GPU of the capture; None for none, or unknown.
    gpu_name: str | None
    # The steps of the recorded part; None where they are not known.
    steps: int | None

    @property
    def share_pct(self) -> float | None:
        """Return the share of attention in the time of all kernels; None where the kernels are unknown."""
        shares = [use.share_pct for use in self.uses if use.share_pct is not None]
        return sum(shares) if shares else None


def known_cells(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the rows of attention.csv with None where a cell is unknown."""
    return [{str(name): _known(cell) for name, cell in row.items()} for row in table.to_dict("records")]


def _known(cell: Any) -> Any:

    return None if pd.isna(cell) or cell == "" else cell
