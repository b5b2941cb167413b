"""List peak rates of GPUs from NVIDIA's datasheets, and the share of time that makes a case bound by launches.

Peaks are dense (without sparsity), at boost clock, bandwidth in bytes/s. Half of the published tensor numbers assume
sparsity, and the footnotes that say so are often lost: the L4's "242" is sparse FP16 TFLOPS, and neither its dense peak
(121) nor its bandwidth (300 GB/s).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Peak:
    """The peak rates of a GPU: FLOP/s by dtype of case.DTYPES and in TF32 (fp32 is without it), and bytes/s of DRAM."""

    flops: dict[str, float]
    bytes_per_s: float


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


# What one GPU sends over NVLink in one direction (bytes/s), by parts of the name that the driver reports.
_LINKS = {"H200": 450e9, "H100 80GB HBM3": 450e9, "A100-SXM4": 300e9, "B200": 900e9}


def link_bytes_per_s(gpu_name: str | None) -> float | None:
    """Return the rate of a GPU's NVLink in one direction; None for a board that may have none."""
    return next((rate for known, rate in _LINKS.items() if known in (gpu_name or "")), None)


# A call is launch-bound when its replay as a CUDA graph, which the CPU launches as one call, takes less than this share
# of its time. Where that was not measured, it is when kernels fill less than this share.
LAUNCH_BOUND_SHARE = 0.75
# From this share of launching on, a search also times the call as a CUDA graph, so that calls near the threshold have
# both times in every block.
CAPTURED_SHARE = 0.5
