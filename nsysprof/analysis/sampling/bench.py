"""Evaluate a bench: one row per cell, its share of the device's peak, and which backend is faster on equal work."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pandas as pd

from nsysprof.analysis.sampling.latency import block_medians, stall_note, summarize_latency
from nsysprof.analysis.sampling.significance import (
    THROTTLE_GAP,
    CaseVerdict,
    PairDifference,
    Prior,
    Turns,
    compare_shape,
    correct_noisy,
    fit,
    fit_differences,
    noise_floor,
    process_levels,
    smallest_difference,
    turns_of,
)
from nsysprof.arrays import Floats
from nsysprof.attention.backend_limits import is_lossy
from nsysprof.attention.shape import SHAPE_COLUMNS, Case, attention_flops, least_bytes, row_of_case, seen_keys
from nsysprof.notes import Note, make_note
from nsysprof.results.column_registry.case_columns import BENCH_RESULTS
from nsysprof.results.roof import MOST_PCT, Peak, find_peak
from nsysprof.results.samples import (
    APPROXIMATE,
    LEAST_BLOCKS,
    OK,
    Block,
    dropped_samples,
    named_times,
    stalls,
    steady_samples,
)

_TOP_STATUS = ("wrong", "ineligible", "out_of_memory", "timeout", "crashed", "error")
# A noise floor from fewer pairs than this is told to be a rough one.
_FEW_PAIRS = 5
FAR_BEHIND_VERDICT = "far behind"
_LATENCY = (
    "samples", "blocks", "processes", "median_ns", "low_ns", "high_ns", "interval_of", "mean_ns", "stddev_ns", "cv_pct",
    "min_ns", "max_ns", "p95_ns", "p99_ns", "outliers", "drift_pct", "drift_p",
)  # fmt: skip
# A backend that is this many times slower in every block is dropped: more samples would not change that. Dropping takes
# a larger ratio than calling it far behind, because the best backend's later blocks may be slower than its first.
_DROPPED, FAR_BEHIND = 2.0, 1.5
# The blocks of each backend that stays to the end, how many always stay, and the blocks of a backend without a rival,
# which give it its interval.
MOST_BLOCKS, _KEPT, _LEAST_ALONE = 12, 2, 4
METHOD = (
    "Search: successive halving by shape. After each process a backend is dropped when every block of it is more than "
    f"{_DROPPED:g} times the best's, or the test calls it slower; the best {_KEPT} stay to the end. A shape has a "
    "winner where the test calls slower every other that stayed; else it is a tie, and the policy leaves the shape to "
    "torch where torch's own choice is part of the tie. Where the search found a winner, or something faster than "
    "torch's own choice, the best two and torch's choice are measured again in three fresh processes; these alone "
    "decide and give the numbers, because the best of a search is partly the luckiest."
)


@dataclass(frozen=True)
class BenchResults:
    """The results of a bench."""

    # One row per cell; docs/files.md lists its columns.
    table: pd.DataFrame
    # The smallest difference (percent) that this bench could tell, in 80 % of such runs, and the number of pairs whose
    # median it is. Of copies of the same code: the noise floor, which 95 % of pairs stay below.
    floor_pct: float | None
    floor_pairs: int
    # Notes for the reader.
    notes: tuple[Note, ...]


def summarize_bench(
    cells: Sequence[Case],
    names: Sequence[str],
    blocks: Sequence[Block],
    ceilings: Mapping[str, Any],
    environment: Mapping[str, Any],
    *,
    copies: int = 1,
    flush: bool = True,
    allow_error: float = 0.0,
) -> BenchResults:
    """Return the statistics and the verdict of every cell.

    copies: how many consecutive cells are the same case (`bench --self-check`). Copies are not ranked.
    flush: whether the caches were emptied before each sample.
    allow_error: the largest error with which an approximate case has a rank.
    """
    by_cell: list[list[Block]] = [[] for _ in cells]
    for block in blocks:
        by_cell[block.cell].append(block)
    medians = [block_medians(own) for own in by_cell]
    peak = find_peak(environment.get("gpu_name"))
    turns = [turns_of(own) for own in by_cell]
    prior = fit([process_levels(cell_turns) for cell_turns in turns])
    rows = [
        _row(case, name, own, ceilings, peak, prior) | named_times(_good(own), flush=flush)
        for case, name, own in zip(cells, names, by_cell, strict=True)
    ]
    if copies == 1:
        floor, pairs = _rank(rows, turns, medians, by_cell, allow_error)
        _set_goals(rows, floor)
    else:
        alike = same_code(medians, copies)
        floor, pairs = noise_floor(alike), len(alike)
    notes = [*hidden_keys(cells), *_approximate_notes(rows, allow_error), *_notes(rows, by_cell, floor, environment)]
    if copies > 1 and floor is not None and pairs < _FEW_PAIRS:
        notes.append(make_note("floor-uncertain", floor_pct=floor, pairs=pairs))
    return BenchResults(pd.DataFrame(rows, columns=list(BENCH_RESULTS.names)), floor, pairs, tuple(notes))


def same_code(medians: Sequence[Floats], copies: int) -> list[tuple[Floats, Floats]]:
    """Return pairs of measurements of the same code: copies of a case."""
    firsts = [first for case in range(0, len(medians), copies) for first in range(case, case + copies - 1, 2)]
    return [(medians[i], medians[i + 1]) for i in firsts if len(medians[i]) and len(medians[i + 1])]


@dataclass(frozen=True)
class SelfCheck:
    """How often the verdicts distinguish two measurements of the same code. Every difference is a false alarm."""

    pairs: int
    # How many pairs have p below alpha. Each pair is a shape of its own, so p is not corrected.
    alarms: int
    # How many pairs are shown to be the same within the margin.
    same: int
    floor_pct: float | None


def check_self(blocks: Sequence[Block], cells: int, copies: int) -> SelfCheck:
    """Return how often copies of a case are found to differ."""
    own = [[block for block in blocks if block.cell == cell] for cell in range(cells)]
    turns = [turns_of(cell_blocks) for cell_blocks in own]
    firsts = [first for case in range(0, cells, copies) for first in range(case, case + copies - 1, 2)]
    shapes = [{"one": turns[first], "other": turns[first + 1]} for first in firsts]
    prior = fit_differences(shapes)
    verdicts = [
        pair.verdict() for shape in shapes for key, pair in compare_shape(shape, prior).items() if key[0] == "one"
    ]
    floor = noise_floor(same_code([block_medians(cell_blocks) for cell_blocks in own], copies))
    alarms = sum(verdict in (CaseVerdict.FASTER, CaseVerdict.SLOWER) for verdict in verdicts)
    return SelfCheck(len(verdicts), alarms, verdicts.count(CaseVerdict.SAME), floor)


def _row(
    case: Case, name: str, blocks: Sequence[Block], ceilings: Mapping[str, Any], peak: Peak | None, prior: Prior
) -> dict[str, Any]:
    shape = row_of_case(case)
    status, reason = _status(blocks)
    latency = summarize_latency(blocks, prior)
    replayed = summarize_latency(blocks, prior, graph=True)
    row: dict[str, Any] = {"case": name, **shape, "status": status, "reason": reason}
    facts = asdict(latency) if latency is not None else {}
    row |= {column: facts.get(column) for column in _LATENCY}
    good = _good(blocks)
    shares = sorted(block.launch_share for block in good if block.launch_share is not None)
    row |= {
        "graph_median_ns": replayed.median_ns if replayed else None,
        "graph_low_ns": replayed.low_ns if replayed else None,
        "graph_high_ns": replayed.high_ns if replayed else None,
        "graph_reason": "" if replayed else next((block.graph_reason for block in good), ""),
        "launch_share": shares[len(shares) // 2] if shares else None,
        "throttled_samples": sum(_throttled(block) for block in good),
        "unstable_blocks": sum(not block.stable for block in good),
        "largest_error": _largest_error(blocks),
        "peak_bytes": max((block.peak_bytes for block in good if block.peak_bytes is not None), default=None),
    }
    return row | _reached(case, row["median_ns"], ceilings, peak) | {
        "rank": None, "verdict": "", "against_best": None, "against_best_low": None, "against_best_high": None,
        "to_beat_ns": None, "approximate": is_approximate(case, good),
    }  # fmt: skip


def _good(blocks: Sequence[Block]) -> list[Block]:
    return [block for block in blocks if block.status == OK]


def _throttled(block: Block) -> int:
    """Return how many of the counted samples were taken while the GPU was throttled."""
    first = dropped_samples(len(block.values_ns))
    return sum(index >= first for index in block.throttled)


def _status(blocks: Sequence[Block]) -> tuple[str, str]:
    """Return the status of a cell and its reason.

    A cell that failed in any process is not ok, and the reason says how often it failed.
    """
    failed = [block for block in blocks if block.status != OK]
    if not blocks:
        return "not_run", ""
    if not failed:
        return OK, ""
    worst = min(failed, key=lambda block: _TOP_STATUS.index(block.status) if block.status in _TOP_STATUS else 99)
    processes = {block.process for block in blocks if block.status == OK}
    if not processes:
        return worst.status, worst.reason
    lost = len({block.process for block in failed})
    return "unreliable", f"{worst.status} in {lost} of {lost + len(processes)} processes: {worst.reason}"


def _reached(
    case: Case, median_ns: float | None, ceilings: Mapping[str, Any], peak: Peak | None
) -> dict[str, float | None]:
    """Return FLOP/s and bytes/s by formula, and their share of the measured ceilings and of the datasheet's peak."""
    flops, moved = attention_flops(case), least_bytes(case)
    rates = (flops / median_ns * 1e9, moved / median_ns * 1e9) if median_ns else (None, None)
    measured = (ceilings.get("flops") or {}).get(case.dtype), ceilings.get("bytes_per_s")
    sheet = (peak.flops.get(case.dtype), peak.bytes_per_s) if peak else (None, None)
    return {
        "flops": flops,
        "least_bytes": moved,
        "flops_per_s": rates[0],
        "bytes_per_s": rates[1],
        "measured_flops_pct": _percent(rates[0], measured[0]),
        "measured_bytes_pct": _percent(rates[1], measured[1]),
        "datasheet_flops_pct": _percent(rates[0], sheet[0]),
        "datasheet_bytes_pct": _percent(rates[1], sheet[1]),
    }


