"""Find what the program gains where nothing is compiled between the calls of a step."""

from __future__ import annotations

import re

import pandas as pd

from nsysprof.analysis.findings.candidates import Candidate
from nsysprof.analysis.findings.situation import Situation
from nsysprof.analysis.findings.step_amounts import counted, in_calls, number_text
from nsysprof.analysis.idle_time.interval_layers import outermost
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

    spent, compiles = int(in_calls(situation, calls, situation.compiled_ns)), situation.compiles
    compiles = compiles[outermost(compiles["start_ns"].to_numpy(), compiles["end_ns"].to_numpy())]
    by_name = compiles.assign(spent=compiles["end_ns"] - compiles["start_ns"]).groupby(
        ["kind", "what", "place"], sort=False
    )
    table = by_name.agg(count=("spent", "size"), spent=("spent", "sum"), why=("why", "last")).reset_index()
    table = table.sort_values("spent", ascending=False, kind="stable")
    named = [_describe(row, situation) for row in table.head(_MOST_NAMED).itertuples()]
    others = len(table) - len(named)
    text = f"The host compiles for {format_ns(spent)}, before {counted(in_calls(situation, calls), 'call')}: "
    text += "; ".join(named) + (f"; and {counted(others, 'other')}" if others > 0 else "") + "."
    change, low = (situation.hold_less(calls, situation.compiled_ns, left) for left in (0.0, _LEFT))
    places = [str(place) for place in table["place"] if place]
    return Candidate(
        "jit-in-loop", change, low, change, calls, int(calls.sum()), text, _mend(table), gaps=calls,
        spent_ns=spent, place=places[0] if places else "",
    )  # fmt: skip


def _describe(row: tuple[object, ...], situation: Situation) -> str:
    """Return what was compiled, how often in a step, for how long, and why the last time."""
    kind, what, place, count, spent, why = (
        getattr(row, name) for name in ("kind", "what", "place", "count", "spent", "why")
    )
    where = f" ({place})" if place else ""
    often = number_text(count / situation.share if situation.is_looped else count)
    times = ("once" if often == "1" else f"{often} times") + (" a step" if situation.is_looped else "")
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
