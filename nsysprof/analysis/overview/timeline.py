"""Make the tables of a timeline (GPU work, API calls, ranges, memory) for figures and exports, each on first use."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pandas as pd

from nsysprof.analysis.attribution.caused_work import CausedWork
from nsysprof.analysis.attribution.nesting import nesting_levels
from nsysprof.analysis.kernel_names.variant_names import FILL_NAME, Names, call_names, copy_name
from nsysprof.analysis.overview.memory import DeviceMemory
from nsysprof.results.analysis import Timeline
from nsysprof.trace.schema import COPY, FILL, GRAPH, KERNEL, MIGRATION, PID_MASK, Int64s, Ints, Tables, Work

_KINDS = {KERNEL: "kernel", COPY: "memcpy", FILL: "memset", GRAPH: "graph"}


def make_timeline(
    tables: Tables, names: Names, ranges: pd.DataFrame, memory: DeviceMemory | None, caused: CausedWork | None = None
) -> Timeline:
    """Return the four tables of a timeline. Each is computed on its first use.

    ranges: instances in order of start.
    caused: the work that ranges adopted and captured, by rows of the work.
    """
    return Timeline(
        lambda: _gpu(tables, names, caused), lambda: _api(tables), lambda: _nvtx(ranges), lambda: _memory(memory)
    )


def _gpu(tables: Tables, names: Names, caused: CausedWork | None) -> pd.DataFrame:
    work = tables.work
    rows = np.flatnonzero((work.kind_of != MIGRATION)[work.variant]).astype(np.int32)
    rows = rows[_by_start(work.start_ns[rows])]
    variant = work.variant[rows]
    kind = work.kind_of[variant]
    # Kernels and graphs have the numbers of their names; the other kinds have the numbers that follow.
    number = names.numbers(variant).astype(np.int32)
    is_other = (kind == COPY) | (kind == FILL)
    others = rows[is_other] - work.kernels
    copies = np.unique(work.copy_kind)
    labels = [FILL_NAME, *(copy_name(int(copied)) for copied in copies)]
    copied = kind[is_other] == COPY
    of_other = np.zeros(len(others), dtype=np.int64)
    of_other[copied] = 1 + np.searchsorted(copies, work.copy_kind[others[copied]])
    number[is_other] = len(names.texts) + of_other
    categories = ["fill", *("copy" for _ in copies)]
    size = np.zeros(len(rows), dtype=np.int64)
    size[is_other] = work.bytes[others]
    return pd.DataFrame(
        {
            "start_ns": work.start_ns[rows],
            "end_ns": work.ends_ns(rows),
            "kind": _texts(kind, [_KINDS[key] for key in sorted(_KINDS)]),
            "name": _texts(number, [*names.texts, *labels]),
            "short_name": _texts(number, [*names.short, *labels]),
            "category": _texts(number, [*names.category, *categories]),
            "bytes": size,
            "call": _calls_of(tables, rows),
            "caused_by": _owners(len(work), caused)[rows],
            "device_id": work.device_of[variant],
            "context_id": work.streams_of[variant, 2],
            "stream_id": work.streams_of[variant, 3],
            "stream": _texts(variant, stream_labels(work)),
            "global_pid": work.pid_of[variant],
        },
        copy=False,  # the columns are made for this table
    )


def _by_start(start_ns: Int64s) -> Ints:
    """Return the order of rows by start. Rows in order, as most are, need no sorting and half the memory."""
    if bool((start_ns[1:] >= start_ns[:-1]).all()):
        return np.arange(len(start_ns), dtype=np.int32)
    return np.argsort(start_ns, kind="stable")


def _calls_of(tables: Tables, rows: Ints) -> Ints:
    """Return, for each row of work, the row of Timeline.api that launched it, or -1."""
    calls = tables.calls
    if calls is None:
        return np.full(len(rows), -1, dtype=np.int32)
    place = np.full(len(calls) + 1, -1, dtype=np.int32)  # the last entry is for work without a call
    place[_by_start(calls.start_ns)] = np.arange(len(calls), dtype=np.int32)
    found: Ints = place[tables.launch[rows]]
    return found


def _owners(count: int, caused: CausedWork | None) -> npt.NDArray[np.int32]:
    """Return, for each row of work, the innermost range that adopted or captured it, or -1."""
    owner = np.full(count, -1, dtype=np.int32)
    if caused is None:
        return owner
    if caused.graph is not None and len(caused.creators[0]):
        instance, node = caused.creators
        # The range that began last is the innermost one, so it is written last.
        order = np.argsort(instance, kind="stable")
        innermost = np.full(int(max(node.max(), caused.graph.node.max())) + 1, -1, dtype=np.int32)
        innermost[node[order]] = instance[order]
        known = caused.graph.node >= 0
        owner[caused.graph.row[known]] = innermost[caused.graph.node[known]]
    owner[caused.adopted_row] = caused.adopted_owner
    return owner


def _texts(codes: Ints, texts: list[str]) -> pd.Categorical:
    """Return the texts by number, stored as numbers; equal texts become one."""
    number, unique = pd.factorize(np.array(texts, dtype=object))
    return pd.Categorical.from_codes(number[codes], categories=pd.Index(unique, dtype=object))


def stream_labels(work: Work) -> list[str]:
    """Return a label such as `stream 7` for each variant.

    The label has process, device and context where the number alone is not unique.
    """
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
    rows = _by_start(calls.start_ns)
    names = call_names(tables, lambda text: text)
    return pd.DataFrame(
        {
            "start_ns": calls.start_ns[rows],
            "end_ns": calls.ends_ns(rows),
            "name": _texts(names.numbers(calls.variant[rows]), list(names.texts)),
            "global_tid": calls.tid_of[calls.variant[rows]],
        },
        copy=False,
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
