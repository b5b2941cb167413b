"""The tables of a trace by our names: what the reader makes and the analysis takes."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from nsysprof.notes import Note

# NULL in a 64-bit integer column: no nsys timestamp or id is this value, and NaN would cost the low bits of ids.
NULL = int(np.iinfo(np.int64).min)


@dataclass(frozen=True)
class DeviceRow:
    """A GPU as the trace names it; `device_id` is the CUDA ordinal that kernels refer to."""

    device_id: int
    name: str
    total_memory_bytes: int | None
    sm_count: int | None
    uuid: str | None


@dataclass
class Tables:
    """What was read. A table is None when the trace has none; times are ns since session start, ids as in nsys.

    kernels: start_ns, end_ns, device_id, stream_id, context_id, correlation_id, global_pid, name_id, short_name_id,
        graph_node_id
    launches: start_ns, end_ns, event_class, global_tid, correlation_id, name_id, return_value (backtraces excluded)
    copies: as kernels up to global_pid, then bytes, copy_kind; fills: the same with bytes
    graphs: as kernels up to global_pid (whole graph replays, in graph mode)
    ranges: start_ns, end_ns (NULL: open), style, global_tid, end_global_tid, domain_id, name, domain
    memory: time_ns, global_pid, device_id, address, bytes, kind, operation
    """

    path_name: str
    sha256: str
    bytes: int
    capture_facts: dict[str, list[str]]
    export_facts: dict[str, str]
    diagnostics: list[tuple[int, str]]
    strings: pd.Series
    devices: tuple[DeviceRow, ...]
    kernels: pd.DataFrame | None
    launches: pd.DataFrame | None
    copies: pd.DataFrame | None
    fills: pd.DataFrame | None
    graphs: pd.DataFrame | None
    ranges: pd.DataFrame | None
    memory: pd.DataFrame | None
    notes: list[Note] = field(default_factory=list)
