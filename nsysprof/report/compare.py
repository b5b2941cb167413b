"""Write the folder of a comparison: compare.json, figures and reports."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from nsysprof.files.json_file import encode_json
from nsysprof.files.output import write_whole
from nsysprof.report.figures.png import can_draw, png_bytes
from nsysprof.report.reports.compare_report import compare_report
from nsysprof.report.write import read_figures, write_report
from nsysprof.results.comparison import VersionComparison

if TYPE_CHECKING:
    from matplotlib.figure import Figure

JSON = "compare.json"
_ALTS = {
    "ratios": "Latency of each case in the candidate over the baseline, with 95 % intervals and the noise floor",
    "parts": "How the parts of each range's wall time changed",
}


def write_compare(found: VersionComparison, folder: Path, *, figures: bool) -> list[Path]:
    """Write compare.json, figures and reports into `folder`, and return their paths. Raises OutputError."""
    written = [write_whole(folder / JSON, encode_json(found.to_json()))]
    pictures = _write_figures(found, folder) if figures and can_draw() else []
    report = compare_report(found, read_figures(pictures, _ALTS))
    return [*written, *pictures, *write_report(report, folder)]


def _write_figures(found: VersionComparison, folder: Path) -> list[Path]:
    from nsysprof.report.figures.compare import draw_parts, draw_ratios

    drawn: dict[str, Figure | None] = {"ratios": draw_ratios(found), "parts": draw_parts(found)}
    return [
        write_whole(folder / f"{name}.png", png_bytes(figure)) for name, figure in drawn.items() if figure is not None
    ]
