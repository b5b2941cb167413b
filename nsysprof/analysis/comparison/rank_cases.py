"""Rank the cases of a capture that do equal work, as far as samples from one process allow it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from nsysprof.analysis.traffic.roofline import is_launch_bound
from nsysprof.attention.backend_limits import is_lossy
from nsysprof.attention.shape import SHAPE_COLUMNS, named_columns
from nsysprof.results.analysis import LEAST_DIFFERENCE_PCT, Analysis, CaseRanking, RankedCase
from nsysprof.results.roof import known

# All columns of a case except the backend. Cases that differ in any of these do different work and are never compared.
SAME_WORK = SHAPE_COLUMNS


def rank_cases(results: pd.DataFrame, *, on_gpu: bool) -> tuple[CaseRanking, ...]:
    """Return one ranking for each shape with a case that ran, in the order of the grid.

    Lossy backends are ranked among themselves: they compute less than the others.

    results: the columns of results.csv, filled with what the trace says about each case.
    on_gpu: whether the cases ran on a GPU. On a CPU no case is limited by launches.
    """
    done = results.assign(position=range(len(results)))[(results["status"] == "ok").to_numpy(dtype=bool)]
    varied = named_columns(done)
    rankings = []
    is_approximate = done["backend"].map(is_lossy).rename("approximate")
    for _, cases in done.groupby([*SAME_WORK, is_approximate], sort=False, dropna=False):
        rows = cases.to_dict("records")
        shape = {column: rows[0][column] for column in varied}
        timed = _timed(rows, on_gpu)
        rankings.append(_rank(shape, tuple(row["position"] for row in rows), timed))
    return tuple(rankings)


def _timed(rows: Sequence[Mapping[Any, Any]], on_gpu: bool) -> list[RankedCase]:
    """Return the timed cases, the fastest first."""
    rows = sorted((row for row in rows if known(row["latency_median_ns"])), key=lambda row: row["latency_median_ns"])
    cases = []
    for row in rows:
        median, low, high = (known(row[f"latency_{part}_ns"]) for part in ("median", "ci_low", "ci_high"))
        total, calls = known(row["kernel_total_ns"]), known(row["traced_calls"])
        kernel_ns = None if total is None or not calls else total / calls
        times_best = median / rows[0]["latency_median_ns"]
        bound = on_gpu and is_launch_bound(kernel_ns, median, known(row.get("event_over_graph")))
        cases.append(RankedCase(row["position"], row["backend"], median, low, high, times_best, kernel_ns, bound))
    return cases


def _rank(shape: Mapping[str, object], positions: tuple[int, ...], timed: Sequence[RankedCase]) -> CaseRanking:
    if not timed:
        return CaseRanking(shape, positions, (), (), ())
    best, bound = timed[0], _dispatch_bound(timed)
    fastest = tuple(case for case in timed if case is best or case in bound or _cannot_tell(best, case))
    return CaseRanking(shape, positions, fastest, tuple(case for case in timed if case not in fastest), bound)


def _dispatch_bound(timed: Sequence[RankedCase]) -> tuple[RankedCase, ...]:
    # Where the GPU waits for the CPU, latency is the time of dispatching, which varies between processes by more than
    # the interval of one process shows: in one capture, the same kernel took 29 us as `auto` and 41 us as `cudnn`. A
    # case whose kernels alone take longer than the whole call of the best one is slower because of its own work.
    best = timed[0]
    if not best.is_launch_bound:
        return ()
    return tuple(case for case in timed if case.is_launch_bound and (case.kernel_ns or 0) <= best.median_ns)


def _cannot_tell(best: RankedCase, other: RankedCase) -> bool:
    """Return whether one process cannot distinguish two medians. A median without an interval could lie anywhere."""
    if other.times_best < 1 + LEAST_DIFFERENCE_PCT / 100:
        return True
    return best.high_ns is None or other.low_ns is None or other.low_ns <= best.high_ns


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
