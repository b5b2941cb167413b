"""Hold findings with their codes and causes, the idle time of devices, and sampled stacks; name layers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from msgspec import Meta

from nsysprof.arrays import Int64s
from nsysprof.files.plain_file import FileHeader, json_value
from nsysprof.results.column_registry.analysis_columns import FINDINGS, IDLE

IDLE_COLUMNS = IDLE.names
# A part of the path of a module that is a number.
_NUMBER = re.compile(r"(?<![^.])\d+(?![^.])")
# The most numbers that a name lists where some are missing between the first and the last.
_MOST_LISTED = 4


@dataclass(frozen=True)
class DeviceIdle:
    """One device from the start of its first work to the end of its last one: span_ns = busy_ns + idle_ns."""

    device_id: int
    span_ns: int
    busy_ns: int
    idle_ns: int


@dataclass(frozen=True)
class IdlePieces:
    """The idle time of one device, cut into pieces with one cause each, in order of start.

    cause: the place of each piece's cause in CAUSES.
    """

    device_id: int
    start_ns: Int64s
    duration_ns: npt.NDArray[np.integer]
    cause: npt.NDArray[np.int8]


@dataclass(frozen=True)
class Idle:
    """Idle time by cause."""

    # The columns are IDLE_COLUMNS. The rows of a device with an empty range add up to its idle_ns. A range's rows are
    # the idle time of its process' devices while the range was open.
    table: pd.DataFrame
    # The same for each instance of a range, with the columns of idle_instances.csv.
    instances: pd.DataFrame
    devices: tuple[DeviceIdle, ...]
    # Idle time without a known cause (ns), by the reason.
    unknown_reasons: dict[str, int]
    # What a timeline draws of it; nothing where there are too many pieces to draw each.
    pieces: tuple[IdlePieces, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the idle time as in findings.json."""
        return {
            "devices": [asdict(device) for device in self.devices],
            "unknown_reasons": self.unknown_reasons,
            "causes": self.table.to_dict("records"),
        }


def place_of(name: str, others: int) -> str:
    """Return where a finding is: its range, with how many others have a part of it."""
    if not others:
        return name
    return f"{name} and {others} other ranges" if name else f"{others} ranges and outside of them"


# A saving below this share of a step does not count as a finding.
LEAST_SHARE = 0.01
# What numbers refer to where they do not refer to a step range.
STEP, TRACE, JOB = "step", "trace", "job"
# What the numbers of a finding refer to that only slow steps have: the mean over all steady steps, these included.
MEAN_STEP = "mean step"


@dataclass(frozen=True)
class Finding:
    """One thing to change, and what that would save."""

    rank: int
    code: str
    # The range where it happens; "" outside every range.
    range: str
    # Where call stacks were recorded: FILE:LINE of Python, or else a native FUNCTION (FILE) or aten::OPERATOR; else "".
    location: str
    # These numbers are per step where there is a step range, otherwise for the whole trace. `count` is rounded up.
    count: int
    idle_ns: int
    saving_ns: int
    saving_low_ns: int
    saving_high_ns: int
    # The step range, STEP, TRACE, or MEAN_STEP.
    per: str
    text: str
    next_step: str
    # How sure the location is: the share of the samples of this finding that show it (percent); None without one.
    location_share_pct: float | None = None
    # The layer in which more than half of its time lies, where layers were recorded: `layers.[0-31].mlp`; else "".
    layer: str = ""
    # In how many other ranges it is, too, where these are several and `range` alone does not have nearly all of it.
    other_ranges: int = 0

    @property
    def place(self) -> str:
        """Return the range with how many others have a part of it; "" outside every range."""
        return place_of(self.range, self.other_ranges)


@dataclass(frozen=True)
class JobFinding(Finding):
    """One thing to change in a job of several ranks, and what the job would save."""

    # The ranks that have it.
    ranks: str = ""


@dataclass(frozen=True, kw_only=True)
class ReplayedSteps:
    """How long a step takes, and which steps were replayed to compute what a change would save."""

    # The step range; STEP where steps are known by their kernels alone; TRACE where nothing repeats, so that the whole
    # trace counts as one step; JOB for all ranks of a job together.
    per: str
    # How long a step takes (ns): the mean of the usual ones, which are neither warm-up nor slow, and how many they are.
    step_ns: int
    usual_steps: int
    # How many steps before the steady ones were left out.
    warmup: int
    # How many steps were replayed. If they are several, the first of them only prepares the state.
    steps: int
    # The first and the last step whose time counts, as steps.csv numbers them.
    first_step: int
    last_step: int
    # The mean time of these steps (ns), as recorded and in the replay of the unchanged trace. Of a trace without steps,
    # from the first call to the last work of the process that works most.
    recorded_ns: int
    replayed_ns: int
    # How sure the steps are where no range marks them: the share of all kernels that they hold (percent); else None.
    found_pct: float | None = None

    @property
    def are_typical(self) -> bool:
        """Return whether the replayed steps take as long as a usual step, within LEAST_SHARE."""
        return abs(self.recorded_ns - self.step_ns) <= LEAST_SHARE * self.step_ns


