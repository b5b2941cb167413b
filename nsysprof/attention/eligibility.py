"""Define a call of attention, what `explain` asks and answers about it, and the nearest call that a backend accepts.

Questions and answers are files between the command and the process that loads torch. A constraint is parsed from the
text of torch's warning. The texts are from sdp_utils.cpp and sdp_utils_cpp.h of PyTorch 2.5 to 2.13. An unknown text
becomes a constraint with torch's words and no data, so that no refusal is lost.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from nsysprof.attention.mask import BACKENDS, DTYPES, MASKS, Window, mask_of_window
from nsysprof.attention.shape import (
    PLAIN,
    Served,
    Shape,
    Size,
    check_names,
    check_served,
    check_sizes,
    has_learned_mask,
    known_backends,
)
from nsysprof.errors import UsageError
from nsysprof.files.plain_file import encode_json, json_value, read_json

CALL_PASSES = ("fwd", "bwd")


class AttentionCall(Shape, frozen=True, order=True, kw_only=True):
    """One call of attention: a shape, and the other arguments that torch's checks look at.

    k and v are (batch, kv_heads, kv_seq, head_dim).
    """

    kv_seq: Size
    # The kind of attn_mask: none, bool, float (in the dtype of the inputs), or learned (which needs a gradient),
    # or a window.
    mask: str = "none"
    dropout: float = 0.0

    @property
    def tensor_bytes(self) -> int:
        """Return the bytes of q, k, v and the output."""
        return self.input_bytes + self.output_bytes


def expand_calls(
    *,
    seqs: Sequence[int],
    kv_seqs: Sequence[int],
    batches: Sequence[int],
    heads: Sequence[int],
    kv_heads: Sequence[int],
    head_dims: Sequence[int],
    dtypes: Sequence[str],
    causal: bool | None,
    mask: str,
    dropout: float,
    passes: Sequence[str],
    window: Window | None = None,
    served: Served = PLAIN,
) -> list[AttentionCall]:
    """Return every combination, in the order given and without repeats.

    Raises UsageError for values that contradict each other or make no sense.

    kv_seqs, kv_heads: empty for the same as seqs and heads.
    causal: None for causal unless there is a mask, because torch takes only one of the two.
    """
    for name, sizes in (("seq", seqs), ("batch", batches), ("heads", heads), ("head-dim", head_dims)):
        check_sizes(name, sizes)
    for name, sizes in (("kv-seq", kv_seqs), ("kv-heads", kv_heads)):
        check_sizes(name, sizes or [1])
    check_names("dtype", dtypes, DTYPES)
    check_names("pass", passes, CALL_PASSES)
    check_names("mask", [mask], MASKS)
    if not 0 <= dropout < 1:
        raise UsageError(f"--dropout {dropout:g} is not a valid probability.", "Give 0 or more, and less than 1.")
    if window is not None and (mask != "none" or causal):
        raise UsageError(
            f"--window and {'--causal' if causal else '--mask'} exclude each other.",
            "Leave one of them out; --window 256,0 is a causal window.",
        )
    if causal and mask != "none":
        raise UsageError("--causal and --mask exclude each other in torch.", "Leave one of them out.")
    settled = mask == "none" if causal is None else causal
    cells = itertools.product(batches, heads, kv_heads or [0], head_dims, dtypes, passes, seqs, kv_seqs or [0])
    calls = [
        AttentionCall(
            seq=s,
            kv_seq=ks or s,
            batch=b,
            heads=h,
            kv_heads=kh or h,
            head_dim=d,
            dtype=t,
            causal=c,
            mask=m,
            dropout=dropout,
            pass_=p,
            **served._asdict(),
        )
        for b, h, kh, d, t, p, s, ks in cells
        for m, c in [(mask, settled) if window is None else mask_of_window(window, s, ks or s)]
    ]
    for call in calls:
        if call.heads % call.kv_heads:
            raise UsageError(
                f"--heads {call.heads} cannot be shared among --kv-heads {call.kv_heads}.",
                "The heads of k and v must divide the heads of q.",
            )
        check_served(call)
    return list(dict.fromkeys(calls))


def expand_backends(names: Sequence[str]) -> list[str]:
    """Return the backends without repeats. Raises UsageError for an unknown name.

    `all` means torch's own backends and naive. Backends that packages register must be named.
    """
    wanted = [name for given in names for name in (BACKENDS if given == "all" else (given,))]
    check_names("backend", wanted, (*known_backends(), "all"))
    return list(dict.fromkeys(wanted))


@dataclass(frozen=True)
class EligibilityQuestion:
    """The question whether `backend` takes `call`, and what it runs."""

    backend: str
    call: AttentionCall


@dataclass(frozen=True)
class EligibilityJob:
    """All questions of one command."""

    questions: tuple[EligibilityQuestion, ...]
    # cuda or cpu.
    device: str
    # The file of JSON lines in which the process answers.
    events_path: str

    def write(self, path: Path) -> None:
        path.write_bytes(encode_json(self))

    @staticmethod
    def read(path: Path) -> EligibilityJob:
        return read_json(path, EligibilityJob, kind="a job of explain", advice="Run explain again.")


@dataclass(frozen=True)
class Ran:
    """What one call really ran, as torch's profiler shows it."""

    # ok, out_of_memory, error, timeout, crashed or not_run. All but ok have a reason.
    status: str
    reason: str = ""
    # flash, efficient, cudnn, math or other; None when unknown.
    family: str | None = None
    # Torch's own name of the path that it took.
    operator: str | None = None
    # The name, count and total_ns of each kernel; empty on the CPU, where only the operator can be seen.
    kernels: tuple[dict[str, Any], ...] = ()
    # Whether the family is the backend's own (for auto: the predicted one); None when unknown.
    as_asked: bool | None = None


