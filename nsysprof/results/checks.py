"""Hold the results of checks: of the machine, probes, recordings, environments and a gate, and what a capture lacks."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from nsysprof.notes import Remarks

# Two captures are comparable when these facts agree. Clocks vary by nature and are recorded separately.
COMPARABLE_FIELDS = (
    "gpu_name",
    "gpu_count",
    "driver_version",
    "cuda_version",
    "torch_version",
    "cudnn_loaded_version",
    "cublas_loaded_version",
    "device",
    "cpu_model",
    "nsys_version",
    "power_limit_w",
    "clocks_locked",
)
# Facts that older measurements did not record. While unknown, they do not change the hash.
_LATER = ("power_limit_w", "clocks_locked")


def comparable_hash(environment: dict[str, Any]) -> str:
    """Return twelve hex digits over COMPARABLE_FIELDS. Equal hashes mean comparable captures."""
    subset = {key: environment.get(key) for key in COMPARABLE_FIELDS}
    subset = {key: value for key, value in subset.items() if value is not None or key not in _LATER}
    return hashlib.sha256(json.dumps(subset, sort_keys=True).encode()).hexdigest()[:12]


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


class Lost(StrEnum):
    """What a recording lost."""

    # Kernels or graphs that the program launched.
    KERNELS = "kernels"
    # Nodes of graphs that were replayed.
    GRAPH_NODES = "graph-nodes"
    # Everything of a process that used the GPU.
    PROCESS = "process"
    # What a process that used the GPU did before it replaced itself by another program.
    REPLACED = "replaced"
    # Events that nsys itself says it lost.
    EVENTS = "events"
    # Samples of the GPU's counters.
    SAMPLES = "samples"


@dataclass(frozen=True)
class CudaProcess:
    """A process of the program that had a CUDA context."""

    pid: int
    name: str
    # When it was last seen with a context before another program replaced it (ns since 1970); None: none has.
    replaced_after_ns: int | None = None
    # The program and its arguments; empty where they could not be read.
    command: tuple[str, ...] = ()


@dataclass(frozen=True)
class RecordedProcess:
    """A process with calls of CUDA or GPU work in a trace."""

    pid: int
    # When the first of them began (ns since 1970); None where the trace does not tell.
    began_ns: int | None = None


@dataclass(frozen=True)
class WatchedGpu:
    """What the program did, observed from outside."""

    processes: tuple[CudaProcess, ...] = ()
    # How long its GPUs were busy, added over GPUs (s); None where NVML does not report it.
    busy_s: float | None = None
    # Whether other programs used the GPUs too, so that busy_s does not belong to this program alone.
    is_shared: bool = False
    # Whether everything that the program did should have been recorded.
    is_whole: bool = False

    def missing(self, recorded: Iterable[RecordedProcess]) -> tuple[CudaProcess, ...]:
        """Return the processes that ought to be among those recorded, and are not."""
        pids = {process.pid for process in recorded}
        return tuple(process for process in self.processes if process.pid not in pids) if self.is_whole else ()

    def replaced(self, recorded: Iterable[RecordedProcess]) -> tuple[CudaProcess, ...]:
        """Return the processes whose first program used CUDA and is not recorded, although a later one may be."""
        began = {process.pid: process.began_ns for process in recorded}
        replaced = []
        for process in self.processes if self.is_whole else ():
            first = began.get(process.pid)
            if process.replaced_after_ns is not None and (first is None or first > process.replaced_after_ns):
                replaced.append(process)
        return tuple(replaced)


NOT_WATCHED = WatchedGpu()


@dataclass(frozen=True)
class RecordingCheck:
    """The result of comparing a recording with what it should hold."""

    remarks: Remarks
    # What was lost; empty where no loss can be shown.
    lost: tuple[Lost, ...] = ()
    # What the trace contains; None where it does not say.
    kernels: int | None = None
    launches: int | None = None
    # The number of pieces of GPU work of any kind.
    gpu_work: int = 0
    # The number of processes with CUDA calls or GPU work.
    processes: tuple[RecordedProcess, ...] = ()
    # The NVTX domains that have ranges.
    domains: frozenset[str] = frozenset()


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


def said_once(findings: Sequence[GateFinding]) -> list[GateFinding]:
    """Return findings for people: what several lack and what to do about it stands only with the last of them."""
    alike: dict[tuple[str, ...], list[GateFinding]] = {}
    for number, finding in enumerate(findings):
        alone = () if finding.next_step else (str(number),)
        reason = finding.text.rpartition("; ")[2]
        alike.setdefault((finding.outcome, reason, finding.next_step, *alone), []).append(finding)
    told = []
    for (_, reason, *_), same in alike.items():
        *others, last = same
        told += [replace(finding, text=finding.text.rpartition("; ")[0], next_step="") for finding in others]
        if others:
            times = last.text.rpartition("; ")[0]
            those = "both" if len(same) == 2 else f"all {len(same)}"
            last = replace(last, text=f"{times}{'; ' if times else ''}{those}: {reason}")
        told.append(last)
    return told


def worst_outcome(gate: Iterable[GateResult]) -> Outcome | None:
    """Return the worst outcome of a gate's rules; None without a gate."""
    outcomes = {result.outcome for result in gate}
    worst = (Outcome.REGRESSION, Outcome.INCONCLUSIVE, Outcome.PASS)
    return next((outcome for outcome in worst if outcome in outcomes), None)


class MissingSource(StrEnum):
    """A source of numbers that a capture lacks although it was requested."""

    # Hardware counters of some or all cases.
    COUNTERS = "counters"
    # Hardware counters of this GPU: those that are there were counted on another one.
    COUNTERS_OF_THIS_GPU = "counters-of-this-gpu"
    # Samples of DRAM traffic.
    DRAM_SAMPLES = "dram-samples"
    # A trace by nsys: torch's profiler recorded instead.
    NSYS = "nsys"
