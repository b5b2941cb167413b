"""Find copies that the tensors of operators show to be redundant, as candidates for findings.

Without operators there are none.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from nsysprof.analysis.busy_time.operators import OperatorCall
from nsysprof.analysis.findings.candidates import Candidate, issuing_text, without_work
from nsysprof.analysis.findings.from_operators.operator_evidence import TensorUses, find_most, memory_of
from nsysprof.analysis.findings.situation import Situation, counted, in_work, number_text
from nsysprof.analysis.replay.replay import ReplayChange
from nsysprof.torchprof.operator_facts import EVALUATED, Tensor, tensor_at, tensors_of
from nsysprof.trace.schema import Bools
from nsysprof.units import format_bytes, format_ns

_HALVES = ("bf16", "fp16")
# Where products have their weight.
_WEIGHT_PLACES = {
    "aten::mm": 1, "aten::addmm": 2, "aten::_addmm_activation": 2, "aten::cudnn_convolution": 1, "aten::convolution": 1,
    "aten::cudnn_convolution_transpose": 1, "aten::_convolution": 1,
}  # fmt: skip
_OPTIMIZERS = ("aten::_fused_", "aten::_foreach_")
_CAST_BACK = "ToCopyBackward"
# The optimizer that has the weights in 32 bit writes them in 16 bit as well, which is a third of what the cast moves.
_LEFT_OF_CASTS, _MOST_LEFT_OF_CASTS = 1 / 3, 2 / 3
_COPIES = ("aten::contiguous", "aten::clone")
# What computes the gradient of a part of a tensor, and the node around it.
_OF_PARTS = re.compile(rf"aten::(?:select|slice)_backward|{re.escape(EVALUATED)}(?:Select|Slice)Backward\d*")
# What reads tensors with any strides but the last, as long as this one is 1.
_READS_STRIDED = ("aten::_scaled_dot_product", "aten::_flash_attention", "aten::_efficient_attention",
                  "aten::_cudnn_attention")  # fmt: skip


def list_redundant_copies(situation: Situation) -> Iterator[Candidate]:
    """Yield copies of whole tensors that the program could leave out."""
    if not situation.operators.has_facts.any():
        return
    uses = TensorUses(situation.operators.calls)
    searches: tuple[Callable[[Situation, TensorUses], Candidate | None], ...] = (
        _cast_weights, _needless_copies, _copies_of_copies, _gradients_of_parts,
    )  # fmt: skip
    for search in searches:
        candidate = search(situation, uses)
        if candidate is not None:
            yield candidate


def _cast_weights(situation: Situation, uses: TensorUses) -> Candidate | None:
    calls = situation.operators.calls
    weights = _storages_of_weights(calls)
    casts = {number for number, call in enumerate(calls) if _is_cast_weight(calls, number, call, uses, weights)}
    if not casts:
        return None
    sizes = {tensor.sizes for number in casts if (tensor := _side(calls[number], 1)) is not None}
    back = {number for number, call in enumerate(calls) if _is_cast_back(call, sizes)}
    there, chosen = _launched_by(situation, casts), _launched_by(situation, casts | back)
    trains = bool(back) or any(_is_of_optimizer(call) for call in calls)
    spent, moved = _spent(situation, chosen), _moved(situation, chosen)
    gradients = counted(in_work(situation, chosen & ~there), "casts", "cast")
    gradients = f", and {gradients} their gradients back" if back else ""
    most = find_most(situation, there)
    text = (
        f"{counted(in_work(situation, there), 'kernel casts', 'kernels cast')} weights of products from 32 to 16 bit "
        f"in every step{gradients}: {format_ns(spent)}, in which at least {format_bytes(moved)} are moved."
        + (most.text if most else "")
    )
    step = (
        "Keep the weights in 16 bit (model.to(torch.bfloat16)), with copies in 32 bit in the optimizer if the training "
        "needs them."
        if trains
        else "Cast the model once, before the loop: model.to(torch.bfloat16)."
    )
    usual, low = (_LEFT_OF_CASTS, _MOST_LEFT_OF_CASTS) if trains else (0.0, 0.0)
    found = _candidate(situation, chosen, (usual, low, 0.0), text, step, spent, most.location if most else "")
    # An optimizer without copies in 32 bit moves half as much.
    optimizing = _launched_by(situation, {number for number, call in enumerate(calls) if _is_of_optimizer(call)})
    left = np.where(optimizing, found.high.duration_ns // 2, found.high.duration_ns)
    return replace(found, high=replace(found.high, duration_ns=left))


def _storages_of_weights(calls: tuple[OperatorCall, ...]) -> set[tuple[int, int, int]]:
    """Return the memory that an optimizer changes."""
    return {
        memory_of(call, tensor)
        for call in calls
        if _is_of_optimizer(call) and call.facts is not None
        for tensor in tensors_of(call.facts.inputs[:1])
    }


def _is_of_optimizer(call: OperatorCall) -> bool:
    return call.way == "optimizer" and call.name.startswith(_OPTIMIZERS)


def _is_cast_weight(
    calls: tuple[OperatorCall, ...],
    number: int,
    call: OperatorCall,
    uses: TensorUses,
    weights: set[tuple[int, int, int]],
) -> bool:
    """Return whether a call casts a weight: what a product takes as such, and what only an optimizer changes."""
    result, source = _side(call, 0), _side(call, 1)
    if call.way != "forward" or result is None or source is None or len(source.sizes) < 2:
        return False
    if source.dtype != "fp32" or result.dtype not in _HALVES or result.sizes != source.sizes:
        return False
    memory = memory_of(call, source)
    # A graph that is captured need not hold the optimizer.
    is_optimized = any(weight[:2] == memory[:2] for weight in weights)
    if uses.writers(number, source) or (is_optimized and memory not in weights):
        return False
    for reader in uses.readers(number, result):
        facts = calls[reader].facts
        weight = None if facts is None else tensor_at(facts.inputs, _WEIGHT_PLACES.get(facts.name, len(facts.inputs)))
        if weight is not None and weight.storage == result.storage:
            return True
    return False


def _is_cast_back(call: OperatorCall, sizes: set[tuple[int, ...]]) -> bool:
    """Return whether a call of the backward pass casts the gradient of a weight to 32 bit."""
    result, source = _side(call, 0), _side(call, 1)
    return (
        call.way == "backward"
        and any(_CAST_BACK in name for name in call.around)
        and result is not None
        and source is not None
        and (source.dtype in _HALVES and result.dtype == "fp32" and result.sizes in sizes)
    )


def _side(call: OperatorCall, place: int) -> Tensor | None:
    """Return what a copy writes (place 0) or reads (1); None for other calls and unknown tensors."""
    return tensor_at(call.facts.inputs, place) if call.facts is not None and call.name == "aten::copy_" else None


def _needless_copies(situation: Situation, uses: TensorUses) -> Candidate | None:
    """Return copies by contiguous() and clone() that nothing needs: all that reads them could read the source."""
    calls = situation.operators.calls
    copies = {
        number
        for number, call in enumerate(calls)
        if _side(call, 0) is not None and any(name in _COPIES for name in call.around)
    }
    needless = {number for number in copies if _is_needless(calls, number, uses)}
    if not needless:
        return None
    chosen = _launched_by(situation, needless)
    spent, most = _spent(situation, chosen), find_most(situation, chosen)
    count = counted(in_work(situation, chosen), "copy", "copies")
    text = (
        f"Only attention, which could read the originals, reads {count} by contiguous() or clone(): "
        f"{format_ns(spent)}, in which at least {format_bytes(_moved(situation, chosen))} are moved."
        + (most.text if most else "")
    )
    step = "Leave contiguous() and clone() out before attention, which reads tensors with any strides but the last."
    return _candidate(situation, chosen, (0.0, 0.3, 0.0), text, step, spent, most.location if most else "")


def _is_needless(calls: tuple[OperatorCall, ...], number: int, uses: TensorUses) -> bool:
    result, source = _side(calls[number], 0), _side(calls[number], 1)
    if result is None or source is None or result.type != source.type or result.sizes != source.sizes:
        return False
    if not source.strides or source.strides[-1] != 1 or 0 in source.strides:
        return False
    readers = uses.readers(number, result)
    if not readers or uses.is_changed(number, source, readers[-1]):
        return False
    return all(_reads_any_strides(calls[reader], result) for reader in readers)


def _reads_any_strides(call: OperatorCall, given: Tensor) -> bool:
    """Return whether a call is an attention that reads a tensor as it is, in its own sizes."""
    if call.facts is None or not call.name.startswith(_READS_STRIDED):
        return False
    mine = [tensor for tensor in tensors_of(call.facts.inputs) if tensor.storage == given.storage]
    return all(tensor.sizes == given.sizes for tensor in mine)


def _copies_of_copies(situation: Situation, uses: TensorUses) -> Candidate | None:
    """Return copies that only another copy reads, and those whose result lies in memory as the first source does."""
    calls = situation.operators.calls
    copies, redundant = 0, set[int]()
    for number, call in enumerate(calls):
        between = _side(call, 0)
        readers = [] if between is None else uses.readers(number, between)
        source = _side(call, 1)
        if len(readers) != 1 or source is None or between is None or source.type != between.type:
            continue
        (second,) = readers
        result = _side(calls[second], 0)
        if result is None or result.elements != between.elements or uses.is_changed(number, source, second):
            continue
        copies += 1
        redundant.add(number)
        if _is_back_again(uses, number, source, second, result):
            redundant.add(second)
    if not redundant:
        return None
    chosen = _launched_by(situation, redundant)
    spent, most = _spent(situation, chosen), find_most(situation, chosen)
    back = len(redundant) - copies
    text = (
        f"Only other copies read {counted(in_work(situation, chosen), 'copy', 'copies')}"
        + (", or bring back the layout of what was copied first" if back else "")
        + f": {format_ns(spent)}, in which at least {format_bytes(_moved(situation, chosen))} are moved."
        + (most.text if most else "")
    )
    step = "Leave permute(...).contiguous() and clone() out where the next copy changes the layout again."
    return _candidate(situation, chosen, (0.0, 0.3, 0.0), text, step, spent, most.location if most else "")


def _is_back_again(uses: TensorUses, first: int, source: Tensor, second: int, result: Tensor) -> bool:
    """Return whether what reads the second copy could read what the first one copied."""
    if source.type != result.type or not source.strides or not result.strides:
        return False
    if sorted(zip(source.strides, source.sizes, strict=True)) != sorted(zip(result.strides, result.sizes, strict=True)):
        return False
    readers = uses.readers(second, result)
    if not readers or uses.is_changed(second, result, readers[-1]):
        return False
    return not uses.is_changed(first, source, readers[-1])


def _gradients_of_parts(situation: Situation, _uses: TensorUses) -> Candidate | None:
    """Return what autograd does where a program takes parts of a tensor one by one, as w[i] in a loop.

    Each part's gradient is written into a tensor of zeros as large as the whole one, and these are added up. Where the
    parts are taken at once, one operator puts their gradients together.
    """
    calls = situation.operators.calls
    fills, sums = defaultdict[object, list[int]](list), defaultdict[object, list[int]](list)
    for number, call in enumerate(calls):
        whole = None if call.facts is None else tensor_at(call.facts.inputs, 0)
        if whole is None or not any(_OF_PARTS.fullmatch(name) for name in call.around):
            continue
        alike = call.process, call.layer, whole.sizes, whole.type
        if call.name == "aten::fill_":
            fills[alike].append(number)
        elif call.name in ("aten::add", "aten::add_") and call.around[0].startswith(EVALUATED):
            sums[alike].append(number)
    # One part is not added to anything. One pass over each whole tensor stays.
    kept = {alike: len(fills[alike]) - len(adds) for alike, adds in sums.items()}
    added = {number for alike, adds in sums.items() if kept[alike] > 0 for number in adds}
    filled = {number for alike, count in kept.items() if count > 0 for number in fills[alike][count:]}
    if not added:
        return None
    chosen = _launched_by(situation, added | filled)
    # The part itself is copied behind the zeros, which one pass does for all parts.
    stream = situation.graph.stream
    behind = np.flatnonzero(_launched_by(situation, filled)[:-1] & (stream[1:] == stream[:-1])) + 1
    chosen[behind] |= situation.is_copy[behind]
    spent, most = _spent(situation, chosen), find_most(situation, _launched_by(situation, added))
    wholes = sum(count for count in kept.values() if count > 0)
    text = (
        f"Parts of {counted(wholes, 'tensor')} are taken one by one, as by w[i] in a loop. So autograd writes the "
        f"gradient of each part into zeros as large as the whole tensor, and adds these up: "
        f"{number_text(in_work(situation, chosen))} kernels and copies more than one pass needs, {format_ns(spent)}."
        + (most.text if most else "")
    )
    step = (
        "Take all parts at once, before the loop: parts = w.unbind(0), then parts[i] in place of w[i] "
        "(unbind(1) for w[:, i]; split or chunk in place of slices)."
    )
    return _candidate(situation, chosen, (0.0, 0.0, 0.0), text, step, spent, most.location if most else "")


def _launched_by(situation: Situation, numbers: set[int]) -> Bools:
    """Return the work that these calls launched."""
    chosen: Bools = np.isin(situation.operators.call, np.array(sorted(numbers), dtype=np.int64))
    return chosen


def _spent(situation: Situation, chosen: Bools) -> int:
    return int(in_work(situation, chosen, situation.graph.duration_ns))


def _moved(situation: Situation, chosen: Bools) -> int:
    """Return how many bytes the kernels of copies, one each, move at least in a step."""
    sides = [[_side(call, place) for place in (0, 1)] for call in situation.operators.calls]
    moved = [sum(tensor.bytes or 0 for tensor in of_call if tensor is not None) for of_call in sides]
    return int(in_work(situation, chosen, np.array([*moved, 0], dtype=np.int64)[situation.operators.call]))


def _candidate(
    situation: Situation, chosen: Bools, left: tuple[float, float, float], text: str, step: str, spent: int, place: str
) -> Candidate:
    """Return the candidate without some copies. left: the share of their time that stays, usually, most and least."""
    duration = situation.graph.duration_ns

    def at(kept: float) -> ReplayChange:
        gone = chosen if kept == 0 else np.zeros_like(chosen)
        return without_work(situation, gone, np.where(chosen, (duration * kept).astype(np.int64), duration))

    usual, low, high = (at(kept) for kept in left)
    if left[0] == 0:
        text += issuing_text(situation, usual, chosen, spent)
    return Candidate(
        "redundant-copy", usual, low, high, situation.calls_of(chosen), int(chosen.sum()), text, step, spent_ns=spent,
        most_range=situation.range_of_most(chosen), place=place,
    )  # fmt: skip