@dataclass(frozen=True)
class EligibilityAnswer:
    """What is known about one question."""

    backend: str
    # None when it cannot be known here.
    eligible: bool | None
    # Why it is refused or cannot be known.
    reason: str = ""
    # Each constraint that failed.
    constraints: tuple[Constraint, ...] = ()
    # Similar calls that pass.
    nearest: tuple[AttentionCall, ...] = ()
    # Whether this torch has the backend, and whether this GPU's architecture supports it; None when unknown.
    built: bool | None = None
    supported: bool | None = None
    # Only for auto: the backend that torch says it will pick.
    predicted: str | None = None
    ran: Ran = field(default_factory=lambda: Ran("not_run"))


Value = str | int | float | bool | list[str | int] | None

_TORCH_DTYPES = {"Half": "fp16", "BFloat16": "bf16", "Float": "fp32", "float": "fp32"}


@dataclass(frozen=True)
class Constraint:
    """A `property` that has a `value` but must be `relation` `bound`: head_dim 8192 must be "at most" 256."""

    # A field of AttentionCall, or gpu_architecture, built, device, enabled, cudnn_version, deterministic or layout.
    # None where torch's text is not known.
    property: str | None
    # None where torch's text does not say it; this holds for `bound` too.
    value: Value
    # at most, at least, multiple of, one of, equal to, between (both ends allowed), outside (of an interval that is
    # open at its lower end), divisor of, or unlike.
    relation: str
    bound: Value
    # Torch's own words.
    text: str


def parse_refusal(messages: list[str], call: AttentionCall) -> list[Constraint]:
    """Return the constraints in torch's warnings about `call`, one per warning, without headlines and repeats."""
    texts = dict.fromkeys(plain_text(message) for message in messages)
    return [_parse(text, call) for text in texts if text and not text.endswith("not used because:")]


def plain_text(message: str) -> str:
    """Return a warning of torch without the position in torch's source that raised it."""
    return re.sub(r"\s*\(Triggered internally at [^)]*\)", "", message).strip()


def _parse(text: str, call: AttentionCall) -> Constraint:
    for pattern, read in _RULES:
        match = pattern.search(text)
        if match:
            name, value, relation, bound = read(match, call)
            return Constraint(name, value, relation, bound, text)
    return Constraint(None, None, "", None, text)


_Read = Callable[[re.Match[str], AttentionCall], tuple[str, Value, str, Value]]


def _known(name: str, relation: str, bound: Value) -> _Read:
    """Return a rule for a text without numbers: the value is taken from the call, the bound belongs to the text."""
    return lambda _found, call: (name, getattr(call, name), relation, bound)


def _numbers(name: str, relation: str) -> _Read:
    """Return a rule for a text that gives the bound and sometimes the value; otherwise the call gives the value."""

    def read(match: re.Match[str], call: AttentionCall) -> tuple[str, Value, str, Value]:
        groups = match.groups()
        value = int(groups[1]) if len(groups) > 1 else getattr(call, name)
        return name, value, relation, int(groups[0])

    return read


def _fixed(name: str, value: Value, relation: str, bound: Value) -> _Read:
    return lambda _found, _call: (name, value, relation, bound)


def _architecture(match: re.Match[str], _call: AttentionCall) -> tuple[str, Value, str, Value]:
    low, high, major, minor = match.groups()
    return "gpu_architecture", f"sm{major}{minor}", "between", [low, high]


def _dtype(match: re.Match[str], call: AttentionCall) -> tuple[str, Value, str, Value]:
    names = [name.strip() for name in match[1].split(",")]
    got = match[2].removeprefix("c10::")
    return "dtype", _TORCH_DTYPES.get(got, call.dtype), "one of", [_TORCH_DTYPES.get(name, name) for name in names]


def _causal(match: re.Match[str], _call: AttentionCall) -> tuple[str, Value, str, Value]:
    return "kv_seq", int(match[2]), "equal to", int(match[1])


