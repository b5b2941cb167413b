"""Define sampled GPU metrics under our names, for the reader that makes them and the analysis that uses them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from nsysprof.arrays import Int64s as Int64s  # noqa: PLC0414  whoever takes tables takes their columns

Percents = npt.NDArray[np.int16]


@dataclass(frozen=True)
class DramSeries:
    """The DRAM counters of one GPU, as sampled."""

    # TARGET_INFO_GPU.id.
    gpu: int
    # The GPU's number in results (see trace.devices); None when the trace does not have this GPU.
    device_id: int | None
    # The bandwidth that 100 percent stands for (bytes/s); None when not recorded.
    peak_bytes_per_s: int | None
    # The median distance between samples (ns).
    period_ns: int
    # Ascending, since session start (ns); the first ones may be negative. A value at time_ns[i] is the average over the
    # period that *begins* there.
    time_ns: Int64s
    # Percent of the peak, rounded to integers.
    read_pct: Percents
    write_pct: Percents
    # The highest value of the SM counter; None when it was not sampled.
    sm_active_max_pct: int | None
    # The number of samples that were left out because a value was missing or not a percentage.
    impossible: int

    def __len__(self) -> int:
        return len(self.time_ns)


@dataclass(frozen=True)
class UseSeries:
    """How much one unit of one GPU was used, such as its SMs, its tensor pipes, PCIe or NVLink."""

    # The trace's name without its unit.
    metric: str
    # It means the same as in DramSeries.
    gpu: int
    device_id: int | None
    period_ns: int
    time_ns: Int64s
    # Percent of the most that is possible, rounded to integers.
    use_pct: Percents

    def __len__(self) -> int:
        return len(self.time_ns)


@dataclass(frozen=True)
class GpuMetrics:
    """The samples of all GPUs: one series of DRAM counters per GPU, and one per GPU and other unit."""

    series: tuple[DramSeries, ...]
    use: tuple[UseSeries, ...] = ()
    # How far samples may be from the work that they count, in either direction (ns): the two clocks differ, and
    # counters lag. analysis/h200-dram shows how much, for reads of known size.
    clock_error_ns: int = 5_000

    def gpu_of(self, device_id: int) -> int | None:
        """Return the GPU id of a device, or None when it was not sampled."""
        return next((series.gpu for series in self.series if series.device_id == device_id), None)


@dataclass(frozen=True)
class MetricSeries:
    """The samples of one metric of one GPU, whatever the metric is."""

    # The trace's name, with its unit in brackets.
    name: str
    # It means the same as in DramSeries.
    gpu: int
    device_id: int | None
    # Ascending, since session start; may be negative.
    time_ns: Int64s
    # As recorded.
    value: Int64s

    def __len__(self) -> int:
        return len(self.time_ns)
