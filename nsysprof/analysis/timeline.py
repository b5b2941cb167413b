"""The rows that figures draw, named and sorted."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pandas as pd

from nsysprof.analysis.intervals import Ints
from nsysprof.analysis.memory import DeviceMemory
from nsysprof.analysis.results import Timeline
from nsysprof.analysis.work import COPY, FILL, GRAPH, KERNEL, PID_MASK
from nsysprof.trace.schema import NULL, Tables

Texts = npt.NDArray[np.object_]

_KINDS = {KERNEL: "kernel", COPY: "memcpy", FILL: "memset", GRAPH: "graph"}


def make_timeline(
    tables: Tables, work: pd.DataFrame, names: dict[int, str], categories: dict[str, str], ranges: pd.DataFrame,
    memory: DeviceMemory | None,
) -> Timeline:  # fmt: skip
    """The four tables of Timeline."""
    return Timeline(_gpu(tables, work, names, categories), _api(tables, names), _nvtx(ranges), _memory(memory))


def _gpu(tables: Tables, work: pd.DataFrame, names: dict[int, str], categories: dict[str, str]) -> pd.DataFrame:
    rows = work.sort_values("start_ns", kind="stable").reset_index(drop=True)
    is_kernel = (rows["kind"] == KERNEL).to_numpy()
    kind = look_up(rows["kind"], _KINDS.get)
    plain = look_up(rows["kind"], lambda key: f"[{_KINDS[key]}]")
    other = look_up(rows["kind"], lambda key: {COPY: "copy", FILL: "fill"}.get(key, "other"))
    category = look_up(rows["name_id"], lambda key: categories.get(names.get(key, ""), "other"))
    launch = rows["launch"].to_numpy()
    return pd.DataFrame(
        {
            "start_ns": rows["start_ns"],
            "end_ns": rows["end_ns"],
            "kind": kind,
            "name": np.where(is_kernel, look_up(rows["name_id"], lambda key: names.get(key, "")), plain),
            "short_name": np.where(is_kernel, look_up(rows["short_name_id"], lambda key: names.get(key, "")), plain),
            "category": np.where(is_kernel, category, other),
            "device_id": rows["device_id"],
            "stream": _stream_labels(rows),
            "launch_start_ns": _of_call(tables, launch, "start_ns"),
            "global_pid": rows["global_pid"],
            "global_tid": _of_call(tables, launch, "global_tid"),
        }
    )


def look_up(keys: pd.Series, text_of: Callable[[int], str | None]) -> Texts:
    """`text_of` of every key, called once for each different one."""
    unique, code = np.unique(keys.to_numpy(), return_inverse=True)
    texts = np.array([text_of(int(key)) for key in unique], dtype=object)
    found: Texts = texts[code]
    return found


def _of_call(tables: Tables, launch: Ints, column: str) -> pd.Series:
    """A column of the calls that launched the work, NA where unknown."""
    known = launch >= 0
    values = np.zeros(len(launch), dtype=np.int64)
    if tables.launches is not None:
        values[known] = tables.launches[column].to_numpy()[launch[known]]
    return pd.Series(values).astype("Int64").mask(pd.Series(~known))


def _stream_labels(rows: pd.DataFrame) -> Texts:
    """`stream 7`, with process, device and context named where the stream number alone is not unique."""
    columns = ["global_pid", "device_id", "context_id", "stream_id"]
    code = rows.groupby(columns, sort=False).ngroup().to_numpy()
    unique = rows[columns].drop_duplicates()
    labels = []
    for pid, device, context, stream in unique.itertuples(index=False):
        twins = unique[unique["stream_id"] == stream]
        text = f"stream {stream}"
        if twins["device_id"].nunique() > 1:
            text = f"GPU {device} {text}"
        if twins["global_pid"].nunique() > 1:
            text = f"pid {(pid >> 24) & 0xFFFFFF} {text}"
        if twins[(twins["global_pid"] == pid) & (twins["device_id"] == device)]["context_id"].nunique() > 1:
            text = f"ctx {context} {text}"
        labels.append(text)
    found: Texts = np.array(labels, dtype=object)[code]
    return found


def _api(tables: Tables, names: dict[int, str]) -> pd.DataFrame:
    if tables.launches is None:
        return pd.DataFrame({"start_ns": [], "end_ns": [], "name": [], "global_tid": []})
    rows = tables.launches.sort_values("start_ns", kind="stable")
    return pd.DataFrame(
        {
            "start_ns": rows["start_ns"],
            "end_ns": rows["end_ns"],
            "name": look_up(rows["name_id"], lambda key: names.get(key, "")),
            "global_tid": rows["global_tid"],
        }
    ).reset_index(drop=True)


def _nvtx(ranges: pd.DataFrame) -> pd.DataFrame:
    rows = ranges.sort_values("start_ns", kind="stable").reset_index(drop=True)
    table = rows[["start_ns", "end_ns", "name", "style", "domain", "global_tid"]].copy()
    table["global_pid"] = rows["global_tid"].astype("int64") & PID_MASK if len(rows) else pd.Series(dtype="int64")
    table["level"] = _levels(table)
    return table


def _levels(table: pd.DataFrame) -> Ints:
    """Nesting depth of each push/pop range on its thread, for ranges in order of start; start/end ranges are level 0.

    The depth is the number of ranges of the thread that started before and have not ended yet.
    """
    levels = np.zeros(len(table), dtype=np.int64)
    pushed = np.flatnonzero((table["style"] == "PushPop").to_numpy())
    start, end = table["start_ns"].to_numpy()[pushed], table["end_ns"].to_numpy()[pushed]
    for rows in table.iloc[pushed].groupby("global_tid").indices.values():
        ended = np.searchsorted(np.sort(end[rows]), start[rows], "right")
        levels[pushed[rows]] = np.maximum(0, np.arange(len(rows)) - ended)
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
