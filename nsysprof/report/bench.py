"""Write the result folder of a bench: results.csv, figures and reports."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from nsysprof.files.output import write_whole
from nsysprof.report.document import Figure
from nsysprof.report.figure_files import figure_paths, write_figures, write_report
from nsysprof.report.figures.png import can_draw
from nsysprof.report.formats.escape import clean
from nsysprof.report.reports.bench_report import BenchReport, bench_report
from nsysprof.report.sections.figure_texts import describe_bench, describe_scaling
from nsysprof.results.column_registry.case_columns import BENCH_RESULTS
from nsysprof.results.column_registry.column import Dtype
from nsysprof.results.column_registry.csv_table import render_csv


def write_bench(report: BenchReport, folder: Path, *, figures: bool) -> list[Path]:
    """Write results.csv, figures and reports into `folder` and return their paths. Raises OutputError."""
    written = [write_whole(folder / "results.csv", results_csv(report.table))]
    pictures = _write_figures(report, folder) if figures and can_draw() else []
    document = bench_report(report, pictures)
    return [*written, *figure_paths(pictures, folder), *write_report(document, folder)]


def results_csv(table: pd.DataFrame) -> bytes:
    """Return results.csv: one row per case, each text on one line."""
    safe = table.copy()
    for column in safe.columns.intersection(list(BENCH_RESULTS.of_dtype(Dtype.TEXT))):
        safe[column] = [clean(str(cell)) for cell in safe[column]]
    return render_csv(safe, BENCH_RESULTS)


def _write_figures(report: BenchReport, folder: Path) -> list[Figure]:
    from nsysprof.report.figures.bench import draw_latency, draw_scaling, draw_throughput

    return write_figures(
        {
            "latency": lambda: draw_latency(report.table),
            "throughput": lambda: draw_throughput(report.table, report.ceilings),
            "scaling": lambda: draw_scaling(report.table),
        },
        {
            "latency": lambda: describe_bench(report.table, "median_ns", "Median latency", "ns"),
            "throughput": lambda: describe_bench(report.table, "flops_per_s", "Rate by formula", "FLOP/s"),
            "scaling": lambda: describe_scaling(report.table),
        },
        folder,
    )
