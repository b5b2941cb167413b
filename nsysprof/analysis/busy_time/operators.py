"""Give kernels their operators: those launched inside an operator's range, and in other steps by the same order.

The recorder of `capture --operators` (or a program's own `emit_nvtx`) writes ranges of operators. The kernels of the
step whose tensors it wrote down are a pattern. Wherever the same kernels follow in the same order, the same operators
launched them. A kernel that a CUDA graph replays has the operator in which its node was captured.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd

from nsysprof.analysis.attribution.calls import RESOLVED, find_graph_work
from nsysprof.analysis.attribution.library_ranges import users_ranges
from nsysprof.analysis.busy_time.kernel_needs import KernelNeeds
from nsysprof.analysis.busy_time.operator_work import OperatorWork, floor_ns, work_of
from nsysprof.analysis.kernel_names.variant_names import Names
from nsysprof.analysis.steps.find_steps import Steps
from nsysprof.results.analysis import StepWork
from nsysprof.results.column_registry.analysis_columns import OPERATORS
from nsysprof.results.roof import Peak
from nsysprof.torchprof.operator_facts import (
    EVALUATED,
    OperatorFacts,
    RangeText,
    read_layer,
    read_range_text,
    tensors_of,
)
from nsysprof.trace.schema import PID_MASK, Bools, Floats, Int64s, Tables

# By process and number.
Facts = Mapping[int, Mapping[int, OperatorFacts]]
_OF_OPTIMIZER = ("Optimizer.step#", "Optimizer.zero_grad#")
# Numbers in templates follow the sizes, as of attention to a cache that grows.
_SIZES = re.compile(r"\(int\)\d+")
# Kernels below this time (ns) that take more than twice their floor are bound by latency.
_SHORT_NS = 5_000
# More starts of a pattern than these are not compared with it.
_MOST_STARTS = 200_000
# So many replays of a graph are tried as the begin of a step.
_MOST_REPLAYS = 8
# A shape longer than this is cut.
_LONGEST_SHAPES = 200
# The peak that MFU is a share of.
_PEAK_DTYPE = "bf16"


@dataclass(frozen=True)
class Operators:
    """What launched the kernels of a trace.

    table: the rows of operators.csv.
    needs: of each kernel, as its share of its operator's.
    calls: those that launched kernels in the recorded step.
    call_of_kernel: which of them launched each kernel, or the same kernel of another step; -1 unknown.
    peak: the rates of the floors.
    """

    table: pd.DataFrame
    step: StepWork
    needs: KernelNeeds
    calls: tuple[OperatorCall, ...]
    call_of_kernel: Int64s
    peak: Peak | None


@dataclass(frozen=True)
class OperatorCall:
    """One call of an operator that launched kernels, and where it is.

    around: the operators that called it, the innermost first.
    facts: its tensors; None where they are not known.
    """

    process: int
    name: str
    op_id: int
    layer: str
    location: str
    way: str
    around: tuple[str, ...] = ()
    facts: OperatorFacts | None = None


@dataclass(frozen=True)
class _Launched:
    """The kernels that a process launched, in the order of their launches.

    row, name, launch_ns: of each kernel; kernels of one template for other sizes have the same name. time_ns, thread:
    when and where it was launched, or its node was captured.
    replay: the call that replayed the graph of each; -1 where no graph did.
    """

    row: Int64s
    name: Int64s
    launch_ns: Int64s
    time_ns: Int64s
    thread: Int64s
    replay: Int64s


def find_operators(
    tables: Tables, names: Names, facts: Facts, peak: Peak | None, steps: Steps | None = None
) -> Operators | None:
    """Return the operators of a trace; None where no range names one.

    facts: what the recorder wrote.
    peak: the rates of the GPU.
    steps: those of the trace, and one of them may replay a graph many times.
    """
    if tables.operators is None or tables.calls is None:
        return None
    # A number each for FLOP, bytes and floor.
    of_kernel = np.full((3, tables.work.kernels), np.nan)
    call_of_kernel = np.full(tables.work.kernels, -1, dtype=np.int64)
    created = _creations(tables)
    parts, computed, calls = [], [], list[OperatorCall]()
    for process, ranges in tables.operators.groupby(tables.operators["global_tid"] & PID_MASK):
        of_process = _OfProcess(
            tables,
            ranges,
            _launched(tables, names, int(process), created),
            facts.get((int(process) >> 24) & 0xFFFFFF, {}),
            peak,
            steps if steps is not None and steps.are_known and steps.global_pid == process else None,
        )
        part = of_process.tabulate(of_kernel, call_of_kernel, len(calls))
        if part is not None:
            parts.append(part[0])
            computed.append(part[1])
            calls += part[2]
    if not parts:
        return None
    table = pd.concat(parts, ignore_index=True).sort_values("kernel_total_ns", ascending=False, kind="stable")
    table = table[list(OPERATORS.names)].reset_index(drop=True)
    return Operators(table, computed[0], KernelNeeds(*of_kernel), tuple(calls), call_of_kernel, peak)


def _creations(tables: Tables) -> tuple[Int64s, Int64s]:
    """Return when and on which thread the node of each kernel was captured; -1 where no graph replayed it."""
    time, thread = (np.full(tables.work.kernels, -1, dtype=np.int64) for _ in range(2))
    graph = find_graph_work(tables)
    if graph is not None:
        kernels = (graph.row < tables.work.kernels) & (graph.why == RESOLVED)
        created = graph.created.of(graph.node[kernels])
        time[graph.row[kernels]], thread[graph.row[kernels]] = created.start_ns, created.global_tid
    return time, thread


def _launched(tables: Tables, names: Names, process: int, created: tuple[Int64s, Int64s]) -> _Launched:
    """Return the kernels of a process whose launch was recorded. created: what _creations returns."""
    work, calls = tables.work, tables.calls
    assert calls is not None
    rows = np.flatnonzero((work.pid_of[work.variant[: work.kernels]] == process) & (tables.launch[: work.kernels] >= 0))
    call = tables.launch[rows]
    rows = rows[np.argsort(calls.start_ns[call], kind="stable")]
    call = tables.launch[rows]
    captured_ns, captured_on = (value[rows] for value in created)
    is_captured = captured_ns >= 0
    alike, _ = pd.factorize(np.array([_SIZES.sub("", str(text)) for text in names.texts], dtype=object))
    return _Launched(
        rows,
        alike[names.of_variant[work.variant[rows]]].astype(np.int64),
        calls.start_ns[call],
        np.where(is_captured, captured_ns, calls.start_ns[call]),
        np.where(is_captured, captured_on, calls.tid_of[calls.variant[call]]),
        np.where(is_captured, call, -1).astype(np.int64),
    )


@dataclass(frozen=True)
class _OfProcess:
    """The operators of one process.

    ranges: those of its operators.
    facts: by number of the operator.
    steps: those of the process; None where they are not known.
    """

    tables: Tables
    ranges: pd.DataFrame
    launched: _Launched
    facts: Mapping[int, OperatorFacts]
    peak: Peak | None
    steps: Steps | None

    def tabulate(
        self, of_kernel: Floats, number_of_kernel: Int64s, before: int
    ) -> tuple[pd.DataFrame, StepWork, list[OperatorCall]] | None:
        """Return the rows of operators.csv, what a step computes and the calls; None where no kernel has an operator.

        of_kernel: gets the share of each kernel in the work and the floor of its operator.
        number_of_kernel: gets the number of the call of each kernel, behind so many `before`.
        """
        call_of_kernel, calls = self._calls()
        if not calls:
            return None
        first, last = self._pattern(call_of_kernel, calls)
        pattern = call_of_kernel[first:last]
        begins = self._repeats(first, last)
        timed = begins[~self._is_marked(begins)]
        chosen = timed if len(timed) else begins[:1]
        duration = self.tables.work.duration_ns.astype(np.float64)
        each_ns = duration[self.launched.row[chosen[:, None] + np.arange(last - first)]].mean(axis=0)
        groups: dict[tuple[str, ...], _Group] = {}
        times = self._times_in_step(begins)
        needed = np.full((3, last - first), np.nan)
        place_of = self._places(first, last)
        # A graph that a step replays twice computes everything twice.
        for number, replay in np.unique(np.stack((pattern, self.launched.replay[first:last])), axis=1).T.tolist():
            if number < 0:
                continue
            call = calls[number]
            kernels = np.flatnonzero((pattern == number) & (self.launched.replay[first:last] == replay))
            spent = each_ns[kernels]
            facts = call.facts
            work = None if facts is None else work_of(facts)
            floor = None if work is None or self.peak is None else floor_ns(work, self.peak)
            key = (
                call.name, shapes_text(facts), work.dtype if work else "", place_of[int(kernels[0])], call.layer,
                call.location, call.way,
            )  # fmt: skip
            groups.setdefault(key, _Group()).add(work, floor, spent, times)
            if work is not None and spent.sum() > 0:
                needs = (work.flops, work.least_bytes, None if floor is None else floor[0])
                for need, of_pattern in zip(needs, needed, strict=True):
                    of_pattern[kernels] = np.nan if need is None else need * spent / spent.sum()
        place = self._place_in_pattern(begins, first, last)
        of_kernel[:, self.launched.row[place >= 0]] = needed[:, place[place >= 0]]
        number = pattern[place[place >= 0]]
        number_of_kernel[self.launched.row[place >= 0]] = np.where(number >= 0, number + before, -1)
        in_steps = self._are_in_steps()
        covered_ns, whole_ns = (duration[self.launched.row[one]].sum() for one in ((place >= 0) & in_steps, in_steps))
        covered = covered_ns / max(whole_ns, 1.0)
        reason = f"kernels like those of the recorded operators take {100 * covered:.1f} % of the kernels' time"
        step = StepWork(unknown_because=reason, covered_pct=100 * covered)
        if step.is_usual:
            step = self._step(groups, timed, last - first, times)
        return _tabulate(groups), step, calls

    def _are_in_steps(self) -> Bools:
        """Return which kernels steady steps launched: what runs while a program compiles is not like a step."""
        if self.steps is None:
            return np.ones(len(self.launched.row), dtype=bool)
        launch, starts = self.launched.launch_ns, self.steps.starts_ns
        inside: Bools = (launch >= starts[0]) & (launch < starts[-1])
        return inside

    def _times_in_step(self, begins: Int64s) -> int:
        """Return how often a steady step repeats the pattern, as it does where it replays one graph again and again."""
        if self.steps is None or not len(begins):
            return 1
        counts = np.histogram(self.launched.launch_ns[begins], self.steps.starts_ns)[0]
        return max(1, int(counts.min())) if counts.min() == counts.max() else 1

    def _calls(self) -> tuple[Int64s, list[OperatorCall]]:
        """Return the number of the operator call that launched each kernel (-1: none), and the calls by number."""
        calls: list[OperatorCall] = []
        call_of_kernel = np.full(len(self.launched.row), -1, dtype=np.int64)
        nested_of_thread = {thread: _Nested.of(ranges) for thread, ranges in self.ranges.groupby("global_tid")}
        layers = _layers_of_nodes(nested_of_thread.values())
        for thread, nested in nested_of_thread.items():
            kernels = np.flatnonzero(self.launched.thread == thread)
            inside = nested.innermost(self.launched.time_ns[kernels])
            for number in np.unique(inside[inside >= 0]).tolist():
                call = nested.call(number, layers)
                if call is not None:
                    call_of_kernel[kernels[inside == number]] = len(calls)
                    facts = self.facts.get(call.op_id)
                    calls.append(call if facts is None or facts.name != call.name else replace(call, facts=facts))
        return call_of_kernel, calls

    def _pattern(self, call_of_kernel: Int64s, calls: list[OperatorCall]) -> tuple[int, int]:
        """Return from which to which kernel the step goes whose tensors are known, else all that has an operator.

        Replays of graphs have their operators in all steps, so they say where a step is only where nothing else does:
        then it goes from one replay of a graph to the next.
        """
        known = np.array([*(call.op_id in self.facts for call in calls), False])
        is_wanted = known[call_of_kernel] if known.any() else call_of_kernel >= 0
        replay = self.launched.replay
        eager, replayed = is_wanted & (replay < 0), is_wanted & (replay >= 0)
        if eager.any():
            wanted = np.flatnonzero(eager)
            first, last = int(wanted[0]), int(wanted[-1]) + 1
            if not replayed.any():
                return first, last
            # Graphs may be replayed before the first or after the last of these kernels: up to the next step's first.
            name = self.launched.name
            again = last + np.flatnonzero((name[last:] == name[first]) & (replay[last:] < 0))
            if len(again) and len(self._repeats(first, int(again[0]))) > 1:
                return first, int(again[0])
        wanted = np.flatnonzero(replayed)
        first = int(wanted[0])
        begins = np.flatnonzero((call_of_kernel == call_of_kernel[first]) & (replay >= 0))
        begins = begins[np.diff(replay[begins], prepend=-1) != 0][:_MOST_REPLAYS].tolist()
        # Steps may differ in eager kernels between replays: the pattern that most of them have.
        return max(
            pairwise([*begins, int(wanted[-1]) + 1][: max(2, len(begins))]),
            key=lambda bounds: len(self._repeats(*bounds)),
        )

    def _repeats(self, first: int, last: int) -> Int64s:
        """Return where the kernels of the pattern follow in the same order, without overlaps."""
        name, length = self.launched.name, last - first
        begins = np.flatnonzero(name[: len(name) - length + 1] == name[first])
        if len(begins) > _MOST_STARTS:
            return np.array([first], dtype=np.int64)
        for offset in range(1, length):
            if len(begins) < 2:
                break
            begins = begins[name[begins + offset] == name[first + offset]]
        kept: list[int] = []
        for begin in [first, *begins.tolist()]:
            if all(abs(begin - other) >= length for other in kept[-1:] + kept[:1]):
                kept.append(begin)
        return np.sort(np.array(kept, dtype=np.int64))

    def _place_in_pattern(self, begins: Int64s, first: int, last: int) -> Int64s:
        """Return the place in the pattern of each kernel; -1 for none.

        Beside whole repetitions, it is known before and behind them as far as the kernels are still those of a step.
        """
        length, name = last - first, self.launched.name
        place = np.full(len(name), -1, dtype=np.int64)
        place[begins[:, None] + np.arange(length)] = np.arange(length)
        for begin in begins.tolist():
            at = begin - 1
            while at >= 0 and place[at] < 0 and begin - at <= length and name[at] == name[last - (begin - at)]:
                place[at] = length - (begin - at)
                at -= 1
            at = begin + length
            end = min(len(name), begin + 2 * length)
            while at < end and place[at] < 0 and name[at] == name[first + at - begin - length]:
                place[at] = at - begin - length
                at += 1
        return place

    def _is_marked(self, begins: Int64s) -> Bools:
        """Return which of the repetitions were recorded with their operators, or while that ended."""
        marked = np.zeros(len(begins), dtype=bool)
        time = self.launched.launch_ns[begins]
        for start, end, _ in self.tables.marks.tolist():
            marked |= (time >= start) & (time < end)
        if not len(self.tables.marks):
            marked |= (time >= self.ranges["start_ns"].min()) & (time < self.ranges["end_ns"].max())
        return marked

    def _places(self, first: int, last: int) -> list[str]:
        """Return the program's own innermost range of each kernel of the pattern; "" where there is none."""
        ranges = self.tables.ranges
        time, thread = self.launched.time_ns[first:last], self.launched.thread[first:last]
        if ranges is None or not len(time):
            return [""] * len(time)
        own = ranges[users_ranges(ranges)]
        own = own[(own["start_ns"] <= time.max()) & (own["end_ns"] >= time.min()) & (own["style"] == "PushPop")]
        own = own[(own["global_tid"] & PID_MASK) == (thread[0] & PID_MASK)].sort_values("start_ns", kind="stable")
        start, end, of_thread = (own[name].to_numpy(np.int64) for name in ("start_ns", "end_ns", "global_tid"))
        texts, places = own["name"].tolist(), []
        for at, by in zip(time.tolist(), thread.tolist(), strict=True):
            open_now = np.flatnonzero((start <= at) & (end >= at))
            of_caller = open_now[of_thread[open_now] == by]
            chosen = of_caller if len(of_caller) else open_now
            places.append(texts[int(chosen[-1])] if len(chosen) else "")
        return places

    def _step(self, groups: Mapping[tuple[str, ...], _Group], timed: Int64s, length: int, times: int) -> StepWork:
        """Return the products of a step, against the time from one step to the next."""
        products = [group for group in groups.values() if group.is_product]
        if not products:
            return StepWork(unknown_because="no operator of the recorded step is a product")
        if any(group.flops is None for group in products):
            return StepWork(unknown_because="the shapes of some products are not known")
        flops = sum(group.flops or 0 for group in products)
        in_fp64 = sum(group.flops or 0 for key, group in groups.items() if group.is_product and key[2] == "fp64")
        if 2 * in_fp64 > flops:
            return StepWork(flops, unknown_because="most of its products are in fp64, which has a rate of its own")
        start = self.tables.work.start_ns[self.launched.row[timed]] if len(timed) else np.zeros(0, np.int64)
        follows = np.diff(timed) < 2 * length
        walls = np.diff(start)[follows] if len(timed) > 1 else np.zeros(0, np.int64)
        if times > 1 and self.steps is not None:
            walls = np.diff(self.steps.bounds_ns)
        if not len(walls):
            return StepWork(flops, unknown_because="no two steps with the same kernels follow one another")
        step_ns = float(np.median(walls))
        rate = None if self.peak is None else self.peak.flops.get(_PEAK_DTYPE)
        spent_ns = sum(group.total_ns for group in products)
        if self.peak is None or not rate:
            return StepWork(flops, step_ns, unknown_because="the peak rate of this GPU is not known")
        mfu_pct = 1e9 * flops / step_ns / rate * 100
        return StepWork(flops, step_ns, mfu_pct, rate, self.peak.source_of(_PEAK_DTYPE), products_ns=spent_ns)


