"""Clean the file of operators that `capture --operators` wrote: names by the rules of ranges, tensors as numbers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from msgspec import to_builtins

from nsysprof.bundle.name_tokens import NameTokens
from nsysprof.torchprof.operator_facts import ITEM_BYTES, LAYER, tensor_at

OPERATOR_FILE = re.compile(r"nsys\.operators-(\d{1,10})\.json")
# Data types whose size nsysprof does not know.
_MORE_TYPES = frozenset({
    "c10::Float8_e4m3fnuz", "c10::Float8_e5m2fnuz", "c10::Float8_e8m0fnu", "c10::Float4_e2m1fn_x2", "unsigned short",
    "unsigned int", "unsigned long", "c10::complex<c10::Half>",
})  # fmt: skip
_OTHER_TYPE = "other"


def operator_file_name(process: int) -> str:
    """Return the name of the file of a process, as a capture has it."""
    return f"nsys.operators-{process}.json"


def clean_operators(data: Any, names: NameTokens) -> dict[str, Any]:
    """Return the content of the file with the numbers of tensors and the flags of each operator, and no other value."""
    listed = data.get("operators") if isinstance(data, dict) else None
    return {"format_version": 1, "operators": list(_operators(listed if isinstance(listed, list) else [], names))}


def _operators(listed: list[Any], names: NameTokens) -> Iterator[dict[str, Any]]:
    for one in listed:
        if not isinstance(one, dict) or not _is_number(one.get("op_id")) or not isinstance(one.get("name"), str):
            continue
        if one["name"].startswith(LAYER):  # its range says all
            continue
        sides = {side: [_value(value) for value in _listed(one.get(side))] for side in ("inputs", "outputs")}
        recording = one.get("recording", 0)
        numbers = {"op_id": one["op_id"], "recording": recording if _is_number(recording) else 0}
        yield {**numbers, "name": names.operator(one["name"]), **sides}


def _value(value: Any) -> Any:
    """Return a tensor, a flag, or a list of either; None for what may say something else, or nothing that is sound."""
    if isinstance(value, list):
        tensors = [tensor for part in value if isinstance(part, dict) and (tensor := _value(part)) is not None]
        return value if value and all(isinstance(part, bool) for part in value) else tensors or None
    if isinstance(value, dict):
        tensor = tensor_at((value,), 0)
        if tensor is None:
            return None
        is_known = tensor.type in ITEM_BYTES or tensor.type in _MORE_TYPES
        return to_builtins(tensor) | {"type": tensor.type if is_known else _OTHER_TYPE}
    return value if isinstance(value, bool) else None


def _listed(values: Any) -> list[Any]:
    return values if isinstance(values, list) else []


def _is_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
