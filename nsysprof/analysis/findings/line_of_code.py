"""Find the line of Python (or else the native function), and the layer of the model, behind a finding."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from nsysprof.analysis.attribution.intervals import union_of_groups
from nsysprof.analysis.busy_time.layers import find_origins
from nsysprof.analysis.findings.candidates import LONG_GAP_NS, Candidate
from nsysprof.analysis.findings.situation import Situation, threads_of_calls
from nsysprof.analysis.idle_time.call_classes import CallClasses, call_texts
from nsysprof.analysis.idle_time.interval_layers import Layer, cut, merge_layer, outermost
from nsysprof.analysis.kernel_names.variant_names import kernel_names
from nsysprof.analysis.ranges.open_range import innermost_ranges, open_ranges
from nsysprof.analysis.replay.replay import no_change
from nsysprof.arrays import Floats, rows_by_key
from nsysprof.results.findings import StackSamples, fold_paths, layer_shape
from nsysprof.trace.schema import Bools, Int64s, Tables

# Process and thread of a globalTid.
THREAD_BITS = (1 << 48) - 1
# A line is named if at least so many samples show it, and this part of all. The same calls of other steps, which more
# than one line may make, must agree more.
_LEAST_SAMPLES, _LEAST_SHARE, _LEAST_SHARE_ELSEWHERE = 3, 0.4, 0.6
# A layer is named if more than this part of a finding's time lies in it, and an equal one beside it if it has at least
# the second part of the time of the largest.
_LEAST_IN_LAYER, _LEAST_OF_MOST = 0.5, 0.1
# The clock of the stacks is that of the trace within some tens of microseconds.
_MARKED_WITHIN_NS = 100_000


@dataclass(frozen=True)
class LocatedLine:
    """A line of code, or a native function, and how many of the samples show it."""

    # "" where none stands out.
    text: str
    # The share of the samples (percent).
    share_pct: float | None

    def __bool__(self) -> bool:
        """Return whether a line stands out."""
        return self.text != ""


_NOWHERE = LocatedLine("", None)


class Locator:
    """Finds the lines of findings in one trace."""

    def __init__(
        self,
        samples: StackSamples,
        tables: Tables,
        classes: CallClasses,
        situation: Situation,
        ranges: pd.DataFrame,
    ) -> None:
        self._samples, self._tables, self._classes = samples, tables, classes
        self._situation, self._ranges = situation, ranges
        self._tid = threads_of_calls(tables, situation.graph)
        self._seen: _SeenCalls | None = None

    def locate(self, candidate: Candidate) -> LocatedLine:
        """Return FILE:LINE of the stacks during a candidate's calls, and _NOWHERE where no line stands out.

        Where the steps that are replayed have too few samples, those in the same calls of all other steps count. Where
        no line of Python stands out, return the native function that most stacks of the calls show.
        """
        calls = candidate.calls if candidate.named_by is None else candidate.named_by
        if candidate.is_named_by_waits:
            return _most(self._samples.waits, self._marked(calls), 1, _LEAST_SHARE_ELSEWHERE)
        gaps = np.zeros(len(calls), dtype=np.bool_) if candidate.gaps is None else candidate.gaps
        if not (calls | gaps).any():
            return _NOWHERE
        native = self._samples.native
        return (
            _most(self._samples, self._during(self._samples, calls, gaps), _LEAST_SAMPLES, _LEAST_SHARE)
            or _most(self._samples, self._elsewhere(calls), _LEAST_SAMPLES, _LEAST_SHARE_ELSEWHERE)
            or (
                _NOWHERE
                if native is None
                else _most(native, self._during(native, calls, gaps), _LEAST_SAMPLES, _LEAST_SHARE)
            )
        )

    def _during(self, samples: StackSamples, calls: Bools, gaps: Bools) -> Bools:
        """Return the samples in these calls, in short host times before them, and in the host times of `gaps`."""
        situation, chosen = self._situation, calls | gaps
        gap = np.maximum(situation.graph.gap_ns, 0)
        # A long host time is what the call before it led to, or something of its own.
        before = np.where(gaps | (gap < LONG_GAP_NS), gap, 0)[chosen]
        start = situation.call_start_ns[chosen]
        thread = self._tid[chosen] & THREAD_BITS
        low, high = start - before, start + situation.call_ns[chosen]
        is_inside = np.zeros(len(samples.line), dtype=np.bool_)
        for number in np.unique(thread).tolist():
            mine, rows = thread == number, np.flatnonzero(samples.thread == number)
            _, begin, end = union_of_groups(np.zeros(int(mine.sum()), dtype=np.int64), low[mine], high[mine])
            at = np.searchsorted(begin, samples.time_ns[rows], "right") - 1
            is_inside[rows[(at >= 0) & (samples.time_ns[rows] < end[np.maximum(at, 0)])]] = True
        return is_inside

    def _elsewhere(self, calls: Bools) -> Bools:
        """Return the samples in calls of the same name that issue the same kernel in the same range, in any step."""
        situation = self._situation
        if self._seen is None:
            self._seen = _find_calls(self._samples, self._tables, self._classes, self._ranges)
        seen, first = self._seen, situation.graph.first_work
        has_work = calls & (np.diff(first) > 0)
        work = np.minimum(first[:-1], len(situation.kernel_number) - 1)
        kernel = np.where(np.diff(first) > 0, situation.kernel_number[work], -1)[has_work].tolist()
        wanted = set(
            zip(situation.call_name[has_work].tolist(), kernel, situation.range_of[has_work].tolist(), strict=True)
        )
        is_alike = np.zeros(len(self._samples.line), dtype=np.bool_)
        is_alike[seen.sample] = [key in wanted for key in seen.keys]
        return is_alike

    def _marked(self, calls: Bools) -> Bools:
        """Return the stacks taken in the last wait of a stream that each of these calls' threads asked for before."""
        waits, situation = self._samples.waits, self._situation
        is_marked = np.zeros(0 if waits is None else len(waits.line), dtype=np.bool_)
        if waits is None:
            return is_marked
        for number, rows in rows_by_key(pd.Series(waits.thread)):
            mine = np.flatnonzero((self._tid & THREAD_BITS) == number)
            position = np.flatnonzero(situation.is_stream_wait[mine])
            if len(position) == 0:
                continue
            last = np.searchsorted(position, np.flatnonzero(calls[mine]), "right") - 1
            wanted = np.zeros(len(position), dtype=np.bool_)
            wanted[last[last >= 0]] = True
            time, start = waits.time_ns[rows], situation.call_start_ns[mine[position]]
            after = np.minimum(np.searchsorted(start, time), len(start) - 1)
            before = np.maximum(after - 1, 0)
            nearest = np.where(np.abs(start[before] - time) < np.abs(start[after] - time), before, after)
            is_marked[rows] = wanted[nearest] & (np.abs(start[nearest] - time) <= _MARKED_WITHIN_NS)
        return is_marked