class _Group:
    """Calls of one operator in one place with the same shapes."""

    def __init__(self) -> None:
        self.calls = self.kernels = 0
        self.total_ns = 0.0
        self.flops: int | None = 0
        self.least_bytes: int | None = 0
        self.floor_ns: float | None = 0.0
        self.is_product = False
        self.limit = ""

    def add(self, work: OperatorWork | None, floor: tuple[float, str] | None, spent: Floats, times: int) -> None:
        """Add a call that a step makes so many times. spent: the time of each of its kernels (ns)."""
        self.calls += times
        self.kernels += times * len(spent)
        self.total_ns += times * spent.sum()
        self.flops = _sum(self.flops, None if work is None else work.flops, times)
        self.least_bytes = _sum(self.least_bytes, None if work is None else work.least_bytes, times)
        self.floor_ns = _sum(self.floor_ns, None if floor is None else floor[0], times)
        self.is_product |= work is not None and work.is_product
        self.limit = "" if floor is None else floor[1]

    def row(self) -> dict[str, object]:
        floor, limit = self.floor_ns, self.limit
        is_short = self.total_ns < _SHORT_NS * self.kernels
        if floor is not None and is_short and self.total_ns > 2 * floor:
            limit = "latency"
        return {
            "calls": self.calls, "kernel_count": self.kernels, "kernel_total_ns": round(self.total_ns),
            "flops": self.flops, "least_bytes": self.least_bytes,
            "floor_ns": None if floor is None else round(floor) or int(floor > 0),  # never 0 by rounding
            "limit": limit if floor is not None else None,
        }  # fmt: skip


