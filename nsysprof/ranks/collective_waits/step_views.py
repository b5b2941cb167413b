"""Keep what a rank does in its last steps, and put one step of all ranks on one clock, with who waits for whom."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from nsysprof.analysis.kernel_names.variant_names import Names
from nsysprof.ranks.collective_waits.collectives import is_together
from nsysprof.ranks.overlap import Overlap, cover, innermost_ranges
from nsysprof.results.rank_results import StepLane, StepPicture
from nsysprof.trace.schema import Int64s, Tables

# So many steps at the end are kept, to choose a usual one, and of each of them so much at most.
_STEPS, _MOST_COLLECTIVES, _MOST_RANGES = 4, 400, 60
# In how many slices the computation of a step is counted.
_SLICES = 400
# A rank is the late one of a step if the others wait for it for this share of all waiting, and all ranks together for
# this share of the step.
_LEAST_OF_WAITS, _LEAST_OF_STEP = 0.5, 0.03


@dataclass(frozen=True)
class StepView:
    """What a rank does in one step. Times are in ns, by the clock of the rank.

    compute_pct: the share of each of equal slices of the step in which kernels compute (percent).
    collectives: the sequence, its number from the end, and begin and end of each; a sequence without a name is not
        ended by all ranks together.
    ranges: name, begin and end of the computation of each range, in order; the longest ones.
    """

    start_ns: int
    end_ns: int
    compute_pct: tuple[int, ...]
    collectives: tuple[tuple[str, int, int, int], ...]
    ranges: tuple[tuple[str, int, int], ...]


def view_steps(
    tables: Tables, names: Names, ranges: pd.DataFrame, overlap: Overlap, bounds: Int64s
) -> tuple[StepView, ...]:
    """Return the last steps of a rank, the last one first.

    bounds: when each step began, and when the last one ended.
    """
    work = tables.work
    number = names.numbers(work.variant[: work.kernels])
    computes = np.flatnonzero((names.category != "communication")[number])
    computing = cover(work.start_ns[computes], work.ends_ns(computes))
    rows = overlap.comm_rows[np.argsort(work.start_ns[overlap.comm_rows], kind="stable")]
    _, stream = np.unique(work.streams_of[work.variant[rows]], axis=0, return_inverse=True)
    kernel = [str(text) for text in names.short[number[rows]]]
    place = pd.factorize(stream.ravel())[0].tolist()
    sequence = pd.Series([f"{text}#{at}" if is_together(text) else "" for text, at in zip(kernel, place, strict=True)])
    ordinal = sequence.groupby(sequence).cumcount(ascending=False).to_numpy()
    start, end = work.start_ns[rows], work.ends_ns(rows)
    of_ranges = _computation_of_ranges(tables, ranges, computes, bounds[-_STEPS - 1 :])
    views = []
    for begin, until in list(zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True))[: -_STEPS - 1 : -1]:
        edges = np.linspace(begin, until, _SLICES + 1).astype(np.int64)
        share = 100 * np.diff(computing.until(edges)) / np.maximum(np.diff(edges), 1)
        at = np.flatnonzero((start >= begin) & (start < until))
        longest = np.sort(at[np.argsort(start[at] - end[at], kind="stable")[:_MOST_COLLECTIVES]])
        columns = (sequence[longest], ordinal[longest], start[longest], end[longest])
        said = zip(*(column.tolist() for column in columns), strict=True)
        mine = of_ranges[(of_ranges["start_ns"] >= begin) & (of_ranges["start_ns"] < until)]
        mine = mine.loc[mine["length_ns"].nlargest(_MOST_RANGES).index.sort_values()]
        shown = zip(mine["name"], mine["start_ns"].tolist(), mine["end_ns"].tolist(), strict=True)
        views.append(StepView(begin, until, tuple(np.rint(share).astype(int).tolist()), tuple(said), tuple(shown)))
    return tuple(views)


def _computation_of_ranges(tables: Tables, ranges: pd.DataFrame, computes: Int64s, bounds: Int64s) -> pd.DataFrame:
    """Return when neighbouring kernels of one range compute, between the first and the last of `bounds`.

    The rows have name, start_ns, end_ns and length_ns. Work belongs to its innermost range.
    """
    work = tables.work
    kernels = computes[(work.start_ns[computes] >= bounds[0]) & (work.start_ns[computes] < bounds[-1])]
    kernels = kernels[np.argsort(work.start_ns[kernels], kind="stable")]
    owner = np.full(len(kernels), -1, dtype=np.int64)
    if len(ranges) and len(kernels):
        launch = np.full(len(work), -1, dtype=np.int64)
        launch[kernels] = tables.launch[kernels]
        owner = innermost_ranges(tables, launch, ranges)[kernels]
    kernels, owner = kernels[owner >= 0], owner[owner >= 0]
    if not len(kernels):
        return pd.DataFrame({"name": [], "start_ns": [], "end_ns": [], "length_ns": []})
    name = ranges["name"].astype(str).to_numpy(dtype=object)[owner]
    start, end = work.start_ns[kernels], work.ends_ns(kernels)
    # A step is a new part even where its range is the same.
    changes = (name[1:] != name[:-1]) | (np.diff(np.searchsorted(bounds, start, "right")) > 0)
    first = np.flatnonzero(np.concatenate(([True], changes)))
    ends = np.maximum.reduceat(end, first)
    return pd.DataFrame(
        {"name": name[first], "start_ns": start[first], "end_ns": ends, "length_ns": ends - start[first]}
    )


def draw_together(
    views: Mapping[int, tuple[StepView, ...]], offset_ns: Mapping[int, int], step_ns: float, late: tuple[int, ...]
) -> StepPicture | None:
    """Return one step of all ranks that have a clock; None where fewer than two have one.

    offset_ns: what turns the times of each rank into those of the reference.
    step_ns: how long a step usually takes.
    late: the ranks that hold up the job, as far as they are known. A step that shows the first of them is chosen.
    """
    ranks = [rank for rank in views if rank in offset_ns and views[rank]]
    if len(ranks) < 2:
        return None
    pictures = [
        _join({rank: views[rank][number] for rank in ranks}, offset_ns)
        for number in range(min(len(views[rank]) for rank in ranks))
    ]
    usual = sorted(pictures, key=lambda picture: abs(picture.wall_ns - step_ns))
    return next((picture for picture in usual if picture.late in late[:1]), usual[0])


def _join(views: Mapping[int, StepView], offset_ns: Mapping[int, int]) -> StepPicture:
    begin = min(view.start_ns + offset_ns[rank] for rank, view in views.items())
    end = max(view.end_ns + offset_ns[rank] for rank, view in views.items())
    shift = {rank: offset_ns[rank] - begin for rank in views}
    arrived: dict[tuple[str, int], dict[int, int]] = {}
    for rank, view in views.items():
        for sequence, ordinal, start, _ in view.collectives:
            if sequence:
                arrived.setdefault((sequence, ordinal), {})[rank] = start + shift[rank]
    shared = {key: times for key, times in arrived.items() if len(times) == len(views)}
    waited: dict[int, list[tuple[int, int, int]]] = {}
    for times in shared.values():
        last = max(times, key=lambda rank: times[rank])
        waited.setdefault(last, []).extend((rank, time, times[last]) for rank, time in times.items())
    waited_ns = {last: _add_up(waits) for last, waits in waited.items()}
    lanes = []
    for rank, view in views.items():
        moves, waits = [], []
        for sequence, ordinal, start, stop in view.collectives:
            came, left = start + shift[rank], stop + shift[rank]
            here = min(left, max(shared.get((sequence, ordinal), {rank: came}).values()))
            waits.append((came, here))
            moves.append((here, left))
        ranges = tuple((name, start + shift[rank], stop + shift[rank]) for name, start, stop in view.ranges)
        lanes.append(
            StepLane(rank, view.start_ns + shift[rank], view.end_ns + shift[rank], view.compute_pct, tuple(moves),
                     tuple(wait for wait in waits if wait[1] > wait[0]), ranges)
        )  # fmt: skip
    worst = max(waited_ns, key=lambda rank: waited_ns[rank], default=0)
    most = waited_ns.get(worst, 0)
    least = _LEAST_OF_STEP * (end - begin) * (len(views) - 1)
    is_late = most > max(_LEAST_OF_WAITS * sum(waited_ns.values()), least)
    return StepPicture(end - begin, tuple(lanes), worst if is_late else None, most if is_late else 0)


def _add_up(waits: list[tuple[int, int, int]]) -> int:
    """Return how long ranks wait, added over ranks; a rank may wait in several collectives at once.

    waits: the rank, the begin and the end of each wait.
    """
    by_rank: dict[int, list[tuple[int, int]]] = {}
    for rank, start, end in waits:
        by_rank.setdefault(rank, []).append((start, end))
    return sum(cover(*np.array(spans, dtype=np.int64).T).length_ns() for spans in by_rank.values())
