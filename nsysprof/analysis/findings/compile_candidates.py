"""Find what the program gains where nothing is compiled between the calls of a step."""

from __future__ import annotations

import re
from collections.abc import Collection

import numpy as np
import pandas as pd

from nsysprof.analysis.findings.candidates import Candidate
from nsysprof.analysis.findings.situation import Situation
from nsysprof.analysis.findings.step_amounts import counted, in_calls, number_text
from nsysprof.analysis.idle_time.interval_layers import outermost
from nsysprof.analysis.idle_time.intervals_within import measure, union_of_groups
from nsysprof.analysis.steps.find_steps import Steps
from nsysprof.results.findings import MEAN_STEP, Finding
from nsysprof.trace.schema import MIGRATION, PID_MASK, Tables
from nsysprof.units import format_ns

# The share of the time for compiling that is left at worst: padding leaves some shapes that are new.
_LEFT = 0.25
# The most functions that a text names.
_MOST_NAMED = 2
_VERBS = {
    "dynamo": "torch.compile compiles", "backward": "torch.compile compiles the backward pass of",
    "graph": "torch.compile records the CUDA graph of", "triton": "Triton compiles", "tune": "variants are measured of",
    "cute": "CuTe DSL compiles",
}  # fmt: skip
_SHAPES = re.compile(r"size mismatch|stride mismatch|\.size\(|Eq\(|Ne\(|expected \d+, actual \d+")
_FOR_SHAPES = (
    "Its shapes change: torch.compile(dynamic=True) or torch._dynamo.mark_dynamic(x, dim) compile once for all of "
    "them; or pad the lengths to a few, and run each of these before the loop."
)
_FOR_VALUES = (
    "Mend what the guard compares: pass a number that changes as a tensor, and keep types, devices and modes the same; "
    'TORCH_LOGS="recompiles" names every guard.'
)
_FOR_KERNELS = (
    "Give a kernel few constants: round those that change with the shape (triton.next_power_of_2), take them out of "
    "tl.constexpr or out of the autotuner's key, and run each shape before the loop."
)


def find_compile_candidate(situation: Situation) -> Candidate | None:
    """Return what the program gains where nothing is compiled between the calls of a step; None where nothing is."""
    calls = (situation.compiled_ns > 0) & situation.in_loop
    if not calls.any():
        return None

    spent, table = int(in_calls(situation, calls, situation.compiled_ns)), _by_function(situation.compiles)
    text = f"The host compiles for {format_ns(spent)}, before {counted(in_calls(situation, calls), 'call')}: "
    text += _name_functions(table, situation.share if situation.is_looped else None)
    change, low = (situation.hold_less(calls, situation.compiled_ns, left) for left in (0.0, _LEFT))
    places = [str(place) for place in table["place"] if place]
    return Candidate(
        "jit-in-loop", change, low, change, calls, int(calls.sum()), text, _mend(table), gaps=calls,
        spent_ns=spent, place=places[0] if places else "",
    )  # fmt: skip


