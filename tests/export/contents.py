"""Contents to export, of traces that are on disk."""

from __future__ import annotations

from pathlib import Path

from nsysprof.analysis.overview.summarize import summarize
from nsysprof.export.content import Content
from nsysprof.trace.open import open_trace
from nsysprof.trace.table_readers.gpus import read_gpus, read_metric_samples
from nsysprof.trace.tables import read_tables


def content_of(path: Path) -> Content:
    with open_trace(path) as trace:
        return Content(summarize(read_tables(trace)), tuple(read_metric_samples(trace, read_gpus(trace))))
