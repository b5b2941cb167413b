"""Compute every number in the tables of an analysis from the trace's rows: {table: {key: {column: value}}}."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable
from fractions import Fraction
from pathlib import Path
from typing import Any

from tests.second_opinion.trace_rows import PID, Call, Enclosed, Range, TraceRows, Work, union

Figures = dict[str, dict[tuple[str, ...], dict[str, Any]]]
GPU = ("kernel", "copy", "fill", "graph")
_UNKNOWN_KERNELS = ("kernel_count", "kernel_total_ns", "exclusive_kernel_count", "exclusive_kernel_total_ns")
_UNKNOWN_WORK = (*_UNKNOWN_KERNELS, "gpu_busy_ns", "projected_ns", "gpu_idle_ns")
_MEASURED = re.compile(r"RUN::")


def figures_of(path: Path) -> Figures:
    """Return all figures of a trace; None is unknown."""
    rows = TraceRows(path)
    found = {
        "kernels.csv": kernels(rows), "api.csv": calls(rows), "memops.csv": copies(rows),
        **range_figures(rows), "summary.json": {("totals",): totals(rows), ("coverage",): coverage(rows)},
    }  # fmt: skip
    if not is_counted(rows):
        launched = found["summary.json"]["totals",]["launch_count"]
        for table in ("ranges.csv", "range_instances.csv"):
            for row in found[table].values():
                kept = {"instances", "wall_ns", "start_ns", "peak_vram_bytes", "op_id", "seq", "path"}
                kept |= {"launch_count", "graph_launch_count", "lost_launch_count"} if launched else set()
                row.update({column: None for column in row if column not in kept})
    return found


def is_counted(rows: TraceRows) -> bool:
    """Return whether a count of GPU work means anything: a trace without kernels may have lost them all."""
    kinds = {each.kind for each in rows.work}
    if kinds & {"kernel", "graph"}:
        return rows.calls_were_recorded
    measured = any(_MEASURED.match(each.name) for each in rows.ranges)
    return bool(kinds & {"copy", "fill"}) and bool(rows.calls) and not rows.launches and not measured


def statistics(values: list[int]) -> dict[str, Any]:
    """Return what every table of durations has, each exact or rounded once."""
    ordered, count, total = sorted(values), len(values), sum(values)
    squares = count * sum(value * value for value in values) - total * total
    return {
        "instances": count,
        "total_ns": total,
        "avg_ns": total / count,
        "med_ns": (ordered[(count - 1) // 2] + ordered[count // 2]) / 2,
        "min_ns": ordered[0],
        "max_ns": ordered[-1],
        "stddev_ns": math.sqrt(Fraction(squares, count * (count - 1))) if count > 1 else 0.0,
    }


def _grouped(pairs: Iterable[tuple[Any, int]]) -> dict[Any, list[int]]:
    found: dict[Any, list[int]] = defaultdict(list)
    for key, value in pairs:
        found[key].append(value)
    return found


def kernels(rows: TraceRows) -> dict[tuple[str, ...], dict[str, Any]]:
    """Return kernels.csv: kernels, and graphs that were recorded as wholes, with their share of the time of both."""
    by_name = _grouped((each.name, each.duration) for each in rows.work if each.kind in ("kernel", "graph"))
    total = sum(map(sum, by_name.values()))
    return {
        (name,): {**statistics(values), "share_pct": 100 * sum(values) / total if total else 0.0}
        for name, values in by_name.items()
    }


def calls(rows: TraceRows) -> dict[tuple[str, ...], dict[str, Any]]:
    """Return api.csv."""
    by_name = _grouped((re.sub(r"_v\d{4}$", "", call.name), call.end - call.start) for call in rows.calls)
    found = {(name,): statistics(values) for name, values in by_name.items()}
    return {key: {"calls": row.pop("instances"), **row} for key, row in found.items()}


def copies(rows: TraceRows) -> dict[tuple[str, ...], dict[str, Any]]:
    """Return memops.csv."""
    found: dict[tuple[str, ...], dict[str, Any]] = {}
    for each in rows.work:
        if each.kind in ("copy", "fill", "migration"):
            row = found.setdefault((each.name,), {"count": 0, "total_ns": 0, "total_bytes": 0, "max_bytes": 0})
            row["count"] += 1
            row["total_ns"] += each.duration
            row["total_bytes"] += each.bytes
            row["max_bytes"] = max(row["max_bytes"], each.bytes)
    for row in found.values():
        row["avg_bytes"] = row["total_bytes"] / row["count"]
    return found


def totals(rows: TraceRows) -> dict[str, Any]:
    """Return the totals of summary.json."""
    busy = [each for each in rows.work if each.kind in GPU]
    kernel = [each for each in rows.work if each.kind == "kernel"]
    moved = [each for each in rows.work if each.kind == "migration"]
    opaque = bool(rows.silent) or any(each.kind == "graph" for each in rows.work)
    launches = len(rows.launches) if rows.calls_were_recorded else None
    copied: dict[str, int] = defaultdict(int)
    for each in rows.work:
        if each.kind in ("copy", "migration"):
            copied[each.name] += each.bytes
    found = {
        "launch_count": launches,
        "graph_launch_count": None if launches is None else len(rows.replays),
        "kernel_count": None if opaque else len(kernel),
        "kernel_total_ns": None if opaque else sum(each.duration for each in kernel),
        "gpu_busy_ns": None if rows.silent else busy_ns(busy),
        "gpu_span_ns": None if rows.silent else _span(busy),
        "memcpy_bytes": dict(copied),
        "memset_bytes": sum(each.bytes for each in rows.work if each.kind == "fill"),
        "migration_count": len(moved),
        "migration_total_ns": sum(each.duration for each in moved),
        "migration_bytes": sum(each.bytes for each in moved),
        "gpu_busy_with_migrations_ns": None if rows.silent else busy_ns([*busy, *moved]),
        "peak_vram_bytes": None if rows.memory is None else {str(board): peak for board, peak in _peaks(rows).items()},
    }
    kinds = {each.kind for each in rows.work}
    if not kinds & {"kernel", "graph"} and not is_counted(rows):
        kept = {"peak_vram_bytes"} | ({"launch_count", "graph_launch_count"} if launches else set())
        found.update({column: None for column in found if column not in kept})
    return found


def coverage(rows: TraceRows) -> dict[str, Any]:
    """Return what summary.json says of kernels and launches as a whole."""
    return {
        "kernels": sum(each.kind == "kernel" for each in rows.work),
        "launches": len(rows.launches) if rows.calls_were_recorded else None,
        "launches_without_gpu_record": len(rows.lost) if rows.calls_were_recorded else None,
    }


def _span(work: list[Work]) -> int:
    return max(each.end for each in work) - min(each.start for each in work) if work else 0


def busy_ns(work: Iterable[Work]) -> int:
    """Return the union of the work on each board, added over boards."""
    boards: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for each in work:
        boards[each.board].append((each.start, each.end))
    return sum(union(spans) for spans in boards.values())


def _idle_ns(work: list[Work]) -> int:
    boards: dict[int, list[Work]] = defaultdict(list)
    for each in work:
        boards[each.board].append(each)
    return sum(_span(of_board) - busy_ns(of_board) for of_board in boards.values())


def _peaks(rows: TraceRows) -> dict[int, int]:
    used: dict[int, int] = defaultdict(int)
    peaks: dict[int, int] = {}
    for _, _, board, change in rows.memory or ():
        used[board] += change
        peaks[board] = max(peaks.get(board, used[board]), used[board])
    return peaks


class _ProcessMemory:
    """What each process held on each board, by time."""

    def __init__(self, rows: TraceRows) -> None:
        self.steps: dict[int, dict[int, list[tuple[int, int]]]] = defaultdict(lambda: defaultdict(list))
        for time, pid, board, change in rows.memory or ():
            steps = self.steps[pid][board]
            steps.append((time, (steps[-1][1] if steps else 0) + change))

    def peak(self, each: Range) -> int:
        most = 0
        for steps in self.steps[each.tid & PID].values():
            before = [held for time, held in steps if time <= each.start][-1:]
            most = max([most, *before, *(held for time, held in steps if each.start < time <= each.end)])
        return most


def range_figures(rows: TraceRows) -> Figures:
    """Return ranges.csv, range_instances.csv and range_kernels.csv."""
    enclosed = Enclosed(rows.calls)
    work_of: dict[int, list[Work]] = defaultdict(list)
    for each in rows.work:
        if each.call is not None:
            work_of[each.call.number].append(each)
    memory = _ProcessMemory(rows)
    whole = {each.call.number for each in rows.work if each.kind == "graph" and each.call is not None}
    innermost = _innermost_kernels(rows, enclosed, work_of)
    paths = _paths(rows.ranges)
    groups: dict[tuple[str, str, str], list[Range]] = defaultdict(list)
    for each in sorted(rows.ranges, key=lambda each: (each.start, each.number)):
        groups[each.key].append(each)
    ranges, instances, kernel_rows = {}, {}, {}
    for key, members in groups.items():
        all_calls: dict[int, Call] = {}
        projected = peak = 0
        for number, each in enumerate(members):
            mine = {call.number: call for call in enclosed.of(each)}
            all_calls |= mine
            work = [piece for call in mine for piece in work_of.get(call, ())]
            projected += _span(work)
            peak = max(peak, memory.peak(each)) if rows.memory is not None else 0
            row = {**_instance(each, work), "path": paths[each.number]}
            _forget(row, set(mine), rows, whole)
            instances[*key, str(number)] = row
        work = [piece for call in all_calls for piece in work_of.get(call, ())]
        row = _range(members, work, set(all_calls), rows)
        row["projected_ns"] = projected
        row["peak_vram_bytes"] = None if rows.memory is None else peak
        own = innermost.get(key, [])
        nests = key[1] == "PushPop"
        row["exclusive_kernel_count"] = len(own) if nests else None
        row["exclusive_kernel_total_ns"] = sum(own) if nests else None
        _forget(row, set(all_calls), rows, whole)
        ranges[key] = row
        by_name = _grouped((piece.name, piece.duration) for piece in work if piece.kind == "kernel")
        for name, values in by_name.items():
            kernel_rows[*key, name] = statistics(values)
    return {"ranges.csv": ranges, "range_instances.csv": instances, "range_kernels.csv": kernel_rows}


def _paths(ranges: list[Range]) -> dict[int, str]:
    """Return the path of each range by its number: the push/pop ranges of its thread that hold it, and itself."""
    threads: dict[int, list[Range]] = defaultdict(list)
    for each in sorted(ranges, key=lambda each: (each.start, each.number)):
        if each.style == "PushPop":
            threads[each.tid].append(each)
    found = {each.number: each.name for each in ranges}
    for members in threads.values():
        opened: list[Range] = []
        for each in members:
            while opened and opened[-1].end < each.end:
                opened.pop()  # siblings, and those that it outlives
            found[each.number] = " > ".join([*(outer.name for outer in opened), each.name])
            opened.append(each)
    return found


def _instance(each: Range, work: list[Work]) -> dict[str, Any]:
    kernel = [piece.duration for piece in work if piece.kind == "kernel"]
    return {
        "start_ns": each.start,
        "wall_ns": each.end - each.start,
        "kernel_count": len(kernel),
        "kernel_total_ns": sum(kernel),
        "gpu_busy_ns": busy_ns(work),
        "gpu_idle_ns": _idle_ns(work),
        "op_id": each.op_id,
        "seq": each.seq,
    }


def _range(members: list[Range], work: list[Work], made: set[int], rows: TraceRows) -> dict[str, Any]:
    kernel = [piece.duration for piece in work if piece.kind == "kernel"]
    return {
        "instances": len(members),
        "wall_ns": sum(each.end - each.start for each in members),
        "kernel_count": len(kernel),
        "kernel_total_ns": sum(kernel),
        "gpu_busy_ns": busy_ns(work),
        "launch_count": len(made & rows.launches),
        "graph_launch_count": len(made & rows.replays),
        "lost_launch_count": len(made & rows.lost),
        "memcpy_bytes": sum(piece.bytes for piece in work if piece.kind == "copy"),
        "memset_bytes": sum(piece.bytes for piece in work if piece.kind == "fill"),
    }


def _forget(row: dict[str, Any], made: set[int], rows: TraceRows, whole: set[int]) -> None:
    """Make unknown what cannot be known: kernels of graphs as wholes, and work that was lost or never recorded."""
    launched, lost = made & rows.launches, made & rows.lost
    gone = _UNKNOWN_WORK if made & rows.silent or (lost and lost == launched) else ()
    for column in (*gone, *(_UNKNOWN_KERNELS if made & whole else ())):
        if column in row:
            row[column] = None


def _innermost_kernels(
    rows: TraceRows, enclosed: Enclosed, work_of: dict[int, list[Work]]
) -> dict[tuple[str, str, str], list[int]]:
    """Return the durations of the kernels whose innermost push/pop range is of each name."""
    owner: dict[int, Range] = {}
    for each in rows.ranges:
        if each.style != "PushPop":
            continue
        for call in enclosed.of(each):
            before = owner.get(call.number)
            if before is None or (each.start, -each.end, each.number) > (before.start, -before.end, before.number):
                owner[call.number] = each
    found: dict[tuple[str, str, str], list[int]] = defaultdict(list)
    for call, each in owner.items():
        found[each.key] += [piece.duration for piece in work_of.get(call, ()) if piece.kind == "kernel"]
    return found
