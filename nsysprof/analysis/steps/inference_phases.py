"""Tell the steps of inference apart: prefill, decode, or both at once, by what an engine writes or what attention ran.

Engines name a range of each step after its batch:

    vLLM            execute_context_2(512)_generation_8(8)        requests, and their tokens in brackets
    SGLang          step[EXTEND bs=2 toks=512], step[DECODE bs=64], step[MIXED bs=9 toks=600]
    TensorRT-LLM    [Executor] _forward_step 12: 2 ctx reqs, 512 ctx tokens, 8 gen reqs

Without such ranges, a step is a decode if each attention call that `capture --attention` recorded in it has one query,
a prefill if each has more, and mixed if it has both.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from nsysprof.analysis.attribution.intervals import kernels_and_graphs
from nsysprof.analysis.idle_time.ledger import Ledger
from nsysprof.analysis.ranges.open_range import open_ranges
from nsysprof.analysis.steps.find_steps import Steps
from nsysprof.analysis.steps.step_bounds import bound_steps
from nsysprof.analysis.steps.step_times import time_idle, time_steps
from nsysprof.attention.range_name import RECORDED_PREFIX, parse_attention_range
from nsysprof.results.column_registry.analysis_columns import LEDGER, PHASES
from nsysprof.trace.schema import PID_MASK, Int64s, Tables

PREFILL, DECODE, MIXED = "prefill", "decode", "mixed"
_ORDER = (PREFILL, DECODE, MIXED)
_VLLM = re.compile(
    r"execute_(?:\d+_)?context_(?P<prefills>\d+)(?:\((?P<tokens>\d+)\)|\([^)]*\))?"
    r"_generation_(?P<decodes>\d+)(?:\((?P<generated>\d+)\)|\([^)]*\))?"
)
_SGLANG = re.compile(r"step\[(?P<mode>EXTEND|DECODE|MIXED)\b bs=(?P<sequences>\d+)(?: toks=(?P<tokens>\d+))?")
_TENSORRT = re.compile(
    r"\[Executor\] _forward_step(?: \d+)?: (?P<prefills>\d+) ctx reqs, (?:(?P<tokens>\d+) ctx tokens, )?"
    r"(?P<decodes>\d+) gen reqs"
)
_LONGEST = 512


class Batch(NamedTuple):
    """What a step of an engine computes. sequences, tokens: None where its range does not say it."""

    phase: str
    sequences: int | None
    tokens: int | None


def parse_batch(name: str) -> Batch | None:
    """Return the batch that the name of an engine's range describes, or None for any other name, or an empty batch."""
    if len(name) > _LONGEST:
        return None
    sglang = _SGLANG.match(name)
    if sglang is not None:
        phase = {"EXTEND": PREFILL, "DECODE": DECODE, "MIXED": MIXED}[sglang["mode"]]
        tokens = sglang["tokens"] or (sglang["sequences"] if phase == DECODE else None)
        return Batch(phase, int(sglang["sequences"]), None if tokens is None else int(tokens))
    match = _VLLM.match(name) or _TENSORRT.match(name)
    if match is None:
        return None
    prefills, decodes = int(match["prefills"]), int(match["decodes"])
    if not prefills + decodes:
        return None
    phase = MIXED if prefills and decodes else PREFILL if prefills else DECODE
    generated = match.groupdict().get("generated") or decodes
    tokens = 0 if not prefills else None if match["tokens"] is None else int(match["tokens"])
    return Batch(phase, prefills + decodes, None if tokens is None else tokens + int(generated))


def list_phases(tables: Tables, ranges: pd.DataFrame, steps: Steps | None) -> pd.DataFrame | None:
    """Return the rows of phases.csv; None for a trace in which no step can be told to be one of inference.

    ranges: the instances that the attribution made.
    """
    if len(ranges) == 0:
        return None
    own, batches = _annotated(ranges)
    if batches:
        return _by_annotation(tables, own, batches) if len(own) else None
    return _by_attention(tables, ranges, steps)


