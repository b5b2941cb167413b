"""Join a capture's cases with what its trace says about their ranges."""

from __future__ import annotations

import pandas as pd

from nsysprof.results.analysis import Analysis

_FROM_RANGE = {
    "launch_count": "launch_count",
    "kernel_count": "kernel_count",
    "kernel_total_ns": "kernel_total_ns",
    "gpu_busy_ns": "gpu_busy_ns",
    "memcpy_bytes": "memcpy_bytes",
    "memset_bytes": "memset_bytes",
    "trace_peak_vram_bytes": "peak_vram_bytes",
    "sampled_read_bytes": "dram_read_bytes",
    "sampled_read_error_bytes": "dram_read_error_bytes",
    "sampled_write_bytes": "dram_write_bytes",
    "sampled_write_error_bytes": "dram_write_error_bytes",
}


def fill_results(results: pd.DataFrame, analysis: Analysis) -> pd.DataFrame:
    """Return `results` with counts, times (ns) and bytes of each case's range; NA where the trace has no such range.

    The process-wide range is preferred, because it includes the work of autograd's threads. Otherwise the push/pop
    range is used.
    """
    ranges = analysis.ranges.sort_values("style", key=lambda style: style != "StartEnd", kind="stable")
    ranges = ranges.drop_duplicates("range").set_index("range")
    filled = results.copy()
    for column, source in _FROM_RANGE.items():
        filled[column] = filled["range"].map(ranges[source]).astype("Int64")
    return filled
