"""Find the steps of a program without ranges: a sequence of kernels that repeats."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd

from nsysprof.analysis.idle_time.call_classes import call_texts
from nsysprof.analysis.kernel_names.variant_names import kernel_names
from nsysprof.trace.schema import PID_MASK, Bools, Int64s, Ints, Tables

_LEAST_PERIODS = 4
# With fewer kernels in a period, it is a loop over pieces and not a step of a program...
_LEAST_KERNELS = 4
# ...unless the host waits for the GPU in nearly every period, as a solver does that looks whether it may stop. Then at
# least so many periods must hold nearly all kernels, and nearly all periods the same ones.
_LEAST_OF_SOLVER, _PERIODS_OF_SOLVER, _NEARLY_ALL = 2, 16, 0.95
# Periods are alike if their numbers of kernels differ from the median by no more than this share. The longest row of
# alike periods must hold at least this share of all kernels.
_ALIKE, _LEAST_HELD = 0.02, 0.5
# A period is typical if it shares at least this part of its kernels with the others, and this part of the periods must
# be typical. Otherwise a kernel at equal distances between others that never repeat would make steps.
_SAME_KERNELS, _SAME_PERIODS = 0.8, 0.75
_MOST_COMPARED, _MOST_KERNELS_COMPARED = 32, 1_000_000
# A period that takes this many times as long as most ends with a pause. Periods of fewer kernels than a step usually
# has are pieces of something longer if such pauses come at unequal distances and take at least this share of the time.
_BREAK, _KERNELS_OF_A_STEP, _BREAKS_TAKE = 5.0, 64, 0.1
# How many candidates to try. Any kernel that appears once in each period would do.
_MOST_TRIED = 200
_WAIT = re.compile(r"(cuda|cu)(Device|Stream|Event|Ctx|Thread)Synchronize")


def find_periods(tables: Tables, launch: Ints, global_pid: int) -> Int64s:
    """Return when each period of a process began, and when the last one ended, by its calls.

    A period begins with a kernel that occurs once in it. Of all such kernels, the one with the longest periods is
    taken. The result is empty where nothing repeats.

    launch: the call of each row of work, or -1.
    """
    work, calls = tables.work, tables.calls
    none = np.zeros(0, dtype=np.int64)
    if calls is None or work.kernels == 0:
        return none
    mine = (work.pid_of == global_pid)[work.variant[: work.kernels]] & (launch[: work.kernels] >= 0)
    rows = np.flatnonzero(mine)
    if len(rows) < _LEAST_PERIODS * _LEAST_KERNELS:
        return none
    begun = calls.start_ns[launch[rows]]
    order = np.lexsort((work.start_ns[rows], begun))
    begun = begun[order]
    code = kernel_names(tables).of_variant[work.variant[rows[order]]]
    # A replayed graph issues many kernels by one call. It is another phase of the program than the same kernels
    # launched singly.
    issued_by = launch[rows[order]]
    calls_before = np.cumsum(np.diff(issued_by, prepend=-1) != 0)
    position = _begins(code, calls_before)
    if len(position) == 0:
        position = _begins_of_solver(code, calls_before, begun, _waits(tables, global_pid))
    found = begun[position].astype(np.int64)
    return none if len(found) and _are_pieces(found, np.diff(position)) else found


def share_of_kernels(tables: Tables, launch: Ints, global_pid: int, starts_ns: Int64s) -> float:
    """Return the share of a process's kernels that periods hold, which says how sure it is that they are steps.

    starts_ns: when each period began, and when the last one ended, by its calls.
    """
    work, calls = tables.work, tables.calls
    if calls is None or work.kernels == 0:
        return 0.0
    mine = (work.pid_of == global_pid)[work.variant[: work.kernels]] & (launch[: work.kernels] >= 0)
    begun = calls.start_ns[launch[: work.kernels][mine]]
    inside = (begun >= starts_ns[0]) & (begun < starts_ns[-1])
    return float(inside.mean()) if len(inside) else 0.0


def _are_pieces(starts_ns: Int64s, kernels: Int64s) -> bool:
    """Return whether short periods are the pieces of something longer that does not repeat.

    A server does the same few kernels for each token, or for each layer, in requests of any length: between two
    requests it waits. Then neither the pieces nor the requests are the steps of a program.

    starts_ns: when each period began, and when the last one ended.
    kernels: how many kernels each of them has.
    """
    took = np.diff(starts_ns)
    is_break = took >= _BREAK * float(np.median(took))
    runs = np.diff(np.flatnonzero(is_break))
    if float(np.median(kernels)) >= _KERNELS_OF_A_STEP or len(runs) < _LEAST_PERIODS - 1:
        return False
    if took[is_break].sum() < _BREAKS_TAKE * took.sum():
        return False
    return not bool(_are_alike(runs).all())


def _waits(tables: Tables, global_pid: int) -> Int64s:
    """Return when the host of a process waited for the GPU, in order."""
    calls = tables.calls
    if calls is None:
        return np.zeros(0, dtype=np.int64)
    is_wait = np.array([_WAIT.match(text) is not None for text in call_texts(tables)], dtype=np.bool_)
    is_wait &= (calls.tid_of & PID_MASK) == global_pid
    return np.sort(calls.start_ns[is_wait[calls.variant]])


def _begins_of_solver(code: Ints, calls_before: Int64s, begun: Int64s, waits_ns: Int64s) -> Int64s:
    """Return the same as _begins for periods of very few kernels; in each the host waits for the GPU.

    begun: when the host launched each kernel.
    waits_ns: when it waited.
    """
    none = np.zeros(0, dtype=np.int64)
    begins = _begins(code, calls_before, _LEAST_OF_SOLVER) if len(waits_ns) >= _PERIODS_OF_SOLVER else none
    periods = len(begins) - 1
    if periods < _PERIODS_OF_SOLVER or begins[-1] - begins[0] < _NEARLY_ALL * (len(code) - _LEAST_KERNELS):
        return none
    alike = np.bincount(np.diff(begins)).max()
    waited = np.diff(np.searchsorted(waits_ns, begun[begins])) > 0
    return begins if min(alike, waited.sum()) >= _NEARLY_ALL * periods else none


def _begins(code: Ints, calls_before: Int64s, least: int = _LEAST_KERNELS) -> Int64s:
    """Return where periods begin, and where the last one ends, among kernels in launch order.

    calls_before: how many calls had launched any of them up to each kernel.
    least: the fewest kernels of a period.
    """
    by_code = np.argsort(code, kind="stable")
    sorted_code = code[by_code]
    same = sorted_code[1:] == sorted_code[:-1]
    table = pd.DataFrame({"code": sorted_code[1:][same], "distance": np.diff(by_code)[same]})
    none = np.zeros(0, dtype=np.int64)
    if len(table) == 0:
        return none
    grouped = table.groupby("code", sort=True)["distance"]
    middle, count = grouped.median(), grouped.size()
    good = (count >= _LEAST_PERIODS) & (middle >= least) & (count * middle >= _LEAST_HELD * len(code))
    for anchor in middle[good].sort_values(ascending=False, kind="stable").index.tolist()[:_MOST_TRIED]:
        position = by_code[np.searchsorted(sorted_code, anchor, "left") : np.searchsorted(sorted_code, anchor, "right")]
        first, last = _longest_run(_are_alike(np.diff(position)) & _are_alike(np.diff(calls_before[position])))
        held = int(position[last] - position[first]) if last > first else 0
        if last - first >= _LEAST_PERIODS and held >= _LEAST_HELD * len(code):
            begins = position[first : last + 1]
            if _hold_the_same(code, begins):
                return begins
    return none


def _hold_the_same(code: Ints, begins: Int64s) -> bool:
    """Return whether most periods have the same kernels, in any order, by a look at some of them.

    begins: where each period begins, and where the last one ends.
    """
    periods = len(begins) - 1
    fit = _MOST_KERNELS_COMPARED * periods // int(begins[-1] - begins[0])
    count = min(periods, max(_LEAST_PERIODS, min(_MOST_COMPARED, fit)))
    parts = [
        np.unique(code[begins[number] : begins[number + 1]], return_counts=True)
        for number in np.linspace(0, periods - 1, count).astype(int).tolist()
    ]
    kinds = np.unique(np.concatenate([each for each, _ in parts]))
    held = np.zeros((count, len(kinds)), dtype=np.int64)
    for row, (each, counts) in enumerate(parts):
        held[row, np.searchsorted(kinds, each)] = counts
    typical = np.median(held, axis=0)
    same = np.minimum(held, typical).sum(axis=1) >= _SAME_KERNELS * np.maximum(held.sum(axis=1), typical.sum())
    return float(same.mean()) >= _SAME_PERIODS


def _are_alike(counts: Int64s) -> Bools:
    middle = float(np.median(counts))
    found: Bools = np.abs(counts - middle) <= _ALIKE * middle
    return found


def _longest_run(alike: Bools) -> tuple[int, int]:
    """Return the first and the end of the longest run of alike periods. A single different one does not end it."""
    bridged = alike.copy()
    bridged[1:-1] |= alike[:-2] & alike[2:]
    edges = np.flatnonzero(np.diff(np.concatenate(([False], bridged, [False])).astype(np.int8)))
    starts, ends = edges[::2], edges[1::2]
    if len(starts) == 0:
        return 0, 0
    longest = int(np.argmax(ends - starts))
    return int(starts[longest]), int(ends[longest])
