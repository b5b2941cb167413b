"""Label ranges by what a person looks for, and choose the rows and columns of ranges that reports show."""

from __future__ import annotations

from collections import ChainMap, Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

import pandas as pd

from nsysprof.attention.range_name import range_label
from nsysprof.results.analysis import Analysis
from nsysprof.results.findings import STEP

# The most ranges shown at the top and inside a range; fewer where they have no GPU work, such as a compiler's.
_MOST_ROOTS = 200
_MOST_CHILDREN, _MOST_IDLE_CHILDREN = 12, 3
_ADDED = (
    "instances", "wall_ns", "kernel_count", "kernel_total_ns", "adopted_kernel_count", "adopted_kernel_total_ns",
    "captured_kernel_count", "captured_kernel_total_ns",
)  # fmt: skip
_OF_NAME = (
    "launch_count", "gpu_busy_ns", "all_busy_ns", "caused_memcpy_bytes", "caused_memset_bytes",
    "memcpy_bytes", "memset_bytes", "dram_read_bytes", "dram_write_bytes",
    "dram_read_error_bytes", "dram_write_error_bytes",
)  # fmt: skip
_PEAK = "peak_vram_bytes"
_STEADY = ("warmup_instances", "steady_wall_med_ns")
_KEY = ("range", "style", "domain")
_key = itemgetter(*_KEY)


@dataclass(frozen=True)
class RangeRow:
    """A place in the tree.

    numbers: by the names of columns of range_tree.csv and ranges.csv; None for unknown.
    """

    name: str
    # The range's full name, which `name` may shorten.
    full: str
    depth: int
    numbers: Mapping[str, Any]

    @property
    def busy_ns(self) -> int | None:
        """Return the busy time of the GPU (ns) with all work that counts in the row."""
        busy, own = self.numbers["all_busy_ns"], self.numbers["gpu_busy_ns"]
        if busy is None and self.sum_of("kernel_count") == self.numbers["kernel_count"]:
            busy = own
        return None if busy is None else int(busy)

    def bytes_of(self, column: str) -> int | None:
        """Return the bytes that the range copied or set, including what it caused other threads to do.

        column: a column of ranges.csv.
        """
        launched, caused = self.numbers[column], self.numbers[f"caused_{column}"]
        return None if launched is None else int(launched) + int(caused or 0)

    @property
    def may_work(self) -> bool:
        """Return whether the range has kernels, or an unknown number of them."""
        return self.sum_of("kernel_count") != 0

    def sum_of(self, column: str) -> int | None:
        """Return the sum of what the range launched, adopted and captured."""
        launched = self.numbers[column]
        if launched is None:
            return None
        return int(launched) + sum(int(self.numbers[f"{kind}_{column}"] or 0) for kind in ("adopted", "captured"))


def range_rows(analysis: Analysis) -> list[RangeRow]:
    """Return the rows of the tree in order. Too many children of one place become one row at its end.

    A push/pop range whose process-wide twin exists is not shown twice.
    """
    tree = analysis.range_tree
    twins = set(tree.loc[tree["style"] == "StartEnd", "range"])
    tree = tree[(tree["style"] == "StartEnd") | ~tree["range"].isin(twins)]
    by_name = {**{_key(row): row for row in _of_names(analysis.ranges)}, **_by_name(analysis.ranges)}
    places = _records(tree, (*_KEY, "depth", *_ADDED, *_STEADY))
    times = Counter(map(_key, places))
    unknown = _unknown()
    children: dict[int, list[RangeRow]] = {}
    rows: list[RangeRow] = []
    above: list[int] = []  # the row of each open place, by depth
    for cells in places:
        more = by_name.get(_key(cells), {}) if times[_key(cells)] == 1 else {}
        numbers = ChainMap(cells, more, unknown)
        place = RangeRow(_label(cells), str(cells["range"]), int(cells["depth"]), numbers)
        del above[place.depth :]
        children.setdefault(above[-1] if above else -1, []).append(place)
        above += [len(rows)] * (place.depth + 1 - len(above))
        rows.append(place)
    number = {id(row): at for at, row in enumerate(rows)}
    any_work = any(row.may_work for row in rows)
    ordered: list[RangeRow] = []
    left = _fold(children.get(-1, []), any_work=any_work, is_inside_idle=False)[::-1]
    while left:
        row = left.pop()
        ordered.append(row)
        at = number.get(id(row))
        if at is not None and at in children:
            idle = any_work and not row.may_work
            left += _fold(children[at], any_work=any_work, is_inside_idle=idle)[::-1]
    return ordered