def _training_head_dim(match: re.Match[str], call: AttentionCall) -> tuple[str, Value, str, Value]:
    return "head_dim", int(match[1]), "outside", [192, 256 if call.dropout > 0 else 224]


def _cudnn_dimensions(match: re.Match[str], _call: AttentionCall) -> tuple[str, Value, str, Value]:
    bound, batch, heads = map(int, match.groups())
    return ("batch", batch, "at most", bound) if batch > bound else ("heads", heads, "at most", bound)


def _grouped(_found: re.Match[str], call: AttentionCall) -> tuple[str, Value, str, Value]:
    return "kv_heads", call.kv_heads, "divisor of", call.heads


def _same_heads(_found: re.Match[str], call: AttentionCall) -> tuple[str, Value, str, Value]:
    return "kv_heads", call.kv_heads, "equal to", call.heads


def _cudnn_too_old(match: re.Match[str], _call: AttentionCall) -> tuple[str, Value, str, Value]:
    return "cudnn_version", match[1], "at least", match[2]


def _cudnn_at_least(match: re.Match[str], _call: AttentionCall) -> tuple[str, Value, str, Value]:
    return "cudnn_version", None, "at least", match[1]


# The first rule that matches is used, so a longer text comes before a shorter one that it contains.
_RULES: tuple[tuple[re.Pattern[str], _Read], ...] = tuple(
    (re.compile(pattern, re.DOTALL), read)
    for pattern, read in (
        (r"less than or equal to (\d+)\.\s+Got Query\.size\(-1\): (\d+)", _numbers("head_dim", "at most")),
        (r"less or equal than (\d+)\.\s+Got Query\.size\(-1\): (\d+)", _numbers("head_dim", "at most")),
        (r"to be divisible by (\d+)\.\s+Got Query\.size\(-1\): (\d+)", _numbers("head_dim", "multiple of")),
        (r"head_dim should be no more than (\d+)", _numbers("head_dim", "at most")),
        (r"head_dim should be a multiple of (\d+)", _numbers("head_dim", "multiple of")),
        (r"support training with head_dim.*?and head_dim: (\d+)", _training_head_dim),
        (r"does not support backward with these head dimensions", _known("head_dim", "unlike", None)),
        (r"only supports gpu architectures in the range \[(\w+), (\w+)\].*?on a sm (\d+)\.(\d+) gpu", _architecture),
        (r"all be of dtype: \{(.*?)\}\. Got Query dtype: ([\w:]+)", _dtype),
        (r"Got seqlen_q: (\d+) seqlen_k: (\d+)", _causal),
        (r"does not support non-null attn_mask", _known("mask", "equal to", "none")),
        (r"following attn mask shapes", _known("mask", "unlike", None)),
        (r"dropout probability resolution is limited to 1/16", _known("dropout", "multiple of", 0.0625)),
        (r"do not support non-zero dropout", _known("dropout", "equal to", 0)),
        (r"version does not support drop+out", _known("dropout", "equal to", 0)),
        (r"num_heads greater than (\d+)\. Got batch size: (\d+), num_heads: (\d+)", _cudnn_dimensions),
        (r"does not support key/value sequence length 1\b", _known("kv_seq", "at least", 2)),
        (r"does not support query sequence length 1\b", _known("seq", "unlike", 1)),
        (r"not-multiple-of-(\d+) seq_kv", _numbers("kv_seq", "multiple of")),
        (r"s_q less than (\d+) is not supported", _numbers("seq", "at least")),
        (r"s_q not a multiple of (\d+)", _numbers("seq", "multiple of")),
        (r"must divide number of heads in query", _grouped),
        (r"to have the same num_heads", _same_heads),
        (r"(\d+) cuDNN version too old.*?< v([\d.]+)", _cudnn_too_old),
        (r"requires cudnn ([\d.]+) or higher", _cudnn_at_least),
        (r"only supported on ([\d.]+) onwards", _cudnn_at_least),
        (r"is not deterministic", _fixed("deterministic", True, "equal to", False)),
        (r"last dimension of the input to have stride 1", _fixed("layout", None, "unlike", None)),
        (r"runtime disabled", _fixed("enabled", False, "equal to", True)),
        (r"was not compiled for current", _fixed("built", False, "equal to", True)),
        (r"not compiled with", _fixed("built", False, "equal to", True)),
        (r"requires a CUDA device, which is not", _fixed("device", "cpu", "equal to", "cuda")),
        (r"need to be on cuda device", _fixed("device", "cpu", "equal to", "cuda")),
    )
)


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
    same = {"head_dim_v"} if call.own_head_dim_v is other.own_head_dim_v is None else set()
    return {name: {"from": old[name], "to": new[name]} for name in old if old[name] != new[name] and name not in same}


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
    if name == "head_dim" and call.own_head_dim_v is None:
        changed["head_dim_v"] = size
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
