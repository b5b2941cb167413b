"""Make the tables of a timeline (GPU work, API calls, ranges, memory) for figures and exports, each on first use."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import numpy.typing as npt
import pandas as pd

from nsysprof.analysis.attribution.caused_work import CausedWork
from nsysprof.analysis.attribution.nesting import nesting_levels
from nsysprof.analysis.kernel_names.variant_names import FILL_NAME, Names, call_names, copy_name
from nsysprof.analysis.overview.memory import DeviceMemory
from nsysprof.results.analysis import Timeline
from nsysprof.results.event_rows import CallRows, WorkRows
from nsysprof.trace.schema import COPY, FILL, GRAPH, KERNEL, MIGRATION, NULL, PID_MASK, Int64s, Ints, Rows, Tables, Work

_KINDS = {KERNEL: "kernel", COPY: "memcpy", FILL: "memset", GRAPH: "graph"}
_BLOCK = 1 << 20


def make_timeline(
    tables: Tables, names: Names, ranges: pd.DataFrame, memory: DeviceMemory | None, caused: CausedWork | None = None
) -> Timeline:
    """Return the four tables of a timeline. Each is computed on its first use.

    ranges: instances in order of start.
    caused: the work that ranges adopted and captured, by rows of the work.
    """
    return Timeline(
        lambda calls: _work_rows(tables, names, caused, calls),
        lambda: _call_rows(tables),
        lambda: _nvtx(ranges),
        lambda: _memory(memory),
    )


def _work_rows(tables: Tables, names: Names, caused: CausedWork | None, calls: CallRows) -> WorkRows:
    work = tables.work
    late = slice(work.kernels, None)
    # What a variant lacks is the kind of copy, so that each pair of a variant and a kind of copy becomes a variant.
    copied = np.where(work.kinds(late) == COPY, work.copy_kind, NULL)
    pairs, late_variant = np.unique(
        np.stack((work.variant[late].astype(np.int64), copied)), axis=1, return_inverse=True
    )
    return WorkRows(
        start_ns=work.start_ns,
        duration_ns=work.duration_ns,
        variant=work.variant,
        variants=_work_variants(work, names, pairs),
        kernels=work.kernels,
        late_variant=(len(work.variants) + late_variant.ravel()).astype(np.int32),
        late_bytes=work.bytes,
        late_host=work.host_kind,
        call=tables.launch,
        caused_by=None if caused is None else _owners(len(work), caused),
        calls=calls,
        order=_work_order(work),
    )


def _work_variants(work: Work, names: Names, pairs: Int64s) -> pd.DataFrame:
    """Return what work of a variant has in common: first for the variants of work, then for `pairs`.

    pairs: variants with their kind of copy, of shape (2, n).
    """
    variant = np.concatenate((np.arange(len(work.variants)), pairs[0]))
    kind = work.kind_of[variant]
    # Kernels and graphs have the numbers of their names; the other kinds have the numbers that follow.
    number = names.numbers(variant).astype(np.int64)
    copies = np.unique(work.copy_kind)
    labels = [FILL_NAME, *(copy_name(int(each)) for each in copies)]
    number[kind == FILL] = len(names.texts)
    copy_kind = np.concatenate((np.full(len(work.variants), NULL), pairs[1]))
    is_copy = (kind == COPY) & np.isin(copy_kind, copies)
    number[is_copy] = len(names.texts) + 1 + np.searchsorted(copies, copy_kind[is_copy])
    categories = ["fill", *("copy" for _ in copies)]
    kinds = np.where(kind == MIGRATION, -1, kind)
    return pd.DataFrame(
        {
            "kind": _texts(kinds, [_KINDS[key] for key in sorted(_KINDS)]),
            "name": _texts(number, [*names.texts, *labels]),
            "short_name": _texts(number, [*names.short, *labels]),
            "category": _texts(number, [*names.category, *categories]),
            "device_id": work.device_of[variant],
            "context_id": work.streams_of[variant, 2],
            "stream_id": work.streams_of[variant, 3],
            "stream": _texts(variant, stream_labels(work)),
            "global_pid": work.pid_of[variant],
        }
    )


def _work_order(work: Work) -> Rows | None:
    """Return the rows of work by start, without migrations; None where all rows are in this order already."""
    stays = work.kind_of != MIGRATION
    return None if stays.all() and in_order(work.start_ns) else work.rows_by_start(stays)


def in_order(values: Int64s) -> bool:
    """Return whether no value is below the one before it."""
    return all(
        bool((values[low + 1 : low + _BLOCK + 1] >= values[low : low + _BLOCK][: len(values) - low - 1]).all())
        for low in range(0, len(values), _BLOCK)
    )


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
    """Return the texts by number (-1: none), stored as numbers; equal texts become one."""
    number, unique = pd.factorize(np.array(texts, dtype=object))
    return pd.Categorical.from_codes(np.append(number, -1)[codes], categories=pd.Index(unique, dtype=object))


def stream_labels(work: Work) -> list[str]:
    """Return a label such as `stream 7` for each variant.

    The label has process, device and context where the number alone is not unique.
    """
    devices: defaultdict[int, set[int]] = defaultdict(set)
    processes: defaultdict[int, set[int]] = defaultdict(set)
    contexts: defaultdict[tuple[int, int, int], set[int]] = defaultdict(set)
    for pid, device, context, stream in work.streams_of[work.kind_of != MIGRATION].tolist():
        devices[stream].add(device)
        processes[stream].add(pid)
        contexts[pid, device, stream].add(context)
    labels = []
    for pid, device, context, stream in work.streams_of.tolist():
        text = f"stream {stream}"
        if len(devices[stream]) > 1:
            text = f"GPU {device} {text}"
        if len(processes[stream]) > 1:
            text = f"pid {(pid >> 24) & 0xFFFFFF} {text}"
        if len(contexts[pid, device, stream]) > 1:
            text = f"ctx {context} {text}"
        labels.append(text)
    return labels


def _call_rows(tables: Tables) -> CallRows:
    calls = tables.calls
    if calls is None:
        none = np.zeros(0, dtype=np.int64)
        return CallRows(none, none, none, pd.DataFrame({"name": [], "global_tid": none}))
    names = call_names(tables, lambda text: text)
    variants = {"name": _texts(names.of_variant, list(names.texts)), "global_tid": calls.tid_of}
    order = None
    if not in_order(calls.start_ns):
        order = np.argsort(calls.start_ns, kind="stable").astype(np.int32)
    return CallRows(calls.start_ns, calls.duration_ns, calls.variant, pd.DataFrame(variants), order)


def _nvtx(ranges: pd.DataFrame) -> pd.DataFrame:
    rows = ranges.sort_values("start_ns", kind="stable").reset_index(drop=True)
    table = rows[["start_ns", "end_ns", "name", "style", "domain", "global_tid"]].copy()
    table["global_pid"] = rows["global_tid"].astype("int64") & PID_MASK if len(rows) else pd.Series(dtype="int64")
    table["level"] = nesting_levels(table)
    return table


def _memory(memory: DeviceMemory | None) -> pd.DataFrame:
    columns = ["time_ns", "device_id", "used_bytes", "global_pid", "change"]
    if memory is None:
        return pd.DataFrame({name: [] for name in columns}).astype("int64")
    return memory.usage[columns]
