"""Which backend is fastest for equal work, in words, and only as far as the intervals carry it."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd

from nsysprof.analysis.results import CaptureRecord
from nsysprof.report.tables import Row, Table, format_latency, per_call, value
from nsysprof.report.words import Words
from nsysprof.units import UNKNOWN, format_bytes, format_count, format_ns, format_ratio

# Everything but the backend: cases that differ in any of these do different work and are never compared.
# Intervals within one process say nothing of the spread between processes: the same cuDNN kernel, called by two
# names in one capture, gave medians 0.5 % apart with intervals that did not overlap.
_LEAST_DIFFERENCE_PCT = 2
_SAME_WORK = ["seq", "batch", "heads", "kv_heads", "head_dim", "dtype", "causal", "pass"]


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


def mark_best(table: Table, record: CaptureRecord) -> Table:
    """A table with one row a case of the record, with the fastest of each shape marked as far as they are known."""
    marks: dict[int, str] = {}
    for _, cases in _timed_work(record):
        best, tied, _ = _split(cases)
        word = "among the fastest" if tied else "fastest"
        marks |= {int(case["position"]): word for case in (best, *tied)}
    return replace(table, marks=marks)


def verdict_lines(record: CaptureRecord) -> list[str]:
    """One sentence a shape: the fastest backend and by how much, as far as the measurement carries it."""
    return [f"{label}: {_ranking(timed)}." for label, timed in _timed_work(record)]


def _timed_work(record: CaptureRecord) -> list[tuple[str, list[Row]]]:
    """The timed cases of each shape, the fastest first; `position` is a case's row in the record."""
    on_gpu = record.environment.get("device") == "cuda"
    results = record.results.assign(on_gpu=on_gpu, position=range(len(record.results)))
    found = []
    for label, cases in _equal_work(results):
        timed = sorted((c for c in cases if value(c["latency_median_ns"])), key=lambda c: c["latency_median_ns"])
        if timed:
            found.append((label, timed))
    return found


def _split(timed: list[Row]) -> tuple[Row, list[Row], list[Row]]:
    """The fastest case, those that no difference is shown from, and those that take longer."""
    best, rest = timed[0], timed[1:]
    bound = _launch_bound(timed)
    tied = [case for case in rest if case in bound or _overlap(best, case)]
    return best, tied, [case for case in rest if case not in tied]


def _launch_bound(timed: list[Row]) -> list[Row]:
    # Where the GPU waits for the CPU, latency times the dispatch, which varies from process to process by more than
    # an interval within one process shows: the same kernel gave 29 us as `auto` and 41 us as `cudnn` in one capture.
    # A case whose kernels alone take longer than the best one's whole call is slower by its own work.
    best = timed[0]
    if not _is_launch_bound(best):
        return []
    return [
        case
        for case in timed
        if _is_launch_bound(case) and (per_call(case, "kernel_total_ns") or 0) <= best["latency_median_ns"]
    ]


def _ranking(timed: list[Row]) -> str:
    best, tied, slower = _split(timed)
    bound = _launch_bound(timed)
    if bound and len(bound) > 1:
        names = ", ".join(f"{case['backend']} {format_ns(per_call(case, 'kernel_total_ns'))}" for case in bound)
        text = (
            f"{_join(best, tied)} are launch-bound: the GPU idles for more than a quarter of their latency, so that "
            f"differences between them are of the CPU's dispatch (kernel time a call: {names})"
        )
    elif tied:
        text = (
            f"{_join(best, tied)} are the fastest; their 95 % intervals overlap or their medians lie within "
            f"{_LEAST_DIFFERENCE_PCT} %, so no difference is shown"
        )
    else:
        text = f"{best['backend']} is the fastest at {format_latency(best)}"
    if slower:
        factors = [f"{case['backend']} {_factor(case, best)}" for case in slower]
        text += f"; {', '.join(factors)} as long"
    return text


def _factor(case: Row, best: Row) -> str:
    text = format_ratio(case["latency_median_ns"] / best["latency_median_ns"])
    return f"{text} (launch-bound)" if _is_launch_bound(case) else text


def _join(best: Row, tied: list[Row]) -> str:
    return ", ".join([best["backend"], *(case["backend"] for case in tied)])


def _is_launch_bound(case: Row) -> bool:
    """Whether kernels fill less than three quarters of the latency. Unknown on the CPU and without a trace."""
    kernels = per_call(case, "kernel_total_ns")
    return bool(case["on_gpu"]) and kernels is not None and kernels < 0.75 * case["latency_median_ns"]


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
    """Whether one process cannot tell two medians apart; an interval that is unknown could be anywhere."""
    if b["latency_median_ns"] < (1 + _LEAST_DIFFERENCE_PCT / 100) * a["latency_median_ns"]:
        return True
    a_high, b_low = value(a["latency_ci_high_ns"]), value(b["latency_ci_low_ns"])
    return a_high is None or b_low is None or bool(b_low <= a_high)


def _times(base: Row, row: Row, column: str) -> str:
    top, bottom = value(base[column]), value(row[column])
    return UNKNOWN if top is None or not bottom else format_ratio(top / bottom)


def _records(cases: pd.DataFrame) -> list[Row]:
    rows: list[Row] = []
    rows.extend(cases.to_dict("records"))
    return rows
