"""Make the table of what each CUDA stream ran. It shows the structure of a program that has no ranges."""

from __future__ import annotations

import numpy as np
import pandas as pd

from nsysprof.analysis.attribution.duration_statistics import sum_by
from nsysprof.analysis.attribution.intervals import union_ns
from nsysprof.analysis.overview.timeline import stream_labels
from nsysprof.arrays import find_rows
from nsysprof.results.column_registry.analysis_columns import STREAMS
from nsysprof.results.column_registry.csv_table import empty_table
from nsysprof.trace.schema import COPY, FILL, KERNEL, MIGRATION, Int64s, Ints, Rows, Tables


def tabulate_streams(tables: Tables) -> pd.DataFrame:
    """Return the rows of streams.csv: one for each stream that ran anything, the busiest first."""
    work = tables.work
    kept = find_rows(work.kind_of != MIGRATION, work.variant)
    if len(kept) == 0:
        return empty_table(STREAMS)
    streams, of_variant = np.unique(work.streams_of, axis=0, return_inverse=True)
    of_variant = of_variant.reshape(-1).astype(np.int16 if len(streams) < 1 << 15 else np.int32)
    number = of_variant[work.variant]
    kind, count = work.kind_of[work.variant], len(streams)
    present = np.flatnonzero(np.bincount(number[kept], minlength=count))
    busy, first, last = np.zeros(count, np.int64), np.zeros(count, np.int64), np.zeros(count, np.int64)
    for stream, rows in zip(present.tolist(), _rows_by_stream(number, kept, present), strict=True):
        start, duration = work.start_ns[rows], work.duration_ns[rows]
        busy[stream] = union_ns(start, duration, np.broadcast_to(np.int8(0), len(rows)))[0]
        first[stream], last[stream] = start.min(), (start + duration).max()
    labels = np.empty(count, dtype=object)
    labels[of_variant] = stream_labels(work)
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
            "span_ns": last - first,
        }
    )
    shown = table.iloc[present].sort_values("busy_ns", ascending=False, kind="stable")
    return shown[list(STREAMS.names)].reset_index(drop=True)


def _rows_by_stream(number: Ints, kept: Rows, present: Int64s) -> list[Rows]:
    """Return the rows of work of each stream that ran any work."""
    if len(present) == 1:
        return [kept]
    order = kept[np.argsort(number[kept], kind="stable")]
    return np.split(order, np.searchsorted(number[order], present[1:]))


def _threads(tables: Tables, number: Ints, count: int) -> pd.api.extensions.ExtensionArray:
    """Return how many threads launched work into each stream; unknown where no launch was recorded."""
    unknown = pd.array([pd.NA] * count, dtype="Int64")
    if tables.calls is None:
        return unknown
    launched = np.flatnonzero(tables.launch >= 0).astype(np.int32)
    # Work and calls have few variants each, so it suffices to look at each pair of variants once.
    variants = len(tables.calls.variants)
    pair = number[launched].astype(np.int64) * variants + tables.calls.variant[tables.launch[launched]]
    present = pd.unique(pair)
    of_pair = np.column_stack((present // variants, tables.calls.tid_of[present % variants]))
    found = np.bincount(np.unique(of_pair, axis=0)[:, 0], minlength=count)
    unknown[found > 0] = found[found > 0]
    return unknown
