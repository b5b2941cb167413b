"""Compose the tables and verdicts of a capture: how long each case took, what it moved, and what limits it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from nsysprof.attention.shape import CONVENTION
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
    table_of,
    times_as_long,
    words_for,
)
from nsysprof.results.analysis import (
    HOST_PROCESS_TIMES,
    LEAST_DIFFERENCE_PCT,
    Analysis,
    CaptureRecord,
    CaseRanking,
    Coverage,
    RankedCase,
)
from nsysprof.results.checks import MissingSource
from nsysprof.results.roof import LAUNCH_BOUND_SHARE, LIMIT_RULES, dram_of, known, roof_of, sampled_of
from nsysprof.results.roof import UNKNOWN as UNKNOWN_LIMIT
from nsysprof.units import format_bytes, format_count, format_ns, format_rate

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
    on_gpu = record.environment.get("device") == "cuda"

    def written(row: Row) -> float | None:
        copied, filled = per_call(row, "memcpy_bytes"), per_call(row, "memset_bytes")
        return None if copied is None or filled is None else copied + filled

    columns = (
        (Column("case", Unit.NAME), case_name),
        (Column(f"{time_name('warm_ns', on_gpu=on_gpu)} [95 % of this process]", Unit.NS), latency_cell),
        (Column(time_name("cold_ns", on_gpu=on_gpu), Unit.NS, drop=3), "cold_ns"),
        (Column("as CUDA graph", Unit.NS, drop=3), "graph_median_ns"),
        (Column(words.launches, Unit.COUNT, drop=1), lambda row: per_call(row, "launch_count")),
        (Column(words.works, Unit.COUNT, drop=2), lambda row: per_call(row, "kernel_count")),
        (Column(f"{words.work} time", Unit.NS), lambda row: per_call(row, "kernel_total_ns")),
        (Column(f"peak {words.memory}", Unit.BYTES), _peak),
        (Column("beyond inputs", Unit.BYTES, drop=4), "peak_beyond_inputs_bytes"),
        (Column("copied+set", Unit.BYTES, drop=5), written),
        (Column("status", drop=6), "status"),
    )
    title, rows = "Cases (counts, times and bytes per call)", record.results.to_dict("records")
    return table_of(title, rows, columns, source=_CSV, terminal_rows=1000, document_rows=400, marks=_fastest(record))


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
        (Column("case", Unit.NAME), case_name),
        (Column("DRAM, counted", Unit.BYTES), _counted),
        (Column("DRAM, sampled", Unit.BYTES, drop=5), _sampled),
        (Column("they agree", Unit.TEXT, drop=6), lambda row: _agreement(known(row.get("dram_beyond_error_bytes")))),
        (Column("least", Unit.BYTES, drop=4), "least_bytes"),
        (Column("/ least", Unit.RATIO, drop=1), lambda row: _times(row["dram_bytes"], row["least_bytes"])),
        (Column("L2 hits", Unit.WHOLE_PERCENT, drop=3), "l2_hit_pct"),
        (Column("by formula", Unit.FLOPS, drop=2), "flops_per_s"),
        (Column("of the roof", Unit.WHOLE_PERCENT, drop=1), _of_roof),
        (Column("FLOP, counted / formula", Unit.RATIO, drop=7), lambda row: _times(row["counted_flops"], row["flops"])),
        (Column("occupancy", Unit.WHOLE_PERCENT, drop=3), "occupancy_pct"),
        (Column("limited by"), lambda row: known(row["limiter"]) or None),
    )  # fmt: skip
    title = "Traffic and limits (one call)"
    return table_of(title, cases, columns, source=_CSV, terminal_rows=1000, document_rows=400)


def _counted(row: Row) -> float | None:
    return None if known(row["counted_read_bytes"]) is None else dram_of(row)[0]


def _sampled(row: Row) -> Cell:
    moved, error = sampled_of(row)
    return Cell(moved, error=error)


def _of_roof(row: Row) -> Cell:
    share = _times(row["flops_per_s"], row["roof_flops_per_s"])
    return Cell(None if share is None else 100 * share, remark="(above)" if known(row["above_roof"]) else "")


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
    pairs = [
        (ranking, results[ranking.positions[0]], results[position])
        for ranking in record.rankings
        for position in ranking.positions
    ]
    launches = words.works if words is OPERATORS else words.launches
    columns = (
        (Column("shape"), lambda pair: _shape(pair[0])),
        (Column("backend", Unit.NAME), lambda pair: pair[2]["backend"]),
        (Column("untraced latency [95 % of this process]", Unit.NS), lambda pair: latency_cell(pair[2])),
        (Column(f"latency, {first} / this", Unit.RATIO), lambda pair: _times_of(pair, "latency_median_ns")),
        (Column(f"peak {words.memory}", Unit.BYTES, drop=2), lambda pair: known(pair[2]["peak_allocated_bytes"])),
        (Column(f"peak, {first} / this", Unit.RATIO, drop=1), lambda pair: _times_of(pair, "peak_allocated_bytes")),
        (Column(f"{launches} per call", Unit.COUNT, drop=3), lambda pair: per_call(pair[2], "launch_count")),
    )
    title = f"Against {first}, equal work"
    return table_of(title, pairs, columns, source="results.csv", terminal_rows=0, document_rows=400)


def _times_of(pair: tuple[CaseRanking, Row, Row], column: str) -> float | None:
    return _times(pair[1][column], pair[2][column])


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


def coverage_line(analysis: Analysis) -> str:
    """Return `1,086 kernels: 700 inside ranges, 386 launched outside every range; 1,086 launches, ...` for a trace."""
    words, coverage = words_for(analysis.trace), analysis.coverage
    text = f"{coverage.kernels:,} {words.works}: {coverage.attributed_kernels:,} inside ranges"
    if coverage.kernels == 0 and analysis.totals.kernel_count is None:
        text = f"an unknown number of {words.works}"
    caused = ((coverage.adopted_kernels, "launched by helper threads"), (coverage.captured_kernels, "captured"))
    caused_counts = ", ".join(f"{count:,} {how}" for count, how in caused if count)
    text += f" ({caused_counts})" if caused_counts else ""
    text += "".join(f", {count:,} {reason}" for reason, count in coverage.reasons.items())
    if coverage.launches == 0 and analysis.totals.launch_count is None:
        text += f" and of {words.launches}"
    elif coverage.launches is not None and words is not OPERATORS:  # an operator is its own call
        missing = format_count(coverage.launches_without_gpu_record)
        text += f"; {coverage.launches:,} {words.launches}, {missing} without a recorded {words.work}"
    return f"{text}.{_graph_line(coverage)}"


def _graph_line(coverage: Coverage) -> str:
    """Return ` Of 400 kernels of replayed graphs, 400 lead to the call that created their node.`, or nothing."""
    if not coverage.graph_kernels:
        return ""
    known = coverage.graph_kernels - sum(coverage.graph_reasons.values())
    all_kernels = f"{coverage.graph_kernels:,} kernels of replayed graphs"
    text = f" Of {all_kernels}, {known:,} lead to the call that created their node"
    return text + "".join(f", {count:,} are {reason}" for reason, count in coverage.graph_reasons.items()) + "."


def method_lines(analysis: Analysis, record: CaptureRecord | None) -> list[str]:
    """Return where each kind of number comes from, and what it does not mean."""
    words, trace = words_for(analysis.trace), analysis.trace
    lines = []
    if record is not None and record.has_cases:
        lines.append(f"Latency: {record.method}; interval from order statistics. Never taken from the traced pass.")
        lines.append(
            "Peak memory of a case: torch's allocator in the untraced pass, cuBLAS workspaces and cached blocks given "
            "back before each case; unknown on the CPU, where the traced pass's peak is shown."
        )
        lines.append("Counts per call: those of the traced range divided by the calls it holds.")
        lines += _counter_lines(record)
    lines.append(
        f"{words.works.capitalize()} belong to a range when it encloses the call that launched them, on its own thread "
        "(push/pop) or in its process (start/end, so autograd's threads count). A range also has what helper threads "
        "launched, which are in no range of the user, while its own thread waited in it, and what replayed graph nodes "
        "ran that it captured; these are counted separately."
    )
    lines.append("Total is the sum of durations, busy their union, wall the range itself.")
    if trace.memory_kind == "driver":
        lines.append("Memory in ranges is what the driver allocated: for torch the caching allocator's reserve.")
    elif trace.memory_kind == "allocator":
        lines.append("Memory in ranges is what torch's allocator handed out.")
    return lines


def _counter_lines(record: CaptureRecord) -> list[str]:
    """Return lines about the three sources of bytes, which are never added up or averaged."""
    results = record.results
    lines = []
    if results["counted_kernels"].notna().any():
        lines.append(
            "DRAM, counted: by ncu while each kernel of one call ran, in one pass without replay, caches as the case "
            "leaves them; what is written back after the last kernel is not in it. Hit rates, utilisation, occupancy "
            "and FLOP: by ncu, each kernel replayed from cold caches; percentages are of ncu's peaks, weighted by time."
        )
    if results["sampled_read_bytes"].notna().any():
        lines.append(
            "DRAM, sampled: by nsys over the traced range, without replay; the bound holds if nothing else ran on the "
            "GPU. Copied and set bytes are those of copies and fills only. The three are never mixed."
        )
    if any(isinstance(limiter, str) and limiter for limiter in results["limiter"]):
        lines.append(f"Limits: {LIMIT_RULES}.")
    if results["flops"].notna().any():
        lines.append(f"By formula: {CONVENTION}.")
    return lines


def _ceiling_rows(environment: Mapping[str, Any]) -> list[tuple[str, str]]:
    roof = roof_of(environment)
    if roof is None:
        return []
    rows = [("DRAM, copy (read and written)", format_rate(roof.bytes_per_s, "B/s"))]
    if roof.l2_bytes_per_s is not None:
        rows.append(("L2, copy within it", format_rate(roof.l2_bytes_per_s, "B/s")))
    for dtype, rate in roof.flops.items():
        clock = roof.clock_mhz.get(dtype)
        rows.append((f"matrix product, {dtype}", format_rate(rate, "FLOP/s") + (f" at {clock} MHz" if clock else "")))
    return rows


def environment_table(analysis: Analysis, record: CaptureRecord | None) -> Table:
    """Return what the trace and the capture say about the machine."""
    return facts_table("Environment", _environment_rows(analysis, record))


def facts_table(title: str, rows: Sequence[tuple[str, str]]) -> Table:
    """Return names and values as a table of two columns."""
    return make_table(title, (Column("what"), Column("value", Unit.PROSE)), rows, document_rows=100)


def _environment_rows(analysis: Analysis, record: CaptureRecord | None) -> list[tuple[str, str]]:
    trace = analysis.trace
    rows = [
        ("trace", f"{trace.path_name}, {format_bytes(trace.bytes)}, sha256 {trace.sha256[:16]}"),
        ("recorded by", f"{trace.tool} {trace.tool_version or '(version unknown)'}"),
        *((f"device {d.device_id}", f"{d.name}, {format_bytes(d.total_memory_bytes)}") for d in analysis.devices),
    ]
    environment = record.environment if record else {}
    for key in (
        "driver_version", "cuda_version", "torch_version", "cudnn_loaded_version", "cublas_loaded_version",
        "nsys_version", "ncu_version", "cpu_model", "os", "python_version", "git_commit", "comparable_hash",
    ):  # fmt: skip
        if environment.get(key) is not None:
            rows.append((key.replace("_", " "), str(environment[key])))
    rows += _ceiling_rows(environment)
    clocks = environment.get("clocks")
    if clocks:
        during = clocks["during"]
        throttled = ", ".join(during["throttle_reasons"]) or "none"
        rows.append(
            (
                "SM clock while measuring",
                f"{during['sm_clock_mhz_min']} to {during['sm_clock_mhz_max']} MHz, throttle reasons: {throttled}",
            )
        )
    return rows
