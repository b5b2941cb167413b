"""The whole analysis of an open trace."""

from __future__ import annotations

from nsysprof.analysis import summarize as analysis
from nsysprof.analysis.results import Analysis
from nsysprof.trace.open import Trace
from nsysprof.trace.tables import read_tables


def summarize(trace: Trace) -> Analysis:
    """What `nsysprof analyze` prints and writes: kernels, ranges, API calls, copies, totals, coverage, notes.

    The tables have the columns of the analysis folder's CSV files (docs/files.md); times are integer ns, sizes bytes.
    A number that the trace does not support is None (NA in a table), and a note says why.
    """
    return analysis.summarize(read_tables(trace))
