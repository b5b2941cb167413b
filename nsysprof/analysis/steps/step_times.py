"""Measure how long each step took, and split its time on each device into kinds of work and causes of idle time."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from nsysprof.analysis.attribution.attribute import refuse_many_pairs
from nsysprof.analysis.attribution.intervals import measure, measure_by_code, overlapping
from nsysprof.analysis.idle_time.blame import HOST, Blamed
from nsysprof.analysis.idle_time.gaps import DeviceSpan
from nsysprof.analysis.idle_time.ledger import Ledger
from nsysprof.analysis.kernel_names.variant_names import kernel_names
from nsysprof.analysis.steps.find_steps import Steps
from nsysprof.results.analysis import StepTimes
from nsysprof.results.column_registry.analysis_columns import CAUSES, STEPS, WORK_CATEGORIES, cause_column, work_column
from nsysprof.trace.schema import COPY, FILL, GRAPH, MIGRATION, Bools, Int64s, Rows, Tables, Work
from nsysprof.units import format_ns

_BLOCK = 1 << 20
# The most rows of steps.csv for each piece of work: a step has several kernels on each device.
_MOST_ROWS = 2
# Something sets the pace of a loop where at least this many steps of at least this time begin at equal distances (nine
# of ten of them within this share of the median), the GPU works for less than this share of the time, and a single
# wait of the host outside CUDA is longer than this share of nearly every step. Work of a host varies by more.
_LEAST_PACED, _LEAST_PACED_NS, _PACE, _PACED_BUSY, _PACED_WAIT = 10, 2_000_000, 0.005, 0.25, 0.5


@dataclass(frozen=True)
class IdleSteps:
    """How a device was idle in each step."""

    device_id: int
    # The idle time of each step by column of steps.csv (ns).
    parts_ns: dict[str, Int64s]


def time_idle(tables: Tables, steps: Steps | None, ledger: Ledger) -> list[IdleSteps]:
    """Return how each device of the ledger was idle in each step; nothing without steps.

    Raises TraceForeignError for a trace that was made to have far too many devices in far too many steps.
    """
    if steps is None:
        return []
    refuse_many_pairs(len(ledger.spans) * (steps.warmup + steps.count), len(tables.work), _MOST_ROWS)
    return [
        IdleSteps(span.device_id, _idle(span, pieces, *_bounds(steps)))
        for span, pieces in zip(ledger.spans, ledger.pieces, strict=True)
    ]


def explain_pace(steps: Steps | None, times: StepTimes | None, ledger: Ledger) -> str:
    """Return why faster work would not make steps shorter: something else sets their pace; "" where nothing does."""
    if steps is None or times is None or not steps.are_known or len(ledger.pieces) != 1 or steps.count < _LEAST_PACED:
        return ""
    walls, pieces = np.diff(steps.bounds_ns), ledger.pieces[0]
    period = float(np.median(walls))
    if period < _LEAST_PACED_NS or float(np.quantile(np.abs(walls - period), 0.9)) > _PACE * period:
        return ""
    inside = pieces.within(int(steps.bounds_ns[0]), int(steps.bounds_ns[-1]))
    start, idle = pieces.start_ns[inside], pieces.duration_ns[inside].astype(np.int64)
    at = np.clip(np.searchsorted(steps.bounds_ns, start, "right") - 1, 0, len(walls) - 1)
    waits, longest = pieces.cause[inside] == HOST, np.zeros(len(walls), dtype=np.int64)
    np.maximum.at(longest, at[waits], idle[waits])
    busy = times.busy_share
    if busy >= _PACED_BUSY or float(np.quantile(longest, 0.1)) < _PACED_WAIT * period:
        return ""
    return (
        f"something outside CUDA sets the pace: a step begins every {format_ns(period)}, nearly to the moment, after "
        f"one long wait of the host, and the GPU works for {100 * busy:.0f} % of the time: faster work would only wait "
        "longer"
    )


def time_steps(
    tables: Tables, steps: Steps | None, idle: Sequence[IdleSteps], in_optimizer: Bools | None = None
) -> StepTimes | None:
    """Return the steps of a trace with the parts of their time; None where nothing ran.

    idle: the result of time_idle. The ledger, which is as large as the trace, is no longer needed.
    in_optimizer: which work is an optimizer's, whatever its name says; None for none.
    """
    if steps is None:
        return None
    low, high = _bounds(steps)
    is_warmup = np.arange(len(low)) < steps.warmup
    is_slow = np.append(np.zeros(steps.warmup, dtype=np.bool_), steps.is_slow)
    category = _categories(tables)
    rows = []
    for device in idle:
        chosen = (tables.work.device_of == device.device_id) & (category >= 0)
        if steps.are_known and not (chosen & (tables.work.pid_of == steps.global_pid)).any():
            continue
        parts = {"step": np.arange(len(low)), "device_id": np.full(len(low), device.device_id), "start_ns": low}
        parts |= {"wall_ns": high - low, "is_warmup": is_warmup, "is_slow": is_slow}
        parts |= _busy(tables, np.where(chosen, category, -1), low, high, in_optimizer) | device.parts_ns
        # A column is not copied: most are zeros, which take no memory until they are written.
        rows.append(pd.DataFrame({name: parts[name] for name in STEPS.names}, copy=False))
    if not rows:
        return None
    table = pd.concat(rows, ignore_index=True) if len(rows) > 1 else rows[0]
    return StepTimes(steps.per, table, steps.found_pct)


def _bounds(steps: Steps) -> tuple[Int64s, Int64s]:
    """Return when each step began and ended, those of the warm-up first (ns)."""
    bounds = steps.all_bounds_ns
    return bounds[:-1], bounds[1:]


def _categories(tables: Tables) -> Int64s:
    """Return the position in WORK_CATEGORIES of each variant of work; -1 for migrations, which fill no gap."""
    names, kind = kernel_names(tables), tables.work.kind_of
    place = {category: number for number, category in enumerate(WORK_CATEGORIES)}
    of_name = np.array([place.get(str(category), place["other"]) for category in names.category], dtype=np.int64)
    of_variant = of_name[names.of_variant] if len(of_name) else np.zeros(len(kind), dtype=np.int64)
    for code, category in ((COPY, "copy"), (FILL, "fill"), (GRAPH, "graph")):
        of_variant[kind == code] = place[category]
    of_variant[kind == MIGRATION] = -1
    return of_variant


def _busy(tables: Tables, category: Int64s, low: Int64s, high: Int64s, in_optimizer: Bools | None) -> dict[str, Int64s]:
    """Return the time within each [low, high) that counts for each category of work.

    category: the category of each variant, -1 for those of other devices.
    """
    work = tables.work
    rows = _within(work, work.rows_by_start(category >= 0), int(low[0]), int(high[-1]))
    code = category.astype(np.int8)[work.variant[rows]]
    if in_optimizer is not None:
        code[in_optimizer[rows]] = WORK_CATEGORIES.index("optimizer")
    start, duration = work.start_ns[rows], work.duration_ns[rows]
    # What overlaps nothing is added up. Of the rest, each category has what those before it leave.
    at_once = np.flatnonzero(overlapping(start, duration))
    crowd, of_crowd = rows[at_once], code[at_once]
    code[at_once] = -1
    alone, _ = measure_by_code(start, duration, code, len(WORK_CATEGORIES), low, high)
    del start, duration, code, rows, at_once
    union = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    before = np.zeros(len(low), dtype=np.int64)
    for number in np.unique(of_crowd).tolist():
        union = _join(union, _union_of_rows(work, crowd[of_crowd == number]))
        total = measure(*union, low, high)[0]
        alone[number] += total - before
        before = total
    return dict(zip(map(work_column, WORK_CATEGORIES), alone, strict=True))


def _within(work: Work, rows: Rows, since_ns: int, until_ns: int) -> Rows:
    """Return those of the rows of work that ran between two times (ns)."""
    within = np.empty(len(rows), dtype=np.bool_)
    for low in range(0, len(rows), _BLOCK):
        block = rows[low : low + _BLOCK]
        within[low : low + _BLOCK] = (work.start_ns[block] < until_ns) & (work.ends_ns(block) > since_ns)
    return rows if within.all() else rows[within]


def _join(one: tuple[Int64s, Int64s], other: tuple[Int64s, Int64s]) -> tuple[Int64s, Int64s]:
    """Return the union of two lists of disjoint intervals in order."""
    few, many = sorted((one, other), key=lambda intervals: len(intervals[0]))
    if len(few[0]) == 0:
        return many
    at = np.searchsorted(many[0], few[0])
    edges = [*range(0, len(many[0]), _BLOCK), len(many[0])]

    def parts() -> Iterator[tuple[Int64s, Int64s]]:
        for low, high in itertools.pairwise(edges):
            chosen = slice(*np.searchsorted(at, [low, high + (high == edges[-1])]).tolist())
            start, end = (np.insert(many[side][low:high], at[chosen] - low, few[side][chosen]) for side in (0, 1))
            yield start, end

    return _union_of_parts(parts(), len(few[0]) + len(many[0]))


def _union_of_rows(work: Work, rows: Rows) -> tuple[Int64s, Int64s]:
    """Return when at least one of the rows of work ran, as disjoint intervals in order. rows: in order of start."""
    blocks = (rows[low : low + _BLOCK] for low in range(0, len(rows), _BLOCK))
    return _union_of_parts(((work.start_ns[block], work.ends_ns(block)) for block in blocks), len(rows))


def _union_of_parts(parts: Iterator[tuple[Int64s, Int64s]], size: int) -> tuple[Int64s, Int64s]:
    """Return the union of intervals, which come in parts in order of start, so that no more than the union is held.

    size: how many intervals the parts have together.
    """
    count, reached = 0, np.iinfo(np.int64).min
    begun, ended = np.empty(size, dtype=np.int64), np.empty(size, dtype=np.int64)
    for start, end in parts:
        end[0] = max(reached, int(end[0]))
        its_begun, its_ended = _union(start, end)
        # The first interval may go on where the part before ended.
        place = count - int(its_begun[0] <= reached)
        if place == count:
            begun[place] = its_begun[0]
        begun[place + 1 : place + len(its_begun)] = its_begun[1:]
        ended[place : place + len(its_ended)] = its_ended
        count, reached = place + len(its_begun), int(its_ended[-1])
    return begun[:count], ended[:count]


def _union(start: Int64s, end: Int64s) -> tuple[Int64s, Int64s]:
    """Return the union of intervals, which are given in order of start, as disjoint ones in order."""
    reached = np.maximum.accumulate(end, out=end)
    fresh = np.ones(len(start), dtype=np.bool_)
    fresh[1:] = start[1:] > reached[:-1]
    begun = start[fresh]
    # An interval ends where the last piece before the next interval does.
    fresh[:-1] = fresh[1:]
    fresh[-1:] = True
    return begun, reached[fresh]


def _idle(span: DeviceSpan, pieces: Blamed, low: Int64s, high: Int64s) -> dict[str, Int64s]:
    """Return the idle time within each [low, high) by cause, and the time outside the device's first and last work."""
    inside = np.clip(high, span.first_ns, span.first_ns + span.whole.span_ns)
    inside -= np.clip(low, span.first_ns, span.first_ns + span.whole.span_ns)
    idle = {"outside_ns": high - low - inside}
    of_causes, _ = measure_by_code(pieces.start_ns, pieces.duration_ns, pieces.cause, len(CAUSES), low, high)
    return idle | {cause_column(cause): of_causes[code] for code, cause in enumerate(CAUSES)}