def _percent(rate: float | None, whole: float | None) -> float | None:
    return None if rate is None or not whole else 100 * rate / whole


def _rank(
    rows: list[dict[str, Any]],
    turns: Sequence[Turns],
    medians: Sequence[Floats],
    by_cell: Sequence[Sequence[Block]],
    allow_error: float,
) -> tuple[float | None, int]:
    """Write each cell's rank among cells with equal work, and its verdict against the fastest.

    Failed cells get neither, and approximate ones only where their error is allowed. Shapes that stall get no verdict.

    Return the smallest difference that could be told (percent), and from how many pairs.
    """
    groups: dict[tuple[Any, ...], list[int]] = {}
    for index, row in enumerate(rows):
        if row["status"] == OK and row["approximate"] and not _has_error(row["largest_error"], allow_error):
            row["verdict"] = APPROXIMATE
        elif row["status"] == OK:
            groups.setdefault(_shape_key(row), []).append(index)
    shapes = [{str(index): turns[index] for index in members} for members in groups.values()]
    prior = fit_differences(shapes)
    every = correct_noisy(shapes, [compare_shape(shape, prior) for shape in shapes])
    for members, pairs in zip(groups.values(), every, strict=True):
        members.sort(key=lambda index: rows[index]["median_ns"])
        best = members[0]
        rows[best]["rank"], rows[best]["verdict"] = 1, "fastest" if len(members) > 1 else "alone"
        for place, index in enumerate(members[1:], start=2):
            difference = pairs.get((str(best), str(index)))
            rows[index]["rank"] = place
            rows[index]["against_best"] = rows[index]["median_ns"] / rows[best]["median_ns"]
            if difference is not None:
                rows[index] |= {
                    "against_best": difference.ratio,
                    "against_best_low": difference.low,
                    "against_best_high": difference.high,
                }
            verdict = _verdict(difference, medians[best], medians[index])
            rows[index]["verdict"] = _doubted(verdict, rows[best], rows[index])
    bests = {_shape_key(row): row["median_ns"] for row in rows if row["rank"] == 1}
    for row in rows:
        best_ns = bests.get(_shape_key(row))
        if row["verdict"] == APPROXIMATE and best_ns:
            row["against_best"] = row["median_ns"] / best_ns
    _refuse_stalls(rows, by_cell)
    told = [
        shape
        for members, shape in zip(groups.values(), shapes, strict=True)
        if rows[members[0]]["verdict"] != CaseVerdict.INCONCLUSIVE.value
    ]
    return smallest_difference(told, prior)


