"""What a comparison needs of one trace: for each range its numbers, the parts of its time, and its kernels."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from nsysprof.analysis.range_time import split_walls
from nsysprof.analysis.ranges import attribute_ranges, close_ranges
from nsysprof.analysis.results import Analysis
from nsysprof.analysis.work import match_launches
from nsysprof.comparison import METRICS, PARTS, WHOLE_TRACE, KernelFacts, RangeFacts
from nsysprof.kernel_family import dispatched_operator, kernel_family, operator_family
from nsysprof.notes import Note, Severity
from nsysprof.trace.schema import Tables

Key = tuple[str, str]
WHOLE: Key = (WHOLE_TRACE, "")
# The range that names this tool at the start of its traces.
_TOOL = re.compile(r"nsysprof \d+\.")
_COLUMNS = {
    "launches": "launch_count", "kernels": "kernel_count", "kernel_time": "kernel_total_ns", "busy": "gpu_busy_ns",
    "wall": "wall_ns", "copied": "memcpy_bytes", "filled": "memset_bytes", "vram": "peak_vram_bytes",
}  # fmt: skip


def collect_range_facts(
    tables: Tables, analysis: Analysis, calls: Mapping[str, int]
) -> tuple[dict[Key, RangeFacts], tuple[Note, ...]]:
    """By (range, domain), and of the whole trace under WHOLE. calls: how many calls a range name stands for.

    Of a range that is there twice, process-wide and on its thread, the process-wide one is taken.
    """
    parts = _parts(tables)
    ordered = analysis.ranges.sort_values("style", key=lambda style: style != "StartEnd", kind="stable")
    chosen = ordered.drop_duplicates(["range", "domain"])
    chosen = chosen[np.array([_TOOL.match(name) is None for name in chosen["range"]], dtype=bool)]
    kernels = _kernels(analysis.range_kernels)
    shared = set(chosen.loc[chosen.duplicated("range", keep=False), "range"])
    facts = {WHOLE: _whole(analysis)}
    for row in chosen.to_dict("records"):
        name, domain, style = row["range"], row["domain"], row["style"]
        mine = {} if name in shared else kernels.get((name, style), {})
        known = _known(row["gpu_busy_ns"]) is not None
        own = parts.get((name, style, domain)) if known else None
        facts[name, domain] = _facts(row, calls.get(name), own, mine)
    notes = [
        Note(
            "kernels-of-domains",
            Severity.WARNING,
            f"{len(shared)} range names are in several NVTX domains; their kernels are not compared one by one.",
        )
    ]
    return facts, tuple(notes if shared else ())


def _parts(tables: Tables) -> dict[tuple[str, str, str], dict[str, int]]:
    """By name, style and domain."""
    launch = match_launches(tables)
    attributed = attribute_ranges(tables, launch, close_ranges(tables)[0])
    split = split_walls(tables.work, attributed)
    keys = attributed.keys[["name", "style", "domain"]].itertuples(index=False, name=None)
    return {key: dict(zip(PARTS, row, strict=True)) for key, row in zip(keys, split.tolist(), strict=True)}


def _kernels(table: pd.DataFrame) -> dict[tuple[str, str], dict[str, KernelFacts]]:
    found: dict[tuple[str, str], dict[str, KernelFacts]] = {}
    for row in table.to_dict("records"):
        found.setdefault((row["range"], row["style"]), {})[row["name"]] = _kernel(row)
    return found


def _kernel(row: Mapping[Any, Any]) -> KernelFacts:
    return KernelFacts(row["category"], row["short_name"], int(row["instances"]), int(row["total_ns"]))


def _facts(
    row: Mapping[Any, Any], calls: int | None, parts: dict[str, int] | None, kernels: dict[str, KernelFacts]
) -> RangeFacts:
    metrics = {metric: _known(row[column]) for metric, column in _COLUMNS.items()}
    metrics["gaps"] = None if parts is None else parts["gaps_ns"]
    moved = [_known(row[f"dram_{way}_bytes"]) for way in ("read", "write")]
    metrics["dram"] = None if None in moved else sum(size for size in moved if size is not None)
    error = sum(_known(row[f"dram_{way}_error_bytes"]) or 0 for way in ("read", "write"))
    return RangeFacts(
        int(row["instances"]), calls, {name: metrics[name] for name in METRICS}, parts, kernels, error, _family(kernels)
    )


def _family(kernels: Mapping[str, KernelFacts]) -> str | None:
    family = operator_family(dispatched_operator(kernels)) or kernel_family(kernels)
    return None if family == "other" else family


def _whole(analysis: Analysis) -> RangeFacts:
    """Of the trace as one range. Its wall time is what the profiler was on for, and so is not compared."""
    totals = analysis.totals
    busy, span, peaks = totals.gpu_busy_ns, totals.gpu_span_ns, totals.peak_vram_bytes
    metrics: dict[str, int | None] = {
        "launches": totals.launch_count,
        "kernels": totals.kernel_count,
        "kernel_time": totals.kernel_total_ns,
        "busy": busy,
        "gaps": None if busy is None or span is None or len(analysis.devices) > 1 else span - busy,
        "wall": None,
        "copied": None if totals.memcpy_bytes is None else sum(totals.memcpy_bytes.values()),
        "filled": totals.memset_bytes,
        "vram": max(peaks.values(), default=None) if peaks else None,
        "dram": None,
    }
    kernels = {row["name"]: _kernel(row) for row in analysis.kernels.to_dict("records")}
    return RangeFacts(1, 1, metrics, None, kernels)


def _known(cell: Any) -> int | None:
    return None if cell is None or pd.isna(cell) else int(cell)
