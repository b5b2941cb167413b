"""Summarize an open trace as `nsysprof analyze` does."""

from __future__ import annotations

from nsysprof.api.notebook import ShownAnalysis, show_analysis
from nsysprof.app.trace_analysis.assemble import AnalysisOptions, summarize_opened
from nsysprof.trace.open import Trace


def summarize(trace: Trace, *, range: str | None = None, step: int | None = None) -> ShownAnalysis:
    """Return what `nsysprof analyze` prints and writes: kernels, ranges, API calls, copies, totals, coverage, notes.

    It is what the trace alone says. nsysprof.analyze joins what lies beside it in a capture folder: counters, stacks,
    memory, attention calls, and the cost of recording, by which it leaves findings out.

    The tables have the columns of the analysis folder's CSV files (docs/files.md). Times are integer ns, sizes bytes. A
    number that the trace does not support is None (NA in a table), and a note says why. A notebook shows the result as
    text and bars; `plot_timeline()`, `plot_kernels()` and `plot_memory()` return its figures.

    Raises UsageError for a range or a step that the trace lacks.

    range, step: the path or the name of the only range to read, or the number of the only step.
    """
    return show_analysis(summarize_opened(trace, AnalysisOptions(range=range, step=step))[0])
