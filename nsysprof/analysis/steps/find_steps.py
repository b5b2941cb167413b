"""Find the steady steps of a trace: the instances of its step range or, without one, the part that repeats.

Give the step range the warm-up of the steps, so that tables of ranges and the time of a step tell the same.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import pandas as pd

from nsysprof.analysis.attribution.attribute import Attributed
from nsysprof.analysis.attribution.intervals import union_of_groups
from nsysprof.analysis.attribution.library_ranges import users_ranges
from nsysprof.analysis.attribution.range_names import name_families
from nsysprof.analysis.attribution.range_structure import SteadyFrom, count_warm_up
from nsysprof.analysis.idle_time.call_classes import call_texts
from nsysprof.analysis.kernel_names.variant_names import kernel_names
from nsysprof.analysis.steps.step_bounds import bound_steps, mark_slow_steps
from nsysprof.arrays import Floats, count_codes, find_places
from nsysprof.attention.range_name import parse_range
from nsysprof.results.findings import MEAN_STEP, STEP, TRACE
from nsysprof.trace.schema import NULL, PID_MASK, Bools, Int64s, Ints, Tables

# Fewer instances of a range are no steps.
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
# Fewer periods are no steps.
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
# So many periods are compared, with so many kernels in all.
_MOST_COMPARED, _MOST_KERNELS_COMPARED = 32, 1_000_000
# A period that takes this many times as long as most ends with a pause. Periods of fewer kernels than a step usually
# has are pieces of something longer if such pauses come at unequal distances and take at least this share of the time.
_BREAK, _KERNELS_OF_A_STEP, _BREAKS_TAKE = 5.0, 64, 0.1
# Kernels of optimizers. A period without any is a micro-batch where every second, third, ... of the periods has them.
_OF_OPTIMIZER = re.compile(r"multi_tensor_apply|[Ff]used_?[Aa]dam|[Ff]used_?[Ss]gd")
# Kernels that a step of a network has once or in one place, and its layers have not: of embeddings, losses, the choice
# of a token, and optimizers. Rotary embeddings belong to layers.
_OF_STEP = re.compile(
    r"(?<!rotary_)(?<!rotary)embedding|indexSelect|vectorized_gather|nll_loss|cross_entropy|mse_kernel|ArgMax|argmax"
    rf"|{_OF_OPTIMIZER.pattern}|LogSoftMax|sampling|binary_cross_entropy|smooth_l1"
)
# Where layers repeat, so many steps that hold the same kernels are enough.
_LEAST_STEPS = 2
# Ranges with such names are at least a step, so periods inside them are pieces of it.
_HOLDS_PIECES = re.compile(r"forward|backward|\b[fb]wd|step|iter", re.IGNORECASE)
# How many candidates to try. Any kernel that appears once in each period would do.
_MOST_TRIED = 200


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
    # When each step of the warm-up began, and when the host began it.
    warmup_bounds_ns: Int64s = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    warmup_starts_ns: Int64s = field(default_factory=lambda: np.zeros(0, dtype=np.int64))

    @property
    def are_known(self) -> bool:
        """Return whether the program repeats itself, by a range or by its kernels."""
        return self.name != "" or self.found_share > 0

    @property
    def per(self) -> str:
        """Return what the steps are called: their range, STEP where kernels alone tell them, or TRACE."""
        if self.name in (TRACE, MEAN_STEP):  # what stands for something else where numbers are told
            return f"range {self.name}"
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
    def all_starts_ns(self) -> Int64s:
        """Return when the host began each step, those of the warm-up first, and when it ended the last one."""
        return np.concatenate((self.warmup_starts_ns, self.starts_ns))

    @property
    def all_bounds_ns(self) -> Int64s:
        """Return when each step began, those of the warm-up first, and when the last one ended."""
        return np.concatenate((self.warmup_bounds_ns, self.bounds_ns))

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
    steps = _step_range(tables, launch, ranges)
    if steps is not None:
        return steps
    pid = _busiest_process(tables)
    starts = np.zeros(0, dtype=np.int64) if is_grid(ranges) else find_periods(tables, launch, pid)
    if len(starts) and _lie_inside(starts, ranges, pid):
        starts = starts[:0]
    if len(starts):
        return _steady(tables, "", pid, starts, share_of_kernels(tables, launch, pid, starts))
    bounds = np.array([tables.work.start_ns.min(), tables.work.last_end_ns()], dtype=np.int64)
    return Steps("", pid, bounds, bounds, 0, _find_loop(tables))


def _lie_inside(starts_ns: Int64s, ranges: pd.DataFrame, pid: int) -> bool:
    """Return whether several periods lie in one forward or backward pass, or in one step, as a range names it."""
    number, names = pd.factorize(ranges["name"])
    named = np.array([_HOLDS_PIECES.search(name) is not None for name in names], dtype=bool)[number]
    mine = ranges[named & users_ranges(ranges) & ((ranges["global_tid"] & PID_MASK) == pid).to_numpy(dtype=bool)]
    start, end = mine["start_ns"].to_numpy(np.int64), mine["end_ns"].to_numpy(np.int64)
    whole = np.searchsorted(starts_ns, end, side="right") - np.searchsorted(starts_ns, start) - 1
    return bool(len(whole)) and int(whole.max()) >= 2 and int(whole[whole > 0].sum()) * 2 >= len(starts_ns) - 1


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
    steps = _repeated_range(tables, launch, ranges[of_program])
    if steps is None and not of_program.all():
        jitted = [_JITTED.match(name) is not None for name in ranges["name"].tolist()]
        steps = _repeated_range(tables, launch, ranges[np.array(jitted, dtype=bool)])
    return steps


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
    if _is_cut(tables, int(begun[-2]), int(begun[-1])):
        begun = begun[:-1]
    if len(begun) <= _LEAST_INSTANCES:
        return None
    return _steady(tables, str(keys[chosen][0]), tid & PID_MASK, begun)


def _is_cut(tables: Tables, start_ns: int, end_ns: int) -> bool:
    """Return whether a range was still open when the recording ended: nsys gives it no end, or all such the same."""
    assert tables.ranges is not None
    start, end = (tables.ranges[name].to_numpy(np.int64) for name in ("start_ns", "end_ns"))
    is_last = end_ns >= max(int(end.max()), tables.work.last_end_ns())
    return is_last and bool(((start == start_ns) & (end == NULL)).any() or len(np.unique(start[end == end_ns])) > 1)


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
    warmup = max(count_warm_up(np.diff(bounds)), _until_marks(tables, pid, starts))
    kept = starts[warmup:]
    loop = int(kept[0]), int(kept[-1])
    return Steps(name, pid, kept, bounds[warmup:], warmup, loop, found_share, bounds[:warmup], starts[:warmup])


def _until_marks(tables: Tables, pid: int, starts: Int64s) -> int:
    """Return how many steps begin before the last one whose operators were recorded has ended.

    Their times say little: these steps are slow, and those before them are few. Return 0 where too few follow.
    """
    ends = tables.marks[tables.marks[:, 2] == pid, 1]
    before = int(np.searchsorted(starts, ends.max())) if len(ends) else 0
    return before if len(starts) - before > 2 else 0


def _work_inside(
    tables: Tables, launch: Ints, instances: tuple[Int64s, Int64s, Int64s], first: Int64s
) -> tuple[Floats, Floats]:
    """Return two shares of all GPU time for each group: issued within its instances, and from its first one on.

    The GPU may run the work much later.

    instances: group, start and end.
    """
    group, low, high = instances
    begins, total = _issued_shares(tables, launch)
    before_low, upto_high = total[find_places(begins, low)], total[find_places(begins, high, "right")]
    before_first = total[find_places(begins, first)]
    inside: Floats = np.zeros(len(first))
    np.add.at(inside, group, upto_high - before_low)
    return inside, 1.0 - before_first


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
    names = kernel_names(tables)
    code = names.of_variant[work.variant[rows[order]]]
    # A replayed graph issues many kernels by one call. It is another phase of the program than the same kernels
    # launched singly.
    issued_by = launch[rows[order]]
    calls_before = np.cumsum(np.diff(issued_by, prepend=-1) != 0)
    position = _begins(code, calls_before)
    of_step = np.array([_OF_STEP.search(str(text)) is not None for text in names.texts], dtype=bool)[code]
    if len(position) and of_step.any() and not _have_each(of_step, position):
        # The periods are layers. Their steps begin with a kernel that layers have not.
        position = _begins(code, calls_before, is_anchor=of_step, periods=_LEAST_STEPS)
        return begun[position].astype(np.int64)
    is_optimizer = np.array([_OF_OPTIMIZER.search(str(text)) is not None for text in names.texts], dtype=bool)[code]
    position = _join_micro_batches(position, is_optimizer)
    if len(position) == 0:
        position = _begins_of_solver(code, calls_before, begun, _waits(tables, global_pid))
    starts = begun[position].astype(np.int64)
    return none if len(starts) and _are_pieces(starts, np.diff(position)) else starts


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


def _have_each(of_step: Bools, begins: Int64s) -> bool:
    """Return whether most periods have a kernel that only a step has."""
    counts = np.diff(np.concatenate(([0], np.cumsum(of_step)))[begins])
    return float((counts > 0).mean()) >= _SAME_PERIODS


def _join_micro_batches(begins: Int64s, is_optimizer: Bools) -> Int64s:
    """Return where steps begin, and where the last one ends, if the periods are micro-batches of equally many a step.

    begins: where each period begins, and where the last one ends.
    is_optimizer: which kernels are an optimizer's.
    """
    if len(begins) == 0:
        return begins
    ends = np.flatnonzero(np.diff(np.concatenate(([0], np.cumsum(is_optimizer)))[begins]) > 0) + 1
    every = np.diff(ends)
    if len(ends) < _LEAST_STEPS or every[0] < 2 or (every != every[0]).any():
        return begins
    first = [ends[0] - every[0]] if ends[0] >= every[0] else []
    steps: Int64s = begins[np.concatenate((first, ends)).astype(np.int64)]
    return steps if len(steps) > _LEAST_STEPS else begins


def _begins(
    code: Ints,
    calls_before: Int64s,
    least: int = _LEAST_KERNELS,
    is_anchor: Bools | None = None,
    periods: int = _LEAST_PERIODS,
) -> Int64s:
    """Return where periods begin, and where the last one ends, among kernels in launch order.

    calls_before: how many calls had launched any of them up to each kernel.
    least: the fewest kernels of a period.
    is_anchor: with which kernels a period may begin; None: with any.
    periods: the fewest periods.
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
    good = (count >= periods) & (middle >= least) & (count * middle >= _LEAST_HELD * len(code))
    if is_anchor is not None:
        good &= np.isin(middle.index.to_numpy(), np.unique(code[is_anchor]))
    for anchor in middle[good].sort_values(ascending=False, kind="stable").index.tolist()[:_MOST_TRIED]:
        position = by_code[np.searchsorted(sorted_code, anchor, "left") : np.searchsorted(sorted_code, anchor, "right")]
        first, last = _longest_run(_are_alike(np.diff(position)) & _are_alike(np.diff(calls_before[position])))
        held = int(position[last] - position[first]) if last > first else 0
        if last - first >= periods and held >= _LEAST_HELD * len(code):
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
    count = min(periods, max(_LEAST_STEPS, min(_MOST_COMPARED, fit)))
    parts = [
        np.unique(code[begins[number] : begins[number + 1]], return_counts=True)
        for number in np.linspace(0, periods - 1, count).astype(int).tolist()
    ]
    kinds = np.unique(np.concatenate([codes for codes, _ in parts]))
    held = np.zeros((count, len(kinds)), dtype=np.int64)
    for row, (codes, counts) in enumerate(parts):
        held[row, np.searchsorted(kinds, codes)] = counts
    typical = np.median(held, axis=0)
    same = np.minimum(held, typical).sum(axis=1) >= _SAME_KERNELS * np.maximum(held.sum(axis=1), typical.sum())
    return float(same.mean()) >= _SAME_PERIODS