def find_rare_compiles(tables: Tables, steps: Steps, codes: Collection[str]) -> Finding | None:
    """Return what the slow steps of a program lose by compiling, as a mean over all steady steps; None for nothing.

    The steps that are replayed leave slow ones out. Threads that call CUDA count. What a slow step loses is what it
    took longer than a usual one, and at most the time that was compiled in it.

    codes: the findings of usual steps; where these compile too, that finding says it.
    """
    compiles, slow = tables.compiles, np.flatnonzero(steps.is_slow)
    if compiles is None or "jit-in-loop" in codes or not steps.are_known or len(slow) == 0:
        return None
    callers = np.zeros(0) if tables.calls is None else np.unique(tables.calls.tid_of)
    thread = compiles["global_tid"]
    compiles = compiles[((thread & PID_MASK) == steps.global_pid) & thread.isin(callers)]
    # A compilation is in the step that the host had begun, whose work the GPU then waits for.
    step = np.searchsorted(steps.starts_ns, compiles["start_ns"].to_numpy(np.int64), "right") - 1
    compiles = compiles.assign(step=step)[np.isin(step, slow)]
    if compiles.empty:
        return None
    table, walls = _by_function(compiles), np.diff(steps.bounds_ns)
    outer = compiles[outermost(compiles["start_ns"].to_numpy(), compiles["end_ns"].to_numpy())]
    begun, ended = (outer[name].to_numpy(np.int64) for name in ("start_ns", "end_ns"))
    work = tables.work
    of_process = (work.pid_of == steps.global_pid) & (work.kind_of != MIGRATION)
    rows = np.flatnonzero(of_process[work.variant])
    _, low, high = union_of_groups(np.zeros(len(rows), np.int64), work.start_ns[rows], work.ends_ns(rows))
    idle_ns = int((ended - begun - measure(low, high, begun, ended)[0]).sum())
    compiled = (outer["end_ns"] - outer["start_ns"]).groupby(outer["step"]).sum()
    excess = np.maximum(walls[compiled.index.to_numpy()] - steps.step_ns, 0)
    lost = int(np.minimum(compiled.to_numpy(), excess).sum())
    saving = lost // steps.count
    # What occurred once may not come again; of what recurs, padding and the like leave some.
    least = 0 if len(compiled) == 1 else int((1 - _LEFT) * saving)
    places = [str(place) for place in table["place"] if place]
    return Finding(
        rank=0, code="jit-in-loop", range=steps.name, location=places[0] if places else "", count=1,
        idle_ns=idle_ns // steps.count,
        saving_ns=saving, saving_low_ns=least, saving_high_ns=saving, per=MEAN_STEP,
        text=f"The host compiles in {len(compiled):,} of {steps.count:,} steps, which lose {format_ns(lost)} by it: "
        f"{_name_functions(table, None)} The saving is a mean over all steady steps, these slow ones included.",
        next_step=_mend(table),
    )  # fmt: skip


def _by_function(compiles: pd.DataFrame) -> pd.DataFrame:
    """Return what was compiled, the most time first: kind, what, place, count, spent (ns), and why the last time."""
    outer = compiles[outermost(compiles["start_ns"].to_numpy(), compiles["end_ns"].to_numpy())]
    by_name = outer.assign(spent=outer["end_ns"] - outer["start_ns"]).groupby(["kind", "what", "place"], sort=False)
    table = by_name.agg(count=("spent", "size"), spent=("spent", "sum"), why=("why", "last")).reset_index()
    return table.sort_values("spent", ascending=False, kind="stable")


def _name_functions(table: pd.DataFrame, steps: float | None) -> str:
    """Return what was compiled, how often, for how long and why, as the end of a sentence.

    steps: how many steps there were; None where the whole trace counts.
    """
    named = [_describe(row, steps) for row in table.head(_MOST_NAMED).itertuples()]
    others = len(table) - len(named)
    return "; ".join(named) + (f"; and {counted(others, 'other')}" if others > 0 else "") + "."


def _describe(row: tuple[object, ...], steps: float | None) -> str:
    """Return what was compiled, how often in a step, for how long, and why the last time."""
    kind, what, place, count, spent, why = (
        getattr(row, name) for name in ("kind", "what", "place", "count", "spent", "why")
    )
    where = f" ({place})" if place else ""
    often = number_text(count if steps is None else count / steps)
    times = ("once" if often == "1" else f"{often} times") + ("" if steps is None else " a step")
    took = format_ns(int(spent / count))
    text = f"{_VERBS.get(kind, 'a compiler compiles')} {what}{where} {times}, for {took} each"
    return f"{text}, the last time because {why.rstrip('.')}" if why and kind == "dynamo" else text


def _mend(table: pd.DataFrame) -> str:
    """Return what to do about the compilation that takes the most time."""
    first = table.iloc[0]
    if first["kind"] in ("triton", "tune", "cute"):
        return _FOR_KERNELS
    reasons = [str(why) for why in table["why"] if why]
    return _FOR_VALUES if reasons and not _SHAPES.search(reasons[0]) else _FOR_SHAPES
