"""Define the data of a comparison: what each input measured, what differs, and how a gate judges it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from nsysprof.attention.shape import Case
from nsysprof.notes import Loss, Note
from nsysprof.results.allocator_memory import AllocatorMemory, MemoryComparison
from nsysprof.results.checks import GateResult, Outcome, worst_outcome

# The parts of a range's wall time. They add up to it exactly (ns).
PARTS = ("before_ns", "kernels_ns", "copies_ns", "fills_ns", "graphs_ns", "gaps_ns", "after_ns")
WHOLE_TRACE = "(whole trace)"
SAME_SAMPLES = "the same samples on both sides"
# The beginning of the reason for a verdict that was withdrawn because one side was throttled more.
THROTTLED = "throttled unequally"


class LatencyVerdict(StrEnum):
    """The verdict on the candidate's latency compared with the baseline's."""

    FASTER = "FASTER"
    SLOWER = "SLOWER"
    SAME = "SAME"
    INCONCLUSIVE = "INCONCLUSIVE"


@dataclass(frozen=True)
class Measured:
    """The untraced measurements of one case in one input."""

    status: str
    reason: str = ""
    # The samples (ns) of each block of each process.
    processes: tuple[tuple[tuple[int, ...], ...], ...] = ()
    # The number of each process. Processes with the same number on both sides of a session ran in turn.
    turns: tuple[int, ...] = ()
    # Whether a process has a single block of many calls back to back, which must be cut before use.
    in_order: bool = False
    # Whether the time is determined by the CPU or by launching.
    host_bound: bool = False
    # The peak memory from torch's allocator (bytes).
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
    # How many traced calls of a capture it contains; None where unknown.
    calls: int | None
    # The numbers by the names of METRICS; None where the trace does not have one.
    metrics: Mapping[str, int | None]
    # The times by PARTS; None if they are unknown.
    parts: Mapping[str, int] | None
    # The kernels by name.
    kernels: Mapping[str, KernelFacts]
    # The bound on the error of metrics["dram"].
    dram_error_bytes: int = 0
    # The attention backend that ran, judged by its kernels.
    family: str | None = None
    # The wall time of each instance after the warm-up (ns), in order of start; empty where calls are counted.
    walls_ns: tuple[int, ...] = ()
    # Whether the host determines these wall times, as it does for every range of the host.
    host_bound: bool = True


@dataclass(frozen=True)
class StepWalls:
    """The steps of one trace, as the overview of analyze tells them: a step ends when the GPU has done its work."""

    # The step range; STEP where steps are known by their kernels alone.
    per: str
    # How long a step takes: the mean of the steady ones that are not slow (ns).
    step_ns: float
    # How long each steady step took, in order of start (ns).
    walls_ns: tuple[int, ...]
    # Whether the GPU waits for the host in these steps.
    host_bound: bool = True
    # Whether a range marks the steps, which may itself be called "step".
    is_marked: bool = False


@dataclass(frozen=True)
class Metric:
    """A number about a range.

    unit: "count", "ns" or "bytes".
    per_call: whether it grows with the number of calls; a peak does not.
    """

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
    alpha: the significance level that earlier looks at them left for their comparison; None where nobody looked.
    savings: what each finding of a trace would save per step (ns), by code and range; None where unknown.
    memory: what owned torch's memory, where the capture recorded it.
    steps: how long the steps of its trace took; None where it has none.
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
    # A digest that is equal for inputs that are the same file.
    digest: str = ""
    session: str = ""
    alpha: float | None = None
    savings: dict[tuple[str, str], int] | None = None
    memory: AllocatorMemory | None = None
    steps: StepWalls | None = None


@dataclass(frozen=True)
class Difference:
    """A fact about the environment that differs between the sides, with the values seen on each."""

    fact: str
    baseline: tuple[str, ...]
    candidate: tuple[str, ...]


@dataclass(frozen=True)
class SideOfCase:
    """One side of a case.

    status: "ok", "absent", or why there is nothing to compare.
    """

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
    # The verdict; None where the case was not measured on both sides.
    verdict: LatencyVerdict | None
    baseline: SideOfCase
    candidate: SideOfCase
    reason: str = ""
    next_step: str = ""
    # The candidate's level divided by the baseline's, with its 95 % interval. A level is the geometric mean of the
    # medians of processes or runs.
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    # The p value of the Mann-Whitney test of blocks.
    p_blocks: float | None = None
    # The p value of the t test of processes, runs or turns; None where each side has only one.
    p_units: float | None = None
    # The p value of that t test, corrected over all cases by the method of Benjamini and Hochberg.
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
    # The standard error of the log ratio in the t test, and its degrees of freedom.
    error: float | None = None
    freedom: float | None = None


@dataclass(frozen=True)
class LatencyComparison:
    """The latency of all cases on both sides."""

    changes: tuple[LatencyChange, ...] = ()
    # The noise floor of single units, and where it comes from.
    floor_pct: float | None = None
    floor_from: str = ""
    # "process", "run", or "turn" where both sides were measured in turn.
    unit: str = "process"
    # The level of the tests; the intervals hold the truth with one less this.
    alpha: float = 0.05

    @property
    def uses_floor(self) -> bool:
        """Return whether a case was judged by the noise floor: neither where the host determines all, nor by runs."""
        return any(change.floor_pct for change in self.changes)


@dataclass(frozen=True)
class MetricChange:
    """One number of a range: its value in each trace of both sides, per call where METRICS says so. None is unknown."""

    metric: str
    baselines: tuple[float | None, ...]
    candidates: tuple[float | None, ...]
    # The medians over the traces of each side; of times the geometric means, which are what is tested.
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

    # How the kernel occurs: "both", "renamed", "appeared" or "vanished".
    how: str
    # The role that both kernels of a renamed pair share.
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
    """A range of either side, with its numbers on both."""

    range: str
    domain: str
    # How the range occurs: "both", "appeared" or "vanished".
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
    # Whether a library opened it around its own work, as NCCL does, and not the program.
    is_library: bool = False

    @property
    def label(self) -> str:
        return f"{self.domain}:{self.range}" if self.domain else self.range


@dataclass(frozen=True)
class StepChange:
    """How the time of a step changed, where every trace of both sides has steps of the same range."""

    # The step range; STEP where steps are known by their kernels alone.
    per: str
    # How long a step takes: the geometric mean over the traces of a side of the mean of each (ns).
    baseline_ns: float
    candidate_ns: float
    # The verdict, whose samples are the steady steps; None where a side has too few of them.
    verdict: LatencyChange | None = None
    # Whether a range marks the steps.
    is_marked: bool = False

    @property
    def change_pct(self) -> float:
        return 100 * (self.candidate_ns / self.baseline_ns - 1)


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
    # How the finding occurs: "appeared", "vanished" or "both".
    how: str
    # What it would save per step (ns); None where the side does not have it, and for findings about memory.
    baseline_ns: int | None
    candidate_ns: int | None
    # What a finding about torch's memory would save (bytes); None where the side does not have it, and for all others.
    baseline_bytes: int | None = None
    candidate_bytes: int | None = None


@dataclass(frozen=True)
class VersionComparison:
    """The whole comparison."""

    baseline: Side
    candidate: Side
    # The facts of the environments that should agree and do not.
    differences: tuple[Difference, ...]
    latency: LatencyComparison
    ranges: tuple[RangeChange, ...]
    gate: tuple[GateResult, ...] = ()
    notes: tuple[Note, ...] = ()
    # Whether the comparison was made in spite of these differences.
    forced: bool = False
    method: tuple[str, ...] = ()
    findings: tuple[FindingChange, ...] = ()
    # The lines that explain the difference of torch's memory peaks, where both sides recorded them.
    memory: MemoryComparison | None = None
    # The range whose wall time a report shows first; None where no change is certain, or where cases were measured.
    headline: RangeChange | None = None
    # How the time of a step changed; None where a trace has no steps, or those of another range.
    step: StepChange | None = None
    # What each input lost while it was recorded, as one sentence for each.
    losses: tuple[str, ...] = ()

    @property
    def outcome(self) -> Outcome | None:
        """Return the worst outcome of the gate's rules; None without a gate."""
        return worst_outcome(self.gate)
