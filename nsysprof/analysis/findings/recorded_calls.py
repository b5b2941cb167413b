"""List the attention calls that `capture --attention` put into ranges, with the kernels that they launched."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from nsysprof.analysis.attribution.calls import RESOLVED, find_graph_work
from nsysprof.analysis.attribution.intervals import kernels_and_graphs
from nsysprof.analysis.kernel_names.variant_names import kernel_names
from nsysprof.analysis.ranges.open_range import open_ranges
from nsysprof.attention.kernel_family import backends_by_name, operator_family
from nsysprof.attention.range_name import LAYERS, RECORDED_PREFIX, AttentionRange, parse_attention_range
from nsysprof.results.column_registry.analysis_columns import ATTENTION
from nsysprof.results.column_registry.column import Dtype
from nsysprof.trace.schema import Bools, Int64s, Ints, Tables


@dataclass(frozen=True)
class RecordedCalls:
    """The recorded calls and their kernels."""

    # The rows of attention.csv: one for each line of the program, shape, pass and backend.
    table: pd.DataFrame
    # Which kernels belong to these calls.
    is_inside: Bools


def list_calls(tables: Tables, launch: Ints, ranges: pd.DataFrame) -> RecordedCalls:
    """Return the calls that have ranges of `capture --attention`.

    A range of the backward pass has the kernels that autograd launched on the range's own thread. Kernels of a CUDA
    graph belong to the range in which their nodes were created.

    launch: the row of each piece of work's call, or -1.
    """
    kernels = tables.work.kernels
    inside = np.zeros(kernels, dtype=np.bool_)
    chosen = np.zeros(0, dtype=bool)
    if len(ranges):  # torch's profiler records each such range twice, in both styles
        codes, names = pd.factorize(ranges["name"])
        of_attention = np.array([str(name).startswith(RECORDED_PREFIX) for name in names], dtype=np.bool_)
        chosen = of_attention[codes] & (ranges["style"] == "PushPop").to_numpy(dtype=bool)
    parsed = {name: parse_attention_range(str(name)) for name in ranges["name"][chosen].unique()}
    own = ranges[chosen][[parsed[name] is not None for name in ranges["name"][chosen]]].reset_index(drop=True)
    if len(own) == 0:
        return RecordedCalls(pd.DataFrame(columns=list(ATTENTION.names)), inside)
    instance = _instances(tables, launch, own)
    backends, kind = _kinds(tables)
    math = len(backends) - 1
    layers = [name for name, call in parsed.items() if call is not None and call.function in LAYERS]
    of_layer = own["name"].isin(layers).to_numpy(dtype=np.bool_)
    # A range around a whole layer holds more than attention.
    other = (instance >= 0) & of_layer[np.maximum(instance, 0)] & (kind == math)
    instance[other] = -1
    inside = instance >= 0
    table = _sum_up(tables, own, instance, kind, backends)
    return RecordedCalls(_complete(table, parsed), inside)


def _instances(tables: Tables, launch: Ints, own: pd.DataFrame) -> Int64s:
    """Return for each kernel the row of `own` in which it was launched or its node created; -1 for none."""
    kernels, calls = tables.work.kernels, tables.calls
    tid, time = np.full(kernels, -1, dtype=np.int64), np.zeros(kernels, dtype=np.int64)
    if calls is not None:
        known = np.flatnonzero(launch[:kernels] >= 0)
        tid[known] = calls.tid_of[calls.variant[launch[known]]]
        time[known] = calls.start_ns[launch[known]]
    graph = find_graph_work(tables)
    if graph is not None:
        replayed = (graph.row < kernels) & (graph.why == RESOLVED)
        row, node = graph.row[replayed], graph.node[replayed]
        tid[row], time[row] = graph.created.global_tid[node], graph.created.start_ns[node]
    return open_ranges(own, tid, time)


def _kinds(tables: Tables) -> tuple[tuple[str, ...], Int64s]:
    """Return the backends of the trace, and for each kernel the place of the one that its name indicates.

    The backend of a range is the first of these that any of its kernels belongs to. A kernel that does not tell its
    backend belongs to torch's math, which is the last.
    """
    names = kernel_names(tables)
    texts = [str(text) for text in names.texts]
    backends, places_of = backends_by_name(texts)
    of_operator = [operator_family(text) for text in texts]
    places = np.array(
        [place if own is None else backends.index(own) for own, place in zip(of_operator, places_of, strict=True)],
        dtype=np.int64,
    )
    places[places < 0] = len(backends) - 1
    work = tables.work
    kinds: Int64s = places[names.of_variant[work.variant[: work.kernels]]] if texts else np.zeros(0, dtype=np.int64)
    return backends, kinds


def _sum_up(
    tables: Tables, own: pd.DataFrame, instance: Int64s, kind: Int64s, backends: tuple[str, ...]
) -> pd.DataFrame:
    """Return one row for each name and backend. Ranges without kernels have the backend -1."""
    most = len(backends)
    rows = np.flatnonzero(instance >= 0)
    backend = np.full(len(own), most, dtype=np.int64)
    np.minimum.at(backend, instance[rows], kind[rows])
    count, total = np.zeros(len(own), dtype=np.int64), np.zeros(len(own), dtype=np.int64)
    np.add.at(count, instance[rows], 1)
    np.add.at(total, instance[rows], tables.work.duration_ns[rows].astype(np.int64))
    backend[backend == most] = -1
    calls = pd.DataFrame({"name": own["name"], "backend": backend, "kernel_count": count, "kernel_total_ns": total})
    table = calls.groupby(["name", "backend"], sort=False).agg(
        calls=("kernel_count", "size"), kernel_count=("kernel_count", "sum"), kernel_total_ns=("kernel_total_ns", "sum")
    )
    table = table.reset_index()
    whole = int(kernels_and_graphs(tables.work)[0].sum(dtype=np.int64))
    table["share_pct"] = 100.0 * table["kernel_total_ns"] / whole if whole else 0.0
    table["backend_ran"] = [backends[place] if place >= 0 else pd.NA for place in table["backend"].tolist()]
    if not tables.work.kernels:  # no GPU work was recorded
        table = table.astype({"kernel_count": "Int64", "kernel_total_ns": "Int64", "share_pct": "Float64"})
        table[["kernel_count", "kernel_total_ns", "share_pct"]] = pd.NA
    return table


def _complete(table: pd.DataFrame, parsed: dict[Any, AttentionRange | None]) -> pd.DataFrame:
    """Return the table with the columns of attention.csv."""
    shapes = [columns_of(parsed[name]) for name in table["name"]]
    for column in ATTENTION.names:
        if column not in table.columns:
            table[column] = [shape[column] for shape in shapes]
    return table.astype(dict.fromkeys(ATTENTION.of_dtype(Dtype.INTEGER), "Int64"))[list(ATTENTION.names)]


def columns_of(call: AttentionRange | None) -> dict[str, Any]:
    """Return the columns of attention.csv that a range's name contains; unknown ones are NA."""
    assert call is not None
    facts = {
        "range": call.site or None, "function": call.function, "pass": call.pass_, "batch": call.batch,
        "heads": call.heads, "kv_heads": call.kv_heads, "seq_q": call.seq_q, "seq_kv": call.seq_kv,
        "head_dim": call.head_dim, "dtype": call.dtype, "causal": call.causal, "mask": call.mask,
        "dropout": call.dropout, "layout": call.layout, "mask_stride": None,
        "head_dim_v": call.head_dim_v,
    }  # fmt: skip
    return {name: pd.NA if value is None else value for name, value in facts.items()}
