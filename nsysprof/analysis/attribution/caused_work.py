"""Find kernels that a range caused but did not launch itself: adopted from helper threads, or captured into graphs.

The three kinds never overlap: work that a range launched is not also adopted or captured by it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pandas as pd

from nsysprof.analysis.attribution.adoption import ADOPTED, NONE, OWN, REASONS, Points, ThreadRanges, adopt
from nsysprof.analysis.attribution.attribute import Segments, attribute_work, covered, order_work
from nsysprof.analysis.attribution.calls import RESOLVED, UNRESOLVED, GraphWork, find_graph_work
from nsysprof.analysis.attribution.duration_statistics import sum_by
from nsysprof.analysis.attribution.range_structure import RangeStructure
from nsysprof.analysis.kernel_names.variant_names import Names
from nsysprof.arrays import different, find_places
from nsysprof.trace.schema import Bools, Calls, Int64s, Ints, Rows, Tables, Work

CAUSED_COLUMNS = ("group", "kind", "number", "instances", "total_ns")
# The most pairs of an owner and a name that are looked at without sorting them: this many more than there are kernels.
_MOST_SUMS = 1 << 18
# How many kernels are summed up at a time.
_BLOCK = 1 << 18
_Reasons = npt.NDArray[np.int8]


@dataclass(frozen=True)
class CausedWork:
    """The kernels that ranges adopted and captured, as rows of work."""

    # Each adopted kernel, and the innermost range that waited for it.
    adopted_row: Rows
    adopted_owner: Ints
    # The same for copies, fills and other work.
    other_row: Rows
    other_owner: Ints
    # Why each row of work was adopted or not (see adoption.py).
    reason: _Reasons
    # The kernels of graph replays; None where there are none.
    graph: GraphWork | None
    # Pairs (range instance, position in graph.created): the ranges in which each node was created, each pair once.
    creators: tuple[Int64s, Int64s]

    def inside(self) -> tuple[Bools, Bools]:
        """Return two masks over the rows of work: adopted by a range, and captured by a range."""
        adopted, captured = (np.zeros(len(self.reason), dtype=bool) for _ in range(2))
        adopted[self.adopted_row] = True
        if self.graph is not None:
            captured[self.graph.row[np.isin(self.graph.node, self.creators[1])]] = True
        return adopted, captured

    def adopted_pairs(self, parent: Int64s) -> tuple[Int64s, Int64s]:
        """Return pairs (range instance, kernel): the ranges that waited for a kernel, and all ranges around them."""
        return _add_ranges_around(self.adopted_owner, self.adopted_row, parent)

    def all_adopted_pairs(self, parent: Int64s) -> tuple[Int64s, Int64s]:
        """Return pairs (range instance, row of work) as adopted_pairs does, with copies, fills and other work."""
        return _add_ranges_around(*self._all_adopted(), parent)

    def adopted_stretches(self, parent: Int64s, group: Int64s) -> tuple[Rows, Int64s, Int64s, Int64s]:
        """Return the rows of all adopted work, and which of them each group has: stretches (group, low, high) of them.

        A group has the work of its ranges and of those inside them, once. group: of each range.
        """
        owner, rows = self._all_adopted()
        order = np.argsort(owner, kind="stable")
        edges = np.flatnonzero(np.diff(owner[order], prepend=-1, append=-1))
        waiters = owner[order[edges[:-1]]]
        instance, stretch = _add_ranges_around(waiters, np.arange(len(waiters)), parent)
        groups = int(group.max(initial=0)) + 1
        stretch, of = np.divmod(different(stretch * groups + group[instance]), groups)
        return rows[order], of, edges[stretch], edges[stretch + 1]

    def _all_adopted(self) -> tuple[Ints, Rows]:
        rows = np.concatenate((self.adopted_row, self.other_row))
        return np.concatenate((self.adopted_owner, self.other_owner)), rows

    def kernels_alone(self) -> CausedWork:
        """Return the same without adopted copies, fills and other work."""
        return replace(self, other_row=self.other_row[:0], other_owner=self.other_owner[:0])

    def of_part(self, ranges: Bools, work: Bools) -> CausedWork:
        """Return what some ranges caused of some of the work, both numbered anew as if there were no others."""
        range_number, row_number = np.cumsum(ranges) - 1, (np.cumsum(work) - 1).astype(np.int32)
        adopted = ranges[self.adopted_owner] & work[self.adopted_row]
        others = ranges[self.other_owner] & work[self.other_row]
        graph, created = self.graph, ranges[self.creators[0]]
        if graph is not None:
            mine = work[graph.row]
            graph = replace(graph, row=row_number[graph.row[mine]], node=graph.node[mine], why=graph.why[mine])
        return CausedWork(
            row_number[self.adopted_row[adopted]],
            range_number[self.adopted_owner[adopted]],
            row_number[self.other_row[others]],
            range_number[self.other_owner[others]],
            self.reason[work],
            graph,
            (range_number[self.creators[0][created]], self.creators[1][created]),
        )

    def replays(self, instances: int) -> Int64s:
        """Return how often the nodes that each range instance captured were replayed; 0 where it captured nothing."""
        replayed = np.zeros(instances, dtype=np.int64)
        if self.graph is not None and len(self.creators[0]):
            nodes, count = np.unique(self.graph.node[self.graph.why == RESOLVED], return_counts=True)
            np.maximum.at(replayed, self.creators[0], count[np.searchsorted(nodes, self.creators[1])])
        return replayed

    def graph_reasons(self) -> dict[str, int]:
        """Return how many kernels of replays could not be traced back to a creation, by reason."""
        if self.graph is None:
            return {}
        counts = {text: int((self.graph.why == why).sum()) for why, text in UNRESOLVED.items()}
        return {text: count for text, count in counts.items() if count}

    def reasons_of(self, outside: Ints) -> dict[str, int]:
        """Return how many of the kernels outside every range have each reason.

        outside: the rows of these kernels.
        """
        reasons = self.reason[outside]
        counts = {text: int((reasons == why).sum()) for why, text in REASONS.items()}
        counts["launched outside every range"] = int(((reasons == NONE) | (reasons == OWN)).sum())
        return counts


def _add_ranges_around(owner: Ints, row: Ints, parent: Int64s) -> tuple[Int64s, Int64s]:
    """Return the pairs (range instance, row) together with those of all ranges around each one."""
    owner, row = owner.astype(np.int64), row.astype(np.int64)
    owners, rows = [owner], [row]
    while len(owner):
        above = parent[owner]
        owner, row = above[above >= 0], row[above >= 0]
        owners.append(owner)
        rows.append(row)
    return np.concatenate(owners), np.concatenate(rows)


def find_caused(tables: Tables, ranges: pd.DataFrame, structure: RangeStructure) -> CausedWork:
    """Return what ranges caused without launching it themselves.

    ranges: instances in order of start, with `group`.
    """
    work, none = tables.work, np.zeros(0, dtype=np.int64)
    graph = find_graph_work(tables)
    reason: _Reasons = np.full(len(work), NONE, dtype=np.int8)
    rows, creators = none.astype(np.int32), (none, none)
    owner: Ints = none
    others = rows, owner
    if tables.calls is not None and len(ranges) and len(work):
        threads = ThreadRanges(ranges, structure.parent, tables.calls)
        if threads.waiters:
            (rows, owner), others, reason = _adopted(tables.calls, work, tables.launch, threads)
        if graph is not None:
            creators = _creators(graph, ranges, threads)
    return CausedWork(rows, owner, *others, reason, graph, creators)


def _adopted(
    calls: Calls, work: Work, launch: Rows, threads: ThreadRanges
) -> tuple[tuple[Rows, Ints], tuple[Rows, Ints], _Reasons]:
    """Return the adopted kernels with their ranges, other adopted work likewise, and the reason of each row of work."""
    launches = np.zeros(len(calls) + 1, dtype=bool)  # the last element is for work without a call, whose launch is -1
    launches[launch] = True
    can_be_helped = _can_be_helped(calls, threads)
    rows = np.flatnonzero(launches[:-1] & can_be_helped[calls.variant]).astype(np.int32)
    del launches
    helped = np.unique(calls.tid_of[can_be_helped])
    # The events of a single thread share one tid, so it is stored once.
    tid = np.broadcast_to(helped, len(rows)) if len(helped) == 1 else calls.tid_of[calls.variant[rows]]
    adoption = adopt(threads, Points(calls.start_ns[rows], calls.ends_ns(rows), tid))
    why_of = np.full(len(calls) + 1, NONE, np.int8)
    why_of[rows] = adoption.reason
    reason: _Reasons = why_of[launch]
    kernels = np.flatnonzero(reason[: work.kernels] == ADOPTED).astype(np.int32)
    others = (np.flatnonzero(reason[work.kernels :] == ADOPTED) + work.kernels).astype(np.int32)
    adopters = [adoption.owner[find_places(rows, launch[adopted_rows])] for adopted_rows in (kernels, others)]
    return (kernels, adopters[0]), (others, adopters[1]), reason


def _can_be_helped(calls: Calls, threads: ThreadRanges) -> Bools:
    """Return for each variant of call whether another thread of its process has ranges of the user."""
    waiters = set(threads.waiters)
    of_process = Counter(tid >> 24 for tid in waiters)
    return np.array([of_process[tid >> 24] > (tid in waiters) for tid in calls.tid_of.tolist()], dtype=bool)


def _creators(graph: GraphWork, ranges: pd.DataFrame, threads: ThreadRanges) -> tuple[Int64s, Int64s]:
    """Return pairs (range, node) of the ranges that were open when a node was created.

    A range counts if it was open on the node's thread, or waited for that thread.
    """
    nodes = np.unique(graph.node[graph.why == RESOLVED])
    created = graph.created.of(nodes)
    tids, code = np.unique(created.global_tid, return_inverse=True)
    nothing = np.zeros(len(code), dtype=np.uint32)
    variants = np.column_stack((np.zeros_like(tids), tids, np.zeros_like(tids)))
    calls = Calls(created.start_ns, nothing, code.astype(np.int32), variants, 0)
    launched = order_work(np.arange(len(code), dtype=np.int32), calls)
    pairs: list[tuple[Ints, Ints]] = [
        attribute_work(launched[scope], ranges, style).pairs()
        for style, scope in (("PushPop", "thread"), ("StartEnd", "process"))
    ]
    adoption = adopt(threads, created)
    waited = np.flatnonzero(adoption.reason == ADOPTED)
    owner: Ints = adoption.owner[waited]
    while len(owner):
        pairs.append((owner, waited))
        above = threads.parent[owner]
        owner, waited = above[above >= 0], waited[above >= 0]
    instance, node = (np.concatenate([pair[side] for pair in pairs]).astype(np.int64) for side in (0, 1))
    keys = np.unique(instance * np.int64(len(nodes) + 1) + node)
    return keys // (len(nodes) + 1), nodes[keys % (len(nodes) + 1)]


def adopted_of_instances(work: Work, caused: CausedWork, parent: Int64s) -> tuple[Int64s, Int64s]:
    """Return the number and the total time (ns) of the kernels that each instance adopted, nested ranges included."""
    count = np.bincount(caused.adopted_owner, minlength=len(parent)).astype(np.int64)
    total = sum_by(caused.adopted_owner, work.duration_ns[caused.adopted_row], len(parent))
    owner = np.flatnonzero(count)
    above, its_count, its_total = parent[owner], count[owner], total[owner]
    while len(above := above[kept := above >= 0]):
        its_count, its_total = its_count[kept], its_total[kept]
        np.add.at(count, above, its_count)
        np.add.at(total, above, its_total)
        above = parent[above]
    return count, total


def captured_of_places(
    work: Work, caused: CausedWork, structure: RangeStructure, segments: dict[str, Segments], names: Names
) -> pd.DataFrame:
    """Return the captured kernels by place in the folded tree of ranges, with the columns of tabulate_caused."""
    if caused.graph is None or len(caused.creators[0]) == 0:
        return pd.DataFrame(columns=list(CAUSED_COLUMNS))
    return _tabulate_captured(work, caused, structure.folded.of_instance, structure, segments, names)


def tabulate_caused(
    work: Work,
    caused: CausedWork,
    group: Int64s,
    structure: RangeStructure,
    segments: dict[str, Segments],
    names: Names,
) -> pd.DataFrame:
    """Return instances and total time (ns) by group of ranges, kind ("adopted", "captured") and number of the name.

    group: the group of each range.
    segments: what each range launched itself, which does not count as captured, and neither does what it adopted.
    """
    parts = [_tabulate_adopted(work, caused, group, structure, names)]
    if caused.graph is not None and len(caused.creators[0]):
        parts.append(_tabulate_captured(work, caused, group, structure, segments, names))
    return pd.concat(parts, ignore_index=True)


def _tabulate_adopted(
    work: Work, caused: CausedWork, group: Int64s, structure: RangeStructure, names: Names
) -> pd.DataFrame:
    paths = structure.paths
    table = _sum(work, paths.of_instance.astype(np.int32)[caused.adopted_owner], caused.adopted_row, names)
    group_of_path = np.full(len(paths.texts), -1, dtype=np.int64)
    group_of_path[paths.of_instance] = group
    # Each enclosing group counts a kernel once, however often its name appears around it.
    pairs = []
    for path in np.unique(table["owner"]).tolist():
        above = path
        groups: dict[int, None] = {}
        while above >= 0:
            groups[int(group_of_path[above])] = None
            above = int(paths.parent[above])
        pairs += [(path, enclosing) for enclosing in groups]
    ways = pd.DataFrame(pairs, columns=["owner", "group"], dtype="int64")
    return _add_up(table.merge(ways, on="owner"), "adopted")


def _tabulate_captured(
    work: Work,
    caused: CausedWork,
    group: Int64s,
    structure: RangeStructure,
    segments: dict[str, Segments],
    names: Names,
) -> pd.DataFrame:
    graph = caused.graph
    assert graph is not None
    kernels = (graph.row < work.kernels) & (graph.why == RESOLVED)
    row, node = graph.row[kernels], graph.node[kernels]
    table = _sum(work, node, row, names)
    creators = group[caused.creators[0]], caused.creators[1]
    ways = pd.DataFrame({"group": creators[0], "owner": creators[1]}).drop_duplicates()
    parts = [_add_up(table.merge(ways, on="owner"), "captured")]

    def leave_out(chosen: Bools, owner: int) -> None:
        twice = chosen & np.isin(node, creators[1][creators[0] == owner])
        less = _sum(work, np.full(int(twice.sum()), owner), row[twice], names).rename(columns={"owner": "group"})
        parts.append(_add_up(less.assign(instances=-less["instances"], total_ns=-less["total_ns"]), "captured"))

    position = np.full(len(work), -1, dtype=np.int64)
    for of_style in segments.values():
        position[of_style.order] = np.arange(len(of_style.order))
        at = position[row]
        group_of = group[of_style.instance]
        # ranges that created nodes and also replayed a graph: few
        for both in np.intersect1d(group_of, creators[0]).tolist():
            mine = group_of == both
            launched = covered(
                Segments(of_style.order, of_style.instance[mine], of_style.low[mine], of_style.high[mine])
            )
            leave_out((at >= 0) & launched[np.maximum(at, 0)], both)
    replayed = np.isin(caused.adopted_row, row)
    if replayed.any():
        of_replays = replace(
            caused, adopted_row=caused.adopted_row[replayed], adopted_owner=caused.adopted_owner[replayed]
        )
        waiting, adopted = of_replays.adopted_pairs(structure.parent)
        group_of = group[waiting]
        for both in np.intersect1d(group_of, creators[0]).tolist():
            leave_out(np.isin(row, adopted[group_of == both]), both)
    total = _add_up(pd.concat(parts), "captured")
    return total[total["instances"] > 0]


def _sum(work: Work, owner: Ints, row: Rows, names: Names) -> pd.DataFrame:
    """Return instances and total time (ns) of the kernels by owner and number of the name."""
    width = np.int64(max(1, len(names.texts)))
    size, known = (int(owner.max(initial=-1)) + 1) * int(width), None
    if size > len(row) + _MOST_SUMS:
        known = np.unique(owner * width + names.numbers(work.variant[row]))
        size = len(known)
    count, total = np.zeros((2, size), dtype=np.int64)
    for low in range(0, len(row), _BLOCK):
        block = row[low : low + _BLOCK]
        keys = owner[low : low + _BLOCK] * width + names.numbers(work.variant[block])
        place = keys if known is None else np.searchsorted(known, keys)
        np.add.at(count, place, 1)
        np.add.at(total, place, work.duration_ns[block].astype(np.int64))
    if known is None:
        known = np.flatnonzero(count)
        count, total = count[known], total[known]
    keys = known
    return pd.DataFrame({"owner": keys // width, "number": keys % width, "instances": count, "total_ns": total})


def _add_up(table: pd.DataFrame, kind: str) -> pd.DataFrame:
    sums = table.groupby(["group", "number"], sort=True)[["instances", "total_ns"]].sum().reset_index()
    return sums.assign(kind=kind)[list(CAUSED_COLUMNS)]
