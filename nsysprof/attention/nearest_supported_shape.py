"""Find the nearest call that a backend accepts, by asking torch's own check about real neighbours."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

from msgspec.structs import replace

from nsysprof.attention.attention_call import AttentionCall
from nsysprof.attention.choices import DTYPES
from nsysprof.attention.eligibility import Constraint
from nsysprof.attention.shape import has_learned_mask
from nsysprof.files.json_file import json_value

_STEP = 8  # the kernels' alignment; beyond _CLOSE, only multiples of it are tried
_CLOSE = 64
_MOST = 4096  # the largest multiple that is tried; beyond it only the bounds that torch named are
_ROUNDS = 6  # more than the number of shape checks that any backend has
# Other fields that may be changed to satisfy a constraint on a property.
_ALSO = {"kv_seq": ("causal",), "head_dim": ("pass_",), "mask": (), "seq": ("dropout",), "kv_heads": ("heads",)}
_ALL = ("head_dim", "dtype", "seq", "kv_seq", "heads", "kv_heads", "batch", "causal", "mask", "dropout", "pass_")
_SIZES = ("head_dim", "seq", "kv_seq", "heads", "kv_heads", "batch")

Check = Callable[[AttentionCall], "CallVerdict"]


@dataclass(frozen=True)
class CallVerdict:
    """What torch says about one call: whether the backend takes it and, if not, which constraints it named."""

    eligible: bool
    constraints: tuple[Constraint, ...] = ()

    @property
    def properties(self) -> frozenset[str | None]:
        return frozenset(constraint.property for constraint in self.constraints)


@dataclass(frozen=True)
class Explanation:
    """Every constraint that a call violates, and calls that pass."""

    # In torch's order. Torch stops at the first one, so later ones appeared once the earlier ones were satisfied.
    constraints: tuple[Constraint, ...]
    # Each with as few changes as were found to be enough, and the nearest of its property. Empty when no change helps.
    nearest: tuple[AttentionCall, ...]


def explain_refusal(call: AttentionCall, check: Check) -> Explanation:
    """Return every constraint of a refused call, found by satisfying one after another, and the nearest that pass."""
    first = check(call)
    constraints = list(first.constraints)
    single = [passing for name in _ways(first) for passing in _nearest(call, name, constraints, check)]
    if single:
        return Explanation(tuple(constraints), tuple(single))
    current, verdict = call, first
    for _ in range(_ROUNDS):
        step = next((s for name in _ways(verdict) if (s := _step(current, verdict, name, check)) is not None), None)
        if step is None:
            return Explanation(tuple(constraints), ())
        current, verdict = step
        if verdict.eligible:
            return Explanation(tuple(constraints), (current,))
        known = {(constraint.property, constraint.relation) for constraint in constraints}
        constraints += [new for new in verdict.constraints if (new.property, new.relation) not in known]
    return Explanation(tuple(constraints), ())


def changes(call: AttentionCall, other: AttentionCall) -> dict[str, dict[str, Any]]:
    """Return the fields in which two calls differ, as {"head_dim": {"from": 8192, "to": 256}}."""
    old, new = json_value(call), json_value(other)
    return {name: {"from": old[name], "to": new[name]} for name in old if old[name] != new[name]}


def _ways(verdict: CallVerdict) -> list[str]:
    """Return the fields whose change may satisfy a refusal; all of them where torch's text is not known."""
    ways: list[str] = []
    for name in (constraint.property for constraint in verdict.constraints):
        if name is None:
            return list(_ALL)
        if name in _ALL:
            ways += [name, *_ALSO.get(name, ())]
    return list(dict.fromkeys(ways)) if verdict.constraints else list(_ALL)


def _nearest(call: AttentionCall, name: str, constraints: list[Constraint], check: Check) -> list[AttentionCall]:
    passing = (neighbour for neighbour in neighbours(call, name, constraints) if check(neighbour).eligible)
    return list(islice(passing, None if name == "dtype" else 1))  # dtypes have no order, so all that pass are returned


def _step(
    call: AttentionCall, refusal: CallVerdict, name: str, check: Check
) -> tuple[AttentionCall, CallVerdict] | None:
    """Return the nearest neighbour that passes or fails for another reason, and torch's verdict on it."""
    before = {(constraint.property, constraint.relation) for constraint in refusal.constraints}
    for neighbour in neighbours(call, name, list(refusal.constraints)):
        verdict = check(neighbour)
        after = {(constraint.property, constraint.relation) for constraint in verdict.constraints}
        if verdict.eligible or (after and not after & before):
            return neighbour, verdict
    return None


def neighbours(call: AttentionCall, name: str, constraints: list[Constraint]) -> Iterator[AttentionCall]:
    """Yield calls that differ in one field, nearest first. Equal numbers of heads of q and k change together."""
    if name in _SIZES:
        bounds = [c.bound for c in constraints if c.property == name and type(c.bound) is int]
        for size in _sizes(getattr(call, name), bounds):
            changed = _with_size(call, name, size)
            if changed.heads % changed.kv_heads == 0:
                yield changed
        return
    if name == "causal":
        if call.mask == "none":
            yield replace(call, causal=not call.causal)
        return
    choices: dict[str, tuple[Any, ...]] = {
        "dtype": DTYPES,
        # The nearest to a learned mask is the same mask without a gradient. No check accepts learned masks alone.
        "mask": ("float", "none", "bool") if has_learned_mask(call) else ("none", "bool", "float"),
        "pass_": ("fwd",),
        "dropout": tuple(sorted((n / 16 for n in range(16)), key=lambda p: abs(p - call.dropout))),
    }
    for choice in choices[name]:
        conflict = name == "mask" and choice != "none" and call.causal
        if choice != getattr(call, name) and not conflict:
            yield replace(call, **{name: choice})


def _with_size(call: AttentionCall, name: str, size: int) -> AttentionCall:
    if name in ("heads", "kv_heads") and call.heads == call.kv_heads:
        return replace(call, heads=size, kv_heads=size)
    changed: dict[str, Any] = {name: size}
    return replace(call, **changed)


def _sizes(value: int, bounds: list[Any]) -> list[int]:
    """Return the sizes to try, nearest first: all close ones, multiples of 8 below, powers of two, and bounds."""
    sizes = set(range(max(1, value - _CLOSE), value + _CLOSE + 1))
    top = (value - 1) // _STEP
    sizes |= {multiple * _STEP for multiple in range(max(1, top - _MOST), top + 1)}
    sizes |= {1 << power for power in range(max(1, value).bit_length() + 1)}
    for bound in bounds:
        sizes |= set(range(max(1, bound - _STEP), bound + _STEP + 1)) | {value // bound * bound}
    return sorted(sizes - {value, 0}, key=lambda size: (abs(size - value), size))
