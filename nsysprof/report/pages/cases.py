"""Compose the tables and verdicts of a capture: how long each case took, what it moved, and what limits it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from nsysprof.report.document import (
    OPERATORS,
    Cell,
    Column,
    Table,
    Unit,
    Words,
    join_names,
    latency_text,
    make_table,
    times_as_long,
)
from nsysprof.results.analysis import HOST_PROCESS_TIMES, LEAST_DIFFERENCE_PCT, CaptureRecord, CaseRanking, RankedCase
from nsysprof.results.checks import MissingSource
from nsysprof.results.roof import LAUNCH_BOUND_SHARE, dram_of, known, sampled_of
from nsysprof.results.roof import UNKNOWN as UNKNOWN_LIMIT
from nsysprof.units import format_ns

Row = Mapping[Any, Any]
_CSV = "results.csv"


def case_name(row: Row) -> str:
    """Return the name of a case without the prefix of all our ranges."""
    return str(row["range"]).removeprefix("RUN::")


def time_name(column: str, *, on_gpu: bool) -> str:
    """Return the name of a column of times, which is the same in captures and benches."""
    return {"cold_ns": "cold GPU time" if on_gpu else "cold time", "warm_ns": "warm end-to-end"}[column]


def latency_cell(row: Row) -> Cell:
    """Return the untraced median with its 95 % interval, or why there is none."""
    median, low, high = (known(row[f"latency_{part}_ns"]) for part in ("median", "ci_low", "ci_high"))
    reason = "" if row["status"] == "ok" else str(row["status"]).replace("_", " ")
    return Cell(median, low=low, high=high, reason=reason)


def per_call(row: Row, column: str) -> float | None:
    """Return a count of the traced range divided by its calls; None when either is unknown."""
    total, calls = known(row[column]), known(row["traced_calls"])
    return None if total is None or not calls else float(total / calls)


def case_table(record: CaptureRecord, words: Words) -> Table:
    """Return one row for each case of the grid, with the results of the untraced and the traced pass, per call.

    The fastest cases of each shape are marked.
    """
    rows = []
    for row in record.results.to_dict("records"):
        copied, filled = per_call(row, "memcpy_bytes"), per_call(row, "memset_bytes")
        rows.append(
            (
                case_name(row),
                latency_cell(row),
                known(row["cold_ns"]),
                known(row["graph_median_ns"]),
                per_call(row, "launch_count"),
                per_call(row, "kernel_count"),
                per_call(row, "kernel_total_ns"),
                _peak(row),
                known(row["peak_beyond_inputs_bytes"]),
                None if copied is None or filled is None else copied + filled,
                row["status"],
            )
        )
    on_gpu = record.environment.get("device") == "cuda"
    columns = (
        Column("case", Unit.NAME),
        Column(f"{time_name('warm_ns', on_gpu=on_gpu)} [95 % of this process]", Unit.NS),
        Column(time_name("cold_ns", on_gpu=on_gpu), Unit.NS, drop=3),
        Column("as CUDA graph", Unit.NS, drop=3),
        Column(words.launches, Unit.COUNT, drop=1),
        Column(words.works, Unit.COUNT, drop=2),
        Column(f"{words.work} time", Unit.NS),
        Column(f"peak {words.memory}", Unit.BYTES),
        Column("beyond inputs", Unit.BYTES, drop=4),
        Column("copied+set", Unit.BYTES, drop=5),
        Column("status", drop=6),
    )
    title = "Cases (counts, times and bytes per call)"
    return make_table(title, columns, rows, source=_CSV, terminal_rows=1000, document_rows=400, marks=_fastest(record))


def _peak(row: Row) -> Any:
    """Return torch's allocated peak of the untraced pass; where it cannot count (CPU), the peak of the trace."""
    measured = known(row["peak_allocated_bytes"])
    return known(row["trace_peak_vram_bytes"]) if measured is None else measured


def _fastest(record: CaptureRecord) -> dict[int, str]:
    marks: dict[int, str] = {}
    for ranking in record.rankings:
        word = "fastest" if len(ranking.fastest) == 1 else "among the fastest"
        marks |= {case.position: word for case in ranking.fastest}
    return marks


def counter_table(record: CaptureRecord) -> Table | None:
    """Return the bytes of each case by each source, relative to the least, and how it used the device.

    None where nothing is known.
    """
    cases = [row for row in record.results.to_dict("records") if row["status"] == "ok"]
    if not any(known(row["dram_bytes"]) is not None or known(row["counted_kernels"]) is not None for row in cases):
        return None
    columns = (
        Column("case", Unit.NAME),
        Column("DRAM, counted", Unit.BYTES),
        Column("DRAM, sampled", Unit.BYTES, drop=5),
        Column("they agree", Unit.TEXT, drop=6),
        Column("least", Unit.BYTES, drop=4),
        Column("/ least", Unit.RATIO, drop=1),
        Column("L2 hits", Unit.WHOLE_PERCENT, drop=3),
        Column("by formula", Unit.FLOPS, drop=2),
        Column("of the roof", Unit.WHOLE_PERCENT, drop=1),
        Column("FLOP, counted / formula", Unit.RATIO, drop=7),
        Column("occupancy", Unit.WHOLE_PERCENT, drop=3),
        Column("limited by"),
    )
    rows = [_counter_row(row) for row in cases]
    return make_table(
        "Traffic and limits (one call)", columns, rows, source=_CSV, terminal_rows=1000, document_rows=400
    )


