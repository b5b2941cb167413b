"""Which backend is fastest for equal work, in words, and only as far as the intervals carry it."""

from __future__ import annotations

import pandas as pd

from nsysprof.analysis.results import CaptureRecord
from nsysprof.report.tables import Row, Table, format_latency, per_call, value
from nsysprof.report.words import Words
from nsysprof.units import UNKNOWN, format_bytes, format_count, format_ratio

# Everything but the backend: cases that differ in any of these do different work and are never compared.
_SAME_WORK = ["seq", "batch", "heads", "head_dim", "dtype", "causal", "pass"]


def comparison_table(record: CaptureRecord, words: Words) -> Table:
    """Per shape, every backend against the slowest-named baseline: the first backend of the grid."""
    rows = []
    for label, cases in _equal_work(record.results):
        base = cases[0]
        for row in cases:
            rows.append(
                (
                    label,
                    row["backend"],
                    format_latency(row),
                    _times(base, row, "latency_median_ns"),
                    format_bytes(value(row["peak_allocated_bytes"])),
                    _times(base, row, "peak_allocated_bytes"),
                    format_count(per_call(row, "launch_count")),
                )
            )
    first = record.results["backend"].iloc[0] if len(record.results) else ""
    headers = (
        "shape", "backend", "untraced latency [95 %]", f"{first} / this", f"peak {words.memory}",
        f"{first} / this", f"{words.launches}/call",
    )  # fmt: skip
    return Table(f"Against {first}, equal work", headers, tuple(rows), frozenset({1}), len(rows), "results.csv")


def verdict_lines(record: CaptureRecord) -> list[str]:
    """One sentence a shape: the fastest backend and by how much, or that the intervals overlap."""
    lines = []
    for label, cases in _equal_work(record.results):
        timed = sorted((c for c in cases if value(c["latency_median_ns"])), key=lambda c: c["latency_median_ns"])
        if not timed:
            continue
        best, rest = timed[0], timed[1:]
        tied = [case for case in rest if _overlap(best, case)]
        slower = [case for case in rest if case not in tied]
        text = f"{label}: "
        if tied:
            names = ", ".join([best["backend"], *(case["backend"] for case in tied)])
            text += f"{names} are the fastest; their 95 % intervals overlap, so no difference between them is shown"
        else:
            text += f"{best['backend']} is the fastest at {format_latency(best)}"
        if slower:
            factors = ", ".join(
                f"{case['backend']} takes {format_ratio(case['latency_median_ns'] / best['latency_median_ns'])}"
                for case in slower
            )
            text += f"; {factors} as long"
        lines.append(text + ".")
    return lines


def _equal_work(results: pd.DataFrame) -> list[tuple[str, list[Row]]]:
    done = results[results["status"] == "ok"]
    varied = [column for column in _SAME_WORK if column == "seq" or results[column].nunique() > 1]
    groups = []
    for _, cases in done.groupby(_SAME_WORK, sort=False):
        first = cases.iloc[0]
        label = ", ".join(f"S={first[c]}" if c == "seq" else f"{c}={first[c]}" for c in varied)
        groups.append((label, _records(cases)))
    return groups


def _overlap(a: Row, b: Row) -> bool:
    """Whether two medians' intervals overlap; one that is unknown could be anywhere."""
    a_high, b_low = value(a["latency_ci_high_ns"]), value(b["latency_ci_low_ns"])
    return a_high is None or b_low is None or bool(b_low <= a_high)


def _times(base: Row, row: Row, column: str) -> str:
    top, bottom = value(base[column]), value(row[column])
    return UNKNOWN if top is None or not bottom else format_ratio(top / bottom)


def _records(cases: pd.DataFrame) -> list[Row]:
    rows: list[Row] = []
    rows.extend(cases.to_dict("records"))
    return rows
