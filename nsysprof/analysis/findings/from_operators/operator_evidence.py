"""Say what the operators of some work show: which they are, with which tensors, and how long they need at least.

Everything here is unknown for work whose operator, or whose operator's tensors, were not recorded.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from nsysprof.analysis.busy_time.operator_work import read_and_written
from nsysprof.analysis.busy_time.operators import OperatorCall, shapes_text
from nsysprof.analysis.findings.candidates import without_work
from nsysprof.analysis.findings.situation import Situation, in_work_by
from nsysprof.analysis.replay.replay import ReplayChange
from nsysprof.results.roof import Peak
from nsysprof.torchprof.operator_facts import ITEM_BYTES, Tensor, tensors_of
from nsysprof.trace.schema import Bools, Int64s, Rows
from nsysprof.units import format_ns

# How many times its floor a product takes, at the rates of the datasheet: 75 products of a GPT in bf16 on an H200 took
# 1.17 to 1.5 times. At measured rates, which are those of a large product, about what is above the best of these.
PRODUCT_USUAL, PRODUCT_MOST, PRODUCT_LEAST = 1.35, 1.6, 1.15
# The same for a fused kernel and its bytes: silu, gelu, add, AdamW and layer_norm of torch took 1.27 to 2.1 times.
FUSED_USUAL, FUSED_MOST, FUSED_LEAST = 1.5, 2.1, 1.1
_NOWHERE = Tensor((), "", 0, 0)
# Tensor cores read rows that begin at multiples of so many bytes without copying them apart.
_ALIGNED_BYTES, _PADDED = 16, 64
_LONGEST_NAME = 60
# Where a product has the tensor that it multiplies by its weights.
_FIRST_FACTOR = {"aten::mm": 0, "aten::addmm": 1, "aten::linear": 0}


@dataclass(frozen=True)
class Most:
    """The operator with the most of some work's time."""

    # Its name and the shapes of its tensors, as text.
    name: str
    # The file and line that called it; "" unknown.
    location: str
    # Its time in a step (ns).
    spent_ns: int

    @property
    def text(self) -> str:
        """Return which operator it is and how long it takes, as a sentence."""
        at = f" at {self.location}" if self.location else ""
        return f" Of the operators, {self.name}{at} takes most: {format_ns(self.spent_ns)}."


def describe_call(call: OperatorCall) -> str:
    """Return the name of an operator with the shapes and the type of its tensors."""
    shapes = shapes_text(call.facts)
    return call.name[:_LONGEST_NAME] + (f" ({shapes})" if shapes else "")


def find_most(situation: Situation, chosen: Bools) -> Most | None:
    """Return the operator with the most of some work's time; None where none is known."""
    operators, duration = situation.operators, situation.graph.duration_ns
    known = chosen & operators.has_facts
    if not known.any():
        return None
    spent: dict[tuple[str, str], float] = defaultdict(float)
    for number, spent_ns in in_work_by(situation, known, duration, operators.call).items():
        call = operators.calls[number]
        spent[describe_call(call), call.location] += spent_ns
    (name, location), most = max(spent.items(), key=lambda item: item[1])
    return Most(name, location, int(most))


def of_floors(
    situation: Situation, chosen: Bools, guess: float, factor: float, *, at_least_guess: bool = False
) -> ReplayChange:
    """Return the change in which some work takes a share of its time, or where floors are known, what these say.

    Work never takes less than its floor, nor longer than now.

    guess: the share of its time for work whose floor is unknown.
    factor: how many times its floor a product takes.
    at_least_guess: whether a product takes its share of the time where that is longer.
    """
    duration, floor = situation.graph.duration_ns, situation.operators.floor_ns
    shorter = duration * guess
    of_product = np.maximum(floor * factor, shorter if at_least_guess else 0.0)
    by_floor = np.where(situation.category == "gemm", of_product, np.maximum(shorter, floor))
    shorter = np.minimum(np.where(np.isnan(floor), shorter, by_floor), duration)
    return without_work(
        situation, np.zeros_like(chosen), np.where(chosen, shorter.astype(np.int64), duration).astype(np.int64)
    )


def product_factors(peak: Peak | None) -> tuple[float, float, float]:
    """Return how many times its floor a product usually takes, at the most and at the least."""
    of_datasheet = (PRODUCT_USUAL, PRODUCT_MOST, PRODUCT_LEAST)
    if peak is None or not peak.measured:
        return of_datasheet
    usual, most, least = (factor / PRODUCT_LEAST for factor in of_datasheet)
    return usual, most, least


