"""What a comparison is made of: what each input measured, what differs, and how a gate judges that."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

from nsysprof.notes import Note

# History of the JSON. 1: first.
FORMAT_VERSION = 1
# The parts that the wall time of a range is made of. They add up to it, to the nanosecond.
PARTS = ("before_ns", "kernels_ns", "copies_ns", "fills_ns", "graphs_ns", "gaps_ns", "after_ns")
WHOLE_TRACE = "(whole trace)"
SAME_SAMPLES = "the same samples on both sides"


class Verdict(StrEnum):
    """Of the candidate's latency against the baseline's."""

    FASTER = "FASTER"
    SLOWER = "SLOWER"
    SAME = "SAME"
    INCONCLUSIVE = "INCONCLUSIVE"


class Outcome(StrEnum):
    """Of a gate, and of each of its rules."""

    PASS = "pass"
    REGRESSION = "regression"
    INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True)
class Measured:
    """One case in one input, untraced.

    processes: the samples (ns) of each block of each process. in_order: a process' only block is one long sequence of
    calls, back to back, which has to be cut before anything is computed of it. host_bound: whether it is the CPU that
    is timed, or its launching. peak_bytes: of torch's allocator.
    """

    status: str
    reason: str = ""
    processes: tuple[tuple[tuple[int, ...], ...], ...] = ()
    in_order: bool = False
    host_bound: bool = False
    peak_bytes: int | None = None


@dataclass(frozen=True)
class KernelFacts:
    """One kernel in one range of one trace."""

    category: str
    short_name: str
    instances: int
    total_ns: int


@dataclass(frozen=True)
class RangeFacts:
    """One range of one trace, all its instances together.

    calls: how many traced calls of a capture it encloses; None where nobody says. metrics: by the names of METRICS,
    None where the trace does not tell. parts: by PARTS, None as a whole where unknown. kernels: by name.
    dram_error_bytes: how far metrics["dram"] may be off. family: of the attention backend that ran, by its kernels.
    """

    instances: int
    calls: int | None
    metrics: Mapping[str, int | None]
    parts: Mapping[str, int] | None
    kernels: Mapping[str, KernelFacts]
    dram_error_bytes: int = 0
    family: str | None = None


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
    """One capture, trace or bench. environment: unknown is absent or None.

    cases: by a key that says what work is done. ranges: of the trace by (range, domain);
    None without a trace. digest: equal for inputs that are the same file.
    """

    name: str
    kind: str
    environment: Mapping[str, Any]
    cases: Mapping[str, Measured] = field(default_factory=dict)
    ranges: Mapping[tuple[str, str], RangeFacts] | None = None
    notes: tuple[Note, ...] = ()
    digest: str = ""


@dataclass(frozen=True)
class Difference:
    """A fact of the environment that is not the same on both sides: the values seen on each."""

    fact: str
    baseline: tuple[str, ...]
    candidate: tuple[str, ...]


@dataclass(frozen=True)
class SideOfCase:
    """One side of a case. status: "ok", "absent", or why there is nothing to compare, with its reason."""

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
    """One case. verdict: None where it was not measured on both sides.

    ratio: the candidate's median over the baseline's, with its 95 % interval. p_blocks: of the Mann-Whitney test of
    blocks; p_units: of the t test of processes (runs, where a side has several), None where no two of a side are
    there; p: the larger one, corrected by Holm. delta: Cliff's. floor_pct: the noise floor that a difference of this
    case must exceed. margin_pct: SAME means that the interval is within it. more: how many more units of each side
    would be needed to decide, where that can be told.
    """

    case: str
    verdict: Verdict | None
    baseline: SideOfCase
    candidate: SideOfCase
    reason: str = ""
    next_step: str = ""
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    p_blocks: float | None = None
    p_units: float | None = None
    p: float | None = None
    delta: float | None = None
    floor_pct: float | None = None
    margin_pct: float | None = None
    unit: str = ""
    more: int | None = None


@dataclass(frozen=True)
class LatencyComparison:
    """floor_pct: of single units (processes or runs), floor_from: where that comes from. units: "process" or "run"."""

    changes: tuple[LatencyChange, ...] = ()
    floor_pct: float | None = None
    floor_from: str = ""
    unit: str = "process"


@dataclass(frozen=True)
class MetricChange:
    """One number of a range: its value in each trace of both sides, by call where METRICS says so; None is unknown.

    baseline, candidate: the medians. error: how far the two may be off together.
    """

    metric: str
    baselines: tuple[float | None, ...]
    candidates: tuple[float | None, ...]
    baseline: float | None
    candidate: float | None
    error: float = 0.0

    @property
    def change(self) -> float | None:
        return None if self.baseline is None or self.candidate is None else self.candidate - self.baseline

    @property
    def change_pct(self) -> float | None:
        change = self.change
        return None if change is None or not self.baseline else 100 * change / self.baseline


@dataclass(frozen=True)
class KernelChange:
    """A kernel of a range on both sides, by call. how: "both", "renamed", "appeared" or "vanished". role: what both
    of a renamed pair are for."""

    how: str
    role: str
    baseline_name: str | None
    candidate_name: str | None
    baseline_instances: float
    candidate_instances: float
    baseline_ns: float
    candidate_ns: float


@dataclass(frozen=True)
class RangeChange:
    """A range of either side. how: "both", "appeared" or "vanished".

    parts: by PARTS the change in ns, which adds up to wall_change_ns; of the trace of each side whose wall time is the
    median, and of one call where the sides have different numbers of calls (per_call).
    """

    range: str
    domain: str
    how: str
    baseline_calls: int
    candidate_calls: int
    metrics: Mapping[str, MetricChange] = field(default_factory=dict)
    parts: Mapping[str, int] | None = None
    wall_change_ns: int | None = None
    per_call: bool = False
    kernels: tuple[KernelChange, ...] = ()
    baseline_family: str | None = None
    candidate_family: str | None = None

    @property
    def label(self) -> str:
        return f"{self.domain}:{self.range}" if self.domain else self.range


@dataclass(frozen=True)
class Finding:
    """What one rule of the gate says of one case or range, in words."""

    where: str
    outcome: Outcome
    text: str
    next_step: str = ""


@dataclass(frozen=True)
class GateResult:
    """rule: as it was given. findings: those that are not a pass. checked: how many numbers it was held against."""

    rule: str
    outcome: Outcome
    checked: int
    findings: tuple[Finding, ...]


@dataclass(frozen=True)
class Side:
    """The inputs of one side by name, and their environment, where they agree on a fact."""

    inputs: tuple[str, ...]
    kinds: tuple[str, ...]
    environment: Mapping[str, Any]


@dataclass(frozen=True)
class Comparison:
    """All of it. differences: of environments that should be alike; forced: whether it was made in spite of them."""

    baseline: Side
    candidate: Side
    differences: tuple[Difference, ...]
    latency: LatencyComparison
    ranges: tuple[RangeChange, ...]
    gate: tuple[GateResult, ...] = ()
    notes: tuple[Note, ...] = ()
    forced: bool = False
    method: tuple[str, ...] = ()

    @property
    def outcome(self) -> Outcome | None:
        """The worst of the gate's rules; None without a gate."""
        found = {result.outcome for result in self.gate}
        worst = (Outcome.REGRESSION, Outcome.INCONCLUSIVE, Outcome.PASS)
        return next((outcome for outcome in worst if outcome in found), None)

    def to_json(self) -> dict[str, Any]:
        """As files and --json have it; unknown is null."""
        ranges = []
        for change in self.ranges:
            data = asdict(change)
            for name, metric in change.metrics.items():
                data["metrics"][name] |= {"change": metric.change, "change_pct": metric.change_pct}
            ranges.append(data)
        return {
            "format_version": FORMAT_VERSION,
            "outcome": self.outcome,
            "baseline": asdict(self.baseline),
            "candidate": asdict(self.candidate),
            "differences": [asdict(difference) for difference in self.differences],
            "forced": self.forced,
            "latency": asdict(self.latency),
            "ranges": ranges,
            "gate": [asdict(result) for result in self.gate],
            "notes": [note.to_json() for note in self.notes],
            "method": list(self.method),
        }
