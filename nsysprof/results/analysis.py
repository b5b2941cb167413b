"""Define the results of an analysis: frozen, without SQL, drawing or printing. `report` reads only these.

All times are integer ns, all sizes integer bytes. A number that the trace does not support is None (NA in a table), and
a Note says why.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from nsysprof.notes import Loss, Note
from nsysprof.results.allocator_memory import AllocatorMemory
from nsysprof.results.checks import MissingSource
from nsysprof.results.column_registry.analysis_columns import (
    API,
    CAUSED_KERNELS,
    CAUSES,
    KERNELS,
    MEMOPS,
    RANGE_INSTANCES,
    RANGE_KERNELS,
    RANGE_TREE,
    RANGES,
    RECORDING_COST,
    WORK_CATEGORIES,
    cause_column,
    work_column,
)
from nsysprof.results.column_registry.case_columns import CAPTURE_RESULTS
from nsysprof.results.event_rows import CallRows, KernelGrids, WorkRows
from nsysprof.results.findings import TRACE, Findings, Idle

_Make = Callable[[], pd.DataFrame]

# The names of columns, in order. nsysprof/results/column_registry/columns.tsv says what they mean.
KERNEL_COLUMNS = KERNELS.names
RANGE_COLUMNS = RANGES.names
RANGE_INSTANCE_COLUMNS = RANGE_INSTANCES.names
RANGE_KERNEL_COLUMNS = RANGE_KERNELS.names
CAUSED_KERNEL_COLUMNS = CAUSED_KERNELS.names
RANGE_TREE_COLUMNS = RANGE_TREE.names
API_COLUMNS = API.names
MEMOP_COLUMNS = MEMOPS.names
RESULT_COLUMNS = CAPTURE_RESULTS.names


@dataclass(frozen=True)
class TraceInfo:
    """The origin of the numbers."""

    path_name: str
    sha256: str
    bytes: int
    # "nsys", or "torch" for the embedded profiler.
    tool: str
    tool_version: str | None
    nsys_version: str | None
    schema_version: str | None
    # "kernel", or "operator" on a CPU-only machine, where a row of the kernel table is a leaf operator and every output
    # must say so.
    work_kind: str
    # "driver" (nsys: cudaMalloc and the like), "allocator" (torch: live tensors), or None without memory events.
    memory_kind: str | None


@dataclass(frozen=True)
class Device:
    """One GPU (or the CPU of an operator trace). `device_id` is the id used in the tables below."""

    device_id: int
    name: str
    total_memory_bytes: int | None
    sm_count: int | None
    uuid: str | None = None


@dataclass(frozen=True)
class ReadPart:
    """The part of a trace that an analysis is limited to: the instances of a range, of all steps or one, or one step.

    range: the range as the user named it; None for a whole step.
    step: the number of the step; None for a range of all steps.
    wall_ns: how long all instances were open together, or how long the step took.
    usual_ns: how long a usual step takes, on average; None for a range.
    """

    range: str | None
    step: int | None
    instances: int
    wall_ns: int
    usual_ns: int | None = None

    def __str__(self) -> str:
        """Return `forward`, `step 7` or `forward in step 7`."""
        step = "" if self.step is None else f"step {self.step}"
        return " in ".join(filter(None, (self.range, step)))


@dataclass(frozen=True)
class Coverage:
    """How many kernels are in ranges, and the reasons of all others: kernels = attributed_kernels + sum(reasons)."""

    kernels: int
    attributed_kernels: int
    launches: int | None
    launches_without_gpu_record: int | None
    # How many kernels are in no range, by reason.
    reasons: dict[str, int]
    # How many attributed kernels were not launched by a range, but adopted, or captured into a graph.
    adopted_kernels: int = 0
    captured_kernels: int = 0
    # How many kernels of graph replays were recorded by nodes, and why some of them could not be traced to the creation
    # of their node.
    graph_kernels: int = 0
    graph_reasons: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Totals:
    """Sums over the trace.

    memcpy_bytes: by nsys' name of the operation.
    peak_vram_bytes: by device id.

    Migrations of unified memory belong to no call and no range, so they have their own names in `memcpy_bytes`.
    gpu_busy_ns does not include them; gpu_busy_with_migrations_ns does.
    """

    kernel_count: int | None
    launch_count: int | None
    graph_launch_count: int | None
    kernel_total_ns: int | None
    gpu_busy_ns: int | None
    gpu_span_ns: int | None
    memcpy_bytes: dict[str, int] | None
    memset_bytes: int | None
    peak_vram_bytes: dict[int, int] | None
    migration_count: int | None = None
    migration_total_ns: int | None = None
    migration_bytes: int | None = None
    gpu_busy_with_migrations_ns: int | None = None


class Timeline:
    """The rows to draw, sorted by start, in ns since the session's start. Each table is made when it is first read.

    gpu: start_ns, end_ns, kind ("kernel" | "memcpy" | "memset" | "graph"), name, short_name, category, bytes (0 for
        kernels), call (row of api that launched it, or -1), caused_by (row of nvtx: the innermost range that adopted or
        captured it, or -1), device_id, context_id, stream_id, stream (label, unique over processes, devices and
        contexts), global_pid; the texts are categoricals
    api: start_ns, end_ns, name, global_tid
    nvtx: start_ns, end_ns, name, style ("PushPop" | "StartEnd"), domain, global_tid, global_pid, level
    memory: time_ns, device_id, used_bytes (running sum after each device allocation or free), and the global_pid and
        the change (bytes) of that process

    work, calls: what gpu and api are made of, for a reader that takes some rows at a time and not the tables.
    """

    def __init__(
        self, work: Callable[[CallRows], WorkRows], calls: Callable[[], CallRows], nvtx: _Make, memory: _Make
    ) -> None:
        self._make_work, self._make_calls = work, calls
        self._make = {"nvtx": nvtx, "memory": memory}

    @cached_property
    def calls(self) -> CallRows:
        """Return the CUDA API calls as arrays."""
        return self._make_calls()

    @cached_property
    def work(self) -> WorkRows:
        """Return the work of the GPUs as arrays."""
        return self._make_work(self.calls)

    @cached_property
    def gpu(self) -> pd.DataFrame:
        """Return the work of the GPUs."""
        return self.work.table()

    @cached_property
    def api(self) -> pd.DataFrame:
        """Return the CUDA API calls."""
        return self.calls.table()

    @cached_property
    def nvtx(self) -> pd.DataFrame:
        """Return the ranges."""
        return self._make.pop("nvtx")()

    @cached_property
    def memory(self) -> pd.DataFrame:
        """Return the device memory in use over time."""
        return self._make.pop("memory")()


@dataclass(frozen=True)
class TraceRows:
    """The rows of a trace, with facts about it as a whole, without sums or verdicts."""

    trace: TraceInfo
    devices: tuple[Device, ...]
    timeline: Timeline
    notes: tuple[Note, ...]


@dataclass(frozen=True)
class Analysis:
    """Everything `analyze` knows about one trace. docs/files.md lists the columns of the tables.

    idle: why devices were idle; None where too little is known about GPU work to say when they were.
    findings: what to change; None where there is nothing to replay.
    no_findings: why findings are unknown; "" where they are known, or where nothing ran on a GPU.
    step_times: how long each step took and the parts of its time; None where idle is None.
    losses: what is missing, so that counts cannot be trusted; `notes` says it too.
    lost_kernels: whether the trace has no kernel although some ran.
    attention, memory_owners: the tables of attention.csv and memory.csv; None for an analysis made without them.
    allocator: what torch's allocator held; None where the capture did not record it. memory_owners then has its owners.
    recording_cost: what recording cost each range; None where the capture did not measure it.
    part: the part of the trace that everything above is about; None for the whole trace.
    """

    trace: TraceInfo
    devices: tuple[Device, ...]
    coverage: Coverage
    totals: Totals
    kernels: pd.DataFrame
    ranges: pd.DataFrame
    range_instances: pd.DataFrame
    range_kernels: pd.DataFrame
    caused_kernels: pd.DataFrame
    range_tree: pd.DataFrame
    api: pd.DataFrame
    range_api: pd.DataFrame
    memops: pd.DataFrame
    gpu_use: pd.DataFrame
    streams: pd.DataFrame
    energy: pd.DataFrame
    collectives: pd.DataFrame
    timeline: Timeline
    notes: tuple[Note, ...]
    idle: Idle | None = None
    findings: Findings | None = None
    no_findings: str = ""
    step_times: StepTimes | None = None
    # What devices do while they work, with the columns of work.csv; None where not all their work is known.
    work: pd.DataFrame | None = None
    # Where the rates of the floors come from; "" where no rate of the GPU is known.
    floor_source: str = ""
    # The rows of operators.csv and what a step computes; None where no operators were recorded.
    operators: pd.DataFrame | None = None
    # The rows of layers.csv; None where no layers were recorded.
    layers: pd.DataFrame | None = None
    step_work: StepWork | None = None
    # The rows of os_calls.csv; None where something ran on a GPU, or where none were recorded.
    os_calls: pd.DataFrame | None = None
    losses: tuple[Loss, ...] = ()
    lost_kernels: bool = False
    attention: pd.DataFrame | None = None
    memory_owners: pd.DataFrame | None = None
    # The rows of phases.csv; None where no step can be told to be one of inference.
    phases: pd.DataFrame | None = None
    allocator: AllocatorMemory | None = None
    recording_cost: tuple[RangeCost, ...] | None = None
    part: ReadPart | None = None
    # The grids of kernels, for a page; None where they were not read.
    grids: KernelGrids | None = None

    @property
    def is_of_cpu(self) -> bool:
        """Return whether the trace has no CUDA call and nothing of a GPU, and lost none: it tells of the CPU alone."""
        if self.trace.work_kind == "operator":
            return True
        of_gpu = (self.api, self.kernels, self.memops, self.streams, self.gpu_use)
        return not self.losses and not any(map(len, of_gpu))


@dataclass(frozen=True)
class CaptureRecord:
    """The data that a capture folder adds to its trace: its manifest and the rows of results.csv."""

    # The name of the folder.
    title: str
    # One row per case, with RESULT_COLUMNS.
    results: pd.DataFrame
    # The facts about the machine; see nsysprof.environment.
    environment: dict[str, Any]
    method: str
    notes: tuple[Note, ...] = ()
    # Which cases are the fastest among those with equal work; empty until the trace is joined.
    rankings: tuple[CaseRanking, ...] = ()
    steps: tuple[dict[str, Any], ...] = field(default=())
    # What was requested but could not be recorded.
    missing: tuple[MissingSource, ...] = ()

    @property
    def has_cases(self) -> bool:
        """Return whether there are cases. A capture of a program only adds an environment and notes."""
        return len(self.results) > 0


# A range that recording slows by more than this share says little about the CPU.
MOST_COST = 0.10
# The name for the program's steps as a whole, where its output shows them and not its ranges.
STEPS = "(all steps)"
# The file that says what a recording cost, where the program was compared with itself, recorded and not.
COSTS = "recording_cost.json"
# The findings about the CPU's time, which recording prolongs.
HOST_FINDINGS = ("launch-bound", "host-bound", "small-copies")


@dataclass(frozen=True)
class RangeCost:
    """The cost for one range (counters folded), from both runs. The first instance is left out as warm-up."""

    range: str
    instances: int
    plain_instances: int
    # The medians of the instances (ns).
    wall_med_ns: int
    plain_wall_med_ns: int
    # The first median divided by the second, with its 95 % interval; None where there are too few instances.
    slowdown: float
    slowdown_low: float | None
    slowdown_high: float | None
    # Whether recording certainly made it slower by more than MOST_COST. Older files do not say it.
    is_distorted: bool = False


@dataclass(frozen=True)
class RecordingCosts:
    """The content of the file COSTS: what recording cost each range."""

    format_version: int
    costs: tuple[RangeCost, ...]
    # Whether it was compared with unrecorded parts of the same run, and not with a run of its own.
    in_one_run: bool = True


def cost_table(costs: Sequence[RangeCost]) -> pd.DataFrame:
    """Return the costs with the columns of recording_cost.csv."""
    return pd.DataFrame([asdict(cost) for cost in costs], columns=list(RECORDING_COST.names))


# Two medians of one process that differ by less than this (percent) count as equal. Intervals within one process say
# nothing about the variation between processes: the same cuDNN kernel, called by two names in one capture, had medians
# 0.5 % apart with intervals that did not overlap.
LEAST_DIFFERENCE_PCT = 2
# So many times as long may another process of the same code take whose time the host determines: on an H200,
# launch-bound processes took up to 2.3 times as long as others.
HOST_PROCESS_TIMES = 2


@dataclass(frozen=True)
class RankedCase:
    """One timed case in a ranking."""

    # The row of the case in the record's results.
    position: int
    backend: str
    # The untraced latency (ns); the bounds are None where unknown.
    median_ns: float
    low_ns: float | None
    high_ns: float | None
    # Its median divided by the fastest one's.
    times_best: float
    # The kernel time of a call (ns); None without a trace of it.
    kernel_ns: float | None
    # Whether the CPU's dispatch determines its latency, and not its kernels.
    is_launch_bound: bool


@dataclass(frozen=True)
class CaseRanking:
    """The ranking of cases with equal work: one shape of the grid."""

    # The dimensions that the grid varies and these cases share, by column of results.csv.
    shape: Mapping[str, object]
    # The rows of all cases that ran, in the grid's order.
    positions: tuple[int, ...]
    # The fastest case, then the cases that cannot be distinguished from it. Empty where none was timed.
    fastest: tuple[RankedCase, ...]
    # The others, the fastest first.
    slower: tuple[RankedCase, ...]
    # The timed cases that differ from the fastest only by the CPU's dispatch.
    dispatch_bound: tuple[RankedCase, ...]


OUTSIDE = "outside"


@dataclass(frozen=True)
class StepPart:
    """The mean time of a steady step in one kind of work, or idle for one cause."""

    # A category of work, a cause of idle time, or OUTSIDE.
    name: str
    is_busy: bool
    # Mean over the steady steps, without those that are slow.
    mean_ns: float


# Where kernels like those of a recorded step take a smaller share of the time, it stands for no usual step.
_LEAST_COVERED_PCT = 50.0


@dataclass(frozen=True)
class StepWork:
    """What a step computes: FLOP of its products, against the time of a step and the peak rate of the GPU.

    step_ns: the median time from one step to the next. mfu_pct: model FLOP utilisation.
    unknown_because: why mfu_pct is None.
    products_ns: how long the kernels of the products, convolutions and attention of a step take.
    covered_pct: the share of the time of all kernels that repeats the recorded step (percent).
    """

    step_flops: int | None = None
    step_ns: float | None = None
    mfu_pct: float | None = None
    peak_flops_per_s: float | None = None
    peak_source: str = ""
    unknown_because: str = ""
    products_ns: float | None = None
    covered_pct: float = 100.0

    @property
    def is_usual(self) -> bool:
        """Return whether the recorded step is like most others, so that it stands for them."""
        return self.covered_pct >= _LEAST_COVERED_PCT


@dataclass(frozen=True)
class StepTimes:
    """The steps of a program."""

    # The step range; STEP where steps are known by their kernels alone; TRACE for a trace as a whole.
    per: str
    # The columns of steps.csv.
    table: pd.DataFrame
    # How sure the steps are where no range marks them: the share of all kernels that they hold (percent); else None.
    found_pct: float | None = None

    @property
    def are_steps(self) -> bool:
        """Return whether the program repeats itself. Otherwise the only row stands for the whole trace."""
        return self.per != TRACE

    @property
    def devices(self) -> list[int]:
        """Return the devices, the busiest one first."""
        busy = self.table[[work_column(category) for category in WORK_CATEGORIES]].sum(axis=1)
        total = busy.groupby(self.table["device_id"], sort=True).sum()
        return [int(device) for device in total.sort_values(ascending=False, kind="stable").index]

    @cached_property
    def steps(self) -> pd.DataFrame:
        """Return one row per step: step, start_ns, wall_ns, is_warmup and is_slow."""
        return self.table.drop_duplicates("step")[["step", "start_ns", "wall_ns", "is_warmup", "is_slow"]]

    @property
    def step_ns(self) -> float:
        """Return how long a step takes (ns): the mean of the usual ones, which are neither warm-up nor slow."""
        steps = self.steps
        return float(steps.loc[~(steps["is_warmup"] | steps["is_slow"]).to_numpy(dtype=bool), "wall_ns"].mean())

    @property
    def busy_share(self) -> float:
        """Return the part of the steady steps in which the busiest device worked (0 to 1)."""
        return self._share_of(WORK_CATEGORIES)

    @property
    def own_share(self) -> float:
        """Return that part without the time of collectives alone, in which a rank also waits for others (0 to 1)."""
        return self._share_of([category for category in WORK_CATEGORIES if category not in ("communication", "wait")])

    def _share_of(self, categories: Sequence[str]) -> float:
        steady = ~self.table["is_warmup"].to_numpy(dtype=bool) & (self.table["device_id"] == self.devices[0])
        rows = self.table[steady]
        busy = rows[list(map(work_column, categories))].to_numpy().sum()
        return float(busy / rows["wall_ns"].sum()) if rows["wall_ns"].sum() > 0 else 0.0

    def steady_walls_ns(self) -> npt.NDArray[np.int64]:
        """Return how long each step after the warm-up took."""
        steps = self.steps
        steady: npt.NDArray[np.int64] = steps.loc[~steps["is_warmup"].to_numpy(dtype=bool), "wall_ns"].to_numpy(
            np.int64
        )
        return steady

    def usual_window_ns(self) -> tuple[int, int]:
        """Return start and end of a typical steady step: the first one whose time is the median, or next to it."""
        steps = self.steps[~self.steps["is_warmup"].to_numpy(dtype=bool)]
        wall = steps["wall_ns"].to_numpy(dtype=np.int64)
        row = int(np.argmin(np.abs(wall - np.median(wall))))
        start = int(steps["start_ns"].iloc[row])
        return start, start + int(wall[row])

    def parts_of(self, device_id: int) -> list[StepPart]:
        """Return the parts of a usual steady step on a device. They add up to its mean wall time."""
        return [part for part in self._means(device_id, None) if part.mean_ns > 0]

    def alone(self, step: int) -> StepTimes:
        """Return one step alone."""
        return StepTimes(self.per, self.table[(self.table["step"] == step).to_numpy(dtype=bool)], self.found_pct)

    def largest_excess(self, step: int, device_id: int) -> StepPart:
        """Return the part by which a step exceeds the usual steady ones the most on a device, with the excess (ns)."""
        pairs = zip(self._means(device_id, step), self._means(device_id, None), strict=True)
        more = [StepPart(mine.name, mine.is_busy, mine.mean_ns - usual.mean_ns) for mine, usual in pairs]
        return max(more, key=lambda part: part.mean_ns)

    def _means(self, device_id: int, step: int | None) -> list[StepPart]:
        """Return every part of one step on a device, or their means over the usual steady steps."""
        table = self.table[(self.table["device_id"] == device_id).to_numpy(dtype=bool)]
        if step is None:
            chosen = ~(table["is_warmup"] | table["is_slow"]).to_numpy(dtype=bool)
            chosen |= not chosen.any()  # one step alone, whatever it is
        else:
            chosen = (table["step"] == step).to_numpy(dtype=bool)
        columns = [(name, True, work_column(name)) for name in WORK_CATEGORIES]
        columns += [(cause, False, cause_column(cause)) for cause in CAUSES]
        columns.append((OUTSIDE, False, "outside_ns"))
        rows = table[chosen]
        return [StepPart(name, busy, float(rows[column].mean())) for name, busy, column in columns]

    def busy_pct(self, device_id: int) -> float:
        """Return the share of a usual steady step in which the device ran anything (percent)."""
        parts = self.parts_of(device_id)
        whole = sum(part.mean_ns for part in parts)
        return 100 * sum(part.mean_ns for part in parts if part.is_busy) / whole if whole else 0.0