def merge_products(situation: Situation, chosen: Bools) -> Bools:
    """Return which chosen work would go if products of the forward pass that read the same tensor were one.

    Such products follow one another on a stream. Where the GPU has room, one of them takes as long as all at once.
    """
    calls, call, stream = situation.operators.calls, situation.operators.call, situation.graph.stream
    duration = situation.graph.duration_ns
    gone = np.zeros(len(call), dtype=np.bool_)
    for number in np.unique(stream[chosen]).tolist():
        rows = np.flatnonzero(stream == number).astype(np.int32)
        ends = np.flatnonzero((np.diff(call[rows]) != 0) | (np.diff(situation.call[rows]) != 0)) + 1
        run: list[Rows] = []
        for products in (*np.split(rows, ends), rows[:0]):
            source = _product_source(calls, products, call, chosen)
            if run and (source is None or source != _product_source(calls, run[0], call, chosen)):
                longest = max(run, key=lambda one: int(duration[one].sum()))
                for one in run:
                    gone[one] |= one is not longest
                run = []
            if source is not None:
                run.append(products)
    return gone


def _product_source(
    calls: Sequence[OperatorCall], rows: Rows, call: Int64s, chosen: Bools
) -> tuple[object, ...] | None:
    """Return the tensor that a product of the forward pass is computed from; None where work is not such a product."""
    if not len(rows) or call[rows[0]] < 0 or not chosen[rows].all():
        return None
    one = calls[call[rows[0]]]
    place = _FIRST_FACTOR.get(one.name)
    if place is None or one.way != "forward" or one.facts is None or len(one.facts.inputs) <= place:
        return None
    tensors = list(tensors_of((one.facts.inputs[place],)))
    if len(tensors) != 1 or not tensors[0].storage:
        return None
    (factor,) = tensors
    return (*memory_of(one, factor), factor.tensor, factor.sizes, factor.strides)


def are_images(situation: Situation) -> Bools:
    """Return which work is not known to be of tensors without height and width."""
    flat = [
        call.facts is not None and all(len(tensor.sizes) < 4 for tensor in tensors_of(call.facts.inputs))
        for call in situation.operators.calls
    ]
    images: Bools = ~np.array([*flat, False], dtype=np.bool_)[situation.operators.call]
    return images


