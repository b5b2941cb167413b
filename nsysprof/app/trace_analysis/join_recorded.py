"""Join the attention calls that a captured program's processes recorded with the analysis of its trace.

Join the measured cost of recording with an analysis, where a capture also ran the program with less recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import msgspec
import pandas as pd
from msgspec import Meta

from nsysprof.analysis.overview.recording_cost import compare_with_plain, judge_cost, name_of, without_distorted
from nsysprof.capture.manifest import RANGES_ALONE
from nsysprof.capture.user_program.program_hook import find_recorded
from nsysprof.files.plain_file import FileHeader, read_json
from nsysprof.notes import Note, make_note
from nsysprof.results.analysis import COSTS, Analysis, RangeCost, RecordingCosts
from nsysprof.results.column_registry.analysis_columns import ATTENTION
from nsysprof.results.column_registry.csv_table import set_dtypes
from nsysprof.trace.open import open_trace
from nsysprof.trace.tables import read_ranges, read_strings

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


def join_recording_cost(analysis: Analysis, source: Path, trace: Path) -> Analysis:
    """Return the analysis with what recording cost each range, without findings that this makes unreliable."""
    if not source.is_dir():  # only a capture folder has measured it
        return analysis
    measured = read_measured_costs(source, trace)
    if measured is None:
        return analysis
    found = analysis.findings
    gone: tuple[str, ...] = ()
    if found is not None and found.unrecorded_ns is None:  # otherwise savings are of a step that nothing slowed
        found, gone = without_distorted(found, measured.costs)
    return replace(
        analysis,
        recording_cost=measured.costs,
        findings=found,
        notes=(*analysis.notes, *cost_notes(measured.costs, left_out=gone, in_one_run=measured.in_one_run)),
    )


def read_measured_costs(source: Path, trace: Path) -> RecordingCosts | None:
    """Return what recording cost, as the capture folder says; None where it was not measured."""
    if (source / RANGES_ALONE).is_file():
        return RecordingCosts(1, read_costs(trace, source / RANGES_ALONE), in_one_run=False)
    if (source / COSTS).is_file():
        advice = "Record the part again."
        found = read_json(source / COSTS, RecordingCosts, kind="the cost of a recording", advice=advice, newest=1)
        return replace(found, costs=tuple(judge_cost(cost) for cost in found.costs))
    return None


def costs_to_share(source: Path, trace: Path, is_public: Callable[[str], bool]) -> RecordingCosts | None:
    """Return what recording cost, for a reader who does not have the capture; None where it was not measured.

    is_public: whether a range keeps its name when it is shared. Other names become tokens that do not tell to which
    family (train#) they belong, so that each range of such a family is listed with the family's cost.
    """
    measured = read_measured_costs(source, trace) if source.is_dir() else None
    if measured is None:
        return None
    private = {cost.range for cost in measured.costs if "#" in cost.range and not is_public(cost.range)}
    if not private:
        return measured
    with open_trace(trace) as opened:
        ranges = read_ranges(opened, read_strings(opened))
    names = [] if ranges is None else [str(name) for name in ranges["name"].unique()]
    members: dict[str, list[str]] = {}
    for name in names:
        members.setdefault(name_of(name, private), []).append(name)
    costs = [
        replace(cost, range=name)
        for cost in measured.costs
        for name in (members.get(cost.range, [cost.range]) if cost.range in private else [cost.range])
    ]
    return replace(measured, costs=tuple(costs))


def read_costs(trace: Path, plain: Path) -> tuple[RangeCost, ...]:
    """Return what recording costs each range.

    plain: the trace of the program with only NVTX recorded.
    """
    tables = []
    for path in (trace, plain):
        with open_trace(path) as opened:
            tables.append(read_ranges(opened, read_strings(opened)))
    recorded, alone = tables
    return () if recorded is None or alone is None else compare_with_plain(recorded, alone)


def cost_notes(costs: tuple[RangeCost, ...], *, left_out: tuple[str, ...] = (), in_one_run: bool = False) -> list[Note]:
    """Return the notes on what recording cost.

    left_out: the codes of findings that are unreliable because of it.
    in_one_run: whether the program was compared with itself while it was not recorded.
    """
    if not costs:
        return [make_note("recording-cost", "unknown")]
    first = costs[0]
    interval = "" if first.slowdown_low is None else f" [{first.slowdown_low:.2f}, {first.slowdown_high:.2f}]"
    slowdown, count = first.slowdown, len(costs)
    if in_one_run:
        note = make_note(
            "recording-cost", "unrecorded", range=first.range, slowdown=slowdown, interval=interval, count=count
        )
    else:
        note = make_note("recording-cost", range=first.range, slowdown=slowdown, interval=interval, count=count)
    notes = [note]
    slowed = [cost.range for cost in costs if cost.is_distorted]
    if slowed:
        more = f" and {len(slowed) - 3} more" if len(slowed) > 3 else ""
        advice = f" These findings were left out: {', '.join(left_out)}." if left_out else ""
        notes.append(make_note("ranges-distorted", ranges=", ".join(slowed[:3]) + more, advice=advice))
    return notes
