"""The sampled GPU metrics by our names: what the reader makes and the analysis takes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Int64s = npt.NDArray[np.int64]
Percents = npt.NDArray[np.int16]

# Where the pid sits in a globalPid or globalTid: <hardware:8><VM:8><pid:24><tid:24>.
_PID_SHIFT, _PID_BITS = 24, 0xFFFFFF


@dataclass(frozen=True)
class DramSeries:
    """The DRAM counters of one GPU, as sampled.

    gpu: TARGET_INFO_GPU.id. device_id: the CUDA ordinal by which the result names it; None when the trace has no
    such GPU. peak_bytes_per_s: what 100 percent is; None when not recorded.
    period_ns: the median distance of samples.
    time_ns: ascending, ns since session start, the first ones may be negative. The values at time_ns[i] are averages
    over the period that *begins* there.
    read_pct, write_pct: whole percent of the peak, rounded to the nearest.
    sm_active_max_pct: the highest value of the SM counter, None when it was not sampled.
    impossible: samples left out because a value was missing or no percentage.
    """

    gpu: int
    device_id: int | None
    peak_bytes_per_s: int | None
    period_ns: int
    time_ns: Int64s
    read_pct: Percents
    write_pct: Percents
    sm_active_max_pct: int | None
    impossible: int

    def __len__(self) -> int:
        return len(self.time_ns)


@dataclass(frozen=True)
class GpuMetrics:
    """What was sampled, one series a GPU, and which GPU a CUDA ordinal means.

    ordinals: (pid, CUDA ordinal) -> GPU id, as each process saw them (CUDA_VISIBLE_DEVICES renumbers).
    default_ordinals: CUDA ordinal -> GPU id, for processes that are not in `ordinals`.
    """

    series: tuple[DramSeries, ...]
    ordinals: dict[tuple[int, int], int]
    default_ordinals: dict[int, int]

    def gpu_of(self, global_pid: int, device_id: int) -> int | None:
        """The GPU that the process calls `device_id`, or None when the trace does not say."""
        pid = (global_pid >> _PID_SHIFT) & _PID_BITS
        return self.ordinals.get((pid, device_id), self.default_ordinals.get(device_id))
