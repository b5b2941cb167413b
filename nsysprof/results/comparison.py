"""Define what a comparison is made of: what each input measured, what differs, and how a gate judges it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from nsysprof.attention.case import Case
from nsysprof.notes import Loss, Note
from nsysprof.results.allocator_memory import AllocatorMemory, MemoryComparison
from nsysprof.results.gate_result import GateResult, Outcome

# The parts that the wall time of a range is made of. They add up to it, to the nanosecond.
PARTS = ("before_ns", "kernels_ns", "copies_ns", "fills_ns", "graphs_ns", "gaps_ns", "after_ns")
WHOLE_TRACE = "(whole trace)"
SAME_SAMPLES = "the same samples on both sides"
# How the reason begins of a verdict that was taken back because one side was throttled more than the other.
THROTTLED = "throttled unequally"


class LatencyVerdict(StrEnum):
    """The verdict on the candidate's latency compared with the baseline's."""

    FASTER = "FASTER"
    SLOWER = "SLOWER"
    SAME = "SAME"
    INCONCLUSIVE = "INCONCLUSIVE"


@dataclass(frozen=True)
class Measured:
    """One case in one input, untraced."""

    status: str
    reason: str = ""
    # The samples (ns) of each block of each process.
    processes: tuple[tuple[tuple[int, ...], ...], ...] = ()
    # The number of each process; those of one number on both sides of a session were run in turn.
    turns: tuple[int, ...] = ()
    # Whether a process' only block is one long sequence of calls, back to back, which must be cut before use.
    in_order: bool = False
    # Whether the time is CPU time or launch time.
    host_bound: bool = False
    # From torch's allocator.
    peak_bytes: int | None = None
    # The share of the samples during which the GPU was throttled, from 0 to 1.
    throttled: float = 0.0


@dataclass(frozen=True)
class KernelFacts:
    """One kernel in one range of one trace."""

    category: str
    short_name: str
    instances: int
    total_ns: int
    label: str = ""


@dataclass(frozen=True)
class RangeFacts:
    """One range of one trace, with all its instances together."""

    instances: int
    # How many traced calls of a capture it contains; None where that is not known.
    calls: int | None
    # By the names of METRICS; None where the trace does not tell.
    metrics: Mapping[str, int | None]
    # By PARTS; None as a whole where unknown.
    parts: Mapping[str, int] | None
    # By name.
    kernels: Mapping[str, KernelFacts]
    # The bound on the error of metrics["dram"].
    dram_error_bytes: int = 0
    # The attention backend that ran, judged by its kernels.
    family: str | None = None
    # One value for each instance after the warm-up, in order of start; empty where calls are counted.
    walls_ns: tuple[int, ...] = ()


@dataclass(frozen=True)
class Metric:
    """A number of a range. unit: "count", "ns" or "bytes". per_call: whether it grows with calls; a peak does not."""

    unit: str
    per_call: bool
    title: str


METRICS = {
    "launches": Metric("count", True, "launches"),
    "kernels": Metric("count", True, "kernels"),
    "kernel_time": Metric("ns", True, "kernel time"),
    "busy": Metric("ns", True, "busy"),
    "gaps": Metric("ns", True, "gaps"),
    "wall": Metric("ns", True, "wall"),
    "copied": Metric("bytes", True, "copied"),
    "filled": Metric("bytes", True, "set"),
    "vram": Metric("bytes", False, "peak VRAM"),
    "dram": Metric("bytes", True, "DRAM, sampled"),
}


@dataclass(frozen=True)
class Input:
    """One capture, trace or bench.

    session: equal on both sides of one bench that measured them in turn; else empty.
    savings: what each finding of a trace, by code and range, would save in a step (ns); None where that is unknown.
    memory: who owned torch's memory, where the capture recorded it.
    """

    name: str
    kind: str
    # An unknown fact is absent or None.
    environment: Mapping[str, Any]
    cases: Mapping[Case, Measured] = field(default_factory=dict)
    # The ranges of the trace, by range and domain; None without a trace.
    ranges: Mapping[tuple[str, str], RangeFacts] | None = None
    notes: tuple[Note, ...] = ()
    # What its trace lacks.
    losses: tuple[Loss, ...] = ()
    # Equal for inputs that are the same file.
    digest: str = ""
    session: str = ""
    savings: dict[tuple[str, str], int] | None = None
    memory: AllocatorMemory | None = None


@dataclass(frozen=True)
class Difference:
    """A fact of the environment that differs between the sides: the values seen on each."""

    fact: str
    baseline: tuple[str, ...]
    candidate: tuple[str, ...]


@dataclass(frozen=True)
class SideOfCase:
    """One side of a case. status: "ok", "absent", or why there is nothing to compare."""

    status: str
    reason: str = ""
    median_ns: float | None = None
    samples: int = 0
    blocks: int = 0
    processes: int = 0
    inputs: int = 0
    peak_bytes: int | None = None


@dataclass(frozen=True)
class LatencyChange:
    """One case on both sides."""

    case: str
    # None where it was not measured on both sides.
    verdict: LatencyVerdict | None
    baseline: SideOfCase
    candidate: SideOfCase
    reason: str = ""
    next_step: str = ""
    # The candidate's median divided by the baseline's, with its 95 % interval.
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    # The p value of the Mann-Whitney test of blocks.
    p_blocks: float | None = None
    # The p value of the t test of processes, runs or turns; None where each side has only one.
    p_units: float | None = None
    # The larger of these two, corrected over all cases: by Holm's method, in turns by Benjamini and Hochberg's.
    p: float | None = None
    # Cliff's delta.
    delta: float | None = None
    # The noise floor that a difference of this case must exceed.
    floor_pct: float | None = None
    # The verdict SAME means that the interval is within this margin.
    margin_pct: float | None = None
    unit: str = ""
    # How many more units each side would need for a decision, where that can be computed.
    more: int | None = None


@dataclass(frozen=True)
class LatencyComparison:
    """The latency of all cases on both sides."""

    changes: tuple[LatencyChange, ...] = ()
    # The noise floor of single units, and where it comes from.
    floor_pct: float | None = None
    floor_from: str = ""
    # "process", "run", or "turn" where both sides were measured in turn.
    unit: str = "process"


@dataclass(frozen=True)
class MetricChange:
    """One number of a range: its value in each trace of both sides, per call where METRICS says so; None is unknown."""

    metric: str
    baselines: tuple[float | None, ...]
    candidates: tuple[float | None, ...]
    # The medians.
    baseline: float | None
    candidate: float | None
    # The bound on the error of their difference.
    error: float = 0.0
    # Whether the difference is no larger than that bound, so that it may be none.
    is_within_error: bool = False

    @property
    def change(self) -> float | None:
        return None if self.baseline is None or self.candidate is None else self.candidate - self.baseline

    @property
    def change_pct(self) -> float | None:
        change = self.change
        return None if change is None or not self.baseline else 100 * change / self.baseline


@dataclass(frozen=True)
class KernelChange:
    """A kernel of a range on both sides, per call."""

    # "both", "renamed", "appeared" or "vanished".
    how: str
    # What both kernels of a renamed pair are for.
    role: str
    baseline_name: str | None
    candidate_name: str | None
    baseline_instances: float
    candidate_instances: float
    baseline_ns: float
    candidate_ns: float
    baseline_label: str | None = None
    candidate_label: str | None = None
    # Whether its change is worth a line in a report.
    is_notable: bool = True


@dataclass(frozen=True)
class RangeChange:
    """A range of either side."""

    range: str
    domain: str
    # "both", "appeared" or "vanished".
    how: str
    baseline_calls: int
    candidate_calls: int
    metrics: Mapping[str, MetricChange] = field(default_factory=dict)
    # The change of each of PARTS (ns), which add up to wall_change_ns. They are those of the trace with the median wall
    # time on each side, and per call where the sides have different numbers of calls.
    parts: Mapping[str, int] | None = None
    wall_change_ns: int | None = None
    per_call: bool = False
    kernels: tuple[KernelChange, ...] = ()
    baseline_family: str | None = None
    candidate_family: str | None = None
    # The candidate's median instance after the warm-up divided by the baseline's, with its 95 % interval; None with few
    # instances.
    wall_ratio: float | None = None
    wall_ratio_low: float | None = None
    wall_ratio_high: float | None = None
    # The verdict on its time; None where it has too few instances, or is not among the ranges with the most time.
    wall_verdict: LatencyChange | None = None

    @property
    def label(self) -> str:
        return f"{self.domain}:{self.range}" if self.domain else self.range


@dataclass(frozen=True)
class Side:
    """The inputs of one side by name, and the facts of their environment on which they agree."""

    inputs: tuple[str, ...]
    kinds: tuple[str, ...]
    environment: Mapping[str, Any]


@dataclass(frozen=True)
class FindingChange:
    """A finding of analyze on one side or on both."""

    code: str
    range: str
    # "appeared", "vanished" or "both".
    how: str
    # What it would save in a step; None where the side does not have it.
    baseline_ns: int | None
    candidate_ns: int | None


@dataclass(frozen=True)
class VersionComparison:
    """The whole comparison."""

    baseline: Side
    candidate: Side
    # Facts of the environments that should agree and do not.
    differences: tuple[Difference, ...]
    latency: LatencyComparison
    ranges: tuple[RangeChange, ...]
    gate: tuple[GateResult, ...] = ()
    notes: tuple[Note, ...] = ()
    # Whether it was made in spite of these differences.
    forced: bool = False
    method: tuple[str, ...] = ()
    findings: tuple[FindingChange, ...] = ()
    # The lines behind the difference of the peaks of torch's memory, where both sides recorded them.
    memory: MemoryComparison | None = None
    # The range whose wall time stands first in a report; None where none is shown to change, or cases were measured.
    headline: RangeChange | None = None

    @property
    def outcome(self) -> Outcome | None:
        """Return the worst outcome of the gate's rules; None without a gate."""
        found = {result.outcome for result in self.gate}
        worst = (Outcome.REGRESSION, Outcome.INCONCLUSIVE, Outcome.PASS)
        return next((outcome for outcome in worst if outcome in found), None)
