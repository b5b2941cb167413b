"""Summarize an open trace as `nsysprof analyze` does."""

from __future__ import annotations

from nsysprof.analysis.overview import summarize as analysis
from nsysprof.results.analysis import Analysis
from nsysprof.trace.open import Trace
from nsysprof.trace.tables import read_tables


def summarize(trace: Trace) -> Analysis:
    """Return what `nsysprof analyze` prints and writes: kernels, ranges, API calls, copies, totals, coverage, notes.

    The tables have the columns of the analysis folder's CSV files (docs/files.md). Times are integer ns, sizes bytes. A
    number that the trace does not support is None (NA in a table), and a note says why.
    """
    return analysis.summarize(read_tables(trace))