@dataclass(frozen=True, kw_only=True)
class Findings(ReplayedSteps):
    """Findings ordered by what they would save, the largest first."""

    items: tuple[Finding, ...]
    # The part of the mean replayed step in which a device worked (ns).
    busy_ns: int
    # What all findings save together (ns): at most the idle time plus the time of the work that they replace.
    together_ns: int
    # Whether stacks were recorded, so that findings can have a location.
    has_stacks: bool = False
    # Bounds of a step without the profiler (ns): the least by a replay where notable, or 95 % of its own run.
    unrecorded_low_ns: int | None = None
    unrecorded_high_ns: int | None = None
    # How long a step takes without the profiler (ns), measured in a run of its own; savings are then of this time. None
    # where it was not measured.
    unrecorded_ns: int | None = None

    @property
    def whole_ns(self) -> int:
        """Return the time of a step that savings are of (ns): without the profiler where that was measured."""
        return self.step_ns if self.unrecorded_ns is None else self.unrecorded_ns

    def table(self) -> pd.DataFrame:
        """Return the findings with the columns of findings.csv."""
        return pd.DataFrame([asdict(item) for item in self.items], columns=list(FINDINGS.names))

    def to_json(self) -> dict[str, Any]:
        """Return findings.json."""
        facts = {name: value for name, value in asdict(self).items() if name != "items"}
        return {"format_version": 1, **facts, "findings": [asdict(item) for item in self.items]}


# The file in a capture folder with the steps of a run of the program that nothing recorded.
UNRECORDED = "unrecorded.json"
# Where the number of steps is no multiple of those in the trace, by more than this share, they are other steps.
_OTHER_STEPS = 0.1
# Fewer steps than these tell no time.
_LEAST_UNRECORDED = 3


class UnrecordedSteps(FileHeader, kw_only=True):
    """The content of the file UNRECORDED: the steps of a run of the captured program without a profiler."""

    # From the end of each step to the end of the next (ns), in order.
    steps_ns: list[Annotated[int, Meta(gt=0, lt=2**62)]]
    # What ended them, as StepSource says it.
    source: Annotated[str, Meta(max_length=200)]

    def steps_of(self, count: int) -> list[int] | None:
        """Return how long the steps of the trace take in the later half of this run (ns).

        None where they are other steps than those of the trace. Several steps of this run may be one of the trace.

        count: how many steps the trace has, with those of the warm-up.
        """
        ended = len(self.steps_ns) + 1
        parts = round(ended / max(1, count))
        if parts < 1 or abs(ended - parts * count) > max(2 * parts, _OTHER_STEPS * ended):
            return None
        later = self.steps_ns[len(self.steps_ns) // 2 :]
        whole = len(later) // parts
        if whole < _LEAST_UNRECORDED:
            return None
        steps: list[int] = np.array(later[len(later) - whole * parts :]).reshape(whole, parts).sum(axis=1).tolist()
        return steps


@dataclass(frozen=True)
class WhatIfQuestion:
    """One change to replay."""

    # The option as the user gave it.
    option: str
    # The code of the finding that this change would fix.
    code: str
    # The only range to change; "" means everywhere.
    range: str = ""
    # Alternatively, kernels with this text in their names take `factor` times their time.
    kernel: str = ""
    factor: float = 1.0
    # Or work launched in ranges with these names takes these factors times its time: the best estimate, and its bounds.
    range_factors: tuple[tuple[str, tuple[float, float, float]], ...] = ()


@dataclass(frozen=True)
class WhatIfAnswer:
    """How long a step would take, with bounds (ns)."""

    option: str
    step_ns: int
    low_ns: int
    high_ns: int


@dataclass(frozen=True, kw_only=True)
class WhatIf(ReplayedSteps):
    """The answers for each change alone, and for all together."""

    answers: tuple[WhatIfAnswer, ...]
    together: WhatIfAnswer
    # What the answers take for granted, one sentence each.
    assumptions: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return what --json prints."""
        return {"format_version": 1, **json_value(self)}


@dataclass(frozen=True)
class StackSamples:
    """Samples in order of time."""

    # The times of the samples (ns since the start of the session).
    time_ns: npt.NDArray[np.int64]
    # Process and thread in the bits of nsys' globalTid, without those of the machine.
    thread: npt.NDArray[np.int64]
    # Position in `lines`; -1 where no line of the program is in the stack.
    line: npt.NDArray[np.int64]
    # The innermost line outside torch and Python's library: FILE:LINE; of native stacks FUNCTION (FILE).
    lines: tuple[str, ...]
    # Native stacks, used where the other samples name no line: one in the middle of each call that has one.
    native: StackSamples | None = None
    # Stacks taken where Python made a stream wait, which takes the host no time.
    waits: StackSamples | None = None


CODES = (
    "pageable-copy", "sync", "alloc-in-loop", "launch-bound", "host-bound", "stream-dependency", "collective-wait",
    "unfused-attention", "attention-backend", "unfused-optimizer", "module-load", "small-copies", "python-gc",
    "jit-in-loop",
    "no-tensor-cores", "misaligned-gemm", "unfused-elementwise", "layout-conversion", "redundant-copy", "large-logits",
    "small-work",
)  # fmt: skip
# Findings about the memory of torch's allocator, which save bytes and not time.
FRAGMENTATION = "memory-fragmentation"
OUT_OF_MEMORY = "out-of-memory"
MEMORY_CODES = (FRAGMENTATION, OUT_OF_MEMORY)


def layer_shape(path: str) -> str:
    """Return a module's path without its first number; a space, which no path has, stands for it."""
    return _NUMBER.sub(" ", path, count=1)


def fold_paths(paths: Sequence[str]) -> str:
    """Return one name for modules of one shape: `layers.[0-31].mlp`, or `[3,5]` where some are missing."""
    parts = []
    for values in zip(*(path.split(".") for path in paths), strict=True):
        distinct = sorted(set(values), key=lambda value: (len(value), value))
        if len(distinct) == 1:
            parts.append(distinct[0])
            continue
        is_dense = int(distinct[-1]) - int(distinct[0]) == len(distinct) - 1
        listed = ",".join(distinct[:_MOST_LISTED]) + ("…" * (len(distinct) > _MOST_LISTED))
        parts.append(f"[{distinct[0]}-{distinct[-1]}]" if is_dense else f"[{listed}]")
    return ".".join(parts)
