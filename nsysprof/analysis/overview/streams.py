"""Make the table of what each CUDA stream ran. It shows the structure of a program that has no ranges."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from nsysprof.analysis.attribution.duration_statistics import sum_by
from nsysprof.analysis.attribution.intervals import union_ns
from nsysprof.analysis.overview.timeline import stream_labels
from nsysprof.arrays import rows_by_code
from nsysprof.results.column_registry.analysis_columns import STREAMS
from nsysprof.results.column_registry.csv_table import empty_table
from nsysprof.trace.schema import COPY, FILL, KERNEL, MIGRATION, Int64s, Tables

# How many rows of work are looked at at a time, so that they stay in the processor's cache.
_BLOCK = 1 << 16


def tabulate_streams(tables: Tables) -> pd.DataFrame:
    """Return the rows of streams.csv: one for each stream that ran anything, the busiest first."""
    work = tables.work
    if not (work.kind_of != MIGRATION).any():
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
    work, calls = tables.work, tables.calls
    counted = np.where(work.kind_of != MIGRATION, of_variant, count)
    times, total = np.zeros((2, len(of_variant)), dtype=np.int64)
    first, last = np.full(count + 1, np.iinfo(np.int64).max), np.full(count + 1, np.iinfo(np.int64).min)
    tids, thread = np.unique(calls.tid_of if calls is not None else of_variant[:0], return_inverse=True)
    has_launched = np.zeros((count + 1, len(tids)), dtype=np.bool_)
    for low in range(0, len(work), _BLOCK):
        part = slice(low, low + _BLOCK)
        variant, start = work.variant[part].astype(np.int64), work.start_ns[part]
        duration, number, launch = work.duration_ns[part].astype(np.int64), counted[variant], tables.launch[part]
        times += np.bincount(variant, minlength=len(times))
        np.add.at(total, variant, duration)
        np.minimum.at(first, number, start)
        np.maximum.at(last, number, start + duration)
        if calls is not None:
            known = launch >= 0
            has_launched[number[known], thread[calls.variant[launch[known]]]] = True
    busy = np.zeros(count, dtype=np.int64)
    narrow = counted.astype(np.int16) if count < 1 << 15 else counted.astype(np.int32)
    for stream, rows in enumerate(rows_by_code(narrow[work.variant], count + 1)[:count]):
        if len(rows):
            all_or_its = slice(None) if len(rows) == len(work) else rows
            starts, durations = work.start_ns[all_or_its], work.duration_ns[all_or_its]
            busy[stream] = union_ns(starts, durations, np.broadcast_to(np.int8(0), len(rows)))[0]
    times[work.kind_of == MIGRATION] = total[work.kind_of == MIGRATION] = 0
    threads = pd.array(has_launched[:count].sum(axis=1), dtype="Int64")
    threads[threads == 0] = pd.NA
    return _Ran(busy, (last - first)[:count], threads, times, total)