@dataclass(frozen=True)
class _Nested:
    """The ranges of operators and modules on one thread, which lie inside one another; parent: -1 for none."""

    start_ns: Int64s
    end_ns: Int64s
    parent: Int64s
    # What the name of each says; None where it is no operator's.
    texts: list[RangeText | None]
    process: int

    @classmethod
    def of(cls, ranges: pd.DataFrame) -> _Nested:
        ordered = ranges.sort_values(["start_ns", "end_ns"], ascending=[True, False], kind="stable")
        start, end = (ordered[name].to_numpy(np.int64) for name in ("start_ns", "end_ns"))
        parent, inside = np.full(len(start), -1, dtype=np.int64), list[int]()
        for place, (begin, finish) in enumerate(zip(start.tolist(), end.tolist(), strict=True)):
            while inside and end[inside[-1]] < finish:
                inside.pop()
            parent[place] = inside[-1] if inside and end[inside[-1]] > begin else -1
            inside.append(place)
        texts = list(map(read_range_text, ordered["name"].tolist()))
        return cls(start, end, parent, texts, int(ordered["global_tid"].iloc[0]) & PID_MASK)

    def innermost(self, times_ns: Int64s) -> Int64s:
        """Return the innermost range around each time; -1 for none."""
        place = np.searchsorted(self.start_ns, times_ns, side="right") - 1
        while True:
            over = (place >= 0) & (self.end_ns[place] < times_ns)
            if not over.any():
                return place
            place[over] = self.parent[place[over]]

    def call(self, place: int, layers: Mapping[int, tuple[str, str]]) -> OperatorCall | None:
        """Return the innermost operator around a place, and what lies around it; None where there is none.

        layers: the layer and line of each node of autograd, by its number.
        """
        own: RangeText | None = None
        around: list[str] = []
        layer, way = ("", ""), "forward"
        while place >= 0:
            text = self.texts[place]
            if text is not None:
                of_layer = read_layer(text.name)
                if of_layer is not None:
                    layer = layer if layer[0] else of_layer
                elif own is None:
                    own = text
                else:
                    around.append(text.name)
                if text.name.startswith(EVALUATED):
                    way = "backward"
                    # What autograd adds around a node is not inside the node's own range.
                    node = self.texts[place + 1] if place + 1 < len(self.texts) else None
                    if not layer[0] and node is not None and node.seq is not None:
                        layer = layers.get(node.seq, layer)
                elif text.name.startswith(_OF_OPTIMIZER):
                    way = "optimizer"
                if text.seq is not None and not layer[0]:
                    layer = layers.get(text.seq, layer)
            place = int(self.parent[place])
        return None if own is None else OperatorCall(self.process, own.name, own.op_id, *layer, way, tuple(around))


