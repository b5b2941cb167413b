"""Define what is known of a program's operators: their ranges by torch's emit_nvtx, and their tensors.

`capture --operators` records both; see nsysprof.workload.program_start.operator_recorder. Names of ranges are read by a
strict grammar, since any program can write any text into a trace.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any

from msgspec import Meta, Struct, ValidationError, convert

# The range around the steps whose operators were recorded, and how a range of a module begins. The recorder has the
# same texts.
MARK, LAYER = "nsysprof operators", "nsysprof layer "
# What begins the name of a range in which autograd evaluates a node.
EVALUATED = "autograd::engine::evaluate_function: "
_LONGEST_NAME = 300
_RANGE = re.compile(r"(?:, seq = (\d{1,18}))?, op_id = (\d{1,18})(?:, sizes = .*|, input_op_ids = .*|\.{3}|…)?")
_LAYER_TEXT = re.compile(r"([\w.\[\]<>-]{1,300})(?: @ ([^@\x00-\x1f]{1,300}:\d{1,9}))?")
# Bytes of an element, by the names that torch's execution trace has for data types.
ITEM_BYTES = {
    "bool": 1, "unsigned char": 1, "signed char": 1, "c10::Float8_e4m3fn": 1, "c10::Float8_e5m2": 1, "short": 2,
    "short int": 2, "c10::Half": 2, "c10::BFloat16": 2, "int": 4, "float": 4, "long": 8, "long int": 8, "double": 8,
    "c10::complex<float>": 8, "c10::complex<double>": 16,
}  # fmt: skip
_PLAIN_NAMES = {
    "c10::Half": "fp16", "c10::BFloat16": "bf16", "float": "fp32", "double": "fp64", "c10::Float8_e4m3fn": "fp8",
    "c10::Float8_e5m2": "fp8", "long": "int64", "long int": "int64", "int": "int32", "unsigned char": "uint8",
    "signed char": "int8", "short": "int16", "short int": "int16",
}  # fmt: skip
# The type of an optional tensor that was not given.
_NO_TENSOR = "nullptr"
_Count = Annotated[int, Meta(ge=0, lt=2**62)]


@dataclass(frozen=True)
class RangeText:
    """An operator as the name of its range has it, with its own number and the number of its node for autograd."""

    name: str
    op_id: int
    seq: int | None


def read_range_text(text: str) -> RangeText | None:
    """Return what a range's name says of an operator; None where it is not such a name."""
    begin = min((at for at in (text.find(", seq = "), text.find(", op_id = ")) if at > 0), default=0)
    match = _RANGE.fullmatch(text, begin) if 0 < begin <= _LONGEST_NAME else None
    if match is None or not text[:begin].isprintable():
        return None
    return RangeText(text[:begin], int(match[2]), None if match[1] is None else int(match[1]))


def read_layer(name: str) -> tuple[str, str] | None:
    """Return the path of a module and the line that called it ("" unknown); None for other ranges."""
    match = _LAYER_TEXT.fullmatch(name.removeprefix(LAYER)) if name.startswith(LAYER) else None
    return None if match is None else (match[1], match[2] or "")


class Tensor(Struct, frozen=True):
    """A tensor that an operator read or wrote. strides: in elements; None where unknown."""

    sizes: Annotated[tuple[_Count, ...], Meta(max_length=64)]
    type: Annotated[str, Meta(max_length=64)]
    tensor: int
    storage: int
    strides: Annotated[tuple[int, ...], Meta(max_length=64)] | None = None

    @property
    def elements(self) -> int:
        """Return how many elements it has in memory: a dimension with stride 0 repeats one."""
        count = 1
        for place, size in enumerate(self.sizes):
            repeats = self.strides is not None and place < len(self.strides) and self.strides[place] == 0
            count *= 1 if repeats and size else size
        return count

    @property
    def bytes(self) -> int | None:
        """Return how many bytes it takes; None for a data type that is not known."""
        size = ITEM_BYTES.get(self.type)
        return None if size is None else size * self.elements

    @property
    def dtype(self) -> str:
        """Return the short name of its data type, as options have it."""
        return _PLAIN_NAMES.get(self.type, self.type.removeprefix("c10::"))


class OperatorFacts(Struct, frozen=True):
    """One call of an operator as torch's execution trace has it. A value is a tensor, a number, a list or None.

    recording: which recording of the process it is from; the numbers of tensors hold within one.
    """

    op_id: _Count
    name: Annotated[str, Meta(max_length=4096)]
    inputs: Annotated[tuple[Any, ...], Meta(max_length=100_000)] = ()
    outputs: Annotated[tuple[Any, ...], Meta(max_length=100_000)] = ()
    recording: _Count = 0


def tensors_of(values: tuple[Any, ...]) -> Iterator[Tensor]:
    """Yield the tensors among values, those in lists included. What is not a sound tensor is left out."""
    for value in values:
        if isinstance(value, dict):
            tensor = _tensor(value)
            if tensor is not None:
                yield tensor
        elif isinstance(value, list):
            yield from (tensor for part in value if isinstance(part, dict) and (tensor := _tensor(part)) is not None)


def tensor_at(values: tuple[Any, ...], place: int) -> Tensor | None:
    """Return the tensor in one place; None where there is none."""
    value = values[place] if place < len(values) else None
    return _tensor(value) if isinstance(value, dict) else None


def _tensor(value: dict[str, Any]) -> Tensor | None:
    try:
        tensor = convert(value, Tensor)
    except ValidationError:
        return None
    return None if tensor.type.startswith(_NO_TENSOR) else tensor
