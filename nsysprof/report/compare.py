"""Write the result folder of a comparison: compare.json, figures and reports."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from nsysprof.files.json_file import encode_json, json_value
from nsysprof.files.output import write_whole
from nsysprof.report.document import Figure
from nsysprof.report.figure_files import figure_paths, write_figures, write_report
from nsysprof.report.figures.png import can_draw
from nsysprof.report.reports.compare_report import compare_report
from nsysprof.report.sections.figure_texts import describe_parts, describe_ratios
from nsysprof.results.comparison import VersionComparison

JSON = "compare.json"
FORMAT_VERSION = 1  # of compare.json


def write_compare(found: VersionComparison, folder: Path, *, figures: bool) -> list[Path]:
    """Write compare.json, figures and reports into `folder`, and return their paths. Raises OutputError."""
    written = [write_whole(folder / JSON, encode_json(comparison_json(found)))]
    pictures = _write_figures(found, folder) if figures and can_draw() else []
    report = compare_report(found, pictures)
    return [*written, *figure_paths(pictures, folder), *write_report(report, folder)]


def _write_figures(found: VersionComparison, folder: Path) -> list[Figure]:
    from nsysprof.report.figures.compare import draw_parts, draw_ratios

    draw = {"ratios": partial(draw_ratios, found), "parts": partial(draw_parts, found)}
    return write_figures(
        draw, {"ratios": partial(describe_ratios, found), "parts": partial(describe_parts, found)}, folder
    )


def comparison_json(found: VersionComparison) -> dict[str, Any]:
    """Return a comparison as it is written to files and printed by --json; unknown is null."""
    ranges = []
    for change in found.ranges:
        data = json_value(change)
        for name, metric in change.metrics.items():
            data["metrics"][name] |= {"change": metric.change, "change_pct": metric.change_pct}
        ranges.append(data)
    return {
        "format_version": FORMAT_VERSION,
        "outcome": found.outcome,
        "baseline": json_value(found.baseline),
        "candidate": json_value(found.candidate),
        "differences": json_value(found.differences),
        "forced": found.forced,
        "latency": json_value(found.latency),
        "step": None if found.step is None else {**json_value(found.step), "change_pct": found.step.change_pct},
        "ranges": ranges,
        "findings": json_value(found.findings),
        "memory": json_value(found.memory),
        "gate": json_value(found.gate),
        "notes": json_value(found.notes),
        "method": list(found.method),
    }
