"""Find optimizers in foreach form, whose kernels read and write parameters and their state again and again.

The order of kernels tells an Adam: nothing else puts its pieces into one row. Other optimizers are known by operators.
"""

from __future__ import annotations

import re

import numpy as np

from nsysprof.analysis.busy_time.foreach_kernels import count_passes, rows_of_adam
from nsysprof.analysis.findings.candidates import Candidate, without_work
from nsysprof.analysis.findings.from_operators.operator_evidence import TensorUses, bytes_of_run, find_most, memory_of
from nsysprof.analysis.findings.situation import Situation, counted, in_work
from nsysprof.analysis.replay.replay import ReplayChange
from nsysprof.torchprof.operator_facts import tensor_at, tensors_of
from nsysprof.trace.schema import Bools
from nsysprof.units import format_bytes, format_ns

# Adam reads parameter, gradient and both moments, and writes all but the gradient.
_FUSED_PASSES = 7
# How many times as long a fused kernel takes for a byte.
_SLOWER_USUAL, _SLOWER_MOST, _SLOWER_LEAST = 1.2, 1.5, 1.0
# What computes the gradient of a table of embeddings, and which share of its rows is few.
_OF_TABLES, _FEW_ROWS = ("aten::_embedding_bag_dense_backward", "aten::embedding_dense_backward"), 0.1
_FUSED_FORMS = ("Adam", "AdamW", "SGD", "Adagrad")
_STEP = re.compile(r"Optimizer\.step#(\w+)\.step")


def foreach_candidate(situation: Situation) -> Candidate | None:
    """Return what a fused optimizer saves in place of a foreach one that memory limits; None where there is none."""
    chosen = _known_by_operators(situation)
    share = _share_of_bytes(situation, chosen)
    if share is None:
        chosen = np.zeros(len(situation.kernel_number), dtype=np.bool_)
        kinds = [str(name) for name in situation.names.texts]
        for rows in rows_of_adam(kinds, situation.kernel_number, situation.graph.stream):
            chosen[rows] = True
        if not chosen.any():
            return None
        share = _share_of_passes(situation, chosen, kinds)
    part, moved = share
    duration = situation.graph.duration_ns

    def at(slower: float) -> ReplayChange:
        fused = (duration * min(1.0, part * slower)).astype(np.int64)
        return without_work(situation, np.zeros_like(chosen), np.where(chosen, fused, duration))

    usual = at(_SLOWER_USUAL)
    spent = int(in_work(situation, chosen, duration))
    text = (
        f"The optimizer reads and writes the parameters and their state again and again, in "
        f"{counted(in_work(situation, chosen), 'foreach kernel')}: {format_ns(spent)}{moved}. A fused one does so "
        f"once: about {format_ns(int(in_work(situation, chosen, usual.duration_ns)))}."
    )
    text += _sparse_text(situation, chosen)
    most, name = find_most(situation, chosen), _name(situation, chosen)
    step = f"torch.optim.{name or 'AdamW'}(..., fused=True)."
    if name and name not in _FUSED_FORMS:
        step = f"torch.compile(optimizer.step), since {name} has no fused form."
    return Candidate(
        "unfused-optimizer", usual, at(_SLOWER_MOST), at(_SLOWER_LEAST), situation.calls_of(chosen), int(chosen.sum()),
        text, step, spent_ns=spent, most_range=situation.range_of_most(chosen), place=most.location if most else "",
    )  # fmt: skip


def _known_by_operators(situation: Situation) -> Bools:
    """Return the work of foreach operators inside an optimizer's step."""
    operators = situation.operators
    of_call = [call.way == "optimizer" and call.name.startswith("aten::_foreach_") for call in operators.calls]
    known: Bools = np.array([*of_call, False], dtype=np.bool_)[operators.call]
    return known


def _share_of_bytes(situation: Situation, chosen: Bools) -> tuple[float, str] | None:
    """Return which share of the moved bytes one pass moves, and a text on both; None where they are not known."""
    operators = situation.operators
    if not chosen.any():
        return None
    run = bytes_of_run(operators.calls, np.unique(operators.call[chosen]).tolist(), TensorUses(operators.calls))
    if run is None or not run.moved:
        return None
    return (
        run.fused / run.moved,
        f", in which {format_bytes(run.moved)} are moved, {format_bytes(run.fused)} in one pass",
    )


def _sparse_text(situation: Situation, chosen: Bools) -> str:
    """Return a sentence on tables most of whose rows have no gradient in a step; "" where nothing shows that."""
    calls = situation.operators.calls
    given = {
        memory_of(calls[number], tensor): tensor.bytes or 0
        for number in np.unique(situation.operators.call[chosen]).tolist()
        if number >= 0 and (facts := calls[number].facts) is not None
        for tensor in tensors_of(facts.inputs)
    }
    # Another use of a table adds to its gradient.
    added = {
        memory_of(call, tensor)
        for call in calls
        if call.name == "aten::add_" and call.facts is not None
        for tensor in tensors_of(call.facts.inputs[:1])
    }
    rows = touched = size = 0
    for call in calls:
        facts = call.facts
        if facts is None or call.name not in _OF_TABLES:
            continue
        gradient, index = next(tensors_of(facts.outputs), None), tensor_at(facts.inputs, 1)
        if gradient is None or index is None or memory_of(call, gradient) not in given.keys() - added:
            continue
        if index.elements < _FEW_ROWS * gradient.sizes[0]:
            rows, touched, size = rows + gradient.sizes[0], touched + index.elements, size + (gradient.bytes or 0)
    # A parameter comes with a gradient and at most three tensors of state.
    if not rows or 8 * size < sum(given.values()):
        return ""
    share = 100 * touched / rows
    return (
        f" At most {share:.2g} % of the {rows:,} rows of embeddings have a gradient in a step: with sparse=True and "
        "torch.optim.SparseAdam or SGD, which leave all other rows and their state as they are, even less is moved."
    )


def _share_of_passes(situation: Situation, chosen: Bools, kinds: list[str]) -> tuple[float, str]:
    """Return which share of the time one pass takes, by how many tensors each kernel reads and writes."""
    passes = sum(count_passes(kinds[number]) for number in np.unique(situation.kernel_number[chosen]).tolist())
    return min(1.0, _FUSED_PASSES / max(1, passes)), ""


def _name(situation: Situation, chosen: Bools) -> str:
    """Return the name of the optimizer with most of the work; "" where it is not known."""
    calls = situation.operators.calls
    names: dict[str, int] = {}
    for number in situation.operators.call[chosen].tolist():
        match = _STEP.search(" ".join(calls[number].around)) if number >= 0 else None
        if match is not None:
            names[match[1]] = names.get(match[1], 0) + 1
    return max(names, key=lambda name: names[name]) if names else ""
