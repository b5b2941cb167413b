"""Choose which shapes of a program to tune, by their share of its time, and say why others are not tuned."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from nsysprof.attention.mask import DTYPES, MASKS
from nsysprof.attention.shape import Case, Shape, attention_flops
from nsysprof.results.program_runs import CapturedUse
from nsysprof.results.samples import Block

# Enough shapes are tuned to cover this share of the attention's time, but at most this many.
_ENOUGH = 0.98
MOST_SHAPES = 24
# Where more shapes than this differ only in their lengths, they are grouped, and only the ends of each group are tuned.
_MOST_LENGTHS = 6
_SIZES = ("batch", "heads", "kv_heads", "seq_q", "seq_kv", "head_dim")
# A shape that has had this many times the smallest time for its share waits for the others.
_AHEAD = 2.0
_NS = 1e-9


@dataclass(frozen=True)
class ShapeUse:
    """One shape, and how much time the program spends on it."""

    shape: Shape
    calls: int
    # The time of its kernels (ns), forward and backward; None where unknown.
    kernel_total_ns: int | None
    # Its share of the attention that can be tuned (0 to 1), by time or else by operations.
    weight: float
    # The shortest shape of its group and the shapes between. They get the backend that both ends of the group share.
    between: tuple[Shape, ...] = ()


@dataclass(frozen=True)
class Refused:
    """Calls that are not tuned, and the reason."""

    calls: int
    reason: str


@dataclass(frozen=True)
class ChosenShapes:
    """The shapes to tune, the most expensive first, and what is not tuned."""

    chosen: tuple[ShapeUse, ...]
    refused: tuple[Refused, ...]


def choose_shapes(uses: Sequence[CapturedUse]) -> ChosenShapes:
    """Return the shapes to tune.

    The pass of a shape that has a backward pass is forward and backward together.
    """
    refusals: dict[str, Counter[str]] = {}
    tunable = []
    for use in uses:
        why = why_not(use.row)
        if why:
            refusals.setdefault(why, Counter())[str(use.row["pass"])] += use.calls
        else:
            tunable.append(use)
    # A backward pass is part of its call.
    refused = {why: max(per_pass.values()) for why, per_pass in refusals.items()}
    chosen: list[ShapeUse] = []
    grouped = _group_lengths(_weigh(_merge(tunable)))
    left = []
    for shape in grouped:
        known = sum(use.weight for use in chosen)
        if len(chosen) < MOST_SHAPES and known < _ENOUGH:
            chosen.append(shape)
        else:
            left.append(shape)
    # The short end of a group is tuned with the long end, whatever its own share of the time.
    firsts = {use.between[0] for use in chosen if use.between}
    chosen += [shape for shape in left if shape.shape in firsts]
    for shape in left:
        if shape.shape not in firsts:
            reason = "the tuned shapes already take nearly all of the time"
            if len(chosen) >= MOST_SHAPES:
                reason = f"{MOST_SHAPES} shapes that take more time are tuned; pad lengths so that fewer shapes occur"
            refused[reason] = refused.get(reason, 0) + shape.calls
    return ChosenShapes(tuple(chosen), tuple(Refused(calls, reason) for reason, calls in refused.items()))


def why_not(row: dict[str, Any]) -> str:
    """Return why calls cannot be tuned; empty where they can."""
    mask, function = str(row["mask"] or "none"), row["function"]
    if function != "sdpa":
        return f"{function} is called, and a policy chooses for torch's scaled_dot_product_attention alone"
    if row["dropout"]:
        return "with dropout, each backend draws different random numbers, so a policy leaves these calls to torch"
    if mask.partition(":")[0] not in MASKS:
        return f"a mask of the kind {mask} cannot be reproduced"
    if row["dtype"] not in DTYPES:
        return f"the data type {row['dtype']} is not one of {', '.join(DTYPES)}"
    if row.get("mask_stride") not in (None, 1):
        return (
            f"the keys of the mask do not lie side by side in memory (its last stride is {int(row['mask_stride'])}), "
            "and no fused backend takes such a mask on a GPU: give attn_mask.contiguous(), and record the program again"
        )
    known = row["causal"] is not None and all(row[name] is not None and row[name] > 0 for name in _SIZES)
    return (
        "" if known and row["heads"] % row["kv_heads"] == 0 else "the sizes are unknown, or torch does not support them"
    )


def shape_of_use(row: dict[str, Any], pass_: str) -> Shape:
    """Return the shape in a row of attention.csv.

    Raises msgspec.ValidationError for values that no program writes.
    """
    names = {"seq": "seq_q", "kv_seq": "seq_kv"}
    sizes = {
        name: int(row[names.get(name, name)]) for name in ("seq", "kv_seq", "batch", "heads", "kv_heads", "head_dim")
    }
    others = {"dtype": row["dtype"], "causal": bool(row["causal"]), "pass": pass_}
    optional = {"mask": row["mask"] or "none", "layout": row["layout"] or "bhsd"}
    optional["head_dim_v"] = int(row.get("head_dim_v") or 0)
    return msgspec.convert(sizes | others | optional, Shape)


def known_shape(row: dict[str, Any], pass_: str) -> Shape | None:
    """Return the shape in a row of attention.csv; None where no backend can be timed for it, or for kernels alone.

    The stride of a mask is not part of a shape.
    """
    if why_not({**row, "mask_stride": None}):
        return None
    try:
        return shape_of_use(row, pass_)
    except msgspec.ValidationError:
        return None


_Merged = tuple[Shape, int, int | None]


def _merge(uses: Iterable[CapturedUse]) -> list[_Merged]:
    """Return each shape with its calls and the time of its kernels. Of several layouts, the most frequent counts."""
    calls: dict[Shape, dict[str, int]] = {}
    times: dict[Shape, int | None] = {}
    for use in uses:
        shape = shape_of_use(use.row, "fwd")
        per_pass = calls.setdefault(shape, {"fwd": 0, "bwd": 0})
        per_pass[str(use.row["pass"])] += use.calls
        before = times.get(shape, 0)
        times[shape] = None if use.kernel_total_ns is None or before is None else before + use.kernel_total_ns
    by_key: dict[Shape, list[_Merged]] = {}
    for shape, count in calls.items():
        whole = msgspec.structs.replace(shape, pass_="fwdbwd" if count["bwd"] else "fwd")
        by_key.setdefault(msgspec.structs.replace(whole, layout="bhsd"), []).append(
            (whole, max(count.values()), times[shape])
        )
    merged: list[_Merged] = []
    for members in by_key.values():
        known = [time for _, _, time in members if time is not None]
        time = sum(known) if len(known) == len(members) else None
        merged.append((max(members, key=lambda member: member[1])[0], sum(member[1] for member in members), time))
    return merged


def _weigh(merged: list[_Merged]) -> list[ShapeUse]:
    """Return the shapes with their shares."""
    timed = all(time is not None for _, _, time in merged)
    amounts = [float(time or 0) if timed else count * attention_flops(shape) for shape, count, time in merged]
    total = sum(amounts) or 1.0
    return [ShapeUse(s, n, t, amount / total) for (s, n, t), amount in zip(merged, amounts, strict=True)]


def _group_lengths(uses: list[ShapeUse]) -> list[ShapeUse]:
    """Return the shapes, the most expensive first, with many lengths replaced by the ends of groups.

    A group contains lengths of k up to twice the shortest one. A growing cache makes such lengths.
    """
    families: dict[Any, list[ShapeUse]] = {}
    for use in uses:
        shape = use.shape
        sizes = (
            shape.batch,
            shape.heads,
            shape.kv_heads,
            shape.head_dim,
            shape.head_dim_v,
            shape.dtype,
            shape.seq == 1,
        )
        families.setdefault((*sizes, shape.pass_, shape.mask, shape.causal), []).append(use)
    grouped = []
    for members in families.values():
        if len(members) <= _MOST_LENGTHS:
            grouped += members
            continue
        ordered = sorted(members, key=lambda use: (use.shape.kv_seq, use.shape.seq))
        while ordered:
            group = [use for use in ordered if use.shape.kv_seq < 2 * ordered[0].shape.kv_seq]
            ordered = ordered[len(group) :]
            grouped += _ends(group)
    return sorted(grouped, key=lambda use: -use.weight)


def _ends(group: list[ShapeUse]) -> list[ShapeUse]:
    """Return the shortest and the longest shape of a group. The longest one includes the time of those between."""
    if len(group) <= 2:
        return group
    first, last = group[0], group[-1]
    times = [use.kernel_total_ns for use in group[1:]]
    known = [time for time in times if time is not None]
    carried = ShapeUse(
        last.shape,
        sum(use.calls for use in group[1:]),
        sum(known) if len(known) == len(times) else None,
        sum(use.weight for use in group[1:]),
        tuple(use.shape for use in group[:-1]),
    )
    return [first, carried]


def cells_by_share(
    chosen: ChosenShapes, cells: Sequence[Case], wanted: Sequence[int], blocks: Sequence[Block]
) -> list[int]:
    """Return the cells to measure next: those of the shapes that have had the least time for their share.

    wanted: the cells that need more blocks.
    """
    weights = {use.shape: max(use.weight, 1e-3) for use in chosen.chosen}
    spent = dict.fromkeys(weights, 0.0)
    for block in blocks:
        spent[cells[block.cell].shape] += _NS * sum(block.values_ns)
    had = {shape: spent[shape] / weight for shape, weight in weights.items()}
    open_shapes = {cells[cell].shape for cell in wanted}
    least = min((had[shape] for shape in open_shapes), default=0.0)
    return [cell for cell in wanted if had[cells[cell].shape] <= _AHEAD * least or least == 0.0]
