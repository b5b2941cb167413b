"""From the tables of a trace to its Analysis."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pandas as pd

from nsysprof.analysis.attribute import attribute_work, covered, order_work
from nsysprof.analysis.names import FILL_NAME, Names, call_names, copy_name, kernel_names, plain_call_name
from nsysprof.analysis.outline import Attribution, attribute, count_totals, live_metrics, outline
from nsysprof.analysis.ranges import summarize_ranges
from nsysprof.analysis.results import (
    API_COLUMNS,
    KERNEL_COLUMNS,
    MEMOP_COLUMNS,
    Analysis,
    Coverage,
)
from nsysprof.analysis.statistics import summarize_durations
from nsysprof.analysis.timeline import make_timeline
from nsysprof.trace.schema import COPY, FILL, MIGRATION, Calls, Tables, Work


def summarize(tables: Tables) -> Analysis:
    """Count and attribute everything. All counts come from the rows of one table each, never from a join."""
    # Sorting and gathering release the GIL, so that what does not depend on each other runs side by side.
    with ThreadPoolExecutor(1, thread_name_prefix="totals") as pool:
        api = pool.submit(_api, tables, tables.calls)
        found = attribute(tables)
        names, attributed = kernel_names(tables), found.attributed
        kernels = pool.submit(_kernels, tables.work, names)
        totals = pool.submit(count_totals, tables, found)
        coverage = pool.submit(_coverage, tables, found)
        sampled = live_metrics(tables)
        summary = summarize_ranges(
            tables, found.launch, attributed, names, found.memory, found.replays, found.graph_launches, sampled[0]
        )
    whole = outline(tables, found, totals.result(), sampled, summary.traffic)
    by_name = summary.by_name
    # Without calls, no work has a range.
    if not whole.is_counted or (tables.calls is None and len(tables.work)):
        known = ("wall_ns", "peak_vram_bytes")
        gpu = [c for c in by_name.columns if c.endswith(("_ns", "_count", "_bytes")) and c not in known]
        by_name[gpu] = pd.DataFrame({c: pd.array([pd.NA] * len(by_name), dtype="Int64") for c in gpu})
    return Analysis(
        trace=whole.trace,
        devices=whole.devices,
        coverage=replace(coverage.result(), launches_without_gpu_record=whole.lost),
        totals=whole.totals,
        kernels=kernels.result(),
        ranges=by_name,
        range_kernels=summary.kernels,
        api=api.result(),
        memops=_memops(tables.work),
        timeline=make_timeline(tables, names, attributed.ranges, found.memory),
        notes=whole.notes,
    )


def _coverage(tables: Tables, found: Attribution) -> Coverage:
    kernels, launch, attributed = tables.work.kernels, found.launch, found.attributed
    inside = attributed.inside(len(launch))[:kernels]
    missed = np.flatnonzero(~inside)
    outside = launch[missed]
    outside = outside[outside >= 0]
    elsewhere = 0
    if len(outside):
        other = attribute_work(order_work(outside, tables.calls)["process"], attributed.ranges, "PushPop")
        elsewhere = int(covered(other).sum())
    reasons = {
        "no launch record": len(missed) - len(outside),
        "launched by a thread without a range while another thread had one": elsewhere,
        "launched outside every range": len(outside) - elsewhere,
    }
    total = int((found.launches | found.launching).sum()) if tables.calls is not None else None
    return Coverage(
        kernels=kernels,
        attributed_kernels=int(inside.sum()),
        launches=total,
        launches_without_gpu_record=None,
        reasons={reason: count for reason, count in reasons.items() if count},
    )


def _kernels(work: Work, names: Names) -> pd.DataFrame:
    rows = slice(0, work.kernels)
    table = summarize_durations(work.duration_ns[rows], names.numbers(work.variant[rows]))
    number = table.index.to_numpy()
    total = table["total_ns"].sum()
    table["share_pct"] = 100.0 * table["total_ns"] / total if total else 0.0
    table["name"], table["short_name"] = names.texts[number], names.short[number]
    table["category"] = names.category[number]
    return table[list(KERNEL_COLUMNS)].reset_index(drop=True)


def _api(tables: Tables, calls: Calls | None) -> pd.DataFrame:
    if calls is None:
        return pd.DataFrame(columns=list(API_COLUMNS))
    names = call_names(tables, plain_call_name)
    table = summarize_durations(calls.duration_ns, names.numbers(calls.variant))
    table["name"] = names.texts[table.index.to_numpy()]
    return table.rename(columns={"instances": "calls"})[list(API_COLUMNS)].reset_index(drop=True)


def _memops(work: Work) -> pd.DataFrame:
    others = slice(work.kernels, None)
    kind = work.kinds(others)
    chosen = (kind == COPY) | (kind == FILL) | (kind == MIGRATION)
    if not chosen.any():
        return pd.DataFrame(columns=list(MEMOP_COLUMNS))
    rows = pd.DataFrame(
        {
            # -1 is no copy kind, so that fills have a number of their own.
            "code": np.where(kind == FILL, -1, work.copy_kind)[chosen],
            "duration": work.duration_ns[others][chosen].astype(np.int64),
            "bytes": work.bytes[chosen],
        }
    )
    table = rows.groupby("code", sort=False).agg(
        count=("bytes", "size"),
        total_ns=("duration", "sum"),
        total_bytes=("bytes", "sum"),
        avg_bytes=("bytes", "mean"),
        max_bytes=("bytes", "max"),
    )
    table["operation"] = [FILL_NAME if code == -1 else copy_name(code) for code in table.index.tolist()]
    return table.sort_values("total_ns", ascending=False, kind="stable").reset_index()[list(MEMOP_COLUMNS)]
