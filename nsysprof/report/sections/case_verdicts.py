"""Describe in words which backend is fastest for equal work. The analysis decides it; nothing is judged here."""

from __future__ import annotations

from collections.abc import Sequence

from nsysprof.report.document import Column, Table, Unit, make_table
from nsysprof.report.sections.case_tables import latency_cell, per_call
from nsysprof.report.wording import Words, join_names, latency_text, times_as_long
from nsysprof.results.analysis import LEAST_DIFFERENCE_PCT, CaptureRecord, CaseRanking, RankedCase
from nsysprof.results.device_limits import LAUNCH_BOUND_SHARE
from nsysprof.results.roof import known
from nsysprof.units import format_ns


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
        Column("untraced latency [95 %]", Unit.NS),
        Column(f"latency, {first} / this", Unit.RATIO),
        Column(f"peak {words.memory}", Unit.BYTES),
        Column(f"peak, {first} / this", Unit.RATIO),
        Column(f"{words.launches} per call", Unit.COUNT),
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
    return text + (f"; {_slower(ranking.slower)}" if ranking.slower else "")


def _slower(cases: Sequence[RankedCase]) -> str:
    bound = [case.backend for case in cases if case.is_launch_bound]
    text = times_as_long([(case.backend, case.times_best) for case in cases])
    return f"{text} ({join_names(bound)}: launch-bound)" if bound else text
