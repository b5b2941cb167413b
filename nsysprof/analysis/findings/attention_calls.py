"""Find attention in a trace, by range: which backend ran (recognised by its kernels), how often, and how long."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from nsysprof.analysis.attribution.gpu_time import kernels_and_graphs
from nsysprof.analysis.findings.recorded_calls import list_calls
from nsysprof.analysis.findings.unfused_attention import find_unfused_attention
from nsysprof.analysis.kernel_names.variant_names import Names, Texts, kernel_names
from nsysprof.analysis.ranges.open_range import innermost_codes
from nsysprof.attention.kernel_family import kernel_family
from nsysprof.attention.range_name import parse_range
from nsysprof.results.column_registry.analysis_columns import ATTENTION
from nsysprof.results.column_registry.column import Dtype
from nsysprof.trace.schema import Bools, Int64s, Ints, Tables

_BACKWARD = re.compile(r"bwd|backward|bprop|dgrad|dot_do_o|convert_dq|reduce_head", re.IGNORECASE)
# Kernels that only prepare or finish the work of another kernel of the same call.
_HELPER = re.compile(r"dot_do_o|convert_dq|combine|preprocess|postprocess|clear_dkv|reduce_head", re.IGNORECASE)
_BACKENDS = ("flash", "efficient", "cudnn", "flex", "math")
_FAMILIES = {"flash": 0, "efficient": 1, "cudnn": 2, "flex": 3}
_PASSES = ("fwd", "bwd")
_DTYPES = (("bf16", re.compile(r"bf16|bfloat16")), ("fp16", re.compile(r"half|cutlass[FB]_f16")))
_DTYPE_NAMES = ("", "bf16", "fp16")
_INTEGERS = {"B": "batch", "H": "heads", "KV": "kv_heads", "D": "head_dim"}


def list_attention(tables: Tables, ranges: pd.DataFrame) -> pd.DataFrame:
    """Return one row for each range, backend, pass and data type, with the columns of attention.csv.

    Shapes are known only where ranges of nsysprof's own captures name them. Calls that `capture --attention` recorded
    have the kernels that their ranges launched. All other attention is recognised by the names and the order of
    kernels.

    ranges: the instances that the attribution made.
    """
    called = list_calls(tables, tables.launch, ranges)
    rest = _list_by_kernels(tables, tables.launch, ranges, called.is_inside)
    if len(called.table) == 0:
        return rest
    table = called.table if len(rest) == 0 else pd.concat([called.table, rest], ignore_index=True)
    return table.sort_values("kernel_total_ns", ascending=False, kind="stable", na_position="last", ignore_index=True)


def _list_by_kernels(tables: Tables, launch: Ints, ranges: pd.DataFrame, known: Bools) -> pd.DataFrame:
    """Return the attention that is recognised by kernels alone.

    known: which kernels belong to calls that are already listed.
    """
    work = tables.work
    names = kernel_names(tables)
    number = names.of_variant[work.variant[: work.kernels]]
    texts = [str(text) for text in names.texts]
    kinds = _Kinds(
        family=np.array([_FAMILIES.get(kernel_family([text]) or "", -1) for text in texts], dtype=np.int64),
        is_backward=np.array([bool(_BACKWARD.search(text)) for text in texts], dtype=bool),
        is_helper=np.array([bool(_HELPER.search(text)) for text in texts], dtype=bool),
        dtype=np.array([_dtype_of(text) for text in texts], dtype=np.int64),
    )
    rows = np.flatnonzero(kinds.family[number] >= 0) if texts else np.zeros(0, dtype=np.int64)
    of_name = number[rows]
    parts = [_table(rows, kinds.family[of_name], kinds, of_name, ~kinds.is_helper[of_name])]
    parts += _unfused(tables, number, names, kinds)
    found = pd.concat(parts, ignore_index=True)
    found = found[~known[found["row"].to_numpy(np.int64)]].reset_index(drop=True)
    if len(found) == 0:
        return pd.DataFrame(columns=list(ATTENTION.names))
    row = found["row"].to_numpy(np.int64)
    found["range"], places = _ranges_of(tables, launch, ranges, row)
    found["duration"] = work.duration_ns[row].astype(np.int64)
    grouped = found.groupby(["range", "backend_ran", "pass", "dtype"], sort=False)
    table = grouped.agg(calls=("is_call", "sum"), kernel_count=("row", "size"), kernel_total_ns=("duration", "sum"))
    table = table.reset_index()
    for column, labels in (("range", places), ("backend_ran", _BACKENDS), ("pass", _PASSES), ("dtype", _DTYPE_NAMES)):
        table[column] = np.array(labels, dtype=object)[table[column].to_numpy(np.int64)]
    total = int(kernels_and_graphs(work)[0].sum(dtype=np.int64))
    table["share_pct"] = 100.0 * table["kernel_total_ns"] / total if total else 0.0
    return _complete(table)


@dataclass(frozen=True)
class _Kinds:
    """What the name of each kernel says about it."""

    # The position in _BACKENDS; -1 for anything but fused attention.
    family: Int64s
    is_backward: Bools
    is_helper: Bools
    # The position in _DTYPE_NAMES.
    dtype: Int64s


def _table(rows: Int64s, backend: Int64s, kinds: _Kinds, of_name: Ints, is_call: Bools) -> pd.DataFrame:
    columns = {"row": rows, "backend_ran": backend, "pass": kinds.is_backward[of_name].astype(np.int64)}
    return pd.DataFrame({**columns, "is_call": is_call, "dtype": kinds.dtype[of_name]})


def _unfused(tables: Tables, number: Ints, names: Names, kinds: _Kinds) -> list[pd.DataFrame]:
    """Return attention that runs as separate kernels, found by the order in which the kernels of each stream ran."""
    work = tables.work
    if not (names.category == "softmax").any():
        return []
    _, code = np.unique(work.streams_of, axis=0, return_inverse=True)
    stream = code.reshape(-1)[work.variant[: work.kernels]].astype(np.int64)
    order = np.argsort(work.start_ns[: work.kernels], kind="stable")
    found = find_unfused_attention(number[order], names, stream[order])
    if found is None:
        return []
    chosen = np.flatnonzero(found.gemms | found.between)
    # The matrix products beside a backward softmax have no special name. They belong to the softmax between them.
    owner = found.softmax[chosen]
    backend = np.full(len(chosen), _BACKENDS.index("math"), dtype=np.int64)
    return [_table(order[chosen], backend, kinds, number[order[owner]], owner == chosen)]


def _dtype_of(text: str) -> int:
    found = next((name for name, pattern in _DTYPES if pattern.search(text)), "")
    return _DTYPE_NAMES.index(found)


def _ranges_of(tables: Tables, launch: Ints, ranges: pd.DataFrame, rows: Int64s) -> tuple[Int64s, Texts]:
    """Return the innermost range in which each kernel was launched, as a number, and the names by number.

    The last name is empty, for no range.
    """
    found = np.full(len(rows), -1, dtype=np.int64)
    calls, call = tables.calls, launch[rows]
    known = np.flatnonzero(call >= 0)
    if calls is None or len(known) == 0:
        return found, np.array([""], dtype=object)
    tid = calls.tid_of[calls.variant[call[known]]]
    found[known], names = innermost_codes(ranges, tid, calls.start_ns[call[known]])
    return found, names


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
    shape |= {"seq_q": parsed.seq, "seq_kv": parsed.seq}
    if "causal" in extra:
        shape["causal"] = extra["causal"] == "1"
    return shape | ({"dtype": extra["dtype"]} if "dtype" in extra else {})
