"""The tables of a report as text cells, the same for the terminal, Markdown and HTML."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from nsysprof.analysis.results import Analysis, CaptureRecord
from nsysprof.report.words import Words, words_for
from nsysprof.roof import UNKNOWN as UNKNOWN_LIMIT
from nsysprof.roof import dram_of, sampled_of
from nsysprof.units import (
    UNKNOWN,
    format_bytes,
    format_count,
    format_interval_ns,
    format_ns,
    format_rate,
    format_ratio,
)

Row = Mapping[Any, Any]


@dataclass(frozen=True)
class Table:
    """A titled table. `text` columns hold trace text and are escaped by each format; the others are ours.

    marks: a word for rows that a reader looks for first, by number; are_bad: it says what is wrong with them, and not
    that they are best. full: what the first cell of each row is short for.
    """

    title: str
    headers: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    text: frozenset[int] = frozenset({0})
    total_rows: int = 0
    csv_name: str = ""
    marks: Mapping[int, str] = field(default_factory=dict)
    full: tuple[str, ...] = ()
    are_bad: bool = False

    @property
    def sign(self) -> str:
        """Of a marked row."""
        return "\N{WARNING SIGN}" if self.are_bad else "\N{BLACK STAR}"


def value(cell: Any) -> Any:
    """A cell as a Python number or text, None for NA."""
    return None if cell is None or cell is pd.NA or cell != cell else cell  # noqa: PLR0124


def format_latency(row: Row) -> str:
    """`52.54 [50.30, 54.46] us`: the untraced median with its 95 % interval."""
    median, low, high = (value(row[f"latency_{part}_ns"]) for part in ("median", "ci_low", "ci_high"))
    if median is None:
        return UNKNOWN
    if low is None:
        return format_ns(median)
    return format_interval_ns(median, low, high)


def per_call(row: Row, column: str) -> float | None:
    """A count of the traced range divided by its calls; None when either is unknown."""
    total, calls = value(row[column]), value(row["traced_calls"])
    return None if total is None or not calls else total / calls


def case_table(record: CaptureRecord, words: Words) -> Table:
    """One row a case of the grid, with what the untraced and the traced pass found, per call."""
    rows = []
    for row in record.results.to_dict("records"):
        copied, filled = per_call(row, "memcpy_bytes"), per_call(row, "memset_bytes")
        moved = None if copied is None or filled is None else copied + filled
        rows.append(
            (
                row["range"].removeprefix("RUN::"),
                format_latency(row),
                format_count(per_call(row, "launch_count")),
                format_count(per_call(row, "kernel_count")),
                format_ns(per_call(row, "kernel_total_ns")),
                format_bytes(_peak(row)),
                format_bytes(value(row["peak_beyond_inputs_bytes"])),
                format_bytes(moved),
                row["status"],
            )
        )
    headers = (
        "case", "untraced latency [95 %]", words.launches, words.works, f"{words.work} time", f"peak {words.memory}",
        "beyond inputs", "copied+set", "status",
    )  # fmt: skip
    return Table(
        "Cases (counts, times and bytes per call)", headers, tuple(rows), frozenset({0, 8}), len(rows), "results.csv"
    )


def counter_table(record: CaptureRecord) -> Table | None:
    """One row a case: what it moved by each source, against the least, and how it used the device. None if unknown."""
    cells = [row for row in record.results.to_dict("records") if row["status"] == "ok"]
    if not any(value(row["dram_bytes"]) is not None or value(row["counted_kernels"]) is not None for row in cells):
        return None
    rows = []
    for row in cells:
        sampled, error = sampled_of(row)
        counted = dram_of(row) if value(row["counted_read_bytes"]) is not None else (None, None, "")
        moved, least = value(row["dram_bytes"]), value(row["least_bytes"])
        rate, roof = value(row["flops_per_s"]), value(row["roof_flops_per_s"])
        above = " (above)" if value(row["above_roof"]) else ""
        rows.append(
            (
                row["range"].removeprefix("RUN::"),
                format_bytes(counted[0]),
                UNKNOWN if sampled is None else f"{format_bytes(sampled)} ± {format_bytes(error)}",
                _agreement(counted[0], sampled, error),
                format_bytes(least),
                UNKNOWN if moved is None or not least else _times_least(moved / least),
                _whole_percent(row["l2_hit_pct"]),
                format_rate(value(row["flops_per_s"]), "FLOP/s"),
                UNKNOWN if rate is None or not roof else f"{100 * rate / roof:.0f} %{above}",
                UNKNOWN if value(row["counted_flops"]) is None else format_ratio(row["counted_flops"] / row["flops"]),
                _whole_percent(row["occupancy_pct"]),
                value(row["limiter"]) or UNKNOWN,
            )
        )
    headers = (
        "case", "DRAM, counted", "DRAM, sampled", "they agree", "least", "/ least", "L2 hits", "by formula",
        "of the roof", "FLOP, counted / formula", "occupancy", "limited by",
    )  # fmt: skip
    return Table("Traffic and limits (one call)", headers, tuple(rows), frozenset({0, 11}), len(rows), "results.csv")


def _agreement(counted: int | None, sampled: int | None, error: int | None) -> str:
    """Whether what was counted lies within the bound of what was sampled."""
    if counted is None or sampled is None or error is None:
        return UNKNOWN
    return "yes" if abs(counted - sampled) <= error else f"off by {format_bytes(abs(counted - sampled) - error)}"


def _times_least(ratio: float) -> str:
    return "<0.01x" if ratio < 0.01 else format_ratio(ratio)


def _whole_percent(cell: Any) -> str:
    return UNKNOWN if value(cell) is None else f"{value(cell):.0f} %"


def limit_lines(record: CaptureRecord) -> list[str]:
    """Why each case is not faster, a line each, from the data alone; without counters asked for, what is known."""
    missing = any(note.code in ("no-counters", "gpu-metrics-failed") for note in record.notes)
    asked = missing or bool(record.results["dram_bytes"].notna().any())
    return [
        f"{row['range'].removeprefix('RUN::')}: {row['limiter']}: {row['why']}"
        for row in record.results.to_dict("records")
        if value(row["limiter"]) and (asked or row["limiter"] != UNKNOWN_LIMIT)
    ]


def reasons(record: CaptureRecord) -> list[str]:
    """Why a case failed or lacks its trace, a line each."""
    return [
        f"{row['range']}: {row['status']}: {row['reason']}"
        for row in record.results.to_dict("records")
        if row["reason"]
    ]


def _peak(row: Row) -> Any:
    """torch's allocated peak of the untraced pass; where it cannot count (CPU), the peak of the trace."""
    measured = value(row["peak_allocated_bytes"])
    return value(row["trace_peak_vram_bytes"]) if measured is None else measured


