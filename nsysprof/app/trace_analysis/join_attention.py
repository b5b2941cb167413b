"""Join the attention calls that a captured program's processes recorded with the analysis of its trace."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import msgspec
import pandas as pd
from msgspec import Meta

from nsysprof.capture.user_program.program_hook import find_recorded
from nsysprof.files.plain_file import FileHeader, read_json
from nsysprof.notes import Note, make_note
from nsysprof.results.analysis import Analysis
from nsysprof.results.column_registry.analysis_columns import ATTENTION
from nsysprof.results.column_registry.csv_table import set_dtypes

_LARGEST_BYTES = 512 << 20
_Text = Annotated[str, Meta(max_length=4096)]
_Number = Annotated[int, Meta(ge=0, lt=2**62)]


class _Calls(FileHeader, kw_only=True):
    """The file that the hook writes; see nsysprof.workload.program_start.attention_calls."""

    calls: list[dict[str, Any]]
    own_ns: _Number = 0
    wall_ns: _Number = 0
    count: _Number = 0
    torch_version: _Text | None = None
    gpu_name: _Text | None = None
    libraries: dict[_Text, _Text] = msgspec.field(default_factory=dict)


def join_attention(analysis: Analysis, source: Path) -> Analysis:
    """Return the analysis with the calls that the capture in `source` recorded.

    They are only added where the trace has no ranges for them; their kernels are then unknown. Calls with ranges get
    the strides of their masks, which ranges do not have. Raises TraceError for a damaged file.
    """
    if analysis.attention is not None and analysis.attention["function"].notna().any():
        notes = (*analysis.notes, *_unseen(analysis.attention))
        return replace(analysis, attention=_with_strides(analysis.attention, source), notes=notes)
    rows = recorded_rows(source)
    if not rows:
        return analysis

    counted = pd.DataFrame(rows, columns=list(ATTENTION.names))
    keys = [name for name in ATTENTION.names if name != "calls"]
    added = counted.groupby(keys, sort=False, dropna=False)["calls"].sum().reset_index()
    added["causal"] = added["causal"].map({True: "True", False: "False"})  # set_dtypes takes texts
    table = set_dtypes(added[list(ATTENTION.names)], ATTENTION)
    if analysis.attention is not None and len(analysis.attention):
        table = pd.concat([table, analysis.attention], ignore_index=True)
    return replace(analysis, attention=table)


def _unseen(table: pd.DataFrame) -> list[Note]:
    """Return a note on kernels of attention backends that ran outside of every recorded call."""
    outside = table[table["function"].isna() & table["backend_ran"].notna() & (table["backend_ran"] != "math")]
    if len(outside) == 0:
        return []
    families, kernels = sorted({*outside["backend_ran"]}), int(outside["kernel_count"].sum())
    return [make_note("attention-unseen", "kernels", families=", ".join(families), kernels=kernels)]


def _with_strides(table: pd.DataFrame, source: Path) -> pd.DataFrame:
    """Return the table with the stride of each mask on a GPU. Of several for one line and shape, it is not 1."""
    strides: dict[tuple[str, ...], int] = {}
    for row in recorded_rows(source):
        if row["mask_stride"] is not None:
            key = _key_of(row)
            strides[key] = row["mask_stride"] if strides.get(key, 1) == 1 else strides[key]
    if not strides:
        return table
    found = [strides.get(_key_of(row)) for row in table.to_dict("records")]
    return table.assign(mask_stride=pd.array(found, dtype="Int64"))


def _key_of(row: Mapping[Any, Any]) -> tuple[str, ...]:
    return tuple(str(row[name]) for name in _OF_ONE_CALL)


def read_libraries(source: Path) -> frozenset[str]:
    """Return the libraries that processes of a capture had loaded, as recorded beside their attention."""
    return frozenset(name for found in _recorded(source) for name in found.libraries)


def _recorded(source: Path) -> list[_Calls]:
    if not source.is_dir():
        return []
    paths = find_recorded(source, "attention")
    return [
        read_json(
            path, _Calls, kind="a file of attention calls", advice="Remove it, and analyze again.", newest=1,
            largest_bytes=_LARGEST_BYTES,
        )
        for path in paths.values()
    ]  # fmt: skip


def recorded_rows(source: Path) -> list[dict[str, Any]]:
    """Return one row of attention.csv for each recorded shape, line and pass, without kernels."""
    rows = []
    for found in _recorded(source):
        for call in found.calls:
            facts = {name: call.get(name) for name in _COLUMNS} | {"range": call.get("site") or None}
            own = call.get("head_dim_v")
            facts["head_dim_v"] = None if own == call.get("head_dim") else own
            facts["mask_stride"] = call.get("mask_stride") if call.get("device") == "cuda" else None
            counts = {"fwd": call.get("forward"), "bwd": call.get("backward")}
            rows += [{**facts, "pass": which, "calls": count} for which, count in counts.items() if count]
    return rows


_COLUMNS = (
    "function", "batch", "heads", "kv_heads", "seq_q", "seq_kv", "head_dim", "dtype", "causal", "mask", "dropout",
    "layout",
)  # fmt: skip
_OF_ONE_CALL = ("range", "function", "batch", "heads", "kv_heads", "seq_q", "seq_kv", "head_dim", "mask")
