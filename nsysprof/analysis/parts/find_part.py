"""Find the part of a trace that the user names: which ranges, calls and work belong to it, and when it was.

Cut what was read and attributed of a trace down to one part of it, so that all stages count that part alone.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any

import numpy as np
import pandas as pd

from nsysprof.analysis.attribution.attribute import Attributed, Segments, attribute_launched, covered, keep_ranges
from nsysprof.analysis.attribution.caused_work import CausedWork
from nsysprof.analysis.attribution.intervals import union_of_groups
from nsysprof.analysis.attribution.nesting import SEPARATOR, Paths
from nsysprof.analysis.overview.trace_overview import Attribution
from nsysprof.analysis.steps.find_steps import Steps
from nsysprof.attention.range_name import range_label
from nsysprof.errors import TraceError, UsageError
from nsysprof.results.analysis import ReadPart
from nsysprof.trace.schema import PID_MASK, Bools, Calls, Int64s, Rows, Tables, Work

# How many names the error about an unknown range shows.
_MOST_NAMES = 5
_ALL_NAMES = "range_tree.csv of an analysis without this option lists all"


@dataclass(frozen=True)
class WantedPart:
    """The part of a trace that the user wants to read.

    range: the path of a range, or its name; None for a whole step.
    step: the number of a step, as steps.csv has it; None for all of them.
    """

    range: str | None = None
    step: int | None = None


def wanted_part(name: str | None, step: int | None) -> WantedPart | None:
    """Return the part that a range, a step, or a range in one step stands for; None for the whole trace."""
    return None if name is None and step is None else WantedPart(name, step)


@dataclass(frozen=True)
class Part:
    """The part of a trace that an analysis reads."""

    facts: ReadPart
    # The names of the ranges, with counters folded, that have most of their time in it or in other instances of it.
    places: frozenset[str]
    # Which range instances belong to it, which calls, and which rows of work.
    ranges: Bools
    calls: Bools
    work: Bools
    # From when to when the part was (ns), and in which process, in order of start.
    start_ns: Int64s
    end_ns: Int64s
    global_pid: Int64s

    def windows(self, pids: Int64s) -> tuple[Int64s, Int64s]:
        """Return when the part was in any of these processes, as disjoint intervals in order."""
        mine = np.isin(self.global_pid, pids)
        start, end = self.start_ns[mine], self.end_ns[mine]
        return union_of_groups(np.zeros(len(start), dtype=np.int64), start, end)[1:]


def find_part(
    tables: Tables, attributed: Attributed, caused: CausedWork | None, steps: Steps | None, wanted: WantedPart
) -> Part:
    """Return the part of a trace.

    Raises UsageError for a range or a step that the trace lacks, and TraceError where it has no calls.
    """
    if tables.calls is None:
        raise TraceError(
            "Which work belongs to a part of this trace is unknown, because no CUDA API calls were recorded.",
            "Record with nsys profile --trace=cuda,nvtx, or analyze the trace as a whole.",
        )
    step = None if wanted.step is None else _find_step(tables, tables.calls, attributed.ranges, steps, wanted.step)
    if wanted.range is not None:
        return _find_range(tables, attributed, caused, wanted, step)
    assert step is not None
    return step


def _find_range(
    tables: Tables, attributed: Attributed, caused: CausedWork | None, wanted: WantedPart, step: Part | None
) -> Part:
    """Return the part of a range: all instances or, where a step is given, those that began in it."""
    places = _Places.of(attributed)
    name = places.full_name(wanted.range or "")
    roots = places.find(name)
    began = np.ones(len(attributed.ranges), dtype=np.bool_) if step is None else step.ranges
    ranges = places.at_or_below(roots) & began
    outermost = attributed.ranges[places.at(roots) & began]
    if not len(outermost):
        raise UsageError(f"Step {wanted.step} has no range {name!r}.", "Give another step, or leave --step out.")
    is_twin = (outermost["style"] == "StartEnd").to_numpy(dtype=bool)
    if is_twin.any():  # the push/pop range of the same name is the same part of the program
        outermost = outermost[is_twin]
    start, end, pid = (outermost[name].to_numpy(dtype=np.int64) for name in ("start_ns", "end_ns", "global_pid"))
    work = _work_of(attributed, caused, ranges, len(tables.work))
    facts = ReadPart(name, wanted.step, len(outermost), int((end - start).sum()))
    inside = places.names_inside(roots, attributed)
    return Part(facts, inside, ranges, _calls_of(tables, attributed, ranges, work), work, start, end, pid)


def _find_step(tables: Tables, calls: Calls, ranges: pd.DataFrame, steps: Steps | None, number: int) -> Part:
    """Return the part of a step: what the host did until it began the next one, and the work that it issued then."""
    if steps is None or not steps.are_known:
        raise UsageError(
            "The trace has no steps: nothing in it repeats.", "Read a range of it (--range), or analyze it as a whole."
        )
    issued, bounds = steps.all_starts_ns, steps.all_bounds_ns
    if not 0 <= number < len(bounds) - 1:
        raise UsageError(
            f"The trace has no step {number}.", f"It has the steps 0 to {len(bounds) - 2}; steps.csv lists them."
        )
    pid, (low, high), (begin, end) = steps.global_pid, issued[number : number + 2], bounds[number : number + 2]
    start = ranges["start_ns"].to_numpy(dtype=np.int64)
    of_process = (ranges["global_pid"] == pid).to_numpy(dtype=bool)
    called = (calls.start_ns >= low) & (calls.start_ns < high) & ((calls.tid_of & PID_MASK) == pid)[calls.variant]
    work, launch = tables.work, tables.launch
    mine = np.append(called, False)[launch]
    # Work without a call, such as a migration of memory, belongs to the step in which it began.
    mine |= (launch < 0) & (work.pid_of == pid)[work.variant] & (work.start_ns >= begin) & (work.start_ns < end)
    facts = ReadPart(None, number, 1, int(end - begin), round(steps.step_ns))
    inside = of_process & (start >= low) & (start < high)
    times = (np.array([value], dtype=np.int64) for value in (begin, end, pid))
    return Part(facts, frozenset(), inside, called, mine, *times)


@dataclass(frozen=True)
class _Places:
    """Where each range instance is in the tree of ranges, with counters in names folded and not."""

    folded: Paths
    paths: Paths
    # The names by which the tables list the instances of each path, in the same two orders.
    folded_names: tuple[frozenset[str], ...]
    names: tuple[frozenset[str], ...]

    @classmethod
    def of(cls, attributed: Attributed) -> _Places:
        """Return the places of attributed ranges."""
        structure = attributed.structure
        own = attributed.keys["name"].astype(str).tolist()
        domains = attributed.keys["domain"].astype(str).tolist()
        group = attributed.ranges["group"].to_numpy(dtype=np.int64)
        return cls(
            structure.folded,
            structure.paths,
            _names_of(structure.folded, group, structure.families, domains),
            _names_of(structure.paths, group, own, domains),
        )

    def find(self, name: str) -> tuple[Bools, Bools]:
        """Return which folded and which plain paths are meant: those with this text or, without one, of this name.

        Raises UsageError where there is none.
        """
        by_text = tuple(_mask([text == name for text in paths.texts]) for paths in (self.folded, self.paths))
        if SEPARATOR in name and any(mask.any() for mask in by_text):
            return by_text[0], by_text[1]
        by_name = tuple(_mask([name in names for names in each]) for each in (self.folded_names, self.names))
        if any(mask.any() for mask in by_name):
            return _outermost(self.folded, by_name[0]), _outermost(self.paths, by_name[1])
        raise UsageError(f"The trace has no range {name!r}.", self._advice(name))

    def full_name(self, name: str) -> str:
        """Return the only name that a table shortened to this one, with a `…` in place of a part; else the same."""
        if "…" not in name:
            return name
        shortened = re.compile(".*".join(map(re.escape, name.split("…"))), re.DOTALL)
        full = [known for known in frozenset().union(*self.folded_names) if shortened.fullmatch(known)]
        return full[0] if len(full) == 1 else name

    def _advice(self, name: str) -> str:
        """Return the names that are nearest to one that does not exist."""
        if not self.folded.texts:
            return "It has no range at all: analyze it as a whole."
        known = [*sorted(frozenset().union(*self.folded_names)), *self.folded.texts]
        near = _nearest(name, known) or _nearest(name, sorted(frozenset().union(*self.names)))
        first = list(dict.fromkeys(self.folded.texts))[:_MOST_NAMES]
        text = f"Nearest: {', '.join(near)}" if near else f"It has {', '.join(first)}"
        return f"{text}; {_ALL_NAMES}."

    def at(self, roots: tuple[Bools, Bools]) -> Bools:
        """Return which instances are at one of the paths."""
        folded: Bools = roots[0][self.folded.of_instance]
        return folded | roots[1][self.paths.of_instance]

    def names_inside(self, roots: tuple[Bools, Bools], attributed: Attributed) -> frozenset[str]:
        """Return the names, with counters folded, that have most of their time at or below places like the roots."""
        folded = roots[0].copy()
        folded[self.folded.of_instance[self.at(roots)]] = True
        inside = _below(self.folded, folded)[self.folded.of_instance]
        ranges, families = attributed.ranges, np.array(attributed.structure.families, dtype=object)
        wall = (ranges["end_ns"] - ranges["start_ns"]).to_numpy(dtype=np.int64)
        table = pd.DataFrame({"wall": wall, "inside": np.where(inside, wall, 0)})
        sums = table.groupby(families[ranges["group"].to_numpy(dtype=np.int64)]).sum()
        return frozenset(map(str, sums.index[2 * sums["inside"] > sums["wall"]]))

    def at_or_below(self, roots: tuple[Bools, Bools]) -> Bools:
        """Return which instances are at one of the paths, or inside such a range."""
        return self.at((_below(self.folded, roots[0]), _below(self.paths, roots[1])))


def _names_of(paths: Paths, group: Int64s, names: Sequence[str], domains: Sequence[str]) -> tuple[frozenset[str], ...]:
    """Return by which names the tables list the instances of each path: NAME, DOMAIN:NAME, and the label of a range.

    names, domains: of each group.
    """
    listed: list[set[str]] = [set() for _ in paths.texts]
    pairs = pd.DataFrame({"path": paths.of_instance, "group": group}).drop_duplicates()
    for path, of_path in zip(pairs["path"].tolist(), pairs["group"].tolist(), strict=True):
        name, domain = names[of_path], domains[of_path]
        listed[path] |= {name, range_label(name), f"{domain}:{name}" if domain else name}
    return tuple(frozenset(some) for some in listed)


def _nearest(name: str, known: Sequence[str]) -> list[str]:
    """Return the known names that are like a name, or that hold it, the nearest first."""
    by_lower = {text.lower(): text for text in known}
    like = get_close_matches(name.lower(), by_lower, n=_MOST_NAMES, cutoff=0.5)
    holding = sorted((lower for lower in by_lower if name.lower() in lower), key=len)
    return [by_lower[lower] for lower in dict.fromkeys((*like, *holding))][:_MOST_NAMES]


def _mask(chosen: list[bool]) -> Bools:
    return np.array(chosen, dtype=np.bool_)


def _below(paths: Paths, roots: Bools) -> Bools:
    """Return which paths are one of the roots, or below one. A path comes after the path above it."""
    chosen = roots.copy()
    for path, above in enumerate(paths.parent.tolist()):
        chosen[path] |= above >= 0 and chosen[above]
    return chosen


def _outermost(paths: Paths, chosen: Bools) -> Bools:
    """Return which of the chosen paths are not below another chosen one."""
    inside = np.zeros(len(chosen), dtype=np.bool_)
    for path, above in enumerate(paths.parent.tolist()):
        inside[path] = above >= 0 and bool(inside[above] or chosen[above])
    return chosen & ~inside


def _work_of(attributed: Attributed, caused: CausedWork | None, ranges: Bools, rows: int) -> Bools:
    """Return which rows of work some ranges launched, adopted or captured."""
    work = keep_ranges(attributed, ranges, attributed.keys["name"].tolist()).inside(rows)
    if caused is not None:
        own = caused.of_part(ranges, np.ones(rows, dtype=np.bool_))
        for mask in own.inside():
            work |= mask
        work[own.other_row] = True
    return work


def _calls_of(tables: Tables, attributed: Attributed, ranges: Bools, work: Bools) -> Bools:
    """Return which calls lie in some ranges, or issued some work."""
    assert tables.calls is not None
    calls = np.zeros(len(tables.calls) + 1, dtype=np.bool_)  # the last is for work without a call, whose launch is -1
    calls[tables.launch[work]] = True
    every = np.arange(len(tables.calls), dtype=np.int32)
    for segments in attribute_launched(every, tables.calls, attributed.ranges[ranges]).values():
        calls[segments.order[covered(segments)]] = True
    return calls[:-1]


def cut_tables(tables: Tables, part: Part) -> Tables:
    """Return the tables with the work and the calls of the part alone. Ranges and events of memory stay."""
    calls, kept = tables.calls, np.flatnonzero(part.calls)
    syncs = tables.syncs
    number = new_rows(part.calls)
    if syncs is not None:
        syncs = syncs.assign(call=number[syncs["call"].to_numpy(dtype=np.int64)])
    return replace(
        tables,
        work=_cut_work(tables.work, part.work),
        calls=None if calls is None else _cut_calls(calls, kept),
        launch=number[tables.launch[part.work]].astype(np.int32),
        syncs=syncs,
    )


def _cut_calls(calls: Calls, kept: Int64s) -> Calls:
    return replace(
        calls, start_ns=calls.start_ns[kept], duration_ns=calls.duration_ns[kept], variant=calls.variant[kept]
    )


def _cut_work(work: Work, kept: Bools) -> Work:
    late, in_graph = kept[work.kernels :], work.in_graph_of[work.variant]
    return replace(
        work,
        start_ns=work.start_ns[kept],
        duration_ns=work.duration_ns[kept],
        variant=work.variant[kept],
        bytes=work.bytes[late],
        copy_kind=work.copy_kind[late],
        host_kind=work.host_kind[late],
        graph_node=work.graph_node[kept[in_graph]],
        kernels=int(kept[: work.kernels].sum()),
    )


def cut_attribution(found: Attribution, part: Part) -> Attribution:
    """Return what ranges launched, for the ranges, calls and work of the part alone."""
    calls, number = part.calls, new_rows(part.calls)
    launched = found.launch_calls
    return replace(
        found,
        launches=found.launches[calls],
        launching=found.launching[calls],
        launch_calls=replace(
            launched, launches=launched.launches[calls], replays=launched.replays[calls], lost=launched.lost[calls]
        ),
        replays=tuple(number[rows[calls[rows]]] for rows in found.replays),
        attributed=_cut_attributed(found.attributed, part),
    )


def _cut_attributed(attributed: Attributed, part: Part) -> Attributed:
    kept = keep_ranges(attributed, part.ranges, attributed.keys["name"].tolist())
    number = new_rows(part.work)
    segments: dict[str, Segments] = {}
    for style, of_style in kept.segments.items():
        inside = part.work[of_style.order]
        before = np.concatenate(([0], np.cumsum(inside)))
        order: Rows = number[of_style.order[inside]].astype(np.int32)
        segments[style] = Segments(order, of_style.instance, before[of_style.low], before[of_style.high])
    return replace(kept, segments=segments, steady_from=attributed.steady_from)


def new_rows(kept: Bools) -> Any:
    """Return the new number of each row where some are kept; -1 for the others, and for -1."""
    return np.append(np.where(kept, np.cumsum(kept) - 1, -1), -1)
