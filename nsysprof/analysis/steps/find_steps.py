"""Find the steady steps of a trace: the instances of its step range or, without one, the part that repeats."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pandas as pd

from nsysprof.analysis.attribution.library_ranges import users_ranges
from nsysprof.analysis.attribution.range_names import name_families
from nsysprof.analysis.attribution.warm_up import count_warm_up
from nsysprof.analysis.idle_time.intervals_within import union_of_groups
from nsysprof.analysis.steps.find_periods import find_periods, share_of_kernels
from nsysprof.analysis.steps.step_bounds import bound_steps, mark_slow_steps
from nsysprof.arrays import Floats, compiled, count_codes, find_places
from nsysprof.attention.range_name import parse_range
from nsysprof.results.findings import STEP, TRACE
from nsysprof.trace.schema import PID_MASK, Bools, Int64s, Ints, Tables

_LEAST_INSTANCES = 3
# The instances of a step range fill at least this share of the time from the first to the last of them.
_LEAST_FILLED = 0.5
# They also hold at least this share of all GPU time; compilation and tuning before them may take the rest.
_LEAST_WORK = 0.05
# Among ranges that fill nearly as much time (this share of the most), a range with "step" in its name goes first.
_NEARLY = 0.8
_STEP_NAME = re.compile(r"step|iter|batch|token|decode|epoch(?!s)", re.IGNORECASE)
# JAX names compiled functions that run in a domain of its own.
_XLA = "TSL"
_JITTED = re.compile(r"(TSL:)?XlaModule:#hlo_module=p?(jit|pmap)")
# A range with fewer instances counts as steps only if no other range fills as much time.
_FEW_INSTANCES = 4
_ROWS_AT_ONCE = 1 << 18


@dataclass(frozen=True)
class Steps:
    """The steady part of a trace."""

    # The step range, or "" for the whole trace.
    name: str
    # The process of the steps.
    global_pid: int
    # When the host began each steady step, and when it ended the last one.
    starts_ns: Int64s
    # When each steady step began, and when the last one ended (see step_bounds).
    bounds_ns: Int64s
    # How many instances before them were left out as warm-up.
    warmup: int
    # From when to when the same work repeats; None where nothing repeats. What happens once is not in a loop.
    loop_ns: tuple[int, int] | None
    # In a trace without a step range, the share of all kernels that the steps hold, by which they were found; 0 where
    # they do not repeat, so that the whole trace is one step.
    found_share: float = 0.0
    # When each step of the warm-up began.
    warmup_bounds_ns: Int64s = field(default_factory=lambda: np.zeros(0, dtype=np.int64))

    @property
    def are_known(self) -> bool:
        """Return whether the program repeats itself, by a range or by its kernels."""
        return self.name != "" or self.found_share > 0

    @property
    def per(self) -> str:
        """Return what the steps are called: their range, STEP where kernels alone tell them, or TRACE."""
        return self.name or (STEP if self.are_known else TRACE)

    @property
    def found_pct(self) -> float | None:
        """Return the share of all kernels that the steps hold (percent); None where a range names them."""
        return 100 * self.found_share if self.found_share else None

    @property
    def count(self) -> int:
        """Return how many steps there are; 1 for the trace as a whole."""
        return len(self.starts_ns) - 1

    @cached_property
    def is_slow(self) -> Bools:
        """Return which steady steps took unusually long."""
        return mark_slow_steps(np.diff(self.bounds_ns))

    @property
    def step_ns(self) -> float:
        """Return how long a step takes: the mean of the steady steps that are not slow (ns)."""
        return float(np.diff(self.bounds_ns)[~self.is_slow].mean())


def find_steps(tables: Tables, ranges: pd.DataFrame) -> Steps | None:
    """Return the steady part of a trace; None where nothing ran.

    ranges: instances with name, start_ns, end_ns and global_tid.
    """
    if len(tables.work) == 0:
        return None
    launch = tables.launch
    found = _step_range(tables, launch, ranges)
    if found is not None:
        return found
    pid = _busiest_process(tables)
    starts = np.zeros(0, dtype=np.int64) if is_grid(ranges) else find_periods(tables, launch, pid)
    if len(starts):
        return _steady(tables, "", pid, starts, share_of_kernels(tables, launch, pid, starts))
    bounds = np.array([tables.work.start_ns.min(), tables.work.last_end_ns()], dtype=np.int64)
    return Steps("", pid, bounds, bounds, 0, _find_loop(tables))


def is_grid(ranges: pd.DataFrame) -> bool:
    """Return whether the ranges are cases of a grid, which do not form one program together."""
    return any(parse_range(name) is not None for name in ranges["name"].unique().tolist())


def _busiest_process(tables: Tables) -> int:
    """Return the process with most work."""
    work = tables.work
    total = np.zeros(len(work.variants))
    np.add.at(total, work.variant, work.duration_ns.astype(np.float64))
    pids, code = np.unique(work.pid_of, return_inverse=True)
    return int(pids[np.argmax(np.bincount(code, weights=total))])


def _step_range(tables: Tables, launch: Ints, ranges: pd.DataFrame) -> Steps | None:
    """Return the range that the program repeats and that contains most of its work.

    Ranges of libraries say nothing about the program, apart from XLA's name of a function that JAX compiled.
    """
    of_program = users_ranges(ranges) & (ranges["domain"] != _XLA).to_numpy(dtype=bool)
    found = _repeated_range(tables, launch, ranges[of_program])
    if found is None and not of_program.all():
        jitted = [_JITTED.match(name) is not None for name in ranges["name"].tolist()]
        found = _repeated_range(tables, launch, ranges[np.array(jitted, dtype=bool)])
    return found


def _repeated_range(tables: Tables, launch: Ints, ranges: pd.DataFrame) -> Steps | None:
    if len(ranges) < _LEAST_INSTANCES:
        return None
    names = name_families(ranges["name"].tolist())
    tids = ranges["global_tid"].to_numpy(np.int64)
    name_code, texts = pd.factorize(np.array(names, dtype=object))
    tid_code, threads = pd.factorize(tids)
    code, pairs = pd.factorize(name_code.astype(np.int64) * len(threads) + tid_code)
    keys = [(texts[pair // len(threads)], threads[pair % len(threads)]) for pair in pairs.tolist()]
    start, end = ranges["start_ns"].to_numpy(np.int64), ranges["end_ns"].to_numpy(np.int64)
    group, low, high = union_of_groups(code.astype(np.int64), start, end)
    filled, count = np.zeros(len(keys), np.int64), np.bincount(code, minlength=len(keys))
    np.add.at(filled, group, high - low)
    first, last = np.full(len(keys), np.iinfo(np.int64).max), np.full(len(keys), np.iinfo(np.int64).min)
    np.minimum.at(first, code, start)
    np.maximum.at(last, code, end)
    inside, since = _work_inside(tables, launch, (group, low, high), first)
    good = (count >= _LEAST_INSTANCES) & (filled >= _LEAST_FILLED * (last - first))
    good &= (inside >= _LEAST_FILLED * since) & (inside >= _LEAST_WORK)
    # Instances that overlap are nested, so they are not steps.
    order = np.lexsort((start, code))
    nested = (code[order][1:] == code[order][:-1]) & (start[order][1:] < end[order][:-1])
    good &= np.bincount(code[order][1:][nested], minlength=len(keys)) == 0
    if not good.any():
        return None
    edges = np.searchsorted(code[order], np.arange(len(keys) + 1))
    series = {number: order[edges[number] : edges[number + 1]] for number in np.flatnonzero(good).tolist()}
    chosen = _choose(keys, {number: (end - start)[rows] for number, rows in series.items()})
    mine, tid = series[chosen], int(keys[chosen][1])
    begun = np.append(start[mine], end[mine][-1])
    return _steady(tables, str(keys[chosen][0]), tid & PID_MASK, begun)


def _choose(keys: list[tuple[str, int]], walls_ns: dict[int, Int64s]) -> int:
    """Return which of several ranges is the step: one that fills the most time, or nearly as much and is named so.

    A compiler works within the first instances of a layer, so only the time after the warm-up counts.

    keys: name and thread of each range.
    walls_ns: the time of each instance of those that could be it, in order of start.
    """
    filled = {number: int(walls[count_warm_up(walls) :].sum()) for number, walls in walls_ns.items()}
    near = [number for number in filled if filled[number] >= _NEARLY * max(filled.values())]
    named = [number for number in near if _STEP_NAME.search(str(keys[number][0]))]
    return max(named or near, key=lambda number: (len(walls_ns[number]) > _FEW_INSTANCES, filled[number]))


def _steady(tables: Tables, name: str, pid: int, starts: Int64s, found_share: float = 0.0) -> Steps:
    """Return the steps after the warm-up. Time between two of them belongs to the earlier one.

    starts: when the host began each step, and when it ended the last one.
    found_share: the share of all kernels that they hold, where no range names them.
    """
    bounds = bound_steps(tables, pid, starts)
    warmup = count_warm_up(np.diff(bounds))
    kept = starts[warmup:]
    loop = int(kept[0]), int(kept[-1])
    return Steps(name, pid, kept, bounds[warmup:], warmup, loop, found_share, bounds[:warmup])


def _work_inside(
    tables: Tables, launch: Ints, instances: tuple[Int64s, Int64s, Int64s], first: Int64s
) -> tuple[Floats, Floats]:
    """Return two shares of all GPU time for each group: issued within its instances, and from its first one on.

    The GPU may run the work much later.

    instances: group, start and end.
    """
    group, low, high = instances
    if (add := compiled("sum_between", len(tables.work))) is not None:
        before_low, upto_high, before_first = _shares_until(add, tables, launch, (low - 1, high, first - 1))
    else:
        begins, total = _issued_shares(tables, launch)
        before_low, upto_high = total[find_places(begins, low)], total[find_places(begins, high, "right")]
        before_first = total[find_places(begins, first)]
    inside: Floats = np.zeros(len(first))
    np.add.at(inside, group, upto_high - before_low)
    return inside, 1.0 - before_first


def _shares_until(
    add: Callable[..., int], tables: Tables, launch: Ints, times: tuple[Int64s, ...]
) -> tuple[Floats, ...]:
    """Return the share of all GPU time that was issued up to each time, by compiled code."""
    work, calls = tables.work, tables.calls
    every = np.concatenate(times)
    order = np.argsort(every)
    part = np.zeros(len(every) + 1, dtype=np.int64)
    begins = np.zeros(0, dtype=np.int64) if calls is None else calls.start_ns
    add(launch, begins, len(begins), work.start_ns, work.duration_ns, every[order], len(every), part)
    total = np.cumsum(part).astype(np.float64)
    total /= max(total[-1], 1.0)
    found = np.empty(len(every))
    found[order] = total[:-1]
    return tuple(np.split(found, np.cumsum([len(each) for each in times])[:-1]))


def _issued_shares(tables: Tables, launch: Ints) -> tuple[Int64s, Floats]:
    """Return when each piece of work was issued, in order, and the share of all GPU time before each, and in all."""
    work, begins = tables.work, tables.work.start_ns
    if tables.calls is not None and len(tables.calls):
        begins = tables.calls.start_ns[launch]
        unknown = launch < 0
        begins[unknown] = work.start_ns[unknown]
    order = slice(None) if bool((begins[1:] >= begins[:-1]).all()) else np.argsort(begins, kind="stable")
    total = np.zeros(len(begins) + 1)
    np.cumsum(work.duration_ns[order], out=total[1:])
    total /= max(total[-1], 1.0)
    return begins[order], total


def _find_loop(tables: Tables) -> tuple[int, int] | None:
    """Return from when every frequent kernel has run once until the last of them ran; None without frequent ones."""
    work = tables.work
    count = count_codes(work.variant[: work.kernels], len(work.variants))
    often = count >= max(_LEAST_INSTANCES, int(count.max(initial=0)) // 10)
    if not often.any():
        return None
    far = np.iinfo(np.int64)
    once, first, last = np.full(len(work.variants), far.max), far.max, far.min
    for low in range(0, work.kernels, _ROWS_AT_ONCE):
        rows = low + np.flatnonzero(often[work.variant[low : min(low + _ROWS_AT_ONCE, work.kernels)]])
        end = work.ends_ns(rows)
        np.minimum.at(once, work.variant[rows], end)
        first = min(first, int(work.start_ns[rows].min(initial=far.max)))
        last = max(last, int(end.max(initial=far.min)))
    seen = int(once[often].max())
    return (seen if seen - first < (last - first) // 2 else first), last