def range_table(analysis: Analysis, limit: int = 40) -> Table:
    """One row a range; a push/pop range whose process-wide twin is there is not shown twice."""
    words = words_for(analysis.trace)
    ranges = analysis.ranges
    sampled = ranges["dram_read_bytes"].notna().any()
    twins = set(ranges.loc[ranges["style"] == "StartEnd", "range"])
    shown = ranges[(ranges["style"] == "StartEnd") | ~ranges["range"].isin(twins)]
    rows = [
        (
            f"{row['domain']}:{row['range']}" if row["domain"] else row["range"],
            format_count(row["instances"]),
            format_count(value(row["launch_count"])),
            format_count(value(row["kernel_count"])),
            format_ns(value(row["kernel_total_ns"])),
            format_ns(value(row["gpu_busy_ns"])),
            format_ns(value(row["wall_ns"])),
            format_bytes(value(row["memcpy_bytes"])),
            format_bytes(value(row["memset_bytes"])),
            format_bytes(value(row["peak_vram_bytes"])),
            *((_dram(row, "read"), _dram(row, "write")) if sampled else ()),
        )
        for row in shown.head(limit).to_dict("records")
    ]
    headers = (
        "range", "n", words.launches, words.works, f"{words.device} total", f"{words.device} busy", "wall", "copied",
        "set", f"peak {words.memory}", *(("DRAM read, sampled", "DRAM written, sampled") if sampled else ()),
    )  # fmt: skip
    return Table("Ranges", headers, tuple(rows), frozenset({0}), len(shown), "ranges.csv")


