"""Tell from the shapes of an operator how many FLOP it needs and how many bytes it moves at least.

A multiplication and an addition are two FLOP. Bytes are those of each tensor that is read, once, and of each that is
written, once: a kernel cannot move fewer, unless the caches hold a tensor or the operator is fused with another one.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from nsysprof.attention.shape import BACKWARD_FLOPS, forward_flops
from nsysprof.results.roof import Peak
from nsysprof.torchprof.operator_facts import OperatorFacts, Tensor, tensor_at, tensors_of

# What reads as much of its first tensor as it writes.
_GATHERS = re.compile(r"embedding|gather|index|take|scatter")
_ADDS = re.compile(r"add|reduce")
# Factorizations, solvers and Fourier transforms need other FLOP than one for each element.
_UNCOUNTED = re.compile(
    r"cholesky|triangular|aten::linalg_(?!vector_norm|matrix_norm|cross)|aten::_?lu_|_fft_|geqrf|ormqr|svd|eigh"
)
_WRITES_ONLY = re.compile(r"aten::(fill_|zero_|zeros|ones|full|empty|arange|normal_|uniform_|random_|_foreach_zero_)")
_NORMALIZATION = re.compile(r"norm|softmax", re.IGNORECASE)
_MOVES = re.compile(
    r"aten::(copy_|cat|stack|clone|contiguous|_to_copy|to|index|gather|embedding|fill_|zero_|flip|roll)"
)
# FLOP for each element of the input of a normalization: mean, deviation, square, sum, scale.
_NORMALIZATION_FLOPS = 5


@dataclass(frozen=True)
class OperatorWork:
    """What one call of an operator needs. None: unknown.

    is_product: whether the FLOP are those of products that tensor cores compute.
    dtype: the data type that it computes with, "" if unknown.
    """

    flops: int | None
    least_bytes: int | None
    is_product: bool
    dtype: str


def work_of(operator: OperatorFacts) -> OperatorWork:
    """Return what a call of an operator needs, from the shapes of its tensors."""
    product = _product_of(operator)
    inputs, outputs = list(tensors_of(operator.inputs)), list(tensors_of(operator.outputs))
    if _UNCOUNTED.search(operator.name):
        return OperatorWork(None, None, is_product=False, dtype=next((tensor.dtype for tensor in inputs), ""))
    first = next((tensor for tensor in (*inputs, *outputs) if tensor.dtype[:2] in ("fp", "bf")), None)
    flops = _other_flops(operator.name, inputs, outputs) if product is None else product(operator)
    of_dtype = first or next(iter((*inputs, *outputs)), None)
    dtype = "" if of_dtype is None else of_dtype.dtype
    return OperatorWork(flops, _least_bytes(operator), product is not None, dtype)


def floor_ns(work: OperatorWork, peak: Peak) -> tuple[float, str] | None:
    """Return the least time of a call, and which rate gives it: "compute" or "memory"; None if it is unknown.

    Products of fp32 are taken at the rate of TF32, which tensor cores have for them.
    """
    rate = peak.flops.get("tf32" if work.dtype == "fp32" and work.is_product else work.dtype)
    parts = []
    if work.least_bytes is not None:
        parts.append((1e9 * work.least_bytes / peak.bytes_per_s, "memory"))
    if work.is_product and work.flops is not None and rate:
        parts.append((1e9 * work.flops / rate, "compute"))
    if work.least_bytes is None or (work.is_product and not rate):
        return None
    return max(parts)


def read_and_written(operator: OperatorFacts) -> tuple[list[Tensor], list[Tensor]]:
    """Return the tensors that a call reads, and those that it writes."""
    name = operator.name
    inputs, outputs = list(tensors_of(operator.inputs)), list(tensors_of(operator.outputs))
    written = outputs or (list(tensors_of(operator.inputs[:1])) if name.endswith("_") else [])
    if not name.endswith("_"):  # what is given as the place of the result is not read
        results = {tensor.tensor for tensor in written}
        inputs = [tensor for tensor in inputs if tensor.tensor not in results]
    if _WRITES_ONLY.match(name):
        inputs = []
    elif name.startswith("aten::copy_"):
        inputs = list(tensors_of(operator.inputs[1:2]))
    return inputs, written


def _least_bytes(operator: OperatorFacts) -> int | None:
    name = operator.name
    inputs, written = read_and_written(operator)
    if not inputs and not written:
        return None
    if name.startswith("aten::nll_loss"):  # it touches one element of each row
        targets = [tensor for tensor in inputs if tensor.dtype == "int64"]
        return 2 * sum(_bytes(targets)) if targets and None not in _sizes(targets) else None
    if name.startswith("aten::_fused_adam"):
        # Parameters and both moments are read and written, gradients are read.
        inputs = list(tensors_of(operator.inputs[:4]))
        written = list(tensors_of((*operator.inputs[:1], *operator.inputs[2:4])))
    elif _GATHERS.search(name) and name.endswith("_") and inputs:
        # It writes the places that are named, and no more than it is given; where it adds, it reads them as well.
        if None in _sizes(inputs):
            return None
        given = _bytes(inputs[1:])
        touched = min(_bytes(inputs[:1])[0], max(given, default=0))
        return sum(given) + touched * (2 if _ADDS.search(name) else 1)
    elif _GATHERS.search(name) and inputs:
        least = min(sum(_bytes(written)), sum(_bytes(inputs[:1])))
        return None if None in _sizes(inputs[1:], written) else least + sum(_bytes([*inputs[1:], *written]))
    sizes = [*_sizes(_distinct(inputs)), *_sizes(_distinct(written))]
    return None if None in sizes else sum(size for size in sizes if size is not None)


def _distinct(tensors: list[Tensor]) -> list[Tensor]:
    """Return each view of memory once."""
    return list({(tensor.storage, tensor.sizes, tensor.strides): tensor for tensor in tensors}.values())


def _sizes(*groups: list[Tensor]) -> list[int | None]:
    return [tensor.bytes for tensors in groups for tensor in tensors]


def _bytes(tensors: list[Tensor]) -> list[int]:
    return [tensor.bytes or 0 for tensor in tensors]


def _other_flops(name: str, inputs: list[Tensor], outputs: list[Tensor]) -> int | None:
    """Return the FLOP of other operators: one an element, more for a normalization, none where data only moves."""
    if _MOVES.match(name):
        return 0
    if _NORMALIZATION.search(name):
        return _NORMALIZATION_FLOPS * max((tensor.elements for tensor in inputs), default=0)
    elements = [tensor.elements for tensor in (*inputs, *outputs)]
    return max(elements) if elements else None


def _plain_name(operator: OperatorFacts) -> str:
    return operator.name.removeprefix("aten::").removeprefix("extern_kernels.")


def _product_of(operator: OperatorFacts) -> Callable[[OperatorFacts], int | None] | None:
    """Return what counts the FLOP of a product, convolution, recurrent layer or attention; None for all others."""
    name = _plain_name(operator)
    if name in _PRODUCTS:
        return _PRODUCTS[name]
    if name in _CONVOLUTIONS:
        return _convolution
    return _attention if "attention" in name else None


def _matrices(first: int) -> Callable[[OperatorFacts], int | None]:
    """Return what counts the FLOP of a product of the matrices in two places, which may be batches of them."""

    def count(operator: OperatorFacts) -> int | None:
        left, right = tensor_at(operator.inputs, first), tensor_at(operator.inputs, first + 1)
        if left is None or right is None or len(left.sizes) < 2 or not right.sizes:
            return None
        columns = right.sizes[-1] if len(right.sizes) > 1 else 1
        return 2 * math.prod(left.sizes) * columns

    return count


def _linear(operator: OperatorFacts) -> int | None:
    given, weight = tensor_at(operator.inputs, 0), tensor_at(operator.inputs, 1)
    return None if given is None or weight is None else 2 * math.prod(given.sizes) * (weight.sizes or (1,))[0]


def _convolution(operator: OperatorFacts) -> int | None:
    """Return the FLOP of a convolution, or of those of its gradients that are wanted."""
    if "backward" in operator.name:
        gradient, weight = tensor_at(operator.inputs, 0), tensor_at(operator.inputs, 2)
        wanted = next((v for v in reversed(operator.inputs) if isinstance(v, list) and len(v) == 3), [True, True])
        times, transposed = sum(bool(part) for part in wanted[:2]), _is_transposed(operator.inputs[7:8])
        source = tensor_at(operator.inputs, 1) if transposed else gradient
    else:
        weight, times = tensor_at(operator.inputs, 1), 1
        transposed = "transpose" in operator.name or _is_transposed(operator.inputs[6:7])
        source = tensor_at(operator.inputs if transposed else operator.outputs, 0)
    if source is None or weight is None or len(weight.sizes) < 3:
        return None
    # Each element of the side with one sum an element takes part in the products of a whole filter.
    return 2 * times * math.prod(source.sizes) * math.prod(weight.sizes[1:])


def _is_transposed(values: tuple[Any, ...]) -> bool:
    return bool(values) and values[0] is True


def _attention(operator: OperatorFacts) -> int | None:
    """Return the FLOP of attention, half of them where it is causal."""
    causal_place, is_length_first = _ATTENTION.get(_plain_name(operator), (0, False))
    is_backward = operator.name.endswith("_backward")
    tensors = [tensor_at(operator.inputs, place + is_backward) for place in range(3)]
    query, key, value = (None if t is None or len(t.sizes) != 4 else t.sizes for t in tensors)
    if not causal_place or query is None or key is None or value is None:
        return None
    heads, length, keys = (query[2], query[1], key[1]) if is_length_first else (query[1], query[2], key[2])
    whole = forward_flops(query[0], heads, length, keys, query[3], value[3])
    whole = int(BACKWARD_FLOPS * whole) if is_backward else whole
    is_causal = bool((*operator.inputs, *[None] * 16)[causal_place])
    return whole // 2 if is_causal and length == keys else whole


def _recurrent(operator: OperatorFacts) -> int | None:
    """Return the FLOP of cuDNN's recurrent layers: each weight once for each element of the sequence and batch."""
    given, weights = tensor_at(operator.inputs, 0), operator.inputs[1:2]
    if given is None or len(given.sizes) != 3:
        return None
    elements = sum(math.prod(weight.sizes) for weight in tensors_of(weights) if len(weight.sizes) == 2)
    times = 2 if "backward" in operator.name else 1
    return 2 * times * elements * given.sizes[0] * given.sizes[1] if elements else None


