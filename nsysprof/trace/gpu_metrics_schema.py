"""The sampled GPU metrics by our names: what the reader makes and the analysis takes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Int64s = npt.NDArray[np.int64]
Percents = npt.NDArray[np.int16]


@dataclass(frozen=True)
class DramSeries:
    """The DRAM counters of one GPU, as sampled.

    gpu: TARGET_INFO_GPU.id. device_id: the number by which results name it (see trace.devices); None when the trace
    has no such GPU. peak_bytes_per_s: what 100 percent is; None when not recorded.
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
    """What was sampled, one series a GPU."""

    series: tuple[DramSeries, ...]

    def gpu_of(self, device_id: int) -> int | None:
        """The GPU id of a device, or None when it was not sampled."""
        return next((series.gpu for series in self.series if series.device_id == device_id), None)


@dataclass(frozen=True)
class MetricSeries:
    """The samples of one metric of one GPU, whatever it is.

    name: as the trace has it, with its unit in brackets. gpu, device_id: as in DramSeries.
    time_ns: ascending, ns since session start, may be negative; value: as recorded.
    """

    name: str
    gpu: int
    device_id: int | None
    time_ns: Int64s
    value: Int64s

    def __len__(self) -> int:
        return len(self.time_ns)
