"""Define BenchRun: the raw samples of a capture, bench or tune, and what they were measured on (samples.json)."""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from nsysprof.attention.range_name import format_range, varied_keys
from nsysprof.attention.shape import Case, check_names
from nsysprof.capture.environment import check_ceilings, check_environment
from nsysprof.errors import UsageError
from nsysprof.files.plain_file import VERSION, FileHeader, read_json, write_whole
from nsysprof.results.samples import OK, Block, Duration

# The version of samples.json. 1: two forms, one for bench and tune, and one for captures (values by range). 2: one
# form.
FORMAT_VERSION = 2
SAMPLES = "samples.json"
Kind = Literal["bench", "tune", "capture"]


@dataclass
class BenchRun:
    """Everything measured so far. samples.json contains the same."""

    plan: BenchPlan
    created_utc: str
    blocks: list[Block] = field(default_factory=list)
    environment: dict[str, Any] = field(default_factory=dict)
    # The ceilings that were measured on this device: bytes_per_s, and flops (FLOP/s by dtype).
    ceilings: dict[str, Any] = field(default_factory=dict)
    # Readings of NVML.
    clocks: list[dict[str, Any]] = field(default_factory=list)
    kind: Kind = "bench"
    complete: bool = False
    # A token that both sides of one `bench --baseline --candidate` share: their processes with the same number ran in
    # turn.
    session: str = ""
    # The significance level that earlier looks at these samples left for their comparison; None where nobody looked.
    alpha: float | None = None
    # The number of the first process of a tuning that measured winners again; None before that.
    again_from: int | None = None

    def save(self, folder: Path) -> None:
        """Write samples.json. Raises OutputError; then an earlier file stays complete."""
        file = _SamplesFile(
            format_version=FORMAT_VERSION,
            nsysprof_version=VERSION,
            kind=self.kind,
            created_utc=self.created_utc,
            complete=self.complete,
            plan=self.plan,
            environment=self.environment,
            ceilings=self.ceilings,
            blocks=self.blocks,
            clocks=self.clocks,
            session=self.session,
            alpha=self.alpha,
            again_from=self.again_from,
        )
        # One line per block.
        text = msgspec.json.encode(file).replace(b'},{"', b'},\n{"')
        write_whole(folder / SAMPLES, text + b"\n")


class _SamplesFile(FileHeader, kw_only=True):
    """The content of samples.json."""

    kind: Kind
    created_utc: str
    complete: bool
    plan: BenchPlan
    environment: dict[str, Any]
    ceilings: dict[str, Any]
    blocks: list[Block]
    clocks: list[dict[str, Any]]
    session: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]*$", max_length=100)] = ""
    alpha: Annotated[float, msgspec.Meta(gt=0, lt=1)] | None = None
    again_from: Annotated[int, msgspec.Meta(ge=0)] | None = None

    def __post_init__(self) -> None:
        cells = len(self.plan.cases) * self.plan.copies
        for index, block in enumerate(self.blocks):
            if block.cell >= cells:
                raise ValueError(f"blocks[{index}].cell: the plan has {cells} cells only")
        check_environment(self.environment)
        check_ceilings(self.ceilings)


class _OldValues(msgspec.Struct):
    """The samples of one range in a capture's samples.json of format 1."""

    values: tuple[Duration, ...]


class _OldCapture(FileHeader, kw_only=True):
    """A capture's samples.json of format 1."""

    samples: dict[str, _OldValues]


class _EitherCapture(FileHeader, kw_only=True):
    """A capture's samples.json, in which only format 1 has `samples`."""

    samples: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


def new_run(plan: BenchPlan, kind: Kind = "bench", session: str = "") -> BenchRun:
    """Return a run in which nothing has been measured yet."""
    return BenchRun(plan, datetime.now(UTC).isoformat(timespec="seconds"), kind=kind, session=session)


def read_run(path: Path) -> BenchRun:
    """Return the content of samples.json. Raises TraceError when it is missing, not ours, or of a newer format."""
    file = read_json(
        path, _SamplesFile, kind="a bench's samples", advice="Give the folder that bench wrote.", newest=FORMAT_VERSION
    )
    return BenchRun(
        plan=file.plan,
        created_utc=file.created_utc,
        blocks=file.blocks,
        environment=file.environment,
        ceilings=file.ceilings,
        clocks=file.clocks,
        kind=file.kind,
        complete=file.complete,
        session=file.session,
        alpha=file.alpha,
        again_from=file.again_from,
    )


