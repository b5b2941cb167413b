"""The rows that figures draw, named and sorted."""

from __future__ import annotations

import numpy as np
import pandas as pd

from nsysprof.analysis.memory import DeviceMemory
from nsysprof.analysis.results import Timeline
from nsysprof.analysis.work import COPY, FILL, GRAPH, KERNEL, PID_MASK
from nsysprof.trace.schema import NULL, Tables

_KINDS = {KERNEL: "kernel", COPY: "memcpy", FILL: "memset", GRAPH: "graph"}


def make_timeline(
    tables: Tables, work: pd.DataFrame, names: dict[int, str], categories: dict[str, str], ranges: pd.DataFrame,
    memory: DeviceMemory | None,
) -> Timeline:  # fmt: skip
    """The four tables of Timeline."""
    return Timeline(_gpu(tables, work, names, categories), _api(tables, names), _nvtx(ranges), _memory(memory))


def _gpu(tables: Tables, work: pd.DataFrame, names: dict[int, str], categories: dict[str, str]) -> pd.DataFrame:
    rows = work.sort_values("start_ns", kind="stable")
    kind = rows["kind"].map(_KINDS)
    is_kernel = (rows["kind"] == KERNEL).to_numpy()
    plain = ("[" + kind + "]").to_numpy(dtype=object)
    name, short = (
        pd.Series(
            np.where(is_kernel, [names.get(key, "") for key in rows[column]], plain), index=rows.index, dtype=object
        )
        for column in ("name_id", "short_name_id")
    )
    fallback = kind.map({"memcpy": "copy", "memset": "fill"}).fillna("other")
    category = pd.Series([categories.get(n, f) for n, f in zip(name, fallback, strict=True)], index=rows.index)
    launch = rows["launch"].to_numpy()
    known = launch >= 0
    call_start = np.zeros(len(rows), np.int64)
    call_tid = np.zeros(len(rows), np.int64)
    if tables.launches is not None and len(tables.launches):
        safe = np.where(known, launch, 0)
        call_start = tables.launches["start_ns"].to_numpy()[safe]
        call_tid = tables.launches["global_tid"].to_numpy()[safe]
    return pd.DataFrame(
        {
            "start_ns": rows["start_ns"],
            "end_ns": rows["end_ns"],
            "kind": kind,
            "name": name,
            "short_name": short,
            "category": category,
            "device_id": rows["device_id"],
            "stream": _stream_labels(rows),
            "launch_start_ns": pd.array(np.where(known, call_start, 0), dtype="Int64").to_numpy(),
            "global_pid": rows["global_pid"],
            "global_tid": call_tid,
            "launched": known,
        }
    ).reset_index(drop=True)


def _stream_labels(rows: pd.DataFrame) -> pd.Series:
    """`stream 7`, with process, device and context named where the stream number alone is not unique."""
    keys = rows[["global_pid", "device_id", "context_id", "stream_id"]]
    unique = keys.drop_duplicates()
    labels: dict[tuple[int, ...], str] = {}
    for pid, device, context, stream in unique.itertuples(index=False):
        twins = unique[unique["stream_id"] == stream]
        text = f"stream {stream}"
        if twins["device_id"].nunique() > 1:
            text = f"GPU {device} {text}"
        if twins["global_pid"].nunique() > 1:
            text = f"pid {(pid >> 24) & 0xFFFFFF} {text}"
        if twins[(twins["global_pid"] == pid) & (twins["device_id"] == device)]["context_id"].nunique() > 1:
            text = f"ctx {context} {text}"
        labels[pid, device, context, stream] = text
    return pd.Series(
        [labels[key] for key in zip(*(keys[c] for c in keys), strict=True)], index=rows.index, dtype=object
    )


def _api(tables: Tables, names: dict[int, str]) -> pd.DataFrame:
    if tables.launches is None:
        return pd.DataFrame({"start_ns": [], "end_ns": [], "name": [], "global_tid": []})
    rows = tables.launches.sort_values("start_ns", kind="stable")
    return pd.DataFrame(
        {
            "start_ns": rows["start_ns"],
            "end_ns": rows["end_ns"],
            "name": rows["name_id"].map(names).fillna(""),
            "global_tid": rows["global_tid"],
        }
    ).reset_index(drop=True)


def _nvtx(ranges: pd.DataFrame) -> pd.DataFrame:
    rows = ranges.sort_values("start_ns", kind="stable").reset_index(drop=True)
    table = rows[["start_ns", "end_ns", "name", "style", "domain", "global_tid"]].copy()
    table["global_pid"] = rows["global_tid"].astype("int64") & PID_MASK if len(rows) else pd.Series(dtype="int64")
    table["level"] = _levels(table)
    return table


def _levels(table: pd.DataFrame) -> list[int]:
    """Nesting depth of each push/pop range on its thread; start/end ranges are level 0."""
    levels = []
    open_ends: dict[int, list[int]] = {}
    for start, end, style, tid in zip(
        table["start_ns"], table["end_ns"], table["style"], table["global_tid"], strict=True
    ):
        if style != "PushPop":
            levels.append(0)
            continue
        stack = open_ends.setdefault(tid, [])
        while stack and stack[-1] <= start:
            stack.pop()
        levels.append(len(stack))
        stack.append(end)
    return levels


def _memory(memory: DeviceMemory | None) -> pd.DataFrame:
    if memory is None:
        return pd.DataFrame({"time_ns": [], "device_id": [], "used_bytes": []}).astype("int64")
    return memory.usage[["time_ns", "device_id", "used_bytes"]]


def names_by_id(tables: Tables, used: pd.Series) -> dict[int, str]:
    """The strings of the ids in `used`; an id without a string is named by its number."""
    ids = [int(key) for key in pd.unique(used) if key != NULL]
    found = tables.strings[~tables.strings.index.duplicated()].reindex(ids)
    return {key: text if isinstance(text, str) else f"<string {key}>" for key, text in zip(ids, found, strict=True)}
