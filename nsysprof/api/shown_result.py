"""Show in a notebook what `analyze` returns."""

from __future__ import annotations

from html import escape

from nsysprof.api.notebook import ShownAnalysis, show_analysis
from nsysprof.app.trace_analysis.analyze_trace import TraceResult


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