def _are_alike(counts: Int64s) -> Bools:
    middle = float(np.median(counts))
    are_alike: Bools = np.abs(counts - middle) <= _ALIKE * middle
    return are_alike


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


# Each thread costs a look at all work. More threads with steps than this keep the warm-up by the time of the host.
_MOST_THREADS = 16


def settle_steps(tables: Tables, attributed: Attributed, steps: Steps | None) -> Attributed:
    """Return the ranges with the warm-up of the step range decided by when the GPU had done each step.

    The host's time of a step changes for as long as the host runs ahead of the GPU, while steps take equally long.
    """
    if steps is None or not steps.name:
        return attributed
    families = name_families(attributed.keys["name"].tolist())
    is_step = np.array([family == steps.name for family in families], dtype=bool)
    ranges = attributed.ranges[is_step[attributed.ranges["group"].to_numpy(dtype=np.int64)]]
    steady_from = []
    for tid, mine in list(ranges.groupby("global_tid", sort=False))[:_MOST_THREADS]:
        start = mine["start_ns"].to_numpy(dtype=np.int64)
        issued = np.append(start, mine["end_ns"].to_numpy(dtype=np.int64)[-1])
        if bool((np.diff(issued) > 0).all()):
            warmup = count_warm_up(np.diff(bound_steps(tables, int(tid) & PID_MASK, issued)))
            steady_from.append(SteadyFrom(steps.name, int(tid), int(issued[warmup])))
    return replace(attributed, steady_from=tuple(steady_from))
