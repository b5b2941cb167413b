"""Join what torch's allocator recorded in a captured program with the ranges of its trace."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd

from nsysprof.analysis.ranges.open_range import innermost_ranges
from nsysprof.ranks.session import read_session
from nsysprof.results.allocator_memory import AllocatorMemory
from nsysprof.results.analysis import Analysis
from nsysprof.trace.open import open_trace

RangeAt = Callable[[npt.NDArray[np.int64]], Sequence[str]]


def join_memory(analysis: Analysis, source: Path, trace: Path) -> Analysis:
    """Return the analysis with the owners of torch's memory, where the capture in `source` recorded them.

    trace: the SQLite file, which says when its clock began.
    """
    most = read_capture_memory(source, trace, analysis.timeline.nvtx)
    if most is None:
        return analysis
    return replace(analysis, memory_owners=most.owners, allocator=most, notes=(*analysis.notes, *most.notes))


def read_capture_memory(source: Path, trace: Path, ranges: pd.DataFrame) -> AllocatorMemory | None:
    """Return what owned torch's memory in the capture in `source`; None where it recorded no snapshot.

    Of several processes, the one that held most counts.

    ranges: the instances of NVTX ranges.
    """
    if not source.is_dir():
        return None
    from nsysprof.app.trace_analysis.analyze_snapshot import read_memory
    from nsysprof.capture.user_program.program_hook import find_recorded

    snapshots = find_recorded(source, "memory")
    if not snapshots:
        return None
    start_ns = session_start_ns(trace)
    found = [
        read_memory(path, None if start_ns is None else _ranges_of(ranges, process, start_ns))
        for process, path in snapshots.items()
    ]
    return max(found, key=lambda memory: max((use.peak_bytes for use in memory.devices), default=0))


def _ranges_of(ranges: pd.DataFrame, process: int, start_ns: int) -> RangeAt:
    """Return a function that gives the range of a process that was open at a time (us since 1970)."""

    def range_at(time_us: npt.NDArray[np.int64]) -> Sequence[str]:
        own = ranges[((ranges["global_tid"].to_numpy(np.int64) >> 24) & 0xFFFFFF) == process]
        owner = own["global_tid"].to_numpy(np.int64)
        # The snapshot does not name a thread, so a range of any thread counts.
        tid = np.full(len(time_us), (int(owner[0]) >> 24) << 24 if len(own) else 0, dtype=np.int64)
        return [str(name) for name in innermost_ranges(own, tid, time_us * 1000 - start_ns)]

    return range_at


def session_start_ns(trace: Path) -> int | None:
    """Return when the clock of a trace began (ns since 1970)."""
    with open_trace(trace) as opened:
        return read_session(opened).start_utc_ns
