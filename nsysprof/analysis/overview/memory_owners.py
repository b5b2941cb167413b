"""Find which ranges own the memory at its peak: those that were open when it was allocated."""

from __future__ import annotations

import numpy as np
import pandas as pd

from nsysprof.analysis.overview.memory import DeviceMemory
from nsysprof.analysis.ranges.open_range import innermost_ranges
from nsysprof.results.column_registry.analysis_columns import MEMORY

OUTSIDE = "(outside every range)"


def list_owners(memory: DeviceMemory | None, ranges: pd.DataFrame) -> pd.DataFrame:
    """Return the owners of the memory at the peak of the device that held most. The rows add up to that peak.

    ranges: instances, as made by the attribution. A range owns what was allocated while it was the innermost open range
        of its process.
    """
    peaks = {} if memory is None else memory.peaks()
    if memory is None or not peaks or max(peaks.values()) <= 0:
        return pd.DataFrame(columns=list(MEMORY.names))
    device = max(peaks, key=lambda number: peaks[number])
    usage = memory.usage[memory.usage["device_id"] == device]
    upto = usage.iloc[: int(np.argmax(usage["used_bytes"].to_numpy())) + 1]
    # Memory events do not name a thread, so any range of the process counts, as for a thread without ranges.
    owners = innermost_ranges(ranges, upto["global_pid"].to_numpy(np.int64), upto["since_ns"].to_numpy(np.int64))
    held = upto["change"].groupby(np.where(owners == "", OUTSIDE, owners)).sum()
    # A pool that shrank gave back memory by which others had made it grow.
    short = int(held[held < 0].sum())
    held = held[held > 0].sort_values(ascending=False, kind="stable")
    if short:
        held.iloc[0] += short
    table = pd.DataFrame({"owner": held.index.astype(object), "peak_bytes": held.to_numpy(np.int64)})
    table["share_pct"] = 100.0 * table["peak_bytes"] / peaks[device]
    table["range"] = None
    return table[list(MEMORY.names)]
