"""Write figures to files, and keep them as parts of a report."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from nsysprof.files.plain_file import plain_json, write_whole
from nsysprof.report.document import Figure, Report, clean
from nsysprof.report.figures import mpl
from nsysprof.report.figures.drawing import can_draw, png_bytes, svg_bytes
from nsysprof.report.formats.data_formats import report_json
from nsysprof.report.formats.html import render_html
from nsysprof.report.formats.markdown import render_markdown

_LONGEST_ALT = 1000


def write_figures(
    draw: Mapping[str, Callable[[], mpl.Figure | None]],
    alts: Mapping[str, Callable[[], str]],
    out: Path,
    *,
    svg: bool = False,
    say: Callable[[str], None] = lambda _text: None,
) -> list[Figure]:
    """Write NAME.png for each figure that can be drawn, and return the figures; none without matplotlib.

    draw: the function that draws each figure, by name; one that returns None draws nothing.
    alts: the function that describes each figure in words.
    svg: whether to write NAME.svg too.
    """
    if not can_draw():
        return []
    figures = []
    for name, make in draw.items():
        for stale in (out / f"{name}.png", out / f"{name}.svg"):
            stale.unlink(missing_ok=True)
        say(f"draw {name}")
        drawn = make()
        if drawn is None:
            continue
        png = png_bytes(drawn)
        write_whole(out / f"{name}.png", png)
        if svg:
            write_whole(out / f"{name}.svg", svg_bytes(drawn))
        alt = clean(alts[name](), _LONGEST_ALT)  # the description names ranges of the trace
        figures.append(Figure(f"{name}.png", alt, png))
    return figures


def figure_paths(figures: Sequence[Figure], out: Path, *, svg: bool = False) -> list[Path]:
    """Return the files of figures that were written into `out`."""
    paths = [out / figure.file for figure in figures]
    return [*paths, *(path.with_suffix(".svg") for path in paths if svg)]


def write_report(report: Report, out: Path) -> list[Path]:
    """Write report.md, report.html and report.json; return their paths."""
    texts = {
        "report.md": render_markdown(report),
        "report.html": render_html(report),
        "report.json": plain_json(report_json(report)),
    }
    return [write_whole(out / name, text.encode("utf-8", "replace")) for name, text in texts.items()]