@dataclass(frozen=True)
class _SeenCalls:
    """The call in or before which each of some samples was taken: its name, its first kernel's number, its range."""

    sample: Int64s
    keys: list[tuple[str, int, str]]


def _find_calls(samples: StackSamples, tables: Tables, classes: CallClasses, ranges: pd.DataFrame) -> _SeenCalls:
    """Return the samples taken inside a call that issues a kernel, or in what the host did shortly before for it."""
    calls, work = tables.calls, tables.work
    assert calls is not None
    launch = tables.launch[: work.kernels]
    issues = np.zeros(len(calls), dtype=np.bool_)
    issues[launch[launch >= 0]] = True
    sample, row = [], []
    for number, sampled in rows_by_key(pd.Series(samples.thread)):
        mine = np.flatnonzero(((calls.tid_of & THREAD_BITS) == number)[calls.variant])
        mine = mine[np.lexsort((-calls.ends_ns(mine), calls.start_ns[mine]))]
        mine = mine[outermost(calls.start_ns[mine], calls.ends_ns(mine))]
        target = _calls_led_to(calls.start_ns[mine], calls.ends_ns(mine), issues[mine], classes.is_wait(mine))
        time, ends = samples.time_ns[sampled], np.append(-1, calls.ends_ns(mine))
        at = np.searchsorted(calls.start_ns[mine], time, "right")
        is_inside = time < ends[at]
        starts = np.append(calls.start_ns[mine], np.iinfo(np.int64).max)
        reached = np.where(is_inside | (starts[at] - time < LONG_GAP_NS), target[at - is_inside], -1)
        sample.append(np.asarray(sampled, dtype=np.int64)[reached >= 0])
        row.append(mine[reached[reached >= 0]])
    samples_of, rows = (np.concatenate([np.zeros(0, dtype=np.int64), *parts]) for parts in (sample, row))
    issued = np.flatnonzero(np.isin(launch, rows))[::-1]
    kernels = kernel_names(tables).of_variant[work.variant[issued]].tolist()
    kernel_of = dict(zip(launch[issued].tolist(), kernels, strict=True))
    tid, start = calls.tid_of[calls.variant[rows]].astype(np.int64), calls.start_ns[rows].astype(np.int64)
    where, texts = innermost_ranges(ranges, tid, start).tolist(), call_texts(tables)
    name = [texts[variant] for variant in calls.variant[rows].tolist()]
    kernel = [kernel_of[call] for call in rows.tolist()]
    return _SeenCalls(samples_of, list(zip(name, kernel, where, strict=True)))


