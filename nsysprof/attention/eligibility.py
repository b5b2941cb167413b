"""Define the questions and answers of `explain`, and Constraint: one reason why torch refused a backend.

Questions and answers are files between the command and the process that loads torch. A constraint is parsed from the
text of torch's warning. The texts are from sdp_utils.cpp and sdp_utils_cpp.h of PyTorch 2.5 to 2.13. An unknown text
becomes a constraint with torch's words and no data, so that no refusal is lost.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nsysprof.attention.attention_call import AttentionCall
from nsysprof.files.json_file import encode_json, read_json


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
