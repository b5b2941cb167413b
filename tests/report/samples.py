"""Analyses and records for report tests, made from tiny traces by the real reader."""

import pandas as pd

from nsysprof.analysis.comparison.rank_cases import fill_results, rank_cases
from nsysprof.analysis.overview.summarize import summarize
from nsysprof.notes import Note, Severity
from nsysprof.results.analysis import RESULT_COLUMNS, Analysis, CaptureRecord
from nsysprof.results.column_registry.case_columns import CAPTURE_RESULTS
from nsysprof.results.column_registry.column import Dtype
from nsysprof.trace.open import open_trace
from nsysprof.trace.tables import read_tables
from tests.builders.build_trace import TraceBuilder

HOSTILE = "<script>alert(1)</script>|=cmd()[bold]$x^2$\x1b[31m\u202e`*_"


def builder(operators=False, kernel="flash_fwd_kernel"):
    """math with 20 and flash with 2 launches, two calls each, at S=1024."""
    made = TraceBuilder()
    made.gpu()
    if operators:
        made.fact("NSYSPROF:TOOL", "torch")
        made.fact("NSYSPROF:WORK_KIND", "operator")
        made.fact("NSYSPROF:MEMORY_KIND", "allocator")
    number, at = 1, 1000
    for backend, count, name in (("math", 20, "sm80_xmma_gemm"), ("flash", 2, kernel)):
        start = at
        made.allocate(start - 5, number, (60 if backend == "math" else 4) << 20)
        for _ in range(count):
            made.launch(at, number, name=name)
            number, at = number + 1, at + 200
        made.free(at + 5, number - count)
        for kind in (60, 59):
            made.range(start, at, f"RUN::{backend}::S1024", kind=kind)
        at += 1000
    return made


def analysis(tmp_path, made: TraceBuilder | None = None) -> Analysis:
    with open_trace((made or builder()).write(tmp_path / "trace.sqlite")) as trace:
        return summarize(read_tables(trace))


def record(result: Analysis, device="cuda", **changes) -> CaptureRecord:
    """Results of the two cases, and of a cudnn that was not eligible."""
    common = dict(batch=1, heads=8, kv_heads=8, seq=1024, head_dim=64, dtype="fp16", causal=True, reason="", samples=50)
    rows = [
        dict(backend="math", status="ok", latency=(2000, 1900, 2100), peak=120 << 20, **common),
        dict(backend="flash", status="ok", latency=(130, 120, 140), peak=8 << 20, **common),
        dict(backend="cudnn", status="ineligible", latency=(None,) * 3, peak=None, **{**common, "reason": HOSTILE}),
    ]
    for row in rows:
        median, row["latency_ci_low_ns"], row["latency_ci_high_ns"] = row.pop("latency")
        row.update(
            latency_median_ns=median, peak_allocated_bytes=row.pop("peak"), range=f"RUN::{row['backend']}::S1024"
        )
        row.update({"pass": "fwd", "traced_calls": 2 if row["status"] == "ok" else None})
        row.update(changes.get(row["backend"], {}))
    results = pd.DataFrame(rows, columns=list(RESULT_COLUMNS))
    for column in CAPTURE_RESULTS.of_dtype(Dtype.INTEGER):
        results[column] = pd.to_numeric(results[column]).astype("Int64")
    environment = {"device": device, "torch_version": "2.13", "comparable_hash": "abc"}
    notes = (Note("gpu-throttled", Severity.WARNING, "hot | hot", "wait"),)
    filled = fill_results(results, result)
    rankings = rank_cases(filled, on_gpu=device == "cuda")
    return CaptureRecord("a | capture", filled, environment, "CUDA events; median", notes, rankings)
