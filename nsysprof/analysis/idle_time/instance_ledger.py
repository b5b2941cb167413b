"""List why devices were idle during each instance of a range, and how long they were busy in it."""

from __future__ import annotations

import numpy as np
import pandas as pd

from nsysprof.analysis.idle_time.blame import Blamed
from nsysprof.analysis.idle_time.gaps import DeviceSpan
from nsysprof.analysis.idle_time.intervals_within import measure_by_code
from nsysprof.analysis.ranges.instances import number_instances
from nsysprof.results.column_registry.analysis_columns import CAUSES, IDLE_INSTANCES, cause_column
from nsysprof.trace.schema import Bools


def list_instances(ranges: pd.DataFrame, span: DeviceSpan, pieces: Blamed, of_device: Bools) -> pd.DataFrame:
    """Return the instances during which a device was idle, with the columns of idle_instances.csv.

    ranges: instances with name, style, domain, group, start_ns and end_ns, in order of start.
    span, pieces: from when to when the device worked, and the pieces of its gaps.
    of_device: which of the instances belong to a process that uses the device.
    """
    if not of_device.any() or len(pieces.cause) == 0:
        return pd.DataFrame(columns=list(IDLE_INSTANCES.names))
    instance = number_instances(ranges["group"].to_numpy(dtype=np.int64))[of_device]
    mine = ranges[of_device]
    # Time before the device's first work, or after its last, is not in its span.
    since, until = span.first_ns, span.first_ns + span.whole.span_ns
    start = np.clip(mine["start_ns"].to_numpy(np.int64), since, until)
    end = np.clip(mine["end_ns"].to_numpy(np.int64), start, until)
    by_cause, _ = measure_by_code(pieces.start_ns, pieces.duration_ns, pieces.cause, len(CAUSES), start, end)
    idle = by_cause.sum(axis=0)
    kept = idle > 0
    low, high = start[kept], end[kept]
    table = pd.DataFrame({name: mine[source].to_numpy()[kept] for name, source in _TEXTS.items()})
    table["instance"], table["device_id"] = instance[kept], span.device_id
    table["span_ns"], table["idle_ns"] = high - low, idle[kept]
    table["busy_ns"] = table["span_ns"] - table["idle_ns"]
    for code, cause in enumerate(CAUSES):
        table[cause_column(cause)] = by_cause[code][kept]
    return table[list(IDLE_INSTANCES.names)]


_TEXTS = {"range": "name", "style": "style", "domain": "domain"}
