"""Provide open_trace, which opens any trace that the command line reads."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from nsysprof.api.notebook import ShownAnalysis, show_analysis
from nsysprof.app.trace_analysis.assemble import AnalysisOptions, summarize_opened
from nsysprof.files.output import refuse_url
from nsysprof.files.scratch_folder import scratch_folder
from nsysprof.trace import open as trace_open
from nsysprof.trace.inputs.resolve_input import identity_of, resolve_input
from nsysprof.trace.open import Trace


@contextmanager
def open_trace(source: str | os.PathLike[str], *, nsys: str | os.PathLike[str] | None = None) -> Iterator[Trace]:
    """Open a trace read-only for the duration of a `with` block.

    Raises NsysprofError (see nsysprof.errors) for what is missing, damaged or not a trace. str(error) says what is
    wrong, and error.next_step what to do. Damaged tables are left out, with a Note in trace.notes.

    source: whatever `nsysprof analyze` takes: an nsys .sqlite, that file compressed (.xz, .gz, .zst), a .nsys-rep, a
        folder of nsys' Parquet files, Kineto's JSON, a capture folder, a bundle. What must be unpacked, exported or
        converted first goes to a temporary folder, which is removed at the end of the block.
    nsys: the nsys that exports a .nsys-rep; searched for when not given.
    """
    path = Path(source)
    refuse_url(path)
    with scratch_folder() as scratch:
        found = resolve_input(path, None if nsys is None else Path(nsys), scratch)
        with trace_open.open_trace(found, identity_of(path, found)) as trace:
            yield trace


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
