"""The rows that figures draw, named and sorted; made only when asked for, since ten million named rows are large."""

from __future__ import annotations

import numpy as np
import pandas as pd

from nsysprof.analysis.memory import DeviceMemory
from nsysprof.analysis.names import Names, call_names
from nsysprof.analysis.ranges import nesting_levels
from nsysprof.analysis.results import Timeline
from nsysprof.trace.schema import COPY, FILL, GRAPH, KERNEL, MIGRATION, PID_MASK, Ints, Tables, Work

_KINDS = {KERNEL: "kernel", COPY: "memcpy", FILL: "memset", GRAPH: "graph"}
_CATEGORIES = {COPY: "copy", FILL: "fill", GRAPH: "other"}


def make_timeline(tables: Tables, names: Names, ranges: pd.DataFrame, memory: DeviceMemory | None) -> Timeline:
    """The four tables of Timeline, each on its first use."""
    return Timeline(
        lambda: _gpu(tables.work, names), lambda: _api(tables), lambda: _nvtx(ranges), lambda: _memory(memory)
    )


def _gpu(work: Work, names: Names) -> pd.DataFrame:
    rows = np.flatnonzero((work.kind_of != MIGRATION)[work.variant])
    rows = rows[np.argsort(work.start_ns[rows], kind="stable")]
    variant = work.variant[rows]
    kind = work.kind_of[variant]
    # Kernels have the numbers of their names, the other kinds the numbers after those.
    kinds = list(_CATEGORIES)
    number = names.numbers(variant).astype(np.int32)
    for index, other in enumerate(kinds):
        number[kind == other] = len(names.texts) + index
    labels = [f"[{_KINDS[other]}]" for other in kinds]
    return pd.DataFrame(
        {
            "start_ns": work.start_ns[rows],
            "end_ns": work.ends_ns(rows),
            "kind": _texts(kind, [_KINDS[key] for key in sorted(_KINDS)]),
            "name": _texts(number, [*names.texts, *labels]),
            "short_name": _texts(number, [*names.short, *labels]),
            "category": _texts(number, [*names.category, *_CATEGORIES.values()]),
            "device_id": work.device_of[variant],
            "stream": _texts(variant, _stream_labels(work)),
            "global_pid": work.pid_of[variant],
        }
    )


def _texts(codes: Ints, texts: list[str]) -> pd.Categorical:
    """`texts` by number, stored as numbers; texts that are equal become one."""
    number, unique = pd.factorize(np.array(texts, dtype=object))
    return pd.Categorical.from_codes(number[codes], categories=pd.Index(unique, dtype=object))


def _stream_labels(work: Work) -> list[str]:
    """For each variant `stream 7`, with process, device and context where the stream number alone is not unique."""
    of_variant = pd.DataFrame(work.streams_of, columns=["global_pid", "device_id", "context_id", "stream_id"])
    streams = of_variant[work.kind_of != MIGRATION].drop_duplicates()
    labels = []
    for pid, device, context, stream in of_variant.itertuples(index=False):
        twins = streams[streams["stream_id"] == stream]
        text = f"stream {stream}"
        if twins["device_id"].nunique() > 1:
            text = f"GPU {device} {text}"
        if twins["global_pid"].nunique() > 1:
            text = f"pid {(pid >> 24) & 0xFFFFFF} {text}"
        if twins[(twins["global_pid"] == pid) & (twins["device_id"] == device)]["context_id"].nunique() > 1:
            text = f"ctx {context} {text}"
        labels.append(text)
    return labels


def _api(tables: Tables) -> pd.DataFrame:
    calls = tables.calls
    if calls is None:
        return pd.DataFrame({"start_ns": [], "end_ns": [], "name": [], "global_tid": []})
    rows = np.argsort(calls.start_ns, kind="stable")
    names = call_names(tables, lambda text: text)
    return pd.DataFrame(
        {
            "start_ns": calls.start_ns[rows],
            "end_ns": calls.ends_ns(rows),
            "name": _texts(names.numbers(calls.variant[rows]), list(names.texts)),
            "global_tid": calls.tid_of[calls.variant[rows]],
        }
    )


def _nvtx(ranges: pd.DataFrame) -> pd.DataFrame:
    rows = ranges.sort_values("start_ns", kind="stable").reset_index(drop=True)
    table = rows[["start_ns", "end_ns", "name", "style", "domain", "global_tid"]].copy()
    table["global_pid"] = rows["global_tid"].astype("int64") & PID_MASK if len(rows) else pd.Series(dtype="int64")
    table["level"] = nesting_levels(table)
    return table


def _memory(memory: DeviceMemory | None) -> pd.DataFrame:
    if memory is None:
        return pd.DataFrame({"time_ns": [], "device_id": [], "used_bytes": []}).astype("int64")
    return memory.usage[["time_ns", "device_id", "used_bytes"]]
