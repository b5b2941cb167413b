"""Make the table of what each CUDA stream ran. It shows the structure of a program that has no ranges."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from nsysprof.analysis.attribution.duration_statistics import sum_by
from nsysprof.analysis.attribution.intervals import union_ns
from nsysprof.analysis.overview.timeline import stream_labels
from nsysprof.arrays import count_codes, find_rows
from nsysprof.results.column_registry.analysis_columns import STREAMS
from nsysprof.results.column_registry.csv_table import empty_table
from nsysprof.trace.schema import COPY, FILL, KERNEL, MIGRATION, Int64s, Ints, Rows, Tables


def tabulate_streams(tables: Tables) -> pd.DataFrame:
    """Return the rows of streams.csv: one for each stream that ran anything, the busiest first."""
    work = tables.work
    if not (work.kind_of != MIGRATION)[work.variant].any():
        return empty_table(STREAMS)
    streams, of_variant = np.unique(work.streams_of, axis=0, return_inverse=True)
    of_variant, count = of_variant.reshape(-1).astype(np.int64), len(streams)
    ran = _sum_up(tables, of_variant, count)
    labels = np.empty(count, dtype=object)
    labels[of_variant] = stream_labels(work)
    others = work.variant[work.kernels :]
    kind, number = work.kind_of[others], of_variant[others]
    copies, fills = kind == COPY, kind == FILL
    of_kernels = np.where(work.kind_of == KERNEL, of_variant, count)
    table = pd.DataFrame(
        {
            "device_id": streams[:, 1],
            "stream": labels,
            "threads": ran.threads,
            "kernel_count": sum_by(of_kernels, ran.count, count + 1)[:count],
            "kernel_total_ns": sum_by(of_kernels, ran.total_ns, count + 1)[:count],
            "memcpy_count": np.bincount(number[copies], minlength=count),
            "memcpy_bytes": sum_by(number[copies], work.bytes[copies], count),
            "memset_count": np.bincount(number[fills], minlength=count),
            "memset_bytes": sum_by(number[fills], work.bytes[fills], count),
            "busy_ns": ran.busy_ns,
            "span_ns": ran.span_ns,
        }
    )
    counted = np.where(work.kind_of != MIGRATION, of_variant, count)
    present = np.flatnonzero(sum_by(counted, ran.count, count + 1)[:count])
    shown = table.iloc[present].sort_values("busy_ns", ascending=False, kind="stable")
    return shown[list(STREAMS.names)].reset_index(drop=True)


@dataclass(frozen=True)
class _Ran:
    """What streams and variants of work ran."""

    # How long each stream worked, the time from its first start to its last end, and how many threads launched work
    # into it (unknown where no launch was recorded).
    busy_ns: Int64s
    span_ns: Int64s
    threads: pd.api.extensions.ExtensionArray
    # How often each variant of work ran, and how long. Migrations have zeros.
    count: Int64s
    total_ns: Int64s


def _sum_up(tables: Tables, of_variant: Int64s, count: int) -> _Ran:
    """Return what each stream ran.

    of_variant: the number of the stream of each variant of work, below `count`.
    """
    work = tables.work
    narrow: Ints = of_variant.astype(np.int16) if count < 1 << 15 else of_variant.astype(np.int32)
    number = narrow[work.variant]
    kept = find_rows(work.kind_of != MIGRATION, work.variant)
    present = np.flatnonzero(np.bincount(number[kept], minlength=count))
    busy, span = np.zeros((2, count), dtype=np.int64)
    for stream, rows in zip(present.tolist(), _rows_by_stream(number, kept, present), strict=True):
        start, duration = work.start_ns[rows], work.duration_ns[rows]
        busy[stream] = union_ns(start, duration, np.broadcast_to(np.int8(0), len(rows)))[0]
        span[stream] = (start + duration).max() - start.min()
    variant, variants, pairs = work.variant[kept], len(of_variant), None
    if tables.calls is not None:
        # Work and calls have few variants each, so it suffices to look at each pair of variants once.
        launched = np.flatnonzero(tables.launch >= 0).astype(np.int32)
        call_variants = len(tables.calls.variants)
        pair = number[launched].astype(np.int64) * call_variants + tables.calls.variant[tables.launch[launched]]
        pairs = np.divmod(pd.unique(pair), max(1, call_variants))
    total = sum_by(variant, work.duration_ns[kept], variants)
    return _Ran(busy, span, _threads(tables, pairs, count), count_codes(variant, variants), total)


def _rows_by_stream(number: Ints, kept: Rows, present: Int64s) -> list[Rows]:
    """Return the rows of work of each stream that ran any work."""
    if len(present) == 1:
        return [kept]
    order = kept[np.argsort(number[kept], kind="stable")]
    return np.split(order, np.searchsorted(number[order], present[1:]))


def _threads(tables: Tables, pairs: tuple[Int64s, Int64s] | None, count: int) -> pd.api.extensions.ExtensionArray:
    """Return how many threads launched work into each stream; unknown where no launch was recorded.

    pairs: the different pairs of a stream and a variant of call that launched work into it; None without calls.
    """
    unknown = pd.array([pd.NA] * count, dtype="Int64")
    if tables.calls is None or pairs is None:
        return unknown
    of_pair = np.column_stack((pairs[0], tables.calls.tid_of[pairs[1]]))
    found = np.bincount(np.unique(of_pair, axis=0)[:, 0], minlength=count)
    unknown[found > 0] = found[found > 0]
    return unknown
