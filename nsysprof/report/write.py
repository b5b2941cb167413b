"""Write the analysis folder. Each file appears whole or not at all."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from nsysprof.analysis.results import Analysis, CaptureRecord
from nsysprof.output import output_error, write_whole
from nsysprof.report.escape import defuse_formula
from nsysprof.report.html import render_html
from nsysprof.report.markdown import render_markdown
from nsysprof.report.timeline_data import timeline_data

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# History of summary.json. 1: first.
FORMAT_VERSION = 1
_FIGURES = ("roofline", "traffic", "timeline", "kernels", "vram")


def write_analysis(
    analysis: Analysis,
    record: CaptureRecord | None,
    out: Path,
    *,
    figures: bool = True,
    svg: bool = False,
    progress: Callable[[str], None] | None = None,
) -> list[Path]:
    """Write tables, figures and reports into `out` and return their paths. Raises OutputError."""
    say = progress or (lambda _text: None)
    try:
        out.mkdir(parents=True, exist_ok=True)
        written = _write_tables(analysis, record, out)
        pictures = _write_figures(analysis, record, out, svg, say) if figures else []
        pngs = [path for path in pictures if path.suffix == ".png"]
        report = render_markdown(analysis, record, [path.name for path in pngs])
        written += pictures
        written += [write_whole(out / "report.md", report.encode("utf-8", "replace"))]
        timeline = None
        if figures:
            say("draw report.html")
            timeline = timeline_data(analysis)
        page = render_html(analysis, record, pngs, timeline)
        written += [write_whole(out / "report.html", page.encode("utf-8", "replace"))]
    except OSError as error:
        raise output_error(out, error) from error
    return written


def summary_json(analysis: Analysis) -> dict[str, Any]:
    """summary.json: totals and coverage of the trace; null is unknown, and a note says why."""
    peaks = analysis.totals.peak_vram_bytes
    totals = asdict(analysis.totals)
    totals["peak_vram_bytes"] = None if peaks is None else {str(key): size for key, size in peaks.items()}
    return {
        "format_version": FORMAT_VERSION,
        "trace": asdict(analysis.trace),
        "devices": [{k: v for k, v in asdict(device).items() if k != "uuid"} for device in analysis.devices],
        "coverage": asdict(analysis.coverage),
        "totals": totals,
        "notes": [note.to_json() for note in analysis.notes],
    }


def _write_tables(analysis: Analysis, record: CaptureRecord | None, out: Path) -> list[Path]:
    tables = {
        "kernels.csv": analysis.kernels,
        "ranges.csv": analysis.ranges,
        "range_kernels.csv": analysis.range_kernels,
        "api.csv": analysis.api,
        "memops.csv": analysis.memops,
    }
    if record is not None and record.has_cases:
        tables["results.csv"] = record.results
    text = json.dumps(summary_json(analysis), indent=1, ensure_ascii=False) + "\n"
    written = [write_whole(out / "summary.json", text.encode("utf-8", "replace"))]
    written += [write_whole(out / name, render_csv(table)) for name, table in tables.items()]
    return written


def render_csv(table: pd.DataFrame) -> bytes:
    """A table as CSV in UTF-8; a text that a spreadsheet would evaluate is defused."""
    safe = table.copy()
    for column in safe.columns:
        if safe[column].dtype == object or isinstance(safe[column].dtype, pd.StringDtype):
            safe[column] = [defuse_formula(cell) if isinstance(cell, str) else cell for cell in safe[column]]
    return safe.to_csv(index=False, lineterminator="\n", float_format="%.1f").encode("utf-8", "replace")


def _write_figures(
    analysis: Analysis, record: CaptureRecord | None, out: Path, svg: bool, say: Callable[[str], None]
) -> list[Path]:
    from nsysprof.report.figure_kernels import draw_kernels
    from nsysprof.report.figure_roofline import draw_roofline, draw_traffic
    from nsysprof.report.figure_timeline import draw_timeline
    from nsysprof.report.figure_vram import draw_vram

    calls = _traced_calls(record)
    draw: dict[str, Callable[[], Figure | None]] = {
        "timeline": lambda: draw_timeline(analysis, calls),
        "kernels": lambda: draw_kernels(analysis, calls),
        "vram": lambda: draw_vram(analysis, record),
        "roofline": lambda: None if record is None else draw_roofline(record),
        "traffic": lambda: None if record is None else draw_traffic(record),
    }
    written: list[Path] = []
    for name in _FIGURES:
        for stale in (out / f"{name}.png", out / f"{name}.svg"):
            stale.unlink(missing_ok=True)
        say(f"draw {name}")
        figure = draw[name]()
        if figure is None:
            continue
        for kind in ("png", "svg") if svg else ("png",):
            data = io.BytesIO()
            metadata = {"Software": None} if kind == "png" else {"Date": None}
            figure.savefig(data, format=kind, metadata=metadata)
            written.append(write_whole(out / f"{name}.{kind}", data.getvalue()))
    return written


def _traced_calls(record: CaptureRecord | None) -> dict[str, int]:
    if record is None:
        return {}
    known = record.results[record.results["traced_calls"].notna()]
    return {str(name): int(calls) for name, calls in zip(known["range"], known["traced_calls"], strict=True)}