def _counter_row(row: Row) -> tuple[Any, ...]:
    sampled, error = sampled_of(row)
    counted = dram_of(row)[0] if known(row["counted_read_bytes"]) is not None else None
    moved, least = known(row["dram_bytes"]), known(row["least_bytes"])
    rate, roof = known(row["flops_per_s"]), known(row["roof_flops_per_s"])
    counted_flops = known(row["counted_flops"])
    return (
        case_name(row),
        counted,
        Cell(sampled, error=error),
        _agreement(known(row.get("dram_beyond_error_bytes"))),
        least,
        None if moved is None or not least else moved / least,
        known(row["l2_hit_pct"]),
        rate,
        Cell(
            None if rate is None or not roof else 100 * rate / roof,
            remark="(above)" if known(row["above_roof"]) else "",
        ),
        None if counted_flops is None else counted_flops / row["flops"],
        known(row["occupancy_pct"]),
        known(row["limiter"]) or None,
    )


def _agreement(beyond: int | None) -> Cell:
    """Return whether what was counted lies within the bound of what was sampled, else by how much it does not (B)."""
    if beyond is None:
        return Cell()
    return Cell(beyond, Unit.BYTES, remark="beyond the bound") if beyond else Cell("yes")


def limit_lines(record: CaptureRecord) -> tuple[str, ...]:
    """Return why each case is not faster, from the data alone. Without counters, return what is known."""
    missing = not {MissingSource.COUNTERS, MissingSource.DRAM_SAMPLES}.isdisjoint(record.missing)
    asked = missing or bool(record.results["dram_bytes"].notna().any())
    return tuple(
        f"{case_name(row)}: {row['limiter']}: {row['why']}"
        for row in record.results.to_dict("records")
        if known(row["limiter"]) and (asked or row["limiter"] != UNKNOWN_LIMIT)
    )


def reason_lines(record: CaptureRecord) -> tuple[str, ...]:
    """Return why a case failed or lacks its trace."""
    return tuple(
        f"{row['range']}: {row['status']}: {row['reason']}"
        for row in record.results.to_dict("records")
        if row["reason"]
    )


def verdict_lines(record: CaptureRecord) -> tuple[str, ...]:
    """Return one sentence for each shape: the fastest backend and by how much, as far as the measurement shows it."""
    return tuple(f"{_shape(ranking)}: {_sentence(ranking)}." for ranking in record.rankings if ranking.fastest)


def comparison_table(record: CaptureRecord, words: Words) -> Table:
    """Return every backend compared with the first one of the grid, shape by shape."""
    first = str(record.results["backend"].iloc[0]) if len(record.results) else ""
    results = record.results.to_dict("records")
    rows = []
    for ranking in record.rankings:
        cases = [results[position] for position in ranking.positions]
        rows += [
            (
                _shape(ranking),
                row["backend"],
                latency_cell(row),
                _times(cases[0]["latency_median_ns"], row["latency_median_ns"]),
                known(row["peak_allocated_bytes"]),
                _times(cases[0]["peak_allocated_bytes"], row["peak_allocated_bytes"]),
                per_call(row, "launch_count"),
            )
            for row in cases
        ]
    columns = (
        Column("shape"),
        Column("backend", Unit.NAME),
        Column("untraced latency [95 % of this process]", Unit.NS),
        Column(f"latency, {first} / this", Unit.RATIO),
        Column(f"peak {words.memory}", Unit.BYTES, drop=2),
        Column(f"peak, {first} / this", Unit.RATIO, drop=1),
        Column(f"{words.works if words is OPERATORS else words.launches} per call", Unit.COUNT, drop=3),
    )
    title = f"Against {first}, equal work"
    return make_table(title, columns, rows, source="results.csv", terminal_rows=0, document_rows=400)


def _times(base: object, other: object) -> float | None:
    top, bottom = known(base), known(other)
    return None if top is None or not bottom else top / bottom


def _shape(ranking: CaseRanking) -> str:
    """Return `S=1024, batch=2`."""
    return ", ".join(f"{'S' if name == 'seq' else name}={value}" for name, value in ranking.shape.items())


def _sentence(ranking: CaseRanking) -> str:
    best, *tied = ranking.fastest
    names = join_names([case.backend for case in ranking.fastest])
    if len(ranking.dispatch_bound) > 1:
        times = ", ".join(f"{case.backend} {format_ns(case.kernel_ns)}" for case in ranking.dispatch_bound)
        text = (
            f"{names} are launch-bound: kernels fill less than {100 * LAUNCH_BOUND_SHARE:g} % of their latency, so "
            f"their differences come from the CPU's dispatch (kernel time per call: {times})"
        )
    elif tied:
        text = (
            f"{names} are the fastest; their 95 % intervals overlap or their medians lie within "
            f"{LEAST_DIFFERENCE_PCT} %, so no difference is shown"
        )
    else:
        text = f"{best.backend} is the fastest at {latency_text(best.median_ns, best.low_ns, best.high_ns)}"
    if any(case.is_launch_bound for case in ranking.fastest):
        text += f", and another process may take up to {HOST_PROCESS_TIMES} times as long, for the host sets the pace"
    return text + (f"; {_slower(ranking.slower)}" if ranking.slower else "")


def _slower(cases: Sequence[RankedCase]) -> str:
    bound = [case.backend for case in cases if case.is_launch_bound]
    text = times_as_long([(case.backend, case.times_best) for case in cases])
    return f"{text} ({join_names(bound)}: launch-bound)" if bound else text