def _fold(siblings: list[RangeRow], *, any_work: bool, is_inside_idle: bool) -> list[RangeRow]:
    """Return the first of the siblings, and one row for all others.

    Those without GPU work whose labels are equal are one row: a compiler's pass over many modules, for example.

    any_work: whether any range of the trace has GPU work.
    is_inside_idle: whether the enclosing range has none.
    """
    if is_inside_idle or not siblings:
        return []
    working = [row for row in siblings if not any_work or row.may_work]
    idle = _join_alike([row for row in siblings if any_work and not row.may_work])
    most = _MOST_CHILDREN if siblings[0].depth else _MOST_ROOTS
    shown = [*working[:most], *idle[:_MOST_IDLE_CHILDREN]]
    rest = [*working[most:], *idle[_MOST_IDLE_CHILDREN:]]
    return [*shown, *([_folded(rest)] if rest else [])]


def _unknown() -> dict[str, Any]:
    return dict.fromkeys((*_OF_NAME, _PEAK, *_STEADY))


# What stands for an unknown value: pandas takes any, and its types do not.
_UNKNOWN: Any = None


def _records(table: pd.DataFrame, columns: Sequence[str]) -> list[dict[str, Any]]:
    """Return the rows of some columns, None for unknown. pandas' own way takes five times as long."""
    lists = [table[name].to_numpy(dtype=object, na_value=_UNKNOWN).tolist() for name in columns]
    return [dict(zip(columns, row, strict=True)) for row in zip(*lists, strict=True)]


def _label(row: Mapping[Any, Any]) -> str:
    name = str(row["range"])
    label = range_label(name)
    return f"{row['domain']}:{label}" if row["domain"] and label == name else label


def _join_alike(rows: list[RangeRow]) -> list[RangeRow]:
    """Return one row for each label, the longest first."""
    alike: dict[str, list[RangeRow]] = {}
    for row in rows:
        alike.setdefault(row.name, []).append(row)
    joined_rows = [some[0] if len(some) == 1 else _folded(some, label) for label, some in alike.items()]
    return sorted(joined_rows, key=lambda row: -row.numbers["wall_ns"])


def _folded(rows: list[RangeRow], label: str = "") -> RangeRow:
    """Return one row for several: their sums, unknown where one of them is.

    label: what they are called; their number without one.
    """
    numbers = _unknown()
    for name in _ADDED:
        values = [row.numbers[name] for row in rows]
        numbers[name] = None if None in values else sum(values)
    return RangeRow(label or f"({len(rows):,} more)", rows[0].full if label else "", rows[0].depth, numbers)


def _of_names(ranges: pd.DataFrame) -> list[dict[Any, Any]]:
    """Return what ranges.csv has of each member of a family, for a tree that is not folded."""
    members = ranges.loc[(ranges["family"] != ranges["range"]).to_numpy(dtype=bool)]
    return _records(members, (*_KEY, *_OF_NAME, _PEAK))


def _by_name(ranges: pd.DataFrame) -> dict[Any, dict[str, Any]]:
    """Return what ranges.csv has of each family, by family, style and domain."""
    numbers_by_name: dict[Any, dict[str, Any]] = {}
    keys = _records(ranges, ("family", "style", "domain"))
    for key, row in zip(keys, _records(ranges, (*_OF_NAME, _PEAK)), strict=True):
        numbers = numbers_by_name.setdefault(tuple(key.values()), row)
        if numbers is row:
            continue
        for name, value in row.items():
            if value is None or numbers[name] is None:
                numbers[name] = None
            else:
                numbers[name] = max(numbers[name], value) if name == _PEAK else numbers[name] + value
    return numbers_by_name


_WHOLE_TRACE = "(the whole trace)"


def step_label(per: str) -> str:
    """Return what a time refers to: `a step (train)`, or `a step` where the steps have no range of their own."""
    return "a step" if per == STEP else f"a step ({range_label(per)})"


def qualified_name(name: str | None, domain: str | None) -> str:
    """Return a range's name with its domain in front; without a name, that it is the whole trace."""
    return _WHOLE_TRACE if name is None else f"{domain}:{name}" if domain else name
