"""Compute how much of each unit of a GPU (SMs, tensor pipes, PCIe, NVLink) was used, from sampled GPU metrics."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nsysprof.analysis.traffic.dram import DramTraffic, dram_in_groups
from nsysprof.arrays import Floats
from nsysprof.trace.gpu_metrics_schema import DramSeries, GpuMetrics, Int64s, UseSeries

# With this peak, integrals in bytes become percent times ns.
_UNIT_PEAK = 100 * 10**9


@dataclass(frozen=True)
class UnitUse:
    """The mean use of one unit (percent), one entry per group; NaN where it is unknown."""

    metric: str
    mean_pct: Floats
    # A bound on how far the true mean is from it.
    error_pct: Floats
    sampled_ns: Int64s


def unit_use_in_groups(
    metrics: GpuMetrics,
    start_ns: Int64s,
    end_ns: Int64s,
    group: Int64s,
    groups: int,
    global_pid: Int64s,
    used: Int64s,
) -> list[UnitUse]:
    """Return the use of each unit while any instance of each group ran, as a mean over the GPUs of its process.

    The samples are integrated in the same way as those of DRAM, with the same error bounds (see dram.py).

    The parameters are those of dram_in_groups.
    """
    uses = []
    for metric in dict.fromkeys(series.metric for series in metrics.use):
        alone = GpuMetrics(tuple(_as_series(series) for series in metrics.use if series.metric == metric))
        integral = dram_in_groups(alone, start_ns, end_ns, group, groups, global_pid, used)
        uses.append(_mean(metric, integral))
    return uses


def _as_series(series: UseSeries) -> DramSeries:
    """Return the samples in the form that dram_in_groups integrates: as the reads of a GPU that never writes."""
    return DramSeries(
        gpu=series.gpu,
        device_id=series.device_id,
        peak_bytes_per_s=_UNIT_PEAK,
        period_ns=series.period_ns,
        time_ns=series.time_ns,
        read_pct=series.use_pct,
        write_pct=np.zeros_like(series.use_pct),
        sm_active_max_pct=None,
        impossible=0,
    )


def _mean(metric: str, integral: DramTraffic) -> UnitUse:
    total = np.maximum(integral.sampled_ns + integral.missing_ns, 1)
    sampled = np.maximum(integral.sampled_ns, 1)
    mean = integral.read_bytes / sampled
    # Time that was not sampled counts as the average here, and as nothing in the integral.
    error = integral.read_error_bytes / total + mean - integral.read_bytes / total
    unknown = ~integral.known
    mean[unknown] = error[unknown] = np.nan
    return UnitUse(metric, mean, error, integral.sampled_ns)
