"""Define a device's ceilings, the names of what limits a case, and where a case's DRAM bytes come from.

They are here because the analysis decides by them and the reports show them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from nsysprof.results.device_limits import LAUNCH_BOUND_SHARE, Peak, find_peak

# A kernel that reaches this share of a ceiling (percent) is limited by it. NVIDIA's own speed-of-light rule also uses
# 60 %.
NEAR_PCT = 60.0
# If at most this share of an SM's warps fits (percent), too few are active to hide latency.
FEW_WARPS_PCT = 30.0
# No case can use more of a ceiling than this (percent). More is a measurement error, or the bytes came from a cache.
MOST_PCT = 100.0

LAUNCH, MEMORY, L2, COMPUTE, OCCUPANCY, OTHER, UNKNOWN = (
    "launch-bound", "memory-bound", "L2-bound", "compute-bound", "occupancy-bound", "no limit reached", "unknown",
)  # fmt: skip
LIMIT_RULES = (
    f"launch-bound where kernels fill less than {100 * LAUNCH_BOUND_SHARE:g} % of the latency; else each kernel "
    f"by itself, memory-, L2- or compute-bound from {NEAR_PCT:g} % of its ceiling on, else occupancy-bound "
    f"where at most {FEW_WARPS_PCT:g} % of an SM's warps fit; the case is what most of its kernel time is"
)
COUNTED, SAMPLED = "counted", "sampled"


@dataclass(frozen=True)
class Roof:
    """The measured ceilings of a device, and the peaks in its datasheet."""

    bytes_per_s: float
    l2_bytes_per_s: float | None
    # FLOP/s and SM clock (MHz) by dtype.
    flops: Mapping[str, float]
    clock_mhz: Mapping[str, int | None]
    datasheet: Peak | None

    def flops_at(self, intensity: float, dtype: str) -> float | None:
        """Return the most FLOP/s at this many FLOP per byte of DRAM; None for a dtype that was not measured."""
        peak = self.flops.get(dtype)
        return None if peak is None else min(peak, intensity * self.bytes_per_s)


def roof_of(environment: Mapping[str, Any]) -> Roof | None:
    """Return the ceilings that a capture measured; None where it measured none."""
    ceilings = environment.get("ceilings") or {}
    if not ceilings.get("bytes_per_s"):
        return None
    return Roof(
        ceilings["bytes_per_s"],
        ceilings.get("l2_bytes_per_s"),
        ceilings.get("flops") or {},
        ceilings.get("sm_clock_mhz") or {},
        find_peak(environment.get("gpu_name")),
    )


def known(value: Any) -> Any:
    """Return a cell as a Python number, or None for NA."""
    return None if value is None or value is pd.NA or value != value else value  # noqa: PLR0124


def dram_of(row: Mapping[Any, Any]) -> tuple[int | None, int | None, str]:
    """Return DRAM bytes per call, the bound on their error, and their source.

    Counted bytes are preferred to sampled ones.
    """
    counted = [known(row.get(f"counted_{way}_bytes")) for way in ("read", "write")]
    if None not in counted:
        return int(sum(counted)), None, COUNTED
    return (*sampled_of(row), SAMPLED) if sampled_of(row)[0] is not None else (None, None, "")


def sampled_of(row: Mapping[Any, Any]) -> tuple[int | None, int | None]:
    """Return sampled DRAM bytes per call, and the bound on their error."""
    calls = known(row["traced_calls"])
    parts = [known(row.get(f"sampled_{way}_bytes")) for way in ("read", "write", "read_error", "write_error")]
    if not calls or None in parts:
        return None, None
    return round((parts[0] + parts[1]) / calls), round((parts[2] + parts[3]) / calls)
