"""Fill the study of reads of known size on an H200, measured by sampled DRAM counters."""

from __future__ import annotations

import json
import lzma
from dataclasses import dataclass

import numpy as np

from nsysprof.analysis.traffic.dram import dram_in_ranges
from nsysprof.trace.schema import DramSeries, GpuMetrics, Int64s
from scripts.studies.tables import ANALYSIS, markdown

FOLDER = ANALYSIS / "h200-dram"
RATES_KHZ = (10, 20, 50, 100, 200)
_SHIFTS_NS = range(-10_000, 10_001, 500)


@dataclass(frozen=True)
class Reads:
    """Kernels that each read a known number of bytes once, and the samples of the time in which they ran."""

    series: DramSeries
    start_ns: Int64s
    end_ns: Int64s
    bytes: Int64s


def read_samples(khz: int) -> Reads:
    """Return what was recorded at one rate."""
    data = json.loads(lzma.decompress((FOLDER / f"reads-{khz}khz.json.xz").read_bytes()))
    percent = np.array(data["read_pct"], np.int16)
    time = np.cumsum(np.array(data["time_ns"], np.int64))
    series = DramSeries(
        0, 0, data["peak_bytes_per_s"], data["period_ns"], time, percent, np.zeros_like(percent), 100, 0
    )
    start, duration, size = np.array(data["kernels"], np.int64).T
    start = np.cumsum(start)
    return Reads(series, start, start + duration, size)


def facts() -> dict[str, str]:
    """Return the numbers of the page."""
    rows, held, of = [], 0, 0
    for khz in RATES_KHZ:
        reads = read_samples(khz)
        found = dram_in_ranges(GpuMetrics((reads.series,)), reads.start_ns, reads.end_ns)
        known = found.known
        off = np.abs(found.read_bytes - reads.bytes)
        inside = int((off <= found.read_error_bytes)[known].sum())
        held, of = held + inside, of + int(known.sum())
        large = known & (reads.bytes == reads.bytes.max())
        rows.append(
            (
                f"{khz} kHz",
                f"{known.sum()} of {len(known)}",
                f"{inside} of {known.sum()}",
                f"{100 * np.median((off / reads.bytes)[large]):.1f} %",
                f"{100 * np.median((found.read_error_bytes / reads.bytes)[large]):.1f} %",
                f"{_best_shift(reads) / 1000:g} us",
            )
        )
    head = (
        "rate",
        "reads that are known",
        "within the error bar",
        "off, largest reads",
        "their error bar",
        "best shift",
    )
    sizes = sorted({size >> 20 for size in read_samples(RATES_KHZ[0]).bytes.tolist()})
    return {
        "table": markdown(head, "lrrrrr", rows),
        "sizes": ", ".join(f"{size:,}" for size in sizes),
        "held": str(held),
        "of": str(of),
        "clock_us": f"{GpuMetrics(()).clock_error_ns / 1000:g}",
    }


def _best_shift(reads: Reads) -> int:
    """Return the shift at which the samples hold most of what the kernels read (ns)."""
    metrics = GpuMetrics((reads.series,), clock_error_ns=0)
    sums = [
        int(dram_in_ranges(metrics, reads.start_ns + shift, reads.end_ns + shift).read_bytes.sum())
        for shift in _SHIFTS_NS
    ]
    return _SHIFTS_NS[int(np.argmax(sums))]