def split_phases(phases: pd.DataFrame, tables: Tables, ranges: pd.DataFrame, steps: Steps | None, ledger: Ledger) -> (
    pd.DataFrame
):  # fmt: skip
    """Return phases.csv with the mean time of a step of each phase, split as steps.csv splits it.

    The busiest device of the process with the most batches counts. All is unknown where nothing tells steps.
    """
    told = _batches(tables, ranges, steps)
    times = None if told is None else time_steps(tables, told[0], time_idle(tables, told[0], ledger))
    if told is None or times is None:
        return phases
    table = times.table[times.table["device_id"] == times.devices[0]]
    means = table[list(LEDGER)].groupby(told[1][table["step"].to_numpy()]).mean()
    return phases.assign(**means.reindex(phases["phase"]).reset_index(drop=True))


def _batches(tables: Tables, ranges: pd.DataFrame, steps: Steps | None) -> tuple[Steps, npt.NDArray[np.object_]] | None:
    """Return the batches of a process as steps, with the phase of each (None for none); None without any."""
    own, batches = _annotated(ranges)
    if not batches:
        phase = None if steps is None or not steps.are_known else _phases_by_attention(ranges, steps)
        none = np.zeros(0, dtype=np.int64)
        if phase is None or steps is None:
            return None
        return replace(steps, warmup=0, warmup_bounds_ns=none, warmup_starts_ns=none), phase
    if not len(own):
        return None
    tid = int(own["global_tid"].mode()[0])
    own = own[own["global_tid"] == tid].drop_duplicates("start_ns").sort_values("start_ns")
    starts = np.append(own["start_ns"].to_numpy(dtype=np.int64), int(own["end_ns"].max()))
    bounds = bound_steps(tables, tid & PID_MASK, starts)
    found = Steps("batch", tid & PID_MASK, starts, bounds, 0, None)
    return found, np.array([batches[name].phase for name in own["name"]], dtype=object)


def _annotated(ranges: pd.DataFrame) -> tuple[pd.DataFrame, dict[str, Batch]]:
    """Return the ranges in which an engine names a batch, and the batch of each name."""
    found = {str(name): parse_batch(str(name)) for name in ranges["name"].unique()}
    batches = {name: batch for name, batch in found.items() if batch is not None}
    # Torch's profiler records each such range twice, in both styles.
    own = ranges[ranges["name"].isin(batches) & (ranges["style"] == "PushPop")]
    return own.reset_index(drop=True), batches


def _by_annotation(tables: Tables, own: pd.DataFrame, batches: dict[str, Batch]) -> pd.DataFrame:
    own = own.sort_values(["global_tid", "start_ns"], kind="stable", ignore_index=True)
    tid, time = _launches(tables)
    instance = open_ranges(own, tid, time)
    of_own = [batches[name] for name in own["name"]]
    table = pd.DataFrame(
        {
            "phase": [batch.phase for batch in of_own],
            "sequences": pd.array([batch.sequences for batch in of_own], dtype="Float64"),
            "tokens": pd.array([batch.tokens for batch in of_own], dtype="Float64"),
            "wall_ns": own["end_ns"] - own["start_ns"],
            "interval_ns": own["start_ns"].groupby(own["global_tid"]).diff(-1).mul(-1),
        }
    )
    return _sum_up(tables, table, instance, "annotation")


