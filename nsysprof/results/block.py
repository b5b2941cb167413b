"""Define Block: the samples that one process took of one case without a break. Raw data of capture, bench and tune."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

# The statuses of a block that was measured. Every other status (see workload/worker.py) has a reason.
OK = "ok"
# With fewer blocks, halves of a cell mean nothing, and a tuning has barely begun to measure it.
LEAST_BLOCKS = 4
# The definition of "warm", which the measured process applies and every report states.
WINDOW_S, WINDOWS, TOLERANCE = 1e-3, 3, 0.03
WARMUP_RULE = (
    "windows of calls of at least 1 ms each until the last three differ by less than 3 % from their median, "
    "at most {seconds:g} s"
)

_LARGEST = 1 << 62
Count = Annotated[int, Meta(ge=0, le=_LARGEST)]
# The shortest time that counts as measured: the clock's tick.
Duration = Annotated[int, Meta(ge=1, le=_LARGEST)]
Text = Annotated[str, Meta(max_length=10_000)]


class Block(Struct, frozen=True, omit_defaults=True):
    """The samples of one case that one process took back to back, or the reason why there are none."""

    # The index of the cell in the grid. A case that is measured against itself has several cells.
    cell: Count
    process: Count
    # How many blocks of this cell the process had taken before.
    round: Count
    status: Annotated[str, Meta(max_length=40)]
    reason: Text = ""
    # When the first sample began (seconds since 1970, UTC).
    started_ns: Count = 0
    # The duration of each sample, and its start relative to the first one (ns).
    values_ns: tuple[Duration, ...] = ()
    offsets_ns: tuple[Count, ...] = ()
    # Samples of the same call with the other cache state: warm where the plan empties caches before each sample, and
    # emptied where it does not (ns).
    other_caches_ns: tuple[Duration, ...] = ()
    # What the clock measures without a call: the median time between two events with nothing between them (ns).
    empty_ns: Count | None = None
    # The SM clock of the GPU at the end of a sustained load (MHz).
    sm_clock_mhz: Count | None = None
    # Samples (ns) of the same call, replayed as a CUDA graph; empty when that was not measured, and graph_reason
    # says why.
    graph_ns: tuple[Duration, ...] = ()
    graph_reason: Text = ""
    # The CPU's time to launch a call divided by the time of a call, both back to back; None on the CPU.
    launch_share: float | None = None
    warmup_calls: Count = 0
    # Whether the times became stable before the warm-up reached its time limit.
    stable: bool = True
    # The indices of the samples during which the GPU was throttled.
    throttled: tuple[Count, ...] = ()
    # How much torch's allocator held beyond what was there before: the peak allocated and the peak reserved (bytes);
    # None on the CPU.
    peak_bytes: Count | None = None
    peak_reserved_bytes: Count | None = None
    # The size of q, k and v in that allocator, and the peak beyond them (bytes).
    input_bytes: Count | None = None
    peak_beyond_inputs_bytes: int | None = None
    # The error relative to the float64 reference by tensor, where this process measured it.
    errors: dict[str, float] = {}