def misaligned_sizes(call: OperatorCall) -> dict[int, int]:
    """Return the sizes that keep rows of a product's tensors from beginning at multiples of 16 bytes.

    Each comes with the next multiple of 64. A row that is a part of a longer one has no size to change.
    """
    sizes: dict[int, int] = {}
    if call.facts is None:
        return sizes
    for tensor in (tensor for side in read_and_written(call.facts) for tensor in side):
        unit = _ALIGNED_BYTES // ITEM_BYTES.get(tensor.type, _ALIGNED_BYTES)
        strides = _strides(tensor)
        rows = [step for size, step in zip(tensor.sizes, strides, strict=True) if size > 1 and step > 1]
        inner = [size for size, step in zip(tensor.sizes, strides, strict=True) if size > 1 and step == 1]
        if len(inner) == 1 and rows and min(rows) == inner[0] and inner[0] % unit:
            sizes[inner[0]] = -(-inner[0] // _PADDED) * _PADDED
    return sizes


def _strides(tensor: Tensor) -> tuple[int, ...]:
    """Return the strides of a tensor, those of dense rows where they were not recorded."""
    if tensor.strides is not None and len(tensor.strides) == len(tensor.sizes):
        return tensor.strides
    return tuple(math.prod(tensor.sizes[place + 1 :]) for place in range(len(tensor.sizes)))


def memory_of(call: OperatorCall, tensor: Tensor) -> tuple[int, int, int]:
    """Return the memory of a call's tensor: the process, the recording, and the number in it."""
    return call.process, 0 if call.facts is None else call.facts.recording, tensor.storage


@dataclass(frozen=True)
class _Use:
    """One call that reads or writes the memory of a tensor, or both."""

    op_id: int
    number: int
    reads: bool
    writes: bool
    elements: int

    def replaces(self, tensor: Tensor) -> bool:
        """Return whether nothing of a tensor in the same memory is left after it."""
        return not self.reads and self.elements >= tensor.elements


class TensorUses:
    """Who reads and writes each tensor in a recorded step, or in a graph that was captured.

    The memory of a tensor is known by a number, which torch gives to another tensor once the memory is free.
    """

    def __init__(self, calls: Sequence[OperatorCall]) -> None:
        self._calls = calls
        self._uses: dict[tuple[int, int, int], list[_Use]] = defaultdict(list)
        for number, call in sorted(enumerate(calls), key=lambda item: item[1].op_id):
            if call.facts is not None:
                self._add(number, call, *read_and_written(call.facts))

    def _add(self, number: int, call: OperatorCall, read: list[Tensor], written: list[Tensor]) -> None:
        both = {tensor.storage for tensor in read} & {tensor.storage for tensor in written}
        for tensor, reads in (*((one, True) for one in read), *((one, False) for one in written)):
            if tensor.storage and (reads or tensor.storage not in both):
                use = _Use(call.op_id, number, reads, not reads or tensor.storage in both, tensor.elements)
                self._uses[memory_of(call, tensor)].append(use)

    def readers(self, number: int, tensor: Tensor) -> list[int]:
        """Return the calls that read a tensor after a call, until other data replaces it."""
        found = []
        for use in self._uses_behind(number, tensor):
            if use.replaces(tensor):
                break
            if use.reads:
                found.append(use.number)
        return found

    def writers(self, number: int, tensor: Tensor) -> list[int]:
        """Return the calls that wrote into a tensor's memory before a call."""
        call = self._calls[number]
        uses = self._uses.get(memory_of(call, tensor), ())
        return [use.number for use in uses if use.op_id < call.op_id and use.writes]

    def is_changed(self, number: int, tensor: Tensor, until: int) -> bool:
        """Return whether a call in place may change a tensor after one call and before another."""
        last = self._calls[until].op_id
        behind = self._uses_behind(number, tensor)
        return any(use.writes and use.op_id < last and self._calls[use.number].name.endswith("_") for use in behind)

    def is_replaced(self, number: int, tensor: Tensor) -> bool:
        """Return whether other data replaces a tensor later in the step, so that nothing needs it then."""
        return any(use.replaces(tensor) for use in self._uses_behind(number, tensor))

    def _uses_behind(self, number: int, tensor: Tensor) -> list[_Use]:
        call = self._calls[number]
        uses = self._uses.get(memory_of(call, tensor), ())
        return [use for use in uses if use.op_id > call.op_id]


@dataclass(frozen=True)
class RunBytes:
    """What a run of operators moves (bytes): each by itself at least, and all in one kernel.

    fused: inputs once, and outputs that the same pass reads later. kept: outputs that another pass reads, too.
    """

    moved: int
    fused: int
    kept: int


def bytes_of_run(calls: Sequence[OperatorCall], run: Sequence[int], uses: TensorUses) -> RunBytes | None:
    """Return what a run moves; None where the tensors of one of its operators are not known.

    calls: all of the recorded step. run: the numbers of those in the run, in order.
    """
    read_once: dict[tuple[int, tuple[int, ...]], int] = {}
    made: dict[int, tuple[int, Tensor]] = {}
    updated: set[int] = set()
    moved = 0
    if len({memory_of(calls[number], _NOWHERE) for number in run}) > 1:  # no tensor of one is known in another
        return None
    for number in run:
        facts = calls[number].facts
        if facts is None:
            return None
        read, written = read_and_written(facts)
        if any(tensor.bytes is None or not tensor.storage for tensor in (*read, *written)) or not written:
            return None
        own = {(tensor.storage, tensor.sizes): tensor.bytes or 0 for tensor in read}
        results = {(tensor.storage, tensor.sizes): tensor.bytes or 0 for tensor in written}
        moved += sum(own.values()) + sum(results.values())
        for (storage, sizes), size in own.items():
            if storage not in made:
                read_once[storage, sizes] = size
        of_own = {storage for storage, _ in own}
        for tensor in written:
            if tensor.storage in of_own and tensor.storage not in made:  # it changes what came from outside
                updated.add(tensor.storage)
            made[tensor.storage] = number, tensor
    fused = kept = sum(read_once.values())
    inside = set(run)
    for storage, (number, tensor) in made.items():
        size = tensor.bytes or 0
        later = [reader for reader in uses.readers(number, tensor) if reader not in inside]
        is_result = number == run[-1] or storage in updated
        if is_result or any(calls[reader].way == calls[number].way for reader in later):
            fused += size
        if is_result or later or not uses.is_replaced(number, tensor):
            kept += size
    return RunBytes(moved, min(fused, moved), min(max(fused, kept), moved))


# Operators that exist fused, by what their pieces call; the first whose pieces are all there counts. Only in this order
# are exp, sum and division a softmax: other formulas have them, too.
_FUSED = (
    (("log_softmax", "nll_loss_forward"), "torch.nn.functional.cross_entropy"),
    (("exp", "sum", "log"), "torch.nn.functional.cross_entropy or log_softmax"),
    (("exp", "sum", "div"), "torch.softmax"),
    (("mean", "rsqrt", "sub"), "torch.nn.functional.layer_norm"),
    (("mean", "sqrt", "sub"), "torch.nn.functional.layer_norm"),
    (("var", "sub"), "torch.nn.functional.layer_norm"),
    (("mean", "rsqrt", "mul"), "torch.nn.functional.rms_norm"),
    (("mean", "sqrt", "div"), "torch.nn.functional.rms_norm"),
    (("pow", "tanh", "mul"), 'torch.nn.functional.gelu(x, approximate="tanh")'),
    (("erf", "mul"), "torch.nn.functional.gelu"),
    (("silu", "mul"), "a fused SwiGLU such as Liger's"),
    (("sigmoid", "mul"), "torch.nn.functional.silu, or a fused SwiGLU such as Liger's"),
    (("neg", "cat", "mul", "add"), "a fused rotary embedding such as Liger's or FlashAttention's"),
)


def fused_operator(names: Iterable[str]) -> str:
    """Return the fused operator whose pieces are among some operators of a forward pass; "" where there is none."""
    pieces = [name.removeprefix("aten::").rstrip("_").removeprefix("_") for name in names]

    def are_there(needed: tuple[str, ...]) -> bool:
        rest = iter(pieces)
        return all(piece in rest for piece in needed) if needed[0] == "exp" else set(pieces).issuperset(needed)

    return next((fused for needed, fused in _FUSED if are_there(needed)), "")