def _calls_led_to(start: Int64s, end: Int64s, issues: Bools, is_wait: Bools) -> Int64s:
    """Return for each call of a thread the next one that issues work, if the host went on to it at once; else -1.

    Such calls load the kernel, or allocate what it writes. One more entry at the end is -1.
    """
    count = len(start)
    positions = np.arange(count)
    target = np.minimum.accumulate(np.where(issues, positions, count)[::-1])[::-1]
    breaks = np.zeros(count + 1, dtype=np.int64)
    breaks[1:count] = (start[1:] - end[:-1] >= LONG_GAP_NS) | (is_wait & ~issues)[:-1]
    paused = np.cumsum(breaks)
    return np.append(np.where((target < count) & (paused[np.minimum(target, count)] == paused[:-1]), target, -1), -1)


def _most(samples: StackSamples | None, chosen: Bools, least: int, share: float) -> LocatedLine:
    """Return the line that most of these samples show, if enough of them do; else _NOWHERE."""
    if samples is None or len(samples.lines) == 0:
        return _NOWHERE
    counts = np.bincount(samples.line[chosen] % (len(samples.lines) + 1), minlength=len(samples.lines) + 1)
    total, known = int(counts.sum()), counts[:-1]
    if known.max() < max(least, share * total):
        return _NOWHERE
    return LocatedLine(samples.lines[int(np.argmax(known))], round(100 * int(known.max()) / total, 1))