def read_capture_samples(folder: Path) -> dict[str, tuple[int, ...]]:
    """Return a capture's samples (ns, in order) by range, from a file of any version. Raises TraceError.

    The result is empty when the capture has no samples, such as a capture of a program.
    """
    path = folder / SAMPLES
    if not path.exists():
        return {}
    kind, advice = "a capture's samples", "Give the trace inside the folder."
    either = read_json(path, _EitherCapture, kind=kind, advice=advice, newest=FORMAT_VERSION)
    if either.samples is not msgspec.UNSET:
        old = read_json(path, _OldCapture, kind=kind, advice=advice)
        return {name: samples.values for name, samples in old.samples.items()}
    file = read_json(path, _SamplesFile, kind=kind, advice=advice)
    cells, keys = file.plan.cells, varied_keys(file.plan.cases)
    return {format_range(cells[block.cell], keys): block.values_ns for block in file.blocks if block.status == OK}


GRAPHS = ("auto", "always", "never", "short")


Count = Annotated[int, Meta(ge=1, le=10**9)]
Seconds = Annotated[float, Meta(ge=0)]


@dataclass(frozen=True)
class BenchPlan:
    """The grid, and how to measure it. A cell is a case or, with `copies`, one of several copies of a case.

    Each process goes through the cells `rounds` times, each time in another order drawn from `seed`. It takes one block
    of samples of each cell per round.
    """

    cases: tuple[Case, ...]
    device: str
    processes: Count = 3
    rounds: Count = 5
    # How many samples a block has; fewer where they would take longer than sample_seconds, but at least least_samples.
    samples: Count = 10
    sample_seconds: Seconds = 1.0
    # The longest warm-up of a block (s). It ends earlier when the times are stable.
    warmup_seconds: Seconds = 1.0
    seed: int = 0
    # Whether the caches are emptied before each sample.
    flush: bool = True
    # Whether a load precedes each block until the clocks have settled.
    sustained: bool = False
    # The SM clock at which the GPU is locked while it is measured (MHz); None: it is not locked.
    locked_clock_mhz: Annotated[int, Meta(ge=1, le=100_000)] | None = None
    # Whether CUDA graphs are timed too: one of GRAPHS. `auto` times the first block of a case in each process,
    # `short`, which tune uses, each block of a call that is mostly launching.
    graph: str = "auto"
    # Whether results are compared with the reference before they are timed.
    check: bool = True
    copies: Annotated[int, Meta(ge=1, le=1000)] = 1
    case_timeout_s: Seconds = 300.0
    least_samples: Count = 1
    # The number of warm-up calls, which captures use. None: warm up by time.
    warmup_calls: Annotated[int, Meta(ge=0, le=10**9)] | None = None
    # Whether the ceilings of the device are measured first.
    ceilings: bool = True
    # The largest error against the reference with which an approximate backend may have a rank.
    allow_error: Annotated[float, Meta(ge=0, le=1)] = 0.0

    @property
    def cells(self) -> tuple[Case, ...]:
        """Return every case `copies` times."""
        return tuple(case for case in self.cases for _ in range(self.copies))

    def name_of(self, cell: int) -> str:
        """Return a cell's short name: the name of its case's NVTX range without the prefix."""
        name = format_range(self.cells[cell], varied_keys(self.cases)).removeprefix("RUN::")
        return name if self.copies == 1 else f"{name}::copy={cell % self.copies}"


def check_plan(plan: BenchPlan) -> None:
    """Raise UsageError for numbers that are too small and for an unknown graph."""
    for name, value, least in (
        ("processes", plan.processes, 1), ("rounds", plan.rounds, 1), ("self-check", plan.copies, 1)
    ):  # fmt: skip
        if value < least:
            raise UsageError(f"--{name} {value} is too small.", f"Give at least {least}.")
    if plan.samples < 1:
        raise UsageError(f"{plan.samples} samples are too few.", "Take at least 1.")
    for name, seconds in (("sample-seconds", plan.sample_seconds), ("case-timeout", plan.case_timeout_s)):
        if not seconds > 0:
            raise UsageError(f"--{name} {seconds:g} is not a valid time.", "Give seconds above zero.")
    if plan.warmup_seconds < 0:
        raise UsageError(f"--warmup-seconds {plan.warmup_seconds:g} is not a valid time.", "Give zero or more seconds.")
    check_names("graph", [plan.graph], GRAPHS)


def order_blocks(
    cells: Sequence[int], rounds: int, seed: int, process: int, without: Collection[int] = ()
) -> list[int]:
    """Return the cells in the order in which one process measures them: each once per round, every round shuffled."""
    chosen = [cell for cell in cells if cell not in without]
    generator = random.Random(f"{seed} {process}")
    order = []
    for _ in range(rounds):
        order += generator.sample(chosen, len(chosen))
    return order
