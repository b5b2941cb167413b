"""Compose the lines that say how the numbers were made, and the tables of the environment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from nsysprof.attention.shape import CONVENTION
from nsysprof.report.document import OPERATORS, Column, Table, Unit, make_table, words_for
from nsysprof.results.analysis import Analysis, CaptureRecord, Coverage
from nsysprof.results.roof import LIMIT_RULES, roof_of
from nsysprof.units import format_bytes, format_count, format_rate


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