_PRODUCTS: dict[str, Callable[[OperatorFacts], int | None]] = {
    "mm": _matrices(0), "bmm": _matrices(0), "matmul": _matrices(0), "addmm": _matrices(1), "baddbmm": _matrices(1),
    "addbmm": _matrices(1), "_addmm_activation": _matrices(1), "_scaled_mm": _matrices(0), "linear": _linear,
    "_int_mm": _matrices(0), "mv": _matrices(0), "addmv": _matrices(1), "addmm_": _matrices(1),
    "_grouped_mm": _matrices(0), "_scaled_grouped_mm": _matrices(0),
    "_cudnn_rnn": _recurrent, "_cudnn_rnn_backward": _recurrent,
}  # fmt: skip

_CONVOLUTIONS = ("convolution", "_convolution", "convolution_backward", "cudnn_convolution", "conv1d", "conv2d",
                 "conv3d", "cudnn_convolution_transpose", "_slow_conv2d_forward", "_slow_conv2d_backward",
                 "_conv_depthwise2d", "conv_depthwise3d")  # fmt: skip
# Where a call says that it is causal, and whether its tensors have the length before the heads.
_ATTENTION = {
    "scaled_dot_product_attention": (5, False), "_scaled_dot_product_flash_attention": (4, False),
    "_flash_attention_forward": (8, True), "_scaled_dot_product_efficient_attention": (6, False),
    "_efficient_attention_forward": (9, True), "_scaled_dot_product_cudnn_attention": (6, False),
    "_cudnn_attention_forward": (10, False), "_flash_attention_backward": (11, True),
    "_scaled_dot_product_flash_attention_backward": (11, False), "_efficient_attention_backward": (14, True),
    "_scaled_dot_product_efficient_attention_backward": (11, False),
    "_scaled_dot_product_cudnn_attention_backward": (14, False), "_cudnn_attention_backward": (14, False),
}  # fmt: skip
