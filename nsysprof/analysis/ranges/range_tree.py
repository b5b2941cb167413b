"""Make the tree of ranges: one row per path of names from the outermost range, with counters in names folded."""

from __future__ import annotations

import numpy as np
import pandas as pd

from nsysprof.analysis.attribution.duration_statistics import sum_by
from nsysprof.analysis.attribution.range_structure import RangeStructure
from nsysprof.analysis.attribution.warm_up import steady_medians
from nsysprof.trace.schema import Bools, Int64s

_SUMS = (
    "wall_ns", "kernel_count", "kernel_total_ns", "adopted_kernel_count", "adopted_kernel_total_ns", "warmup_instances",
)  # fmt: skip


def tabulate_tree(
    ranges: pd.DataFrame,
    structure: RangeStructure,
    instances: dict[str, Int64s | None],
    captured: pd.DataFrame | None,
    unknown: Bools,
) -> pd.DataFrame:
    """Return one row for each place in the tree, parents before their children.

    Siblings with GPU work come first, then those with the most wall time.

    instances: for each range instance, the values that its place sums up; None is unknown.
    captured: group (of the place), instances and total_ns of captured kernels; None is unknown.
    unknown: for each place, whether its kernels are unknown.
    """
    paths, places = structure.folded, len(structure.folded.texts)
    place = paths.of_instance
    wall = (ranges["end_ns"] - ranges["start_ns"]).to_numpy(dtype=np.int64)
    values = {**instances, "wall_ns": wall, "warmup_instances": structure.warm_up.astype(np.int64)}
    table = pd.DataFrame({"path": pd.Series(paths.texts, dtype=object), "parent": paths.parent})
    first = np.full(places, len(ranges), dtype=np.int64)
    np.minimum.at(first, place, np.arange(len(ranges)))
    for column in ("style", "domain"):
        table[column] = ranges[column].to_numpy(dtype=object)[first]
    group = ranges["group"].to_numpy(dtype=np.int64)
    table["range"] = np.array(structure.families, dtype=object)[group[first]] if places else []
    table["instances"] = np.bincount(place, minlength=places)
    for column in _SUMS:
        of_instance = values[column]
        sums = None if of_instance is None else sum_by(place, of_instance, places)
        table[column] = pd.array([pd.NA] * places if sums is None else sums, dtype="Int64")
    for column, source in (("captured_kernel_count", "instances"), ("captured_kernel_total_ns", "total_ns")):
        table[column] = pd.array([pd.NA] * places, dtype="Int64")
        if captured is not None:
            owners, amounts = (captured[name].to_numpy(dtype=np.int64) for name in ("group", source))
            table[column] = pd.array(sum_by(owners, amounts, places), dtype="Int64")
    median, known = steady_medians(place, wall, structure.warm_up, places)
    table["steady_wall_med_ns"] = pd.arrays.IntegerArray(median, ~known)
    kernels = sum(table[f"{kind}kernel_count"].fillna(0) for kind in ("", "adopted_", "captured_"))
    works = (np.asarray(kernels, dtype=np.int64) > 0) | unknown if places else unknown
    table.loc[unknown, ["kernel_count", "kernel_total_ns"]] = pd.NA
    order, depth = _walk(paths.parent, works, table["wall_ns"].to_numpy(dtype=np.int64))
    return table.assign(depth=depth).iloc[order].reset_index(drop=True)


def _walk(parent: Int64s, works: Bools, wall_ns: Int64s) -> tuple[list[int], Int64s]:
    """Return the places in the order of a walk from the roots, and the depth of each place.

    Siblings with GPU work come first, then those with the most wall time.
    """
    children: dict[int, list[int]] = {}
    for row in np.lexsort((-wall_ns, ~works)).tolist():
        children.setdefault(int(parent[row]), []).append(row)
    depth = np.zeros(len(parent), dtype=np.int64)
    order: list[int] = []
    left = [(row, 0) for row in reversed(children.get(-1, []))]
    while left:
        row, level = left.pop()
        order.append(row)
        depth[row] = level
        left += [(child, level + 1) for child in reversed(children.get(row, []))]
    return order, depth
