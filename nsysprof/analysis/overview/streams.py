"""Tabulate what each CUDA stream ran. In a program without ranges, streams and calls say what ran where."""

from __future__ import annotations

import numpy as np
import pandas as pd

from nsysprof.analysis.attribution.duration_statistics import sum_by
from nsysprof.analysis.attribution.intervals import union_ns
from nsysprof.analysis.overview.timeline import stream_labels
from nsysprof.results.column_registry.analysis_columns import STREAMS
from nsysprof.results.column_registry.csv_table import empty_table
from nsysprof.trace.schema import COPY, FILL, KERNEL, MIGRATION, Tables


def tabulate_streams(tables: Tables) -> pd.DataFrame:
    """Return the rows of streams.csv: one per stream that ran anything, the busiest first."""
    work = tables.work
    kept = np.flatnonzero((work.kind_of != MIGRATION)[work.variant])
    if len(kept) == 0:
        return empty_table(STREAMS)
    streams, of_variant = np.unique(work.streams_of, axis=0, return_inverse=True)
    number = of_variant.reshape(-1)[work.variant]
    kind, count = work.kind_of[work.variant], len(streams)
    order = kept[np.argsort(number[kept], kind="stable")]
    busy = np.zeros(count, np.int64)
    present, compact = np.unique(number[order], return_inverse=True)
    busy[present] = union_ns(work.start_ns[order], work.duration_ns[order], compact)
    labels = np.empty(count, dtype=object)
    labels[of_variant.reshape(-1)] = stream_labels(work)
    first, last = np.full(count, np.iinfo(np.int64).max), np.full(count, np.iinfo(np.int64).min)
    np.minimum.at(first, number[kept], work.start_ns[kept])
    np.maximum.at(last, number[kept], work.ends_ns(kept))
    copies, fills = (np.flatnonzero(kind == wanted) for wanted in (COPY, FILL))
    kernels = number[: work.kernels]
    table = pd.DataFrame(
        {
            "device_id": streams[:, 1],
            "stream": labels,
            "threads": _threads(tables, number, count),
            "kernel_count": np.bincount(number[kind == KERNEL], minlength=count),
            "kernel_total_ns": sum_by(kernels, work.duration_ns[: work.kernels], count),
            "memcpy_count": np.bincount(number[copies], minlength=count),
            "memcpy_bytes": sum_by(number[copies], work.bytes[copies - work.kernels], count),
            "memset_count": np.bincount(number[fills], minlength=count),
            "memset_bytes": sum_by(number[fills], work.bytes[fills - work.kernels], count),
            "busy_ns": busy,
            "span_ns": np.maximum(last - first, 0),
        }
    )
    shown = table.iloc[present].sort_values("busy_ns", ascending=False, kind="stable")
    return shown[list(STREAMS.names)].reset_index(drop=True)


def _threads(tables: Tables, number: np.ndarray, count: int) -> pd.api.extensions.ExtensionArray:
    """Return how many threads gave work to each stream; unknown where no launch was recorded."""
    unknown = pd.array([pd.NA] * count, dtype="Int64")
    if tables.calls is None:
        return unknown
    launched = np.flatnonzero(tables.launch >= 0)
    thread = tables.calls.tid_of[tables.calls.variant[tables.launch[launched]]]
    pairs = np.unique(np.stack([number[launched].astype(np.int64), thread]), axis=1)
    found = np.bincount(pairs[0].astype(np.int64), minlength=count)
    unknown[found > 0] = found[found > 0]
    return unknown
