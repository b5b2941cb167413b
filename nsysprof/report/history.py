"""Write the result folder of a results database: how the latency of each case changed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from nsysprof.report.figure_files import figure_paths, write_figures, write_report
from nsysprof.report.figures.history import draw_history
from nsysprof.report.reports.history_report import describe_history, history_report
from nsysprof.results.latency_history import CaseHistory

_MOST_FIGURES = 24


def write_history(
    title: str, cases: Sequence[CaseHistory], folder: Path, *, figures: bool, say: Callable[[str], None]
) -> list[Path]:
    """Write figures and reports into `folder`, and return their paths. Only the first cases have a figure."""
    drawn = [case for case in cases if case.timed][:_MOST_FIGURES] if figures else []
    names = {f"history-{number}": case for number, case in enumerate(drawn)}
    pictures = write_figures(
        {name: partial(draw_history, case) for name, case in names.items()},
        {name: partial(describe_history, case) for name, case in names.items()},
        folder,
        say=say,
    )
    by_case = {names[picture.file.removesuffix(".png")].name: picture for picture in pictures}
    return [*figure_paths(pictures, folder), *write_report(history_report(title, cases, by_case), folder)]
