"""Count the CUDA API calls within ranges in one pass over all calls, by compiled code."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd

from nsysprof.analysis.attribution.attribute import FREE_PAIRS, MOST_AROUND, SCOPES
from nsysprof.analysis.kernel_names.variant_names import Texts, call_names, plain_call_name
from nsysprof.analysis.ranges.range_evidence import LaunchCalls, RangeEvidence
from nsysprof.native.load import loop
from nsysprof.trace.schema import PID_MASK, Bools, Calls, Int64s, Ints, Rows, Tables

# The most functions to list. Each costs time and memory for every range, and no program spends much time in more.
_MOST_FUNCTIONS = 64
_BLOCK = 1 << 20
# What the compiled code returns where the calls of a thread are not in order.
_NOT_IN_ORDER = -1
# How many numbers it keeps of each thread.
_STATE = 7


@dataclass(frozen=True)
class CalledFunctions:
    """The functions of the CUDA API in which a program spent the most time."""

    # The names of all functions, and the number of each variant's function among them.
    texts: Texts
    of_variant: Ints
    # The numbers of the functions to list, those with the most time first.
    chosen: list[int]


@dataclass(frozen=True)
class CountedCalls:
    """How many calls are within ranges. A call within nested ranges of one family or group counts once."""

    # How many calls of each function each family encloses, and their total time (ns): (functions, families).
    calls: Int64s
    total_ns: Int64s
    # The launches of each group: all, replays of graphs, and those without work in the trace: (3, groups).
    of_groups: Int64s
    # All launches and those without work of each instance, where any is without: (2, instances).
    of_instances: Int64s


def find_functions(tables: Tables) -> CalledFunctions:
    """Return the functions that were called, those with the most total time first."""
    names = call_names(tables, plain_call_name)
    number: Ints = names.of_variant.astype(np.int16 if len(names.texts) < 1 << 15 else np.int32)
    if tables.calls is None:
        return CalledFunctions(names.texts, number, [])
    calls, total = _sum_variants(tables.calls)
    of_function = np.bincount(number, total, len(names.texts))
    called = np.flatnonzero(np.bincount(number, calls, len(names.texts)))
    largest = called[np.argsort(-of_function[called], kind="stable")]
    return CalledFunctions(names.texts, number, largest[:_MOST_FUNCTIONS].tolist())


def _sum_variants(calls: Calls) -> tuple[Int64s, Int64s]:
    """Return how many calls of each variant there are, and their total time (ns)."""
    sums = np.zeros((len(calls.variants), 2), dtype=np.int64)
    run = loop("sum_codes")
    if run is not None and run(calls.variant, calls.duration_ns, len(sums), sums.ravel()) == 0:
        return sums[:, 0], sums[:, 1]
    for low in range(0, len(calls), _BLOCK):
        part = slice(low, low + _BLOCK)
        sums[:, 0] += np.bincount(calls.variant[part], minlength=len(sums))
        np.add.at(sums[:, 1], calls.variant[part], calls.duration_ns[part].astype(np.int64))
    return sums[:, 0], sums[:, 1]


def count_calls(
    evidence: RangeEvidence,
    families: tuple[pd.DataFrame, Int64s] | None = None,
    functions: CalledFunctions | None = None,
) -> CountedCalls | None:
    """Return the calls within the ranges of each family and each group.

    None where compiled code is not to be had, or where more ranges are open around each call than in any program.

    families: the result of number_families; None where only launches are asked for.
    functions: the functions to list; None for none.
    """
    calls, ranges = evidence.tables.calls, evidence.attributed.ranges
    run = None if calls is None else loop("count_calls")
    if run is None or calls is None or len(ranges) == 0:
        return None
    count, family = (
        (1, np.zeros(evidence.groups, dtype=np.int64)) if families is None else (len(families[0]), families[1])
    )
    chosen, column_of = _columns(calls, functions)
    shapes = (count, chosen, 2), (evidence.groups, 3), (len(ranges), 2)
    numbers = (family[evidence.group], evidence.group, np.arange(len(ranges)))
    sums = [np.zeros(shape, dtype=np.int64) for shape in shapes]
    order: Rows = np.zeros(0, dtype=np.int32)
    for style, scope in SCOPES.items():
        owned = _own_ranges(calls, ranges, style, -1 if scope == "thread" else PID_MASK, numbers)
        code = 0 if owned is None else _NOT_IN_ORDER
        for _ in range(2):  # for a second time where the calls are not in order
            if owned is None or code != _NOT_IN_ORDER:
                break
            found = [np.zeros(shape, dtype=np.int64) for shape in shapes]
            code = _run(run, calls, order, owned, column_of, evidence.launch_calls, found)
            if code == _NOT_IN_ORDER:
                order = np.argsort(calls.start_ns, kind="stable").astype(np.int32)
            else:
                sums = [total + its for total, its in zip(sums, found, strict=True)]
        if code < 0:
            return None
    by_family, of_groups, of_instances = sums
    return CountedCalls(by_family[..., 0].T, by_family[..., 1].T, of_groups.T, of_instances.T)


def _columns(calls: Calls, functions: CalledFunctions | None) -> tuple[int, Int64s]:
    """Return how many functions are listed, and the place of each variant of call among them, or -1."""
    if functions is None:
        return 0, np.full(len(calls.variants), -1, dtype=np.int64)
    column = np.full(len(functions.texts), -1, dtype=np.int64)
    column[functions.chosen] = np.arange(len(functions.chosen))
    return len(functions.chosen), column[functions.of_variant]


@dataclass(frozen=True)
class _OwnedRanges:
    """The ranges of one style, by thread or process, and in order of start."""

    # Begin, end, family, group and number of each: (5, ranges).
    listed: Int64s
    # Where the ranges of each owner begin; the last entry is the end.
    edges: Int64s
    # The number of the owner of each variant of call, or -1.
    owner_of: Int64s


def _own_ranges(
    calls: Calls, ranges: pd.DataFrame, style: str, mask: int, numbers: tuple[Int64s, ...]
) -> _OwnedRanges | None:
    """Return the ranges of a style; None where there are none.

    numbers: the family, the group and the number of each range.
    """
    rows = np.flatnonzero((ranges["style"] == style).to_numpy(dtype=bool))
    if len(rows) == 0:
        return None
    owner = ranges["global_tid"].to_numpy(dtype=np.int64)[rows] & mask
    rows = rows[np.argsort(owner, kind="stable")]  # ranges are in order of start
    owners, edges = np.unique(np.sort(owner), return_index=True)
    times = (ranges[column].to_numpy(dtype=np.int64) for column in ("start_ns", "end_ns"))
    tid = calls.tid_of & mask
    at = np.minimum(np.searchsorted(owners, tid), len(owners) - 1)
    owner_of = np.where(owners[at] == tid, at, -1)
    return _OwnedRanges(np.stack([each[rows] for each in (*times, *numbers)]), np.append(edges, len(rows)), owner_of)


def _run(
    run: Callable[..., int], calls: Calls, order: Rows, owned: _OwnedRanges, column_of: Int64s, launched: LaunchCalls,
    found: list[Int64s],
) -> int:  # fmt: skip
    """Add the calls within these ranges to what is found; return what the compiled code returns.

    order: the rows of the calls in order; empty where they are in order.
    """
    sums, of_groups, of_instances = found
    count, owners = owned.listed.shape[1], len(owned.edges) - 1
    flags = (_flags(each) for each in (launched.launches, launched.replays, launched.lost))
    room = (np.empty(count, dtype=np.int64) for _ in range(3))
    return run(
        order, calls.start_ns, calls.duration_ns, calls.variant, owned.owner_of, column_of, len(column_of),
        sums.shape[1], *flags, owned.edges, owners, owned.listed.ravel(), count,
        np.zeros(_STATE * owners, dtype=np.int64), *room, np.zeros(len(sums) + len(of_groups), dtype=np.int64),
        len(sums), MOST_AROUND * len(calls) + FREE_PAIRS, sums.ravel(), of_groups.ravel(), of_instances.ravel(),
    )  # fmt: skip


def _flags(mask: Bools) -> Bools:
    """Return the mask; an empty one for one that takes no memory because it is False everywhere."""
    return mask if mask.flags.c_contiguous else mask[:0].copy()
