"""What many traces say together: the rows of ranks and the tables over them. Made by `ranks`, shown by `report`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from nsysprof.notes import Note

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pandas as pd

# History of ranks.json. 1: first.
FORMAT_VERSION = 1


@dataclass(frozen=True)
class RankRow:
    """One trace. Times in ns since its session's start, unknown is None.

    position: its number among the inputs. rank: of its manifest, its trace, its file's name or its position, as
    rank_from says. host: a token that is the same for traces of one host, None: unknown. reason: why there is nothing,
    empty where there is. compute_ns: when a kernel ran that is none of NCCL's, union by device, added over devices;
    comm_ns: the same of NCCL's; overlap_ns: both at once; exposed_comm_ns: NCCL alone. gpu_busy_ns counts copies and
    fills too; idle_ns is the time between the first and the last kernel of each device in which it did nothing;
    span_ns is from the first kernel of all to the last.
    """

    position: int
    source: str
    rank: int | None = None
    rank_from: str = ""
    world_size: int | None = None
    host: str | None = None
    reason: str = ""
    next_step: str = ""
    sha256: str = ""
    bytes: int | None = None
    nsys_version: str | None = None
    gpus: tuple[str, ...] = ()
    session_start_utc_ns: int | None = None
    first_ns: int | None = None
    last_ns: int | None = None
    span_ns: int | None = None
    gpu_busy_ns: int | None = None
    idle_ns: int | None = None
    compute_ns: int | None = None
    comm_ns: int | None = None
    overlap_ns: int | None = None
    exposed_comm_ns: int | None = None
    kernel_count: int | None = None
    kernel_total_ns: int | None = None
    launch_count: int | None = None
    api_total_ns: int | None = None
    memcpy_bytes: int | None = None
    memset_bytes: int | None = None
    peak_vram_bytes: int | None = None
    notes: tuple[Note, ...] = ()

    @property
    def is_read(self) -> bool:
        """Whether there are numbers of it."""
        return not self.reason

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_json(data: dict[str, Any]) -> RankRow:
        notes = tuple(Note.from_json(note) for note in data["notes"])
        return RankRow(**{**data, "notes": notes, "gpus": tuple(data["gpus"])})


@dataclass(frozen=True)
class ClockFit:
    """How a rank's clock reads against that of the reference: its time + offset_ns is the reference's.

    how: utc (one host, its session start) or collectives. anchors: collectives that both ranks took part in;
    residual_ns: half of the anchors end within this of each other, worst_ns: all of them. None where there are none.
    offset_ns is None where no clock could be established, reason says why.
    """

    rank: int
    how: str
    offset_ns: int | None
    anchors: int
    residual_ns: int | None
    worst_ns: int | None
    reason: str = ""


@dataclass(frozen=True)
class Lanes:
    """What a rank's devices did in equal slices of time: shares (0 to 1) in which they computed, and communicated."""

    start_ns: int
    slice_ns: int
    compute: npt.NDArray[np.float32]
    comm: npt.NDArray[np.float32]


@dataclass(frozen=True)
class RanksAnalysis:
    """Everything about a set of traces. rows are in order of rank; the tables' columns are in docs/files.md.

    straggler_evidence: collectives, or own work; empty where the traces say nothing of who holds up whom.
    """

    rows: tuple[RankRow, ...]
    clocks: tuple[ClockFit, ...]
    kernels: pd.DataFrame
    ranges: pd.DataFrame
    range_kernels: pd.DataFrame
    api: pd.DataFrame
    memops: pd.DataFrame
    rank_ranges: pd.DataFrame
    stragglers: pd.DataFrame
    straggler_evidence: str
    outliers: Mapping[int, str]
    imbalance_pct: float | None
    lanes: Mapping[int, Lanes]
    notes: tuple[Note, ...]
    engine: Mapping[str, Any] = field(default_factory=dict)

    @property
    def read(self) -> list[RankRow]:
        """The ranks of which there are numbers."""
        return [row for row in self.rows if row.is_read]
