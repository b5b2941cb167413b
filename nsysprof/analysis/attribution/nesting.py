"""Compute how push/pop ranges nest on their threads: levels, parents, and paths of names from the outermost range."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
import pandas as pd

from nsysprof.trace.schema import Int64s

SEPARATOR = " > "
# Ranges of two domains may overlap without nesting. The enclosing range is sought among this many that began before.
_SOUGHT = 64
# No program nests more deeply, only a damaged trace. A deeper range is shown without its outer ranges.
_DEEPEST = 200
# The most characters that are shown of a name and of a path.
_LONGEST_NAME, _LONGEST_PATH = 500, 4000
# The most paths that are shown for one name: those with the most time.
_MOST_PATHS = 4


@dataclass(frozen=True)
class Paths:
    """The path of each range: the names from the outermost range down to it."""

    # The number of each range's path.
    of_instance: Int64s
    # The text of each path, and the number of its parent path or -1.
    texts: list[str]
    parent: Int64s


def nesting_levels(ranges: pd.DataFrame) -> Int64s:
    """Return the nesting depth of each push/pop range on its thread, for ranges in order of start.

    The depth is the number of ranges of the thread that started before and have not ended yet. Start/end ranges are
    level 0.
    """
    levels = np.zeros(len(ranges), dtype=np.int64)
    pushed = np.flatnonzero((ranges["style"] == "PushPop").to_numpy(dtype=bool))
    start, end, tid = (
        ranges[column].to_numpy(dtype=np.int64)[pushed] for column in ("start_ns", "end_ns", "global_tid")
    )
    order = np.argsort(tid, kind="stable")
    for rows in np.split(order, np.flatnonzero(np.diff(tid[order])) + 1):
        ended = np.searchsorted(np.sort(end[rows]), start[rows], "right")
        levels[pushed[rows]] = np.maximum(0, np.arange(len(rows)) - ended)
    return levels


def parents(ranges: pd.DataFrame) -> Int64s:
    """Return for each range (in order of start) the row of the push/pop range of its thread that encloses it, or -1."""
    parent = np.full(len(ranges), -1, dtype=np.int64)
    level = nesting_levels(ranges)
    start, end, tid = (ranges[column].to_numpy(dtype=np.int64) for column in ("start_ns", "end_ns", "global_tid"))
    pushed = np.flatnonzero((ranges["style"] == "PushPop").to_numpy(dtype=bool))
    order = pushed[np.argsort(tid[pushed], kind="stable")]  # by thread, then by start
    # Rows by level: the parent is the last row of the level above that comes before.
    keys = level[order] * len(ranges) + np.arange(len(order))
    inner = np.flatnonzero(level[order] > 0)
    by_level = np.sort(keys)
    above = by_level[np.searchsorted(by_level, keys[inner] - len(ranges)) - 1] if len(inner) else inner
    parent[order[inner]] = order[above % max(1, len(ranges))]
    nested = np.flatnonzero(level > 0)
    above = parent[nested]
    wrong = nested[(end[above] < end[nested]) | (start[above] > start[nested]) | (tid[above] != tid[nested])]
    place = np.zeros(len(ranges), dtype=np.int64)
    place[order] = np.arange(len(order))
    for row in wrong.tolist():
        before = order[max(0, place[row] - _SOUGHT) : place[row]]
        holds = before[(end[before] >= end[row]) & (tid[before] == tid[row])]
        parent[row] = holds[-1] if len(holds) else -1
    return parent


def depths(parent: Int64s) -> Int64s:
    """Return how many ranges enclose each one."""
    depth = (parent >= 0).astype(np.int64)
    above = parent.copy()
    while (inside := above >= 0).any():  # each round looks twice as many levels up
        depth[inside] += depth[above[inside]]
        above[inside] = above[above[inside]]
    return depth


def find_paths(parent: Int64s, group: Int64s, names: list[str]) -> Paths:
    """Return the path of each range. Long paths are cut.

    parent: the row of each range's parent, or -1.
    group: the number of each range's name.
    names: the name of each group.
    """
    path = np.full(len(parent), -1, dtype=np.int64)
    above: list[int] = []
    texts: list[str] = []
    depth = np.minimum(depths(parent), _DEEPEST)
    order = np.argsort(depth, kind="stable")
    edges = np.searchsorted(depth[order], np.arange(int(depth.max(initial=-1)) + 2))
    for level, (low, high) in enumerate(itertools.pairwise(edges.tolist())):
        rows = order[low:high]
        outer = path[parent[rows]] if level else np.full(len(rows), -1)
        keys, number = np.unique(outer * len(names) + group[rows], return_inverse=True)
        path[rows] = len(texts) + number
        for key in keys.tolist():
            up, own = (key // len(names), names[key % len(names)][:_LONGEST_NAME]) if names else (-1, "")
            above.append(up)
            known = texts[up] if up >= 0 else ""
            texts.append(own if up < 0 else known + SEPARATOR + own if len(known) < _LONGEST_PATH else known)
    return Paths(path, texts, np.array(above, dtype=np.int64))


def describe_places(paths: Paths, group: Int64s, wall_ns: Int64s, groups: int) -> list[str]:
    """Return for each group the paths of its ranges, joined by ` | `, those with the most time first."""
    width = max(1, len(paths.texts))
    pairs, number = np.unique(group * width + paths.of_instance, return_inverse=True)
    wall = np.zeros(len(pairs), dtype=np.int64)
    np.add.at(wall, number, wall_ns)
    owner, which = pairs // width, pairs % width
    order = np.lexsort((which, -wall, owner))
    texts_by_group: list[list[str]] = [[] for _ in range(groups)]
    for group_number, path in zip(owner[order].tolist(), which[order].tolist(), strict=True):
        texts_by_group[group_number].append(paths.texts[path])
    return [_join(list(dict.fromkeys(texts))) for texts in texts_by_group]


def _join(texts: list[str]) -> str:
    more = len(texts) - _MOST_PATHS
    return " | ".join(texts[:_MOST_PATHS]) + (f" | and {more} more" if more > 0 else "")
