"""Hold which range instance launched which work, and which name (group) each instance has."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pandas as pd

from nsysprof.analysis.attribution.attribute import Segments, attribute_launched, covered
from nsysprof.analysis.attribution.range_names import strip_ranges
from nsysprof.analysis.attribution.range_structure import RangeStructure, SteadyFrom, find_structure
from nsysprof.trace.schema import NULL, PID_MASK, Bools, Calls, Int64s, Tables

# 36 years. No recording lasts that long.
_FAR_NS = 2**60
_KEY = ["name", "style", "domain"]
_BLOCK = 1 << 20


@dataclass(frozen=True)
class Attributed:
    """Range instances, their names, and the work that they launched."""

    # The instances, with `group` and `global_pid`.
    ranges: pd.DataFrame
    # One row per group: name, style, domain.
    keys: pd.DataFrame
    # The work that each instance launched, by style of range.
    segments: dict[str, Segments]
    # All API calls; None where they were not recorded.
    calls: Calls | None = None
    # See find_structure.
    steady_from: tuple[SteadyFrom, ...] = ()

    @cached_property
    def structure(self) -> RangeStructure:
        """Return which ranges enclose which, which names form families, and when each family settles."""
        return find_structure(self.ranges, self.keys, self.calls, self.steady_from)

    def inside(self, rows: int) -> Bools:
        """Return for each row of work whether any range launched it.

        rows: the number of rows of work.
        """
        is_inside = np.zeros(rows, dtype=bool)
        for segments in self.segments.values():
            inside = covered(segments)
            for low in range(0, len(inside), _BLOCK):
                some = slice(low, low + _BLOCK)
                is_inside[segments.order[some][inside[some]]] = True
        return is_inside


def close_ranges(tables: Tables) -> tuple[pd.DataFrame, int, int]:
    """Return the range instances, how many had no end, and how many were impossible.

    Ranges without an end get the end of the trace; impossible ones are dropped. The numbers that torch's emit_nvtx
    appends to names become separate columns.
    """
    if tables.ranges is None:
        return pd.DataFrame(columns=["start_ns", "end_ns", "style", "global_tid", "name", "domain"]), 0, 0
    ranges = strip_ranges(tables.ranges)
    is_open = ranges["end_ns"] == NULL
    if is_open.any():
        last = [t.last_end_ns() for t in (tables.work, tables.calls) if t is not None and len(t)]
        known = ranges[["start_ns", "end_ns"]].to_numpy(dtype=np.int64)
        last += [known[(known < _FAR_NS) & (known > -_FAR_NS)].max(initial=-_FAR_NS)]
        ranges.loc[is_open, "end_ns"] = max(map(int, last))
    good = (ranges["end_ns"] >= ranges["start_ns"]) & ranges["start_ns"].between(-_FAR_NS, _FAR_NS)
    good &= ranges["end_ns"] < _FAR_NS
    return ranges[good].reset_index(drop=True), int(is_open.sum()), int((~good).sum())


def attribute_ranges(tables: Tables, ranges: pd.DataFrame, wanted: Callable[[str], bool] | None = None) -> Attributed:
    """Return each instance with its group, and with the work of the calls that it encloses.

    wanted: returns whether the work of ranges of a name is asked for; None for all. Others are said to have none.
    """
    ordered = ranges.sort_values("start_ns", kind="stable").reset_index(drop=True)
    codes = [pd.factorize(ordered[column])[0].astype(np.int64) for column in _KEY]
    widths = [int(code.max()) + 1 if len(code) else 1 for code in codes]
    group, first = pd.factorize((codes[0] * widths[1] + codes[1]) * widths[2] + codes[2])
    ordered["group"] = group.astype(np.int64)
    rows = np.full(len(first), len(group))
    np.minimum.at(rows, group, np.arange(len(group)))
    keys = ordered[_KEY].iloc[rows].reset_index(drop=True)
    ordered["global_pid"] = ordered["global_tid"].astype("int64") & PID_MASK if len(ordered) else 0
    if wanted is None:
        return Attributed(ordered, keys, attribute_launched(tables.launch, tables.calls, ordered), tables.calls)
    chosen = np.flatnonzero(keys["name"].map(wanted).to_numpy(dtype=bool)[group])
    segments_by_style = attribute_launched(tables.launch, tables.calls, ordered.iloc[chosen])
    segments = {
        style: replace(of_style, instance=chosen[of_style.instance]) for style, of_style in segments_by_style.items()
    }
    return Attributed(ordered, keys, segments, tables.calls)


def keep_ranges(attributed: Attributed, kept: Bools, names: Sequence[str]) -> Attributed:
    """Return some instances under other names, as attribute_ranges would; the same object where nothing changes.

    kept: which instances are kept.
    names: the new name of each group.
    """
    keys = attributed.keys
    if bool(kept.all()) and list(names) == keys["name"].tolist():
        return attributed
    renamed = keys.assign(name=pd.Series(names, dtype=object).to_numpy())
    code = pd.factorize(pd.MultiIndex.from_frame(renamed[_KEY]))[0].astype(np.int64)
    old = attributed.ranges["group"].to_numpy(dtype=np.int64)[kept]
    group, first = pd.factorize(code[old])
    _, first_of_code = np.unique(code, return_index=True)
    texts = pd.Series(names, dtype=None if len(names) else object).array
    ranges = attributed.ranges[kept].reset_index(drop=True).assign(name=texts.take(old), group=group.astype(np.int64))
    row = np.cumsum(kept) - 1
    segments = {}
    for style, of_style in attributed.segments.items():
        mine = kept[of_style.instance]
        segments[style] = Segments(
            of_style.order, row[of_style.instance[mine]], of_style.low[mine], of_style.high[mine]
        )
    return Attributed(
        ranges, renamed[_KEY].iloc[first_of_code[first]].reset_index(drop=True), segments, attributed.calls
    )


def instances_of_calls(tables: Tables, attributed: Attributed, calls: Int64s) -> Int64s:
    """Return the instances that enclose at least one of the calls."""
    if len(calls) == 0:
        return np.zeros(0, dtype=np.int64)
    segments_by_style = attribute_launched(calls.astype(np.int32), tables.calls, attributed.ranges)
    return np.unique(np.concatenate([of_style.instance for of_style in segments_by_style.values()]))
