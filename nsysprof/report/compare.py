"""A comparison on the terminal, as Markdown for a pull request, and as a folder."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from nsysprof import __version__
from nsysprof.comparison import Comparison, Outcome, Side
from nsysprof.errors import OutputError
from nsysprof.notes import Severity
from nsysprof.output import output_error, write_whole
from nsysprof.report.compare_tables import (
    difference_lines,
    gate_lines,
    kernel_table,
    latency_table,
    open_questions,
    part_table,
    range_table,
    verdict_line,
)
from nsysprof.report.console import render_table as render_console_table
from nsysprof.report.escape import clean, escape_markdown
from nsysprof.report.markdown import render_table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

JSON, REPORT = "compare.json", "report.md"
_FIGURES = ("ratios.png", "parts.png")
_TITLES = {Outcome.PASS: "pass", Outcome.REGRESSION: "REGRESSION", Outcome.INCONCLUSIVE: "inconclusive"}
_MOST_ROWS, _MOST_LINES, _SHORT_ROWS = 40, 30, 20
_WIDEST, _NAME = 160, 62


def render_compare_console(found: Comparison, width: int) -> str:
    """Warnings first, then the verdict, tables, and what the gate says last."""
    parts = [_sides_line(found), *_forced_lines(found), verdict_line(found)]
    tables = [
        latency_table(found, _SHORT_ROWS),
        range_table(found, _SHORT_ROWS, short=True),
        part_table(found, _SHORT_ROWS),
        kernel_table(found, _SHORT_ROWS, name_width=30),
    ]
    # Wide enough for any of them: a line that wraps beats a number that is cut off.
    parts += [render_console_table(table, max(width, _WIDEST), _NAME) for table in tables if table.rows]
    parts += [f"{clean(line, 400)}" for line in open_questions(found)[:_MOST_LINES]]
    parts += [_floor_line(found)] if found.latency.changes else []
    parts += [
        f"{note.severity.value}: {clean(note.text, 400)}" + (f" -> {note.next_step}" if note.next_step else "")
        for note in found.notes
        if note.severity != Severity.INFO
    ]
    if found.outcome is not None:
        parts += ["", f"gate: {_TITLES[found.outcome]}", *(clean(line, 300) for line in gate_lines(found.gate))]
    return "\n".join(part for part in parts if part is not None)


def render_compare(found: Comparison, figures: Sequence[str]) -> str:
    """The report; `figures` are file names beside it. Tables are cut, so that GitHub's 65,536 characters suffice."""
    title = "nsysprof compare" + (f": {_TITLES[found.outcome]}" if found.outcome is not None else "")
    parts = [f"# {title}", "", escape_markdown(_sides_line(found)), ""]
    parts += [f"> **{escape_markdown(line)}**  " for line in _forced_lines(found)] + [""]
    if found.gate:
        parts += ["| gate | | |", "|---|---|---|"]
        for result in found.gate:
            parts.append(f"| `{result.rule}` | {_TITLES[result.outcome]} | {result.checked} checked |")
        lines = [line.strip() for line in gate_lines(found.gate, _MOST_LINES) if line.startswith("  ")]
        parts += ["", *(f"- {escape_markdown(clean(line, 400))}" for line in lines), ""]
    parts += [escape_markdown(verdict_line(found)), ""]
    parts += [f"![{name.rpartition('.')[0]}]({name})\n" for name in figures]
    for table in (latency_table, range_table, part_table, kernel_table):
        parts += render_table(table(found, _MOST_ROWS)) if table(found, 1).rows else []
    parts += [f"- {escape_markdown(clean(line, 400))}" for line in open_questions(found)[:_MOST_LINES]] + [""]
    parts += ["## Notes", ""]
    for note in found.notes[:_MOST_LINES]:
        following = f" → {escape_markdown(note.next_step)}" if note.next_step else ""
        parts.append(f"- **{note.severity.value}** `{note.code}`: {escape_markdown(clean(note.text, 400))}{following}")
    parts += ["", "<details><summary>Method and environment</summary>", ""]
    parts += [f"- {escape_markdown(line)}" for line in found.method]
    parts += [f"- {escape_markdown(_floor_line(found))}"] if found.latency.changes else []
    parts += ["", *_environment_table(found), "", "</details>"]
    return "\n".join(parts) + "\n"


def _sides_line(found: Comparison) -> str:
    return f"{_side(found.baseline)} against {_side(found.candidate)}"


def _side(side: Side) -> str:
    names = ", ".join(clean(name, 60) for name in side.inputs[:3])
    more = f" and {len(side.inputs) - 3} more" if len(side.inputs) > 3 else ""
    return f"{names}{more} ({', '.join(side.kinds)})"


def _forced_lines(found: Comparison) -> list[str]:
    if not found.differences:
        return []
    return [
        "NOT COMPARABLE, compared because of --force. A difference may be of these and not of the code:",
        *(clean(line, 300) for line in difference_lines(found.differences)),
    ]


def _floor_line(found: Comparison) -> str:
    latency = found.latency
    if latency.floor_pct is None:
        return ""
    return f"noise floor of one {latency.unit}: {latency.floor_pct:.2f} %, {latency.floor_from}"


def _environment_table(found: Comparison) -> list[str]:
    old, new = found.baseline.environment, found.candidate.environment
    facts = list(dict.fromkeys((*old, *new)))
    lines = ["| | baseline | candidate |", "|---|---|---|", f"| nsysprof | {__version__} | |"]
    for fact in facts:
        cells = (escape_markdown(clean(str(side.get(fact, "differs or unknown")), 120)) for side in (old, new))
        lines.append(f"| {fact} | {' | '.join(cells)} |")
    return lines


def check_compare_folder(folder: Path, *, replace: bool) -> None:
    """Raises OutputError unless `folder` is free, or holds a comparison that is to be replaced."""
    try:
        if folder.exists() and not folder.is_dir():
            raise OutputError(f"{folder} is a file.", "Choose another folder with --out.")
        taken = folder.is_dir() and any(folder.iterdir())
    except OSError as error:
        raise output_error(folder, error) from error
    if taken and not (folder / JSON).exists():
        raise OutputError(f"{folder} exists and is not a comparison of ours.", "Choose another folder with --out.")
    if taken and not replace:
        raise OutputError(
            f"{folder} already holds a comparison.", "Give --replace to replace it, or another folder with --out."
        )


def write_compare(found: Comparison, folder: Path, *, figures: bool) -> list[Path]:
    """Write compare.json, figures and report.md into `folder`, and return their paths. Raises OutputError."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name in _FIGURES:
            (folder / name).unlink(missing_ok=True)
    except OSError as error:
        raise output_error(folder, error) from error
    text = json.dumps(found.to_json(), indent=1) + "\n"
    written = [write_whole(folder / JSON, text.encode())]
    pictures = _write_figures(found, folder) if figures else []
    report = render_compare(found, [path.name for path in pictures])
    return [*written, *pictures, write_whole(folder / REPORT, report.encode("utf-8", "replace"))]


def _write_figures(found: Comparison, folder: Path) -> list[Path]:
    from nsysprof.report.figure_compare import draw_parts, draw_ratios

    drawn: dict[str, Figure | None] = {"ratios.png": draw_ratios(found), "parts.png": draw_parts(found)}
    written = []
    for name, figure in drawn.items():
        if figure is not None:
            data = io.BytesIO()
            figure.savefig(data, format="png", metadata={"Software": None})
            written.append(write_whole(folder / name, data.getvalue()))
    return written
