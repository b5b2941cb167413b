"""Show an analysis in a notebook, and draw its figures there."""

from __future__ import annotations

from dataclasses import fields
from html import escape

from nsysprof.app.analyze import TraceResult
from nsysprof.report.figures import mpl
from nsysprof.report.figures.memory import draw_vram
from nsysprof.report.figures.timeline import draw_kernels, draw_timeline
from nsysprof.report.formats.console import render_console
from nsysprof.report.formats.html import render_fragment
from nsysprof.report.pages.analysis import first_report
from nsysprof.results.analysis import Analysis

_REPR_WIDTH = 100


class ShownAnalysis(Analysis):
    """An Analysis that a notebook shows as text and bars, with functions that draw its figures.

    A notebook displays a figure that a cell returns. All need matplotlib (the extra `figures`).
    """

    def plot_step(self) -> mpl.Figure | None:
        """Return the figure of step.png: a usual step as one bar; None where no step is known."""
        from nsysprof.report.figures.step import draw_step

        return draw_step(self)

    def plot_timeline(self) -> mpl.Figure | None:
        """Return the figure of timeline.png: a typical step below the whole run; None without anything to draw."""
        return draw_timeline(self)

    def plot_kernels(self) -> mpl.Figure | None:
        """Return the figure of kernels.png: the kernels with the most time; None without kernels."""
        return draw_kernels(self)

    def plot_memory(self) -> mpl.Figure | None:
        """Return the figure of vram.png: device memory over time; None without memory events."""
        return draw_vram(self, None)

    def __repr__(self) -> str:
        """Return what an interpreter shows: the same as text."""
        return render_console(first_report(self), _REPR_WIDTH) or f"Analysis of {self.trace.path_name}"

    def _repr_html_(self) -> str:
        """Return what a notebook shows: what the program does with the GPU, and the findings."""
        return render_fragment(first_report(self))


def show_analysis(analysis: Analysis) -> ShownAnalysis:
    """Return the same analysis as an object that a notebook can display."""
    return ShownAnalysis(**{field.name: getattr(analysis, field.name) for field in fields(analysis)})


class ShownResult(TraceResult):
    """A TraceResult whose analysis draws its figures, and that a notebook shows with the place of its files."""

    analysis: ShownAnalysis

    def __repr__(self) -> str:
        """Return what an interpreter shows: the analysis, and where its files are."""
        return f"{self.analysis!r}\n{self._place()}"

    def _repr_html_(self) -> str:
        return f"{self.analysis._repr_html_()}<p>{escape(self._place())}</p>"

    def _place(self) -> str:
        return f"{len(self.files)} files in {self.folder}"


def show_result(result: TraceResult) -> ShownResult:
    """Return the same result with what a notebook wants."""
    return ShownResult(show_analysis(result.analysis), result.record, result.folder, result.files, result.report)