def _dram(row: Row, way: str) -> str:
    """`738 GiB ± 12.7 GiB`: bytes with their error bar."""
    moved = value(row[f"dram_{way}_bytes"])
    if moved is None:
        return UNKNOWN
    return f"{format_bytes(moved)} ± {format_bytes(value(row[f'dram_{way}_error_bytes']))}"


def kernel_table(analysis: Analysis, limit: int = 15) -> Table:
    """The kernels with the most total time."""
    words = words_for(analysis.trace)
    rows = _rows(
        analysis.kernels,
        limit,
        ("short_name", str), ("category", str), ("instances", format_count), ("share_pct", lambda v: f"{v:.1f} %"),
        ("total_ns", format_ns), ("med_ns", format_ns), ("min_ns", format_ns), ("max_ns", format_ns),
    )  # fmt: skip
    headers = (words.work, "category", "instances", "share", "total", "median", "min", "max")
    full = tuple(str(name) for name in analysis.kernels["name"].head(limit))
    return Table(f"Top {words.works}", headers, rows, frozenset({0}), len(analysis.kernels), "kernels.csv", full=full)


def kernel_counter_table(analysis: Analysis, limit: int = 15) -> Table | None:
    """Counters of the kernels with the most total time, of an instance. None where none were counted."""
    if "counted_instances" not in analysis.kernels or not analysis.kernels["counted_instances"].notna().any():
        return None
    counted = analysis.kernels[analysis.kernels["counted_instances"].notna()]
    rows = _rows(
        counted, limit,
        ("short_name", str), ("counted_instances", format_count), ("dram_read_bytes", format_bytes),
        ("dram_write_bytes", format_bytes), ("l2_bytes", format_bytes), ("l2_hit_pct", _whole_percent),
        ("l1_bytes", format_bytes), ("sm_pct", _whole_percent), ("tensor_pct", _whole_percent),
        ("occupancy_pct", _whole_percent), ("registers", format_count), ("shared_bytes", format_bytes),
    )  # fmt: skip
    headers = (
        "kernel", "counted", "DRAM read", "DRAM written", "through L2", "L2 hits", "through L1", "SMs", "tensor cores",
        "occupancy", "registers", "shared memory",
    )  # fmt: skip
    full = tuple(str(name) for name in counted["name"].head(limit))
    title = "Counters of kernels (mean of the counted instances)"
    return Table(title, headers, rows, frozenset({0}), len(counted), "kernels.csv", full=full)


def memop_table(analysis: Analysis) -> Table:
    """Copies and fills by operation."""
    rows = _rows(
        analysis.memops, 20,
        ("operation", str), ("count", format_count), ("total_ns", format_ns), ("total_bytes", format_bytes),
        ("max_bytes", format_bytes),
    )  # fmt: skip
    headers = ("operation", "count", "total", "bytes", "largest")
    return Table("Copies and fills", headers, rows, frozenset({0}), len(analysis.memops), "memops.csv")


def api_table(analysis: Analysis, limit: int = 15) -> Table:
    """The API calls with the most total time."""
    rows = _rows(
        analysis.api, limit,
        ("name", str), ("calls", format_count), ("total_ns", format_ns), ("med_ns", format_ns), ("max_ns", format_ns),
    )  # fmt: skip
    headers = ("call", "calls", "total", "median", "max")
    return Table("API calls", headers, rows, frozenset({0}), len(analysis.api), "api.csv")


def _rows(table: pd.DataFrame, limit: int, *columns: tuple[str, Callable[[Any], str]]) -> tuple[tuple[str, ...], ...]:
    shown = table.head(limit).to_dict("records")
    return tuple(tuple(render(value(row[name])) for name, render in columns) for row in shown)
