"""Find attention in a trace, by range: which backend ran (recognised by its kernels), how often, and how long.

List the attention calls that `capture --attention` put into ranges, with the kernels that they launched.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from nsysprof.analysis.attribution.calls import RESOLVED, find_graph_work
from nsysprof.analysis.attribution.intervals import kernels_and_graphs
from nsysprof.analysis.findings.unfused_attention import BETWEEN, GEMM, NameKinds, find_pieces, kinds_of
from nsysprof.analysis.kernel_names.variant_names import Names, kernel_names
from nsysprof.analysis.ranges.open_range import InnermostSums, open_ranges
from nsysprof.arrays import find_rows
from nsysprof.attention.kernel_family import backends_by_name, operator_family
from nsysprof.attention.range_name import LAYERS, RECORDED_PREFIX, AttentionRange, parse_attention_range, parse_range
from nsysprof.kernels.names import MEMORY, kind_of
from nsysprof.results.column_registry.analysis_columns import ATTENTION
from nsysprof.results.column_registry.column import Dtype
from nsysprof.trace.schema import Bools, Int64s, Ints, Rows, Tables, Work


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
    return RecordedCalls(_with_facts(table, parsed), inside)


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


def _with_facts(table: pd.DataFrame, parsed: dict[Any, AttentionRange | None]) -> pd.DataFrame:
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


_BACKWARD = re.compile(r"bwd|backward|bprop|dgrad|dot_do_o|convert_dq|reduce_head", re.IGNORECASE)
# Kernels that only prepare or finish the work of another kernel of the same call.
_HELPER = re.compile(r"dot_do_o|convert_dq|combine|preprocess|postprocess|clear_dkv|reduce_head", re.IGNORECASE)
_PASSES = ("fwd", "bwd")
_DTYPES = (("bf16", re.compile(r"bf16|bfloat16")), ("fp16", re.compile(r"half|cutlass[FB]_f16")))
_DTYPE_NAMES = ("", "bf16", "fp16")
# How many pairs of a pass and a data type there are.
_IN_BACKEND = len(_PASSES) * len(_DTYPE_NAMES)
_INTEGERS = {"B": "batch", "H": "heads", "KV": "kv_heads", "D": "head_dim"}
# How many kernels are looked at at a time.
_BLOCK = 1 << 18


def list_attention(tables: Tables, ranges: pd.DataFrame) -> pd.DataFrame:
    """Return one row for each range, backend, pass and data type, with the columns of attention.csv.

    Shapes are known only where ranges of nsysprof's own captures name them. Calls that `capture --attention` recorded
    have the kernels that their ranges launched. All other attention is recognised by the names and the order of
    kernels.

    ranges: the instances that the attribution made.
    """
    called = list_calls(tables, tables.launch, ranges)
    rest = _list_by_kernels(tables, ranges, called.is_inside)
    if len(called.table) == 0:
        return rest
    table = called.table if len(rest) == 0 else pd.concat([called.table, rest], ignore_index=True)
    return table.sort_values("kernel_total_ns", ascending=False, kind="stable", na_position="last", ignore_index=True)


def _list_by_kernels(tables: Tables, ranges: pd.DataFrame, known: Bools) -> pd.DataFrame:
    """Return the attention that is recognised by kernels alone.

    known: which kernels belong to calls that are already listed.
    """
    names = kernel_names(tables)
    texts, kinds = [str(text) for text in names.texts], kinds_of(names)
    in_backend = np.array([_pass_and_dtype(text) for text in texts], dtype=np.int64)
    backends, places = backends_by_name(texts)
    family = np.array(places, dtype=np.int64)
    of_fused = np.where(family >= 0, family * _IN_BACKEND + in_backend, -1)
    of_softmax = np.where(kinds.is_softmax[:-1], backends.index("math") * _IN_BACKEND + in_backend, -1)
    used, columns = np.unique(np.concatenate((of_fused, of_softmax, [-1])), return_inverse=True)
    column = (columns.reshape(-1) - 1).astype(np.int16)
    of_fused, of_softmax = column[: len(texts)][names.of_variant], column[len(texts) : -1][names.of_variant]
    sums = InnermostSums(tables, ranges, known, len(used) - 1)
    is_helper = [_HELPER.search(text) is not None or kind_of(text).unit == MEMORY for text in texts]
    is_call = ~np.array(is_helper, dtype=bool)[names.of_variant]
    sums.add_variants(of_fused, is_call)
    rows, softmax = _unfused(tables, names, kinds, of_softmax >= 0)
    # The matrix products beside a backward softmax have no special name. They belong to the softmax between them.
    sums.add(rows, of_softmax[tables.work.variant[softmax]], softmax == rows)
    return _tabulate(tables, sums, used[1:], backends)


def _tabulate(tables: Tables, sums: InnermostSums, kinds: Int64s, backends: tuple[str, ...]) -> pd.DataFrame:
    """Return the sums as a table. Among rows of equal time, the one whose kernels were added first is the first.

    kinds: of each column of the sums, its backend, pass and data type as one number.
    """
    place, column = np.nonzero(sums.kernels)
    if len(place) == 0:
        return pd.DataFrame(columns=list(ATTENTION.names))
    order = np.argsort(sums.first[place, column])
    place, column = place[order], column[order]
    backend, in_backend = np.divmod(kinds[column], _IN_BACKEND)
    table = pd.DataFrame({"range": sums.names[place]}, dtype=object)
    for name, labels, code in (
        ("backend_ran", backends, backend),
        ("pass", _PASSES, in_backend // len(_DTYPE_NAMES)),
        ("dtype", _DTYPE_NAMES, in_backend % len(_DTYPE_NAMES)),
    ):
        table[name] = np.array(labels, dtype=object)[code]
    table["calls"], table["kernel_count"] = sums.calls[place, column], sums.kernels[place, column]
    table["kernel_total_ns"] = sums.total_ns[place, column]
    total = int(kernels_and_graphs(tables.work)[0].sum(dtype=np.int64))
    table["share_pct"] = 100.0 * table["kernel_total_ns"] / total if total else 0.0
    return _complete(table)


def _unfused(tables: Tables, names: Names, kinds: NameKinds, is_softmax: Bools) -> tuple[Rows, Rows]:
    """Return the kernels of attention that runs as separate kernels, in order of start, and the softmax of each.

    They are found by the order in which the kernels of each stream ran.

    is_softmax: which variants of work are softmaxes.
    """
    work = tables.work
    _, streams = np.unique(work.streams_of, axis=0, return_inverse=True)
    stream = streams.reshape(-1)
    by_stream = [(np.zeros(0, dtype=np.int32),) * 2]
    for stream_number in np.unique(stream[is_softmax]).tolist():
        mine = find_rows(stream == stream_number, work.variant[: work.kernels])
        if not _is_sorted(work, mine):
            mine = mine[np.argsort(work.start_ns[mine], kind="stable")]
        pieces = find_pieces(names.of_variant[work.variant[mine]], kinds)
        inside = (pieces.marks & (GEMM | BETWEEN)) != 0
        by_stream.append((mine[pieces.place[inside]], mine[pieces.softmax[inside]]))
    if len(by_stream) == 2:  # one stream, whose rows may be most of the trace
        return by_stream[1]
    rows, softmax = (np.concatenate(parts) for parts in zip(*by_stream, strict=True))
    if len(by_stream) > 2:
        order = np.lexsort((rows, work.start_ns[rows]))
        rows, softmax = rows[order], softmax[order]
    return rows, softmax


def _is_sorted(work: Work, rows: Rows) -> bool:
    """Return whether rows of work are in order of start."""
    starts = (work.start_ns[rows[low : low + _BLOCK + 1]] for low in range(0, len(rows), _BLOCK))
    return all(bool((start[1:] >= start[:-1]).all()) for start in starts)


def _pass_and_dtype(text: str) -> int:
    """Return the pass and the data type that the name of a kernel tells, as one number."""
    dtype = next((name for name, pattern in _DTYPES if pattern.search(text)), "")
    return int(_BACKWARD.search(text) is not None) * len(_DTYPE_NAMES) + _DTYPE_NAMES.index(dtype)


def _complete(table: pd.DataFrame) -> pd.DataFrame:
    """Return the table with all columns; an unknown shape is NA."""
    parsed = [_shape_of(str(name)) for name in table["range"]]
    for column in ATTENTION.names:
        if column not in table.columns:
            table[column] = [shape.get(column, pd.NA) for shape in parsed]
    table["dtype"] = [shape.get("dtype") or own or pd.NA for shape, own in zip(parsed, table["dtype"], strict=True)]
    table = table.sort_values("kernel_total_ns", ascending=False, kind="stable").reset_index(drop=True)
    return table.astype(dict.fromkeys(ATTENTION.of_dtype(Dtype.INTEGER), "Int64"))[list(ATTENTION.names)]


def _shape_of(name: str) -> dict[str, Any]:
    parsed = parse_range(name)
    if parsed is None:
        return {}
    extra = dict(parsed.extra)
    shape: dict[str, Any] = {column: int(extra[key]) for key, column in _INTEGERS.items() if key in extra}
    shape |= {"seq_q": parsed.seq, "seq_kv": int(extra.get("K", parsed.seq))}
    if "causal" in extra:
        shape["causal"] = extra["causal"] == "1"
    return shape | ({"dtype": extra["dtype"]} if "dtype" in extra else {})