def _layers_of_nodes(threads: Iterable[_Nested]) -> dict[int, tuple[str, str]]:
    """Return the layer and line of each node that the forward pass gave to autograd, by its number."""
    layers: dict[int, tuple[str, str]] = {}
    for nested in threads:
        inner: list[tuple[str, str]] = []
        for text, parent in zip(nested.texts, nested.parent.tolist(), strict=True):
            own = None if text is None else read_layer(text.name)
            inner.append(own or (inner[parent] if parent >= 0 else ("", "")))
            if text is not None and text.seq is not None and inner[-1][0]:
                layers.setdefault(text.seq, inner[-1])
    return layers


def _sum(one: Any, other: Any, times: int) -> Any:
    return None if one is None or other is None else one + times * other


def shapes_text(facts: OperatorFacts | None) -> str:
    """Return the sizes of the tensors that an operator was given, `8x1024,1024x3072`, of a list their number."""
    if facts is None:
        return ""
    texts = []
    for value in facts.inputs:
        tensors = list(tensors_of((value,)))
        if isinstance(value, list) and len(tensors) > 1:
            texts.append(f"{len(tensors)} tensors of {sum(tensor.elements for tensor in tensors)}")
        else:
            texts += ["x".join(map(str, tensor.sizes)) or "1" for tensor in tensors]
    text = ",".join(texts)
    return text if len(text) <= _LONGEST_SHAPES else text[: _LONGEST_SHAPES - 1] + "…"


def _tabulate(groups: Mapping[tuple[str, ...], _Group]) -> pd.DataFrame:
    keys = ("operator", "shapes", "dtype", "range", "layer", "location", "pass")
    rows = [dict(zip(keys, (part or None for part in key), strict=True)) | group.row() for key, group in groups.items()]
    table = pd.DataFrame(rows)
    for column in ("flops", "least_bytes", "floor_ns"):
        table[column] = table[column].astype("Int64")
    return table