class LayerFinder:
    """Finds the layers of findings in one trace whose layers were recorded."""

    def __init__(self, layers: pd.DataFrame, tables: Tables, situation: Situation) -> None:
        """Look up the layer of each piece of work of the graph. layers: as in Tables."""
        self._layers, self._situation = layers, situation
        self._held = {"python-gc": tables.collections, "jit-in-loop": tables.compiles}
        self._path = layers["layer"].to_numpy(dtype=object)
        self._recorded = {layer_shape(path) for path in set(self._path.tolist()) if path}
        self._tid = threads_of_calls(tables, situation.graph)
        time, thread = find_origins(tables, len(tables.work))
        rows = situation.graph.work_row
        self._of_work = open_ranges(layers, thread[rows], time[rows])
        self._stretches: dict[int, Layer] = {}

    def find(self, candidate: Candidate) -> str:
        """Return the layer, with its inner layers, in which more than half of a candidate's time lies; "" for none.

        What counts is the time of work, calls and host that the candidate's change takes away, or where it only moves
        work, the time of this work. Layers that differ in a number are one: `layers.[0-31].mlp`.
        """
        graph, change = self._situation.graph, candidate.change
        of_work = np.maximum(graph.duration_ns - change.duration_ns, 0)
        of_calls = np.maximum(graph.cost_ns - change.cost_ns, 0)
        of_calls = np.where(no_change(graph).waits & ~change.waits, self._situation.call_ns, of_calls)
        of_gaps = np.maximum(graph.gap_ns - change.gap_ns, 0)
        if not (of_work.any() or of_calls.any() or of_gaps.any()):
            of_work = np.where(self._situation.work_of(candidate.calls), graph.duration_ns, 0)
        # The last element is for what lies in no layer.
        spent = np.zeros(len(self._path) + 1)
        np.add.at(spent, self._of_work, of_work)
        start = self._situation.call_start_ns
        for thread in np.unique(self._tid).tolist():
            mine = np.flatnonzero((self._tid == thread) & ((of_calls > 0) | (of_gaps > 0)))
            if len(mine) == 0:
                continue
            call, gap = start[mine], np.maximum(graph.gap_ns[mine], 1)
            self._add(spent, thread, call, call + np.maximum(self._situation.call_ns[mine], 1), of_calls[mine])
            self._add(spent, thread, *self._held_in(thread, candidate.code, call - gap, call, of_gaps[mine]))
        return self._most(spent)

    def _held_in(
        self, thread: int, code: str, start: Int64s, end: Int64s, weight: Int64s
    ) -> tuple[Int64s, Int64s, Int64s]:
        """Return the parts of host times in which what the finding is about held up the thread, and their weights."""
        held = self._held.get(code)
        if held is None:
            return start, end, weight
        held = held[held["global_tid"] == thread]
        begun, ended = (held[name].to_numpy(np.int64) for name in ("start_ns", "end_ns"))
        wanted = weight > 0
        pieces = cut(start[wanted], end[wanted], merge_layer(begun, ended, np.zeros(len(held), dtype=np.int64)))
        inside = pieces.layer >= 0
        low, high = pieces.start_ns[inside], pieces.end_ns[inside]
        return low, high, high - low

    def _add(self, spent: Floats, thread: int, start: Int64s, end: Int64s, weight: Int64s) -> None:
        """Add to what each layer's range spent the weights of intervals, in proportion to the time in the range."""
        layer = self._stretches_of(thread)
        pieces = cut(start, end, layer)
        code = np.append(layer.code, -1)[pieces.layer]
        share = (pieces.end_ns - pieces.start_ns) / (end - start)[pieces.owner]
        np.add.at(spent, code, weight[pieces.owner] * share)

    def _stretches_of(self, thread: int) -> Layer:
        """Return the times of a thread with the row of the innermost layer that is open, -1 for none."""
        if thread not in self._stretches:
            own = self._layers[self._layers["global_tid"] == thread]
            moments = np.unique(own[["start_ns", "end_ns"]].to_numpy(dtype=np.int64))
            code = open_ranges(self._layers, np.full(len(moments), thread), moments)
            self._stretches[thread] = Layer(moments[:-1], moments[1:], code[:-1])
        return self._stretches[thread]

    def _most(self, spent: Floats) -> str:
        """Return the innermost layer with more than half of what all ranges spent."""
        by_path: dict[str, float] = {}
        for row in np.flatnonzero(spent[:-1] > 0).tolist():
            by_path[self._path[row]] = by_path.get(self._path[row], 0.0) + float(spent[row])
        by_shape: dict[str, dict[str, float]] = {}
        for path, time in by_path.items():
            parts = path.split(".")
            for depth in range(1, len(parts) + 1):
                outer = ".".join(parts[:depth])
                of_paths = by_shape.setdefault(layer_shape(outer), {})
                of_paths[outer] = of_paths.get(outer, 0.0) + time
        total = float(spent.sum())
        large = [
            shape
            for shape, of_paths in by_shape.items()
            if shape in self._recorded and sum(of_paths.values()) > _LEAST_IN_LAYER * total
        ]
        if not large:
            return ""
        of_paths = by_shape[max(large, key=lambda shape: shape.count("."))]
        most = max(of_paths.values())
        return fold_paths([path for path, time in of_paths.items() if time >= _LEAST_OF_MOST * most])
