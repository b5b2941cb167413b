"""The results of a bench: one row a cell, what it reaches of the device, and who is faster on equal work."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import pandas as pd

from nsysprof.analysis.halving import is_far_behind
from nsysprof.analysis.latency import Floats, block_medians, summarize_latency
from nsysprof.analysis.significance import (
    ALPHA,
    LEAST_BLOCKS,
    Comparison,
    Verdict,
    compare_medians,
    decide,
    halves,
    noise_floor,
)
from nsysprof.attention_work import attention_flops, least_bytes
from nsysprof.block import OK, Block
from nsysprof.case import Case
from nsysprof.datasheet import Peak, find_peak
from nsysprof.notes import Note, Severity

# Everything but the backend: cases that differ in any of these do different work, and are never compared.
SHAPE = ("seq", "batch", "heads", "kv_heads", "head_dim", "dtype", "causal", "pass")
_TOP_STATUS = ("wrong", "ineligible", "out_of_memory", "timeout", "crashed", "error")
_FEW_PAIRS = 5
FAR_BEHIND_VERDICT = "far behind"


@dataclass(frozen=True)
class BenchResults:
    """table: one row a cell, see docs/bench.md for its columns. floor_pct: the noise floor; floor_pairs: from how many
    pairs. notes: what a reader must know."""

    table: pd.DataFrame
    floor_pct: float | None
    floor_pairs: int
    notes: tuple[Note, ...]


def summarize_bench(
    cells: Sequence[Case],
    names: Sequence[str],
    blocks: Sequence[Block],
    ceilings: Mapping[str, Any],
    environment: Mapping[str, Any],
    *,
    copies: int = 1,
) -> BenchResults:
    """Of every cell. copies: how many cells in a row are the same case (`bench --self-check`)."""
    by_cell: list[list[Block]] = [[] for _ in cells]
    for block in blocks:
        by_cell[block.cell].append(block)
    medians = [block_medians(own) for own in by_cell]
    pairs = same_code(medians, copies)
    floor = noise_floor(pairs)
    peak = find_peak(environment.get("gpu_name"))
    rows = [_row(case, name, own, ceilings, peak) for case, name, own in zip(cells, names, by_cell, strict=True)]
    if copies == 1:
        _rank(rows, medians, floor)
    table = pd.DataFrame(rows)
    return BenchResults(table, floor, len(pairs), tuple(_notes(rows, by_cell, floor, len(pairs), environment)))


def same_code(medians: Sequence[Floats], copies: int) -> list[tuple[Floats, Floats]]:
    """Pairs of the same code measured twice: copies of a case where there are any, else the halves of each cell."""
    if copies == 1:
        return [halves(values) for values in medians if len(values) >= LEAST_BLOCKS]
    firsts = [first for case in range(0, len(medians), copies) for first in range(case, case + copies - 1, 2)]
    return [(medians[i], medians[i + 1]) for i in firsts if len(medians[i]) and len(medians[i + 1])]


@dataclass(frozen=True)
class SelfCheck:
    """What the tests say of the same code measured twice: all of it is false alarm.

    below_alpha: pairs whose uncorrected p is below alpha; alarms: those that would be called a difference.
    """

    pairs: int
    below_alpha: int
    alarms: int
    floor_pct: float | None


def check_self(blocks: Sequence[Block], cells: int, copies: int, floor_pct: float | None) -> SelfCheck:
    """floor_pct: the floor for the verdicts; of these very pairs where None."""
    medians = [block_medians([block for block in blocks if block.cell == cell]) for cell in range(cells)]
    pairs = same_code(medians, copies)
    own = noise_floor(pairs)
    compared = [found for found in (compare_medians(a, b) for a, b in pairs) if found is not None]
    # One by one: corrected for their number, hardly any could be an alarm.
    verdicts = [decide([found], (own or 0.0) if floor_pct is None else floor_pct)[0] for found in compared]
    alarms = sum(v is not None and v.verdict in (Verdict.FASTER, Verdict.SLOWER) for v in verdicts)
    return SelfCheck(len(compared), sum(found.p < ALPHA for found in compared), alarms, own)


def _row(
    case: Case, name: str, blocks: Sequence[Block], ceilings: Mapping[str, Any], peak: Peak | None
) -> dict[str, Any]:
    shape = {**case.to_json(), "kv_heads": case.key_heads}
    status, reason = _status(blocks)
    latency = summarize_latency(blocks)
    replayed = summarize_latency(blocks, graph=True)
    row: dict[str, Any] = {"case": name, **shape, "status": status, "reason": reason}
    facts = asdict(latency) if latency is not None else {}
    row |= {column: facts.get(column) for column in _LATENCY}
    good = [block for block in blocks if block.status == OK]
    shares = sorted(block.launch_share for block in good if block.launch_share is not None)
    row |= {
        "graph_median_ns": replayed.median_ns if replayed else None,
        "graph_low_ns": replayed.low_ns if replayed else None,
        "graph_high_ns": replayed.high_ns if replayed else None,
        "graph_reason": "" if replayed else next((block.graph_reason for block in good), ""),
        "launch_share": shares[len(shares) // 2] if shares else None,
        "throttled_samples": sum(len(block.throttled) for block in good),
        "unstable_blocks": sum(not block.stable for block in good),
        "largest_error": max((error for block in good for error in block.errors.values()), default=None),
        "peak_bytes": max((block.peak_bytes for block in good if block.peak_bytes is not None), default=None),
    }
    return row | _reached(case, row["median_ns"], ceilings, peak) | {"rank": None, "verdict": "", "against_best": None}


_LATENCY = (
    "samples", "blocks", "processes", "median_ns", "low_ns", "high_ns", "interval_of", "mean_ns", "stddev_ns", "cv_pct",
    "min_ns", "max_ns", "p95_ns", "p99_ns", "outliers", "drift_pct", "drift_p",
)  # fmt: skip


def _status(blocks: Sequence[Block]) -> tuple[str, str]:
    """Of a cell by its blocks: one that failed anywhere is not ok, and says how often."""
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
    """FLOP/s and bytes/s by formula, and what part of the ceilings and of the datasheet that is."""
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


def _rank(rows: list[dict[str, Any]], medians: Sequence[Any], floor: float | None) -> None:
    """Against the fastest of equal work: tie or slower. Only cells that never failed are ranked."""
    groups: dict[tuple[Any, ...], list[int]] = {}
    for index, row in enumerate(rows):
        if row["status"] == OK:
            groups.setdefault(tuple(row.get(key) for key in SHAPE), []).append(index)
    compared: list[tuple[int, Comparison | None]] = []
    for members in groups.values():
        members.sort(key=lambda index: rows[index]["median_ns"])
        rows[members[0]]["rank"], rows[members[0]]["verdict"] = 1, "fastest"
        for place, index in enumerate(members[1:], start=2):
            rows[index]["rank"] = place
            rows[index]["against_best"] = rows[index]["median_ns"] / rows[members[0]]["median_ns"]
            compared.append((index, compare_medians(medians[members[0]], medians[index])))
        if len(members) == 1:
            rows[members[0]]["verdict"] = "alone"
    verdicts = decide([comparison for _, comparison in compared], 0.0 if floor is None else floor)
    for (index, _), found in zip(compared, verdicts, strict=True):
        rows[index]["verdict"] = (Verdict.UNKNOWN if found is None else found.verdict).value
        # Too few blocks for a test, but not one of them anywhere near a best that has enough: a tuner drops such early.
        best = medians[_best_of(rows, rows[index])]
        if found is None and len(best) >= LEAST_BLOCKS and is_far_behind(best, medians[index]):
            rows[index]["verdict"] = FAR_BEHIND_VERDICT
        # A cell that a test calls faster than the one of the least median is a tie of the two: no order is shown.
        if found is not None and found.verdict is Verdict.FASTER:
            rows[index]["verdict"] = Verdict.SAME.value


def _best_of(rows: Sequence[dict[str, Any]], row: Mapping[str, Any]) -> int:
    """The index of the fastest cell of the same work."""
    same = (i for i, each in enumerate(rows) if each["rank"] == 1 and all(each.get(k) == row.get(k) for k in SHAPE))
    return next(same)


def _notes(
    rows: Sequence[dict[str, Any]],
    by_cell: Sequence[Sequence[Block]],
    floor: float | None,
    pairs: int,
    environment: Mapping[str, Any],
) -> list[Note]:
    notes = []
    throttled = sum(row["throttled_samples"] or 0 for row in rows)
    if throttled:
        total = sum(row["samples"] or 0 for row in rows)
        notes.append(
            Note(
                "gpu-throttled",
                Severity.WARNING,
                f"{throttled:,} of {total:,} samples were taken while the GPU was throttled; they are kept and marked.",
                "Let it cool down, or wait for its other users, and measure again.",
            )
        )
    notes += [note for row in rows for note in _impossible(row)]
    unstable = [row["case"] for row in rows if row["unstable_blocks"]]
    if unstable:
        notes.append(
            Note(
                "warm-up-unstable",
                Severity.WARNING,
                f"Warm-up ended by its time and not by its rule in some blocks of {_some(unstable)}.",
                "Give a longer --warmup-seconds, or see what else runs on the machine.",
            )
        )
    drifting = [
        row["case"]
        for row in rows
        if row["drift_pct"] is not None and row["drift_p"] < 0.01 and abs(row["drift_pct"]) > max(2.0, floor or 0.0)
    ]
    if drifting:
        text = f"Latency drifted over the run in {_some(drifting)}: see drift_pct in results.csv."
        notes.append(Note("drift", Severity.WARNING, text, "Clocks or other users changed; measure again."))
    if floor is not None and pairs < _FEW_PAIRS:
        text = f"The noise floor of {floor:.1f} % comes from {pairs} pairs only."
        notes.append(Note("floor-uncertain", Severity.INFO, text, "bench --self-check measures it with many."))
    if environment.get("device") == "cpu":
        notes.append(Note("cpu", Severity.INFO, "Measured on the CPU: nothing here says anything about a GPU."))
    return notes


def _impossible(row: Mapping[str, Any]) -> list[Note]:
    """More than all that the device can do is a fault of the measurement, or bytes that came from a cache."""
    notes = []
    for column, what, cause in (
        ("measured_bytes_pct", "of the bandwidth measured here", "its inputs were still in the L2 cache"),
        ("datasheet_bytes_pct", "of the datasheet's bandwidth", "its inputs were still in the L2 cache"),
        ("measured_flops_pct", "of the matrix product measured here", "the kernel computes less than the formula"),
        ("datasheet_flops_pct", "of the datasheet's FLOP/s", "the kernel computes less than the formula"),
    ):
        percent = row[column]
        if percent is not None and percent > 100:
            text = f"{row['case']} reaches {percent:.0f} % {what}, which is a measurement error: most likely {cause}."
            notes.append(Note("above-ceiling", Severity.WARNING, text, "Do not quote it; see docs/bench.md."))
    return notes


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
