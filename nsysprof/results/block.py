"""Block: the samples that one process took of one case in one go, the raw record of capture, bench and tune."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

# Statuses of a block that was measured. Every other one (see workload/worker.py) has a reason.
OK = "ok"
# With fewer blocks, halves of a cell say nothing, and a tuner has only begun to measure it.
LEAST_BLOCKS = 4
# When a case is warm, which the measured process decides and every report states.
WINDOW_S, WINDOWS, TOLERANCE = 1e-3, 3, 0.03
WARMUP_RULE = (
    "windows of calls of at least 1 ms each until the last three differ by less than 3 % from their median, "
    "at most {seconds:g} s"
)

_LARGEST = 1 << 62
Count = Annotated[int, Meta(ge=0, le=_LARGEST)]
# A time that was measured is at least the clock's tick.
Duration = Annotated[int, Meta(ge=1, le=_LARGEST)]
Text = Annotated[str, Meta(max_length=10_000)]


class Block(Struct, frozen=True, omit_defaults=True):
    """The samples of one case that one process took back to back, or the reason why there are none."""

    # The index of the case in the grid; a case that is measured against itself has several cells.
    cell: Count
    process: Count
    # How often this process had taken a block of the cell before.
    round: Count
    status: Annotated[str, Meta(max_length=40)]
    reason: Text = ""
    # UTC epoch of the first sample.
    started_ns: Count = 0
    # The duration of each sample, and its start after the first one's.
    values_ns: tuple[Duration, ...] = ()
    offsets_ns: tuple[Count, ...] = ()
    # Samples of the same call with the caches in the other state: warm where the plan empties them before each sample,
    # and emptied where it does not.
    other_caches_ns: tuple[Duration, ...] = ()
    # What the clock gives for no call at all: the median time between two events with nothing in between.
    empty_ns: Count | None = None
    # The GPU's SM clock at the end of a sustained load (MHz).
    sm_clock_mhz: Count | None = None
    # Samples (ns) of the same call, replayed as a CUDA graph; empty when that was not measured, and graph_reason
    # says why.
    graph_ns: tuple[Duration, ...] = ()
    graph_reason: Text = ""
    # The CPU's time to launch a call over the time of a call, both back to back; None on the CPU.
    launch_share: float | None = None
    warmup_calls: Count = 0
    # Whether warm-up ended by its rule and not by its time.
    stable: bool = True
    # Indices of the samples during which the GPU was throttled.
    throttled: tuple[Count, ...] = ()
    # What torch's allocator held beyond what was there before: at most, and at most reserved; None on the CPU.
    peak_bytes: Count | None = None
    peak_reserved_bytes: Count | None = None
    # The bytes of q, k and v in that allocator, and the peak beyond them.
    input_bytes: Count | None = None
    peak_beyond_inputs_bytes: int | None = None
    # The distance from the float64 reference by tensor, where it was taken in this process.
    errors: dict[str, float] = {}
