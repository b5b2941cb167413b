"""Gather what the search for findings needs: the execution graph, with the names of its calls, kernels and ranges.

Compute how much of something a step has, in the same steps whose time a replay gives: all but the first of several.

The first replayed step only prepares the state. If it counted, a text would name other times than those it saves.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from nsysprof.analysis.attribution.intervals import measure, union_of_groups
from nsysprof.analysis.busy_time.operators import OperatorCall, Operators
from nsysprof.analysis.findings.slowed_copies import LARGE_COPY_BYTES, unslowed_durations
from nsysprof.analysis.idle_time.call_classes import CallClasses, call_texts
from nsysprof.analysis.idle_time.host_holds import COLLECTING, COMPILING, WAITING, find_host_holds
from nsysprof.analysis.kernel_names.variant_names import Names, Texts, kernel_names
from nsysprof.analysis.ranges.open_range import innermost_ranges, open_ranges
from nsysprof.analysis.replay.replay import ExecutionGraph, ReplayChange, count_periods, no_change, replay
from nsysprof.analysis.steps.find_steps import Steps
from nsysprof.results.roof import Peak
from nsysprof.trace.schema import COPY, FILL, MIGRATION, PID_MASK, Bools, Floats, Int64s, Tables

HOST_TO_DEVICE, DEVICE_TO_HOST = 1, 2
# What the trace says of an event of memory: that it was freed, and that it is device memory, or an array in it.
_FREED, _DEVICE_KINDS = 1, (2, 3)
_MAPS_MEMORY = re.compile(r"cuMem(Address|Create|Map|Unmap|Release|SetAccess|Export|Import)")

# A range with this share of a finding's work (percent) is its place without more words.
_NEARLY_ALL_PCT = 90.0


@dataclass(frozen=True)
class WorkOperators:
    """The operators that launched the work of a graph, as far as they are known.

    calls: of the recorded step. call: which of them launched each piece of work; -1 unknown.
    floor_ns: the share of each piece in its operator's floor; NaN where it is unknown.
    peak: the rates of the floors.
    """

    calls: tuple[OperatorCall, ...]
    call: Int64s
    floor_ns: Floats
    peak: Peak | None

    @classmethod
    def of(cls, found: Operators | None, work_row: Int64s, is_kernel: Bools) -> WorkOperators:
        """Return the operators of pieces of work by their rows."""
        call, floor = np.full(len(work_row), -1, dtype=np.int64), np.full(len(work_row), np.nan)
        if found is None:
            return cls((), call, floor, None)
        call[is_kernel] = found.call_of_kernel[work_row[is_kernel]]
        floor[is_kernel] = found.needs.floor_ns[work_row[is_kernel]]
        return cls(found.calls, call, floor, found.peak)

    @cached_property
    def has_facts(self) -> Bools:
        """Return whether the tensors of its operator are known, for each piece of work."""
        known: Bools = np.array([*(call.facts is not None for call in self.calls), False], dtype=np.bool_)[self.call]
        return known


@dataclass(frozen=True)
class Situation:
    """An execution graph, with facts about each call and each piece of work."""

    graph: ExecutionGraph
    # How many steps the graph holds, and the time of how many steps a replay takes. Without steps, both are fractions
    # of the trace.
    share: float
    periods: float
    # Whether the graph consists of steps.
    is_looped: bool

    # Facts about calls. Whether the call is in the repeating part, and not in the program's beginning or end.
    in_loop: Bools
    # Whether NCCL made the call for itself: inside one of its ranges, or to map memory on a thread that issues no work.
    is_of_nccl: Bools
    # The class of the call (see CallClasses).
    call_class: Int64s
    is_wait: Bools
    is_blocking_copy: Bools
    call_name: Texts
    call_start_ns: Int64s
    call_ns: Int64s
    # How much of the host's time before the call the profiler took.
    profiler_ns: Int64s
    # How much of it Python collected garbage on this thread, a compiler ran there, and it waited for work.
    collected_ns: Int64s
    compiled_ns: Int64s
    waited_ns: Int64s
    # How much of it the thread took a batch from a data loader; the program's own work and its waits are in it.
    loaded_ns: Int64s
    # The innermost range of the call, and of the host's time before it.
    range_of: Texts
    range_before: Texts

    # Facts about work. Its kernel name; "" where it is not a kernel.
    kernel_name: Texts
    kernel_number: Int64s
    names: Names
    category: Texts
    is_copy: Bools
    is_fill: Bools
    bytes: Int64s
    copy_kind: Int64s
    host_kind: Int64s
    # The call that issued the work.
    call: Int64s

    # The name of the GPU.
    board: str
    # The rate of large copies by direction (bytes/s), where the trace has pinned ones.
    pinned_rate: dict[int, float]
    # The shortest time (ns) of the trace's large copies between host and device, by direction, kind of host memory
    # and size.
    fastest_copies: dict[tuple[int, int, int], int]
    # How long each piece of work takes (ns) where no memory was given back before it, as far as the trace shows it.
    unslowed_ns: Int64s
    # The device memory that calls allocated and gave back.
    given_back: GivenBack
    # Whether calls of the system were recorded, which tell waits for work.
    knows_waits: bool
    # What was compiled on these threads meanwhile, as in Tables.
    compiles: pd.DataFrame
    # The operators that launched the work.
    operators: WorkOperators

    @property
    def held_ns(self) -> Int64s:
        """Return how much of the host's time before each call has a cause of its own, beside the profiler (ns)."""
        held: Int64s = self.collected_ns + self.compiled_ns + self.waited_ns
        return held

    @property
    def own_ns(self) -> Int64s:
        """Return the time before each call that is neither of these nor the profiler's: the program's own work."""
        own: Int64s = self.graph.gap_ns - self.profiler_ns - self.held_ns
        return own

    def hold_less(self, calls: Bools, held_ns: Int64s, left: float) -> ReplayChange:
        """Return the change in which this part (0 to 1) is left of what holds up the host before some calls."""
        gap_ns, saved_ns = self.graph.gap_ns, (held_ns * (1 - left)).astype(np.int64)
        return replace(no_change(self.graph), gap_ns=np.where(calls, np.maximum(gap_ns - saved_ns, 0), gap_ns))

    @property
    def is_slowed(self) -> Bools:
        """Return which work the trace shows to be slowed by memory that was given back."""
        slowed: Bools = self.unslowed_ns < self.graph.duration_ns
        return slowed

    @property
    def is_stream_wait(self) -> Bools:
        """Return which calls make a stream wait for an event."""
        code, names = pd.factorize(self.call_name)
        waits: Bools = np.array(["StreamWaitEvent" in str(name) for name in names], dtype=bool)[code]
        return waits

    def range_most(self, calls: Bools) -> str:
        """Return the range that contains most of the calls."""
        count_by_range = Counter(self.range_of[calls].tolist())
        return str(count_by_range.most_common(1)[0][0]) if count_by_range else ""

    def range_of_most(self, work: Bools, spent_ns: Int64s | None = None) -> str:
        """Return the range whose calls issued most of the work, by its time or that part of it that is given (ns)."""
        return next((name for name, _ in self._time_by_range(work, spent_ns).most_common(1)), "")

    def other_ranges(self, calls: Bools, place: str) -> int:
        """Return how many other ranges hold a part of what some calls did; 0 where it is nearly all in one or two.

        The parts are of the time of the calls' work, or of their number where they have none.
        """
        work = self.work_of(calls)
        parts = self._time_by_range(work) if work.any() else Counter(map(str, self.range_of[calls].tolist()))
        others = len(parts.keys() - {place})
        return others if others > 1 and 100 * parts[place] < _NEARLY_ALL_PCT * sum(parts.values()) else 0

    def elsewhere(self, work: Bools) -> str:
        """Return a sentence on how much of the work range_of_most holds.

        It is "" where nearly all of it is there, or in one other range, such as the backward pass.
        """
        time_by_range = self._time_by_range(work)
        others = len(time_by_range) - 1
        if others < 2:
            return ""
        place, most = time_by_range.most_common(1)[0]
        share = 100 * most / max(1, sum(time_by_range.values()))
        if share >= _NEARLY_ALL_PCT:
            return ""
        where = f"in {place}" if place else "outside of ranges"
        return f" {share:.0f} % of it is {where}, the rest in {others} other ranges."

    def _time_by_range(self, work: Bools, spent_ns: Int64s | None = None) -> Counter[str]:
        time_by_range: Counter[str] = Counter()
        duration = (self.graph.duration_ns if spent_ns is None else spent_ns)[work].tolist()
        for name, spent in zip(self.range_of[self.call[work]].tolist(), duration, strict=True):
            time_by_range[str(name)] += spent
        return time_by_range

    def kernels_named(self, decide: Callable[[str], bool]) -> Bools:
        """Return which work is a kernel whose name is decided for."""
        decided = [decide(str(name)) for name in self.names.texts]
        named: Bools = np.array([*decided, False], dtype=np.bool_)[self.kernel_number]
        return named

    def work_of(self, calls: Bools) -> Bools:
        """Return which work these calls issued."""
        issued: Bools = calls[self.call]
        return issued

    def calls_of(self, work: Bools) -> Bools:
        """Return which calls issued any of this work."""
        issuing = np.zeros(len(self.call_ns), dtype=np.bool_)
        issuing[self.call[work]] = True
        return issuing

    def leading_to(self, calls: Bools) -> Bools:
        """Return these calls, and before each of them the calls without work since the last call with work."""
        issues = np.diff(self.graph.first_work) > 0
        positions = np.flatnonzero(issues | calls)
        if len(positions) == 0:
            return calls
        following = np.searchsorted(positions, np.arange(len(calls)), "left")
        target = positions[np.minimum(following, len(positions) - 1)]
        leading: Bools = (following < len(positions)) & calls[target]
        return leading


