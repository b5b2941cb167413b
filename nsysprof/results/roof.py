"""Define a device's ceilings, the names of what limits a case, and where a case's DRAM bytes come from.

They are here because the analysis decides by them and the reports show them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

# What one GPU sends over NVLink in one direction (bytes/s), by parts of the name that the driver reports.
_LINKS = {"H200": 450e9, "H100 80GB HBM3": 450e9, "A100-SXM4": 300e9, "B200": 900e9}
# A call is launch-bound when its replay as a CUDA graph, which the CPU launches as one call, takes less than this share
# of its time. Where that was not measured, it is when kernels fill less than this share.
LAUNCH_BOUND_SHARE = 0.75
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
class Peak:
    """The peak rates of a GPU: FLOP/s by dtype of case.DTYPES and in TF32 (fp32 is without it), and bytes/s of DRAM.

    measured: the dtypes whose rate was measured on this machine, as bytes/s was then; the others are the datasheet's.
    """

    flops: dict[str, float]
    bytes_per_s: float
    measured: frozenset[str] = frozenset()

    @property
    def source(self) -> str:
        """Return where the rates come from."""
        return "measured on this machine" if self.measured else "of the datasheet"

    def source_of(self, dtype: str) -> str:
        """Return where the rate of a dtype comes from."""
        return f"measured on this machine, {dtype}" if dtype in self.measured else f"datasheet, dense {dtype}"


def _peak(half_tflops: float, tf32_tflops: float, fp32_tflops: float, gigabytes_per_s: float) -> Peak:
    tflops = {"fp16": half_tflops, "bf16": half_tflops, "tf32": tf32_tflops, "fp32": fp32_tflops}
    return Peak({dtype: rate * 1e12 for dtype, rate in tflops.items()}, gigabytes_per_s * 1e9)


# By parts of the name that the driver reports; the longest part that matches counts.
_PEAKS = {
    "H200": _peak(989.4, 494.7, 66.9, 4800),
    "H100 80GB HBM3": _peak(989.4, 494.7, 66.9, 3350),
    "H100 PCIe": _peak(756.0, 378.0, 51.2, 2000),
    "A100-SXM4-80GB": _peak(312.0, 156.0, 19.5, 2039),
    "A100-SXM4-40GB": _peak(312.0, 156.0, 19.5, 1555),
    "A100 80GB PCIe": _peak(312.0, 156.0, 19.5, 1935),
    "L40S": _peak(362.05, 183.0, 91.6, 864),
    "NVIDIA L4": _peak(121.0, 60.0, 30.3, 300),
    "RTX 4090": _peak(165.2, 82.6, 82.6, 1008),
}


def find_peak(gpu_name: str | None) -> Peak | None:
    """Return the peak rates of a GPU; None for one that is not in the table. Nothing is guessed."""
    name = gpu_name or ""
    names = [known for known in _PEAKS if known in name and not (known == "NVIDIA L4" and "L40" in name)]
    return _PEAKS[max(names, key=len)] if names else None


def settle_peak(gpu_name: str | None, ceilings: Mapping[str, Any]) -> Peak | None:
    """Return the rates of a GPU that were measured on this machine, else those of its datasheet; None for neither.

    ceilings: what a capture measured, with the name of the GPU; {} where it measured none, or not of a program.
    """
    datasheet = find_peak(gpu_name)
    if not ceilings.get("bytes_per_s") or ceilings.get("gpu_name") != gpu_name:
        return datasheet
    flops = {dtype: rate for dtype, rate in (ceilings.get("flops") or {}).items() if rate}
    known_flops = {} if datasheet is None else datasheet.flops
    return Peak(known_flops | flops, ceilings["bytes_per_s"], frozenset(flops))


def link_bytes_per_s(gpu_name: str | None) -> float | None:
    """Return the rate of a GPU's NVLink in one direction; None for a board that may have none."""
    return next((rate for known, rate in _LINKS.items() if known in (gpu_name or "")), None)


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
    """Return a cell as a Python number, or None for NA, which is told by its type: `--help` loads no pandas."""
    return None if value is None or type(value).__name__ == "NAType" or value != value else value  # noqa: PLR0124


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