def is_approximate(case: Case, blocks: Sequence[Block]) -> bool:
    """Return whether a cell computes with a larger error than rounding explains, as far as its blocks show."""
    return is_lossy(case.backend) or any(block.approximate for block in blocks)


def is_allowed(blocks: Sequence[Block], allow_error: float) -> bool:
    """Return whether the error of an approximate cell was measured, and is allowed."""
    return _has_error(_largest_error(blocks), allow_error)


def _has_error(error: float | None, allowed: float) -> bool:
    return error is not None and error <= allowed


def _largest_error(blocks: Sequence[Block]) -> float | None:
    return max((error for block in _good(blocks) for error in block.errors.values()), default=None)


def _approximate_notes(rows: Sequence[Mapping[str, Any]], allow_error: float) -> list[Note]:
    """Return a note on approximate cells without a rank, and one on those that have one."""
    own = [row for row in rows if row["approximate"] and row["status"] == OK]
    apart, ranked = ([row for row in own if bool(row["rank"]) is has_rank] for has_rank in (False, True))
    notes = [make_note("approximate-cases", **_facts(apart))] if apart else []
    return notes + ([make_note("approximate-ranked", **_facts(ranked), allowed=allow_error)] if ranked else [])


def _facts(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {"cases": _some([row["case"] for row in rows]), "error": max(row["largest_error"] or 0.0 for row in rows)}


def _stalls(blocks: Sequence[Block]) -> bool:
    return stalls([value for block in _good(blocks) for value in steady_samples(block.values_ns)])


def _refuse_stalls(rows: Sequence[dict[str, Any]], by_cell: Sequence[Sequence[Block]]) -> None:
    """Withdraw the verdicts of shapes with a cell that stalled."""
    stalled = {_shape_key(row) for row, blocks in zip(rows, by_cell, strict=True) if row["rank"] and _stalls(blocks)}
    for row in rows:
        if row["rank"] and row["verdict"] != "alone" and _shape_key(row) in stalled:
            row |= {"verdict": CaseVerdict.INCONCLUSIVE.value, "against_best_low": None, "against_best_high": None}


def refused(table: pd.DataFrame) -> pd.DataFrame:
    """Return the best rows of the shapes that have no verdict because a cell of theirs stalled."""
    return table[(table["rank"] == 1) & (table["verdict"] == CaseVerdict.INCONCLUSIVE.value)]


def _shape_key(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(row.get(key) for key in SHAPE_COLUMNS)


def _set_goals(rows: list[dict[str, Any]], floor_pct: float | None) -> None:
    """Give the fastest cell of each shape the latency that a new kernel must stay below to be called faster (ns)."""
    for row in rows:
        if row["rank"] == 1 and row["verdict"] != CaseVerdict.INCONCLUSIVE.value:
            told = None if floor_pct is None else row["median_ns"] / (1 + floor_pct / 100)
            row["to_beat_ns"] = told or row["low_ns"] or row["median_ns"]


def _doubted(verdict: str, best: Mapping[str, Any], other: Mapping[str, Any]) -> str:
    """Return the verdict, or `inconclusive` where throttling of one of the two may explain the difference."""
    gap = (other["throttled_samples"] or 0) / other["samples"] - (best["throttled_samples"] or 0) / best["samples"]
    unsound = {CaseVerdict.SAME.value, *((CaseVerdict.SLOWER.value,) if gap > 0 else ())}
    return CaseVerdict.INCONCLUSIVE.value if abs(gap) > THROTTLE_GAP and verdict in unsound else verdict


def _verdict(difference: PairDifference | None, best: Floats, other: Floats) -> str:
    """Return the verdict of a cell against the fastest one."""
    if difference is None:
        # There are too few processes for a test, but no block comes near those of a best cell that has enough: a tuner
        # drops such cells early.
        is_far = len(best) >= LEAST_BLOCKS and is_far_behind(best, other)
        return FAR_BEHIND_VERDICT if is_far else CaseVerdict.UNKNOWN.value
    verdict = difference.verdict()
    # The latencies order the cells. Where the test of the rounds that both have shows the opposite, no order is shown.
    return (CaseVerdict.INCONCLUSIVE if verdict is CaseVerdict.FASTER else verdict).value


def hidden_keys(cases: Sequence[Case]) -> list[Note]:
    """Return a note where a causal mask hides keys from every query, which few people who give --kv-seq expect."""
    hidden = [case for case in cases if case.causal and seen_keys(case) < case.kv_seq]
    if not hidden:
        return []
    worst = min(hidden, key=lambda case: case.seq / case.kv_seq)
    return [make_note("causal-from-top-left", seen=seen_keys(worst), keys=worst.kv_seq, queries=worst.seq)]


def _notes(
    rows: Sequence[dict[str, Any]],
    by_cell: Sequence[Sequence[Block]],
    floor: float | None,
    environment: Mapping[str, Any],
) -> list[Note]:
    notes = []
    stalled = [row["case"] for row, blocks in zip(rows, by_cell, strict=True) if _stalls(blocks)]
    if stalled:
        notes.append(stall_note(_some(stalled), "Their shapes have no verdict."))
    throttled = sum(row["throttled_samples"] or 0 for row in rows)
    if throttled:
        total = sum(row["samples"] or 0 for row in rows)
        notes.append(make_note("gpu-throttled", throttled=throttled, samples=total))
    notes += [note for row in rows for note in _impossible(row)]
    unstable = [row["case"] for row in rows if row["unstable_blocks"]]
    if unstable:
        notes.append(make_note("warm-up-unstable", cases=_some(unstable)))
    drifting = [
        row["case"]
        for row in rows
        if row["drift_pct"] is not None and row["drift_p"] < 0.01 and abs(row["drift_pct"]) > max(2.0, floor or 0.0)
    ]
    if drifting:
        notes.append(make_note("drift", cases=_some(drifting)))
    if environment.get("device") == "cpu":
        notes.append(make_note("cpu"))
    return notes


def _impossible(row: Mapping[str, Any]) -> list[Note]:
    """Yield notes on cells that exceed what the device can do: measurement errors, or bytes that came from a cache."""
    notes = []
    for column, what, cause in (
        ("measured_bytes_pct", "of the bandwidth measured here", "its inputs were still in the L2 cache"),
        ("datasheet_bytes_pct", "of the datasheet's bandwidth", "its inputs were still in the L2 cache"),
        ("measured_flops_pct", "of the matrix product measured here", "the kernel computes less than the formula"),
        ("datasheet_flops_pct", "of the datasheet's FLOP/s", "the kernel computes less than the formula"),
    ):
        percent = row[column]
        if percent is not None and percent > MOST_PCT:
            notes.append(make_note("above-ceiling", case=row["case"], percent=percent, of=what, cause=cause))
    return notes


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def is_far_behind(best: Floats, other: Floats, factor: float = FAR_BEHIND) -> bool:
    """Return whether every block of `other` is far slower than every block of `best`.

    best, other: medians of blocks (ns).
    """
    return bool(other.min() > factor * best.max())


def by_median(medians: Mapping[str, Floats]) -> list[str]:
    """Return the backends of one shape that have blocks, the best first.

    medians: the medians of each backend's blocks (ns).
    """
    return sorted((n for n, values in medians.items() if len(values)), key=lambda n: float(np.median(medians[n])))


def survivors(medians: Mapping[str, Floats], slower: Collection[str]) -> list[str]:
    """Return the backends that are worth measuring further, the best first.

    slower: the backends that the test calls slower than the best.
    """
    order = by_median(medians)
    if len(order) <= _KEPT:
        return order
    best = medians[order[0]]
    kept = [n for n in order[_KEPT:] if n not in slower and not is_far_behind(best, medians[n], _DROPPED)]
    return [*order[:_KEPT], *kept]


def unsettled(medians: Mapping[str, Floats], slower: Collection[str], most: int = MOST_BLOCKS) -> list[str]:
    """Return the backends of one shape that need more blocks: those still in the race that have fewer than `most`.

    A backend without any block needs one. If a shape has only one backend, four blocks give it its interval.
    """
    fresh = [name for name, values in medians.items() if len(values) == 0]
    enough = _LEAST_ALONE if len(medians) == 1 else most
    return fresh + [name for name in survivors(medians, slower) if len(medians[name]) < enough]
