"""Define the results of analyzing many traces together: rows of ranks, and tables over them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from nsysprof.notes import Note

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pandas as pd

    from nsysprof.results.findings import JobFinding

# The version of ranks.json. 1: the first.
FORMAT_VERSION = 1
# A rank is a straggler when the job would take this much less time if the rank were like the others, by a replay of the
# collectives, and when this holds in nearly all parts of the job. Where the traces share no collective on one clock, it
# is one when it computes longer as an outlier, or, of fewer ranks, this much longer than the usual one.
STRAGGLER_COST_PCT, STRAGGLER_EXCESS_OF_FEW_PCT = 1.0, 10.0
# In this share of jobs without a straggler, one may be named by chance.
STRAGGLER_ALPHA = 0.001
# A replay that differs from the recorded time by more than this share says nothing about a job.
REPLAY_ERROR_PCT = 5.0
# A rank is an outlier (among at least this many ranks) when it is so many times further from the usual one than any
# other rank is, and by at least this much.
OUTLIER_RANKS, OUTLIER_TIMES, OUTLIER_PCT = 6, 10, 5.0
# The median residual up to which a clock that was found by collectives is used. Ends of one collective on two ranks
# differ by the last hop of a ring: some 10 us. A clock that is ten times as far off was not fitted.
MOST_RESIDUAL_NS = 100_000


@dataclass(frozen=True)
class RankRow:
    """The results of one trace. Times are in ns since its session's start; None is unknown."""

    # Its number among the inputs.
    position: int
    source: str
    # The rank, from the manifest, the trace, the file's name or the position; rank_from says which.
    rank: int | None = None
    rank_from: str = ""
    world_size: int | None = None
    # A token that is equal for traces of one host; None: unknown.
    host: str | None = None
    # Why there are no numbers; empty where there are some.
    reason: str = ""
    next_step: str = ""
    sha256: str = ""
    bytes: int | None = None
    nsys_version: str | None = None
    gpus: tuple[str, ...] = ()
    session_start_utc_ns: int | None = None
    first_ns: int | None = None
    last_ns: int | None = None
    # The time from the first kernel to the end of the last one.
    span_ns: int | None = None
    # How long the GPU was busy, copies and fills included.
    gpu_busy_ns: int | None = None
    # The time between the first and the last kernel of each device during which it did nothing.
    idle_ns: int | None = None
    # When a kernel other than NCCL's ran: the union on each device, added over devices.
    compute_ns: int | None = None
    # How long NCCL's kernels ran, how long both ran at once, and how long NCCL's kernels ran alone.
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
        """Return whether the trace could be read."""
        return not self.reason


@dataclass(frozen=True)
class ClockFit:
    """How a rank's clock differs from the reference's: its time plus offset_ns is the reference's time."""

    rank: int
    # The method: utc (one host, by the starts of sessions) or collectives.
    how: str
    # The offset (ns); None where it could not be determined, and then `reason` says why.
    offset_ns: int | None
    # The number of collectives that both ranks took part in.
    anchors: int
    # Half of the anchors, and all of them, end within this time of each other; None without anchors.
    residual_ns: int | None
    worst_ns: int | None
    reason: str = ""


@dataclass(frozen=True)
class Lanes:
    """The activity of a rank's devices in equal slices of time: the shares (0 to 1) of computing and communicating."""

    start_ns: int
    slice_ns: int
    compute: npt.NDArray[np.float32]
    comm: npt.NDArray[np.float32]


@dataclass(frozen=True)
class StepLane:
    """What one rank does in the pictured step. Times are in ns since the picture begins.

    compute_pct: the share of each of equal slices of the rank's step in which kernels compute (percent).
    moves, waits: when it communicates with all ranks there, and when it waits in a collective for others.
    ranges: name, begin and end of the computation of each range, in order; the longest ones.
    """

    rank: int
    start_ns: int
    end_ns: int
    compute_pct: tuple[int, ...]
    moves: tuple[tuple[int, int], ...]
    waits: tuple[tuple[int, int], ...]
    ranges: tuple[tuple[str, int, int], ...]


@dataclass(frozen=True)
class StepPicture:
    """One step of all ranks on one clock.

    late: the rank for which the others wait most; None where they wait little, or for several.
    waited_ns: how long they wait for it, added over them.
    """

    wall_ns: int
    lanes: tuple[StepLane, ...]
    late: int | None
    waited_ns: int


@dataclass(frozen=True)
class RankCollectives:
    """The collectives of one rank that all ranks end together. Times are in ns since its session's start."""

    # One per sequence of a kernel on a stream.
    names: tuple[str, ...]
    # One per collective: its sequence, and its number within the sequence.
    of: npt.NDArray[np.int64]
    ordinal: npt.NDArray[np.int64]
    start_ns: npt.NDArray[np.int64]
    end_ns: npt.NDArray[np.int64]


@dataclass(frozen=True)
class RanksAnalysis:
    """Everything about a set of traces. docs/files.md lists the columns of the tables."""

    # In order of rank.
    rows: tuple[RankRow, ...]
    clocks: tuple[ClockFit, ...]
    kernels: pd.DataFrame
    ranges: pd.DataFrame
    # The same with counted names as one (`step#`).
    range_families: pd.DataFrame
    range_kernels: pd.DataFrame
    api: pd.DataFrame
    memops: pd.DataFrame
    rank_ranges: pd.DataFrame
    stragglers: pd.DataFrame
    # The evidence: collectives, or own work; empty where the traces do not show which rank delays the others.
    straggler_evidence: str
    outliers: Mapping[int, str]
    imbalance_pct: float | None
    lanes: Mapping[int, Lanes]
    notes: tuple[Note, ...]
    engine: Mapping[str, Any] = field(default_factory=dict)
    # By rank; of long sequences some stretches.
    collectives: Mapping[int, RankCollectives] = field(default_factory=dict)
    # A short name of each row of kernels, no two alike.
    kernel_labels: tuple[str, ...] = ()
    # The energy of the boards: by rank and range, and over ranks; empty where it was not sampled.
    rank_energy: pd.DataFrame | None = None
    energy: pd.DataFrame | None = None
    # What to change, the largest saving of the job first.
    findings: tuple[JobFinding, ...] = ()
    # Why findings are unknown; "" where they are known.
    no_findings: str = ""
    # The columns are those of communication.csv.
    communication: pd.DataFrame | None = None
    # How long a step takes (ns), as a mean over ranks; None where no steps are known.
    step_ns: float | None = None
    # How long each rank waits for sends and receives of its neighbours in a step (ns); ranks without any are not here.
    bubbles: Mapping[int, int] = field(default_factory=dict)
    # One step; None where no steps are known, or where no two ranks have one clock.
    picture: StepPicture | None = None

    @property
    def read(self) -> list[RankRow]:
        """Return the ranks whose traces could be read."""
        return [row for row in self.rows if row.is_read]
