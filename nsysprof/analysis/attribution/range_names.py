"""Parse the names of ranges: strip the numbers that torch appends, and find names that differ only in a counter."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from nsysprof.trace.schema import Int64s

# torch.autograd.profiler.emit_nvtx appends these to the name of an operator, in any order.
_SUFFIX = re.compile(
    r", (?:(op_id|seq) = (\d+)|(?:sizes|input_op_ids) = \[.*\])(?=, (?:op_id|seq|sizes|input_op_ids) = |$)"
)
_SIZES = ", sizes = "
_TOKEN = "<range-"
_DIGITS = re.compile(r"\d+")
# In names where one of these words precedes a number, the number is a counter whatever its values are.
_COUNTED = re.compile(
    r"(?:step|iter|iteration|batch|epoch|token|layer|block|microbatch|_id)s?[ _.:=#\[(-]*$", re.IGNORECASE
)
_STEP = re.compile(r"(?:step|iter|iteration|batch|epoch|token|microbatch)s?[ _.:=#\[(-]*#", re.IGNORECASE)
# XLA writes these numbers of a run into names such as `Thunk:#hlo_op=fusion,unique_hlo_op_id=9934615#`.
_XLA = re.compile(r"\w+:#.*#$", re.DOTALL)
_XLA_NUMBER = re.compile(r",(?:unique_hlo_op_id|program_id)=\d+(?=[,#])")
# Fewer names that differ in a number are no family.
_LEAST_MEMBERS = 3
# A family of more names than this counts as many.
_MANY_MEMBERS = 200
# At least this share of the values between a counter's smallest and largest value must occur.
_DENSE = 0.8


@dataclass(frozen=True)
class PlainNames:
    """Names of ranges without the numbers that torch appends."""

    names: list[str]
    # The numbers that followed each name; -1 where there was none.
    op_id: Int64s
    seq: Int64s
    # The sizes of the inputs as torch writes them, for attention operators only; "" for all others.
    sizes: list[str]


def strip_numbers(names: Sequence[str]) -> PlainNames:
    """Return the names without `, op_id = N`, `, seq = N`, `, sizes = [...]` and `, input_op_ids = [...]`."""
    sizes = [""] * len(names)
    plain, numbers = [], np.full((2, len(names)), -1, dtype=np.int64)
    for row, name in enumerate(names):
        begin = min((at for at in (name.find(", op_id = "), name.find(", seq = ")) if at > 0), default=-1)
        parts = list(_SUFFIX.finditer(name, begin)) if begin > 0 else []
        whole = bool(parts) and parts[0].start() == begin and parts[-1].end() == len(name)
        plain.append(name[:begin] if whole else name)
        for part in parts if whole else ():
            if part[1] is not None and len(part[2]) < 19:
                numbers[0 if part[1] == "op_id" else 1, row] = int(part[2])
            elif part[0].startswith(_SIZES) and "attention" in plain[-1]:
                sizes[row] = part[0].removeprefix(_SIZES)
    return PlainNames(plain, numbers[0], numbers[1], sizes)


def strip_ranges(ranges: pd.DataFrame) -> pd.DataFrame:
    """Return the ranges with torch's numbers in columns `op_id` and `seq` (-1: none) instead of in their names.

    The sizes of the inputs of attention operators become the column `sizes`.
    """
    codes, unique = pd.factorize(ranges["name"])
    stripped = strip_numbers(unique.tolist())
    if not ((stripped.op_id >= 0) | (stripped.seq >= 0)).any():
        return ranges.assign(op_id=-1, seq=-1)
    names, sizes = np.array(stripped.names, dtype=object), np.array(stripped.sizes, dtype=object)
    plain = ranges.assign(name=names[codes], op_id=stripped.op_id[codes], seq=stripped.seq[codes])
    return plain.assign(sizes=sizes[codes]) if any(stripped.sizes) else plain


def name_families(names: Sequence[str]) -> list[str]:
    """Return for each name its family: `step#` for step0, step1, ...; a name without a family is returned unchanged.

    At least three names must differ in one number only. That number must count up (0, 1, 2, ...) or follow a word that
    is counted, such as `step`. `S1024`, `S2048`, `S4096` are sizes, so they are not a family.
    """
    unique = list(dict.fromkeys(names))
    by_template: dict[str, list[str]] = {}
    for name in unique:
        # The tokens that replace names in a bundle are numbered by first use, so their numbers count nothing.
        if len(name) < 1000 and not name.startswith(_TOKEN):
            by_template.setdefault(_DIGITS.sub("#", name), []).append(name)
    family = {name: name for name in unique}
    for template, members in by_template.items():
        if len(members) >= _LEAST_MEMBERS and "#" in template:
            _fold(members, family)
    return [family[name] for name in names]


def name_steps(names: Sequence[str], instances: Sequence[int]) -> list[str]:
    """Return for each name its family where the family counts steps, else the name itself.

    Names of XLA lose the numbers that another run would write otherwise.

    The members of such a family occur once each, and follow a word such as `step` or are very many. Layers keep their
    names, because they are compared one by one.

    instances: how often each name occurs.
    """
    families = name_families(names)
    once = dict.fromkeys(families, 0)
    for family, count in zip(families, instances, strict=True):
        once[family] = max(once[family], count)
    many = {family for family, members in Counter(families).items() if members > _MANY_MEMBERS}
    return [
        family
        if family != name and once[family] == 1 and (family in many or _STEP.search(family))
        else same_in_runs(name)
        for name, family in zip(names, families, strict=True)
    ]


def same_in_runs(name: str) -> str:
    """Return the name without the numbers that XLA writes into it and that differ between runs of one program."""
    return _XLA_NUMBER.sub("", name) if len(name) < 1000 and _XLA.match(name) else name


def _fold(members: list[str], family: dict[str, str]) -> None:
    """Write the folded name (`step#`) into `family` for members that differ in one number only."""
    numbers = [[int(text[:18]) for text in _DIGITS.findall(name)] for name in members]
    folded = set()
    for slot in range(len(numbers[0])):
        values = {row[slot] for row in numbers}
        if len(values) < 2:
            continue
        before = _before(members[0], slot)
        dense = len(values) >= max(_LEAST_MEMBERS, _DENSE * (max(values) - min(values) + 1))
        small = dense and min(values) <= len(values) * 100
        if small or (len(values) >= _LEAST_MEMBERS and _COUNTED.search(before)):
            folded.add(slot)
    for name in members:
        slots = iter(range(len(numbers[0])))
        family[name] = _DIGITS.sub(lambda digits: "#" if next(slots) in folded else digits[0], name)  # noqa: B023


def _before(name: str, slot: int) -> str:
    for number, digits in enumerate(_DIGITS.finditer(name)):
        if number == slot:
            return name[: digits.start()]
    return ""