def describe_steps(situation: Situation, steps: Steps) -> dict[str, Any]:
    """Return the fields of ReplayedSteps."""
    graph = situation.graph
    first = steps.warmup + graph.first_step + int(graph.first_calls > 0)
    return {
        "per": steps.per,
        "step_ns": round(steps.step_ns),
        "usual_steps": int((~steps.is_slow).sum()),
        "warmup": steps.warmup,
        "steps": graph.steps if steps.are_known else 1,
        "first_step": first,
        "last_step": steps.warmup + graph.first_step + graph.steps - 1,
        "recorded_ns": int(graph.recorded_ns / situation.periods),
        "replayed_ns": int(replay(graph) / situation.periods),
        "found_pct": None if steps.found_pct is None else round(steps.found_pct, 1),
    }


def threads_of_calls(tables: Tables, graph: ExecutionGraph) -> Int64s:
    """Return the thread (globalTid) of each call of a graph."""
    assert tables.calls is not None
    return tables.calls.tid_of[tables.calls.variant[graph.row]].astype(np.int64)


def look_at(
    tables: Tables,
    graph: ExecutionGraph,
    classes: CallClasses,
    ranges: pd.DataFrame,
    steps: Steps,
    operators: Operators | None = None,
) -> Situation:
    """Return the facts about the calls and the work of a graph."""
    calls, work = tables.calls, tables.work
    assert calls is not None
    names = kernel_names(tables)
    number = names.of_variant[work.variant[graph.work_row]]
    is_kernel = graph.work_row < work.kernels
    kind = work.kinds(graph.work_row)
    other = np.maximum(graph.work_row - work.kernels, 0)
    none = np.full(len(graph.work_row), -1, dtype=np.int64)

    def of_others(values: Int64s, otherwise: Int64s) -> Int64s:
        return otherwise if len(values) == 0 else np.where(is_kernel, otherwise, values[other])

    device = work.device_of[work.variant[graph.work_row[0]]]
    gpu = next((gpu for gpu in tables.devices if gpu.device_id == device), None)
    tid, start = calls.tid_of[calls.variant[graph.row]], calls.start_ns[graph.row]
    pid = int(calls.tid_of[calls.variant[graph.row[0]]]) & PID_MASK
    of_process = ((work.pid_of == pid) & (work.kind_of != MIGRATION))[work.variant]
    part = min(1.0, len(graph.work_row) / max(1, int(of_process.sum())))
    call_name = np.array(call_texts(tables), dtype=object)[calls.variant[graph.row]]
    holds = find_host_holds(tables)
    return Situation(
        graph=graph,
        share=graph.steps if steps.are_known else part,
        periods=count_periods(graph) if steps.are_known else part,
        is_looped=steps.are_known,
        in_loop=_is_within(start, steps.loop_ns or (0, 0)),
        is_of_nccl=_made_by_nccl(tables, ranges, tid.astype(np.int64), start, call_name),
        call_class=classes.of(graph.row).astype(np.int64),
        is_wait=classes.is_wait(graph.row),
        is_blocking_copy=classes.is_blocking_copy(graph.row),
        call_name=call_name,
        call_start_ns=start.astype(np.int64),
        profiler_ns=_time_before(tables.overheads, tid, start, graph.gap_ns),
        collected_ns=holds.time_before(COLLECTING, tid, start, graph.gap_ns),
        compiled_ns=holds.time_before(COMPILING, tid, start, graph.gap_ns),
        waited_ns=holds.time_before(WAITING, tid, start, graph.gap_ns),
        loaded_ns=_time_before(tables.loads, tid, start, graph.gap_ns),
        knows_waits=tables.waits is not None,
        call_ns=calls.duration_ns[graph.row].astype(np.int64),
        range_of=innermost_ranges(ranges, tid, start),
        range_before=innermost_ranges(ranges, tid, start - graph.gap_ns // 2),
        kernel_name=np.where(is_kernel, names.texts[number], ""),
        kernel_number=np.where(is_kernel, number, -1).astype(np.int64),
        names=names,
        category=np.where(is_kernel, names.category[number], ""),
        is_copy=kind == COPY,
        is_fill=kind == FILL,
        bytes=of_others(work.bytes, np.zeros(len(none), dtype=np.int64)),
        copy_kind=of_others(work.copy_kind, none),
        host_kind=of_others(work.host_kind.astype(np.int64), none),
        call=np.repeat(np.arange(len(graph.row)), np.diff(graph.first_work)),
        board="" if gpu is None else gpu.name,
        pinned_rate=_pinned_rates(tables),
        fastest_copies=_fastest_copies(tables),
        unslowed_ns=unslowed_durations(tables, pid, int(device))[graph.work_row].astype(np.int64),
        given_back=find_given_back(tables, graph.row, pid, int(device)),
        compiles=_compiles_between(tables.compiles, tid, start, graph.gap_ns),
        operators=WorkOperators.of(operators, graph.work_row, is_kernel),
    )


def _is_within(times_ns: Int64s, bounds: tuple[int, int]) -> Bools:
    inside: Bools = (times_ns >= bounds[0]) & (times_ns < bounds[1])
    return inside


def _compiles_between(compiles: pd.DataFrame | None, tid: Int64s, start: Int64s, gap: Int64s) -> pd.DataFrame:
    """Return what was compiled on the threads of calls, from the host time before the first to the last of them."""
    if compiles is None or len(start) == 0:
        return pd.DataFrame(columns=["start_ns", "end_ns", "global_tid", "kind", "what", "place", "why"])
    first = int((start - np.maximum(gap, 0)).min())
    during = (compiles["start_ns"] < start.max()) & (compiles["end_ns"] > first)
    of_threads: pd.DataFrame = compiles[during & compiles["global_tid"].isin(np.unique(tid))]
    return of_threads


def _made_by_nccl(tables: Tables, ranges: pd.DataFrame, tid: Int64s, start: Int64s, name: Texts) -> Bools:
    """Return which calls set up NCCL's communication, which it does once, at the first collective of a kind."""
    setting_up = np.zeros(len(tid), dtype=np.bool_)
    own = ranges[(ranges["domain"] == "NCCL").to_numpy(dtype=bool)] if len(ranges) else ranges
    if len(own) == 0 or tables.calls is None:
        return setting_up
    setting_up |= open_ranges(own, tid, start.astype(np.int64)) >= 0
    issuing = tables.calls.tid_of[np.unique(tables.calls.variant[tables.launch[tables.launch >= 0]])]
    code, names = pd.factorize(name)
    maps = np.array([_MAPS_MEMORY.match(str(text)) is not None for text in names], dtype=bool)[code]
    return setting_up | (maps & ~np.isin(tid, issuing))


def _time_before(intervals: pd.DataFrame | None, tid: Int64s, start: Int64s, gap: Int64s) -> Int64s:
    """Return how much of the host time before each call (ns) lies in intervals of its thread."""
    held_ns = np.zeros(len(start), dtype=np.int64)
    if intervals is None or len(intervals) == 0:
        return held_ns
    begun, ended, owner = (intervals[name].to_numpy(np.int64) for name in ("start_ns", "end_ns", "global_tid"))
    for thread in np.unique(tid).tolist():
        own = owner == thread
        if own.any():
            mine = tid == thread
            _, low, high = union_of_groups(np.zeros(int(own.sum()), dtype=np.int64), begun[own], ended[own])
            held_ns[mine] = measure(low, high, start[mine] - np.maximum(gap[mine], 0), start[mine])[0]
    return held_ns


def _pinned_rates(tables: Tables) -> dict[int, float]:
    """Return the rate (bytes/s) of copies of at least a megabyte between pinned memory and a device, by direction."""
    work = tables.work
    duration = work.duration_ns[work.kernels :].astype(np.int64)
    rates = {}
    for kind in (HOST_TO_DEVICE, DEVICE_TO_HOST):
        chosen = (work.copy_kind == kind) & (work.host_kind == 1) & (work.bytes >= 1 << 20) & (duration > 0)
        if chosen.any():
            rates[kind] = float(np.median(1e9 * work.bytes[chosen] / duration[chosen]))
    return rates


def _fastest_copies(tables: Tables) -> dict[tuple[int, int, int], int]:
    """Return the shortest time (ns) of copies of 16 MiB and more, by direction, kind of host memory and size."""
    work = tables.work
    large = np.isin(work.copy_kind, (HOST_TO_DEVICE, DEVICE_TO_HOST)) & (work.bytes >= LARGE_COPY_BYTES)
    duration = work.duration_ns[work.kernels :]
    shortest: dict[tuple[int, int, int], int] = {}
    for at in np.flatnonzero(large & (duration > 0)).tolist():
        key = (int(work.copy_kind[at]), int(work.host_kind[at]), int(work.bytes[at]))
        shortest[key] = min(shortest.get(key, int(duration[at])), int(duration[at]))
    return shortest


@dataclass(frozen=True)
class GivenBack:
    """Device memory that calls of a graph allocated and gave back, one element a block."""

    # The positions in the graph of the call that allocated the block, and of the call that gave it back.
    allocating: Int64s
    freeing: Int64s
    bytes: Int64s

    def share(self, allocating: Bools) -> float:
        """Return the share of the memory that these calls allocated; 0 where nothing is known."""
        whole = int(self.bytes.sum())
        return float(self.bytes[allocating[self.allocating]].sum() / whole) if whole else 0.0

    def freeing_of(self, allocating: Bools) -> Bools:
        """Return which calls give back what these calls allocated."""
        is_freeing = np.zeros(len(allocating), dtype=np.bool_)
        is_freeing[self.freeing[allocating[self.allocating]]] = True
        return is_freeing


def find_given_back(tables: Tables, rows: Int64s, pid: int, device: int) -> GivenBack:
    """Return the memory that these calls allocated and gave back. There is none without events of memory.

    A block is given back by the next free of its address. The event of a call has its time while the call runs.

    rows: the rows of the calls in Tables.calls in order of their starts, none inside another.
    pid: the process (global pid) of the calls.
    device: the device whose memory counts.
    """
    none = np.zeros(0, dtype=np.int64)
    calls, memory = tables.calls, tables.memory
    if calls is None or memory is None or len(memory) == 0 or len(rows) == 0:
        return GivenBack(none, none, none)
    of_device = (memory["device_id"] == device) & ((memory["global_pid"] & PID_MASK) == pid)
    memory = memory[of_device & np.isin(memory["kind"], _DEVICE_KINDS)]
    address, time, size = (memory[name].to_numpy(dtype=np.int64) for name in ("address", "time_ns", "bytes"))
    order = np.lexsort((time, address))
    is_freed = memory["operation"].to_numpy()[order] == _FREED
    address, time, size = address[order], time[order], size[order]
    at = np.flatnonzero((address[1:] == address[:-1]) & is_freed[1:] & ~is_freed[:-1])
    start, end = calls.start_ns[rows], calls.ends_ns(rows)
    allocating, freeing = (_calls_at(start, end, event_ns) for event_ns in (time[at], time[at + 1]))
    known = (allocating >= 0) & (freeing >= 0)
    return GivenBack(allocating[known], freeing[known], size[at][known])


def _calls_at(start: Int64s, end: Int64s, time: Int64s) -> Int64s:
    """Return the position of the call that ran at each time: the last that had begun; -1 where it had ended."""
    at = np.searchsorted(start, time, "right") - 1
    return np.where((at >= 0) & (time <= end[np.maximum(at, 0)]), at, -1)


def in_calls(situation: Situation, chosen: Bools, values: Int64s | None = None) -> float:
    """Return how many of these calls a step has, or the sum of their values in it.

    chosen: which calls.
    values: a number for each call of the graph.
    """
    return _each_step(situation, chosen, values, situation.graph.first_calls)


def in_work(situation: Situation, chosen: Bools, values: Int64s | None = None) -> float:
    """Return how many of these pieces of work a step has, or the sum of their values in it.

    chosen: which work.
    values: a number for each piece of work of the graph.
    """
    return _each_step(situation, chosen, values, int(situation.graph.first_work[situation.graph.first_calls]))


def in_work_by(situation: Situation, chosen: Bools, values: Int64s, owner: Int64s) -> dict[int, float]:
    """Return the sum of values in a step of the work that each owner has.

    chosen: which work; its owners are not negative.
    values: a number for each piece of work of the graph.
    owner: the number of the owner of each piece.
    """
    since = int(situation.graph.first_work[situation.graph.first_calls])
    chosen, values, owner = chosen[since:], values[since:], owner[since:]
    sums = np.bincount(owner[chosen], values[chosen]) / situation.periods
    return {number: float(sums[number]) for number in np.unique(owner[chosen]).tolist()}


def _each_step(situation: Situation, chosen: Bools, values: Int64s | None, since: int) -> float:
    counts = chosen[since:]
    total = np.count_nonzero(counts) if values is None else values[since:][counts].sum()
    return float(total / situation.periods)


def number_text(per_step: float) -> str:
    """Return how often something happens in a step, as text: "3,999", "2", "2.5"."""
    return f"{per_step:,.0f}" if per_step >= 10 or per_step == int(per_step) else f"{per_step:.1f}"


def counted(per_step: float, one: str, many: str = "") -> str:
    """Return how often something happens in a step, with its noun: "1 copy", "2.5 copies"."""
    number = number_text(per_step)
    return f"{number} {one if number == '1' else many or one + 's'}"