def _phases_by_attention(ranges: pd.DataFrame, steps: Steps) -> npt.NDArray[np.object_] | None:
    """Return the phase of each steady step by the recorded attention within it, None for none; None without decodes."""
    is_call = ranges["name"].astype(str).str.startswith(f"{RECORDED_PREFIX}fwd::") & (ranges["style"] == "PushPop")
    is_own = (ranges["global_tid"].to_numpy(dtype=np.int64) & PID_MASK) == steps.global_pid
    calls = ranges[is_call & is_own]
    queries = {name: parse_attention_range(str(name)) for name in calls["name"].unique()}
    counts = {name: call.seq_q for name, call in queries.items() if call is not None and call.seq_q}
    calls = calls[calls["name"].isin(counts)]
    starts = steps.starts_ns
    if len(calls) == 0:
        return None
    place = np.searchsorted(starts, calls["start_ns"].to_numpy(dtype=np.int64), side="right") - 1
    inside = (place >= 0) & (place < steps.count)
    one = np.array([counts[name] == 1 for name in calls["name"]], dtype=bool)
    has = {kind: np.zeros(steps.count, dtype=bool) for kind in (DECODE, PREFILL)}
    has[DECODE][place[inside & one]] = True
    has[PREFILL][place[inside & ~one]] = True
    if not has[DECODE].any():  # a program that never decodes, such as a training
        return None
    phase = np.full(steps.count, None, dtype=object)
    for kind, which in ((PREFILL, has[PREFILL]), (DECODE, has[DECODE]), (MIXED, has[DECODE] & has[PREFILL])):
        phase[which] = kind
    return phase


def _by_attention(tables: Tables, ranges: pd.DataFrame, steps: Steps | None) -> pd.DataFrame | None:
    """Return the phases of steps that were found, by the recorded attention within each; None without any."""
    phase = None if steps is None or not steps.are_known else _phases_by_attention(ranges, steps)
    if phase is None or steps is None:
        return None
    starts, chosen = steps.starts_ns, np.flatnonzero([told is not None for told in phase])
    tid, time = _launches(tables)
    launched = np.searchsorted(starts, time, side="right") - 1
    launched[((tid & PID_MASK) != steps.global_pid) | (time < 0) | (launched >= steps.count)] = -1
    walls = np.diff(steps.bounds_ns)
    table = pd.DataFrame({"phase": phase, "wall_ns": np.diff(starts), "interval_ns": walls})
    table["sequences"] = table["tokens"] = pd.array([pd.NA] * len(table), dtype="Float64")
    return _sum_up(tables, table, launched, "attention", chosen)


def _launches(tables: Tables) -> tuple[Int64s, Int64s]:
    """Return the thread that launched each kernel, and when; -1 where that is unknown."""
    kernels, calls = tables.work.kernels, tables.calls
    tid, time = np.full(kernels, -1, dtype=np.int64), np.full(kernels, -1, dtype=np.int64)
    if calls is not None:
        known = np.flatnonzero(tables.launch[:kernels] >= 0)
        tid[known] = calls.tid_of[calls.variant[tables.launch[known]]]
        time[known] = calls.start_ns[tables.launch[known]]
    return tid, time


def _sum_up(
    tables: Tables, table: pd.DataFrame, instance: Int64s, told_by: str, chosen: Int64s | None = None
) -> pd.DataFrame:
    """Return a row for each phase, from a row for each step and the step of each kernel (-1 for none)."""
    rows = np.flatnonzero(instance >= 0)
    count, total = (np.zeros(len(table), dtype=np.int64) for _ in range(2))
    np.add.at(count, instance[rows], 1)
    np.add.at(total, instance[rows], tables.work.duration_ns[rows].astype(np.int64))
    table = table.assign(kernel_count=count, kernel_total_ns=total)
    if chosen is not None:
        table = table.iloc[chosen]
    whole = int(kernels_and_graphs(tables.work)[0].sum(dtype=np.int64))
    found = []
    for phase in _ORDER:
        own = table[table["phase"] == phase]
        if len(own):
            spent = int(own["kernel_total_ns"].sum())
            found.append(
                {
                    "phase": phase, "told_by": told_by, "steps": len(own), "sequences": _median(own["sequences"]),
                    "tokens": _median(own["tokens"]), "host_med_ns": _median(own["wall_ns"]),
                    "interval_med_ns": _median(own["interval_ns"]), "kernel_count": _median(own["kernel_count"]),
                    "kernel_total_ns": spent, "share_pct": 100.0 * spent / whole if whole else pd.NA,
                }
            )  # fmt: skip
    return pd.DataFrame(found, columns=list(PHASES.names))


def _median(values: pd.Series) -> float | None:
    """Return the median of what is known; None where nothing is."""
    known = values.dropna()
    return float(known.median()) if len(known) else None
