"""Write the folder of a comparison: compare.json, figures and reports."""

from __future__ import annotations

from pathlib import Path

from nsysprof.files.json_file import encode_json
from nsysprof.files.output import write_whole
from nsysprof.report.document import Figure
from nsysprof.report.figure_files import figure_paths, write_figures
from nsysprof.report.figures.png import can_draw
from nsysprof.report.reports.compare_report import compare_report
from nsysprof.report.write import write_report
from nsysprof.results.comparison import VersionComparison

JSON = "compare.json"
_ALTS = {
    "ratios": "Latency of each case in the candidate over the baseline, with 95 % intervals and the noise floor",
    "parts": "How the parts of each range's wall time changed",
}


def write_compare(found: VersionComparison, folder: Path, *, figures: bool) -> list[Path]:
    """Write compare.json, figures and reports into `folder`, and return their paths. Raises OutputError."""
    written = [write_whole(folder / JSON, encode_json(found.to_json()))]
    pictures = _write_figures(found, folder) if figures and can_draw() else []
    report = compare_report(found, pictures)
    return [*written, *figure_paths(pictures, folder), *write_report(report, folder)]


def _write_figures(found: VersionComparison, folder: Path) -> list[Figure]:
    from nsysprof.report.figures.compare import draw_parts, draw_ratios

    return write_figures({"ratios": lambda: draw_ratios(found), "parts": lambda: draw_parts(found)}, _ALTS, folder)
