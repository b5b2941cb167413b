"""The policy file: which backend was found best for each shape, and on what. JSON, read with suspicion.

    {"format_version": 1, "nsysprof_version": ..., "gpu_name": ..., "torch_version": ..., "cudnn_version": ...,
     "device": "cuda", "created_utc": ...,
     "rules": [{"batch": 1, "heads": 8, "kv_heads": 8, "seq": 512, "head_dim": 64, "dtype": "fp16", "causal": true,
                "pass": "fwd", "backend": "cudnn", "why": "winner", "median_ns": 10200.0, "over_auto": 1.08}, ...]}

A backend is one of torch's own, or `auto`, which leaves the shape to torch. No name in a policy is ever imported.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from nsysprof import __version__
from nsysprof.case import DTYPES, PASSES
from nsysprof.errors import PolicyError
from nsysprof.output import write_whole

# History of the format. 1: first.
FORMAT_VERSION = 1
SDPA_BACKENDS = ("math", "flash", "efficient", "cudnn")
AUTO = "auto"
_SIZES = ("batch", "heads", "kv_heads", "seq", "head_dim")
_LARGEST = 64 << 20


@dataclass(frozen=True)
class Rule:
    """One shape (seq of queries and of keys alike) and its backend. why: winner, tie or alone."""

    batch: int
    heads: int
    kv_heads: int
    seq: int
    head_dim: int
    dtype: str
    causal: bool
    pass_: str
    backend: str
    why: str = ""
    median_ns: float | None = None
    over_auto: float | None = None

    def to_json(self) -> dict[str, Any]:
        data = asdict(self)
        data["pass"] = data.pop("pass_")
        return data


@dataclass(frozen=True)
class PolicyFile:
    """The rules, and where they hold."""

    rules: tuple[Rule, ...]
    device: str
    gpu_name: str | None
    torch_version: str | None
    cudnn_version: str | None
    created_utc: str = ""


def write_policy(path: Path, policy: PolicyFile) -> None:
    """Raises OutputError."""
    data = {
        "format_version": FORMAT_VERSION,
        "nsysprof_version": __version__,
        "created_utc": policy.created_utc,
        "device": policy.device,
        "gpu_name": policy.gpu_name,
        "torch_version": policy.torch_version,
        "cudnn_version": policy.cudnn_version,
        "rules": [rule.to_json() for rule in policy.rules],
    }
    write_whole(path, (json.dumps(data, indent=1) + "\n").encode())


def read_policy(path: Path) -> PolicyFile:
    """Raises PolicyError for a file that is missing, none of ours, damaged, or of a newer version."""
    try:
        if path.stat().st_size > _LARGEST:
            raise PolicyError(f"{path} is too large for a policy.", "Give the policy.json that tune wrote.")
        data = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise PolicyError(f"{path} cannot be read: {error.strerror}.", "Check the path.") from error
    except (ValueError, RecursionError) as error:
        raise PolicyError(f"{path} is no policy: it is not JSON.", "Give the policy.json that tune wrote.") from error
    if not isinstance(data, dict) or type(data.get("format_version")) is not int or "rules" not in data:
        raise PolicyError(f"{path} is no policy of nsysprof.", "Give the policy.json that tune wrote.")
    if data["format_version"] > FORMAT_VERSION:
        raise PolicyError(f"{path} was written by a newer nsysprof.", "Update nsysprof, or tune again.")
    rules = data["rules"] if isinstance(data["rules"], list) else [None]
    texts = {name: data.get(name) for name in ("device", "gpu_name", "torch_version", "cudnn_version", "created_utc")}
    if any(not isinstance(text, str | None) for text in texts.values()):
        raise PolicyError(f"{path} is damaged: it does not say what it was tuned on.", "Tune again.")
    known = tuple(_rule(path, index, raw) for index, raw in enumerate(rules))
    calls = [replace(rule, backend=AUTO, why="", median_ns=None, over_auto=None) for rule in known]
    for index, call in enumerate(calls):
        if call in calls[:index]:
            raise _damaged(path, index, "it is of the same call as another")
    return PolicyFile(
        known,
        device=texts["device"] or "cuda",
        gpu_name=texts["gpu_name"],
        torch_version=texts["torch_version"],
        cudnn_version=texts["cudnn_version"],
        created_utc=texts["created_utc"] or "",
    )


def _rule(path: Path, index: int, raw: object) -> Rule:
    if not isinstance(raw, dict):
        raise _damaged(path, index, "it is no object")
    for name in _SIZES:
        if type(raw.get(name)) is not int or raw[name] < 1:
            raise _damaged(path, index, f"{name} is no size")
    if raw["heads"] % raw["kv_heads"]:
        raise _damaged(path, index, "kv_heads does not divide heads")
    for name, known in (("dtype", DTYPES), ("pass", PASSES), ("backend", (*SDPA_BACKENDS, AUTO))):
        if raw.get(name) not in known:
            raise _damaged(path, index, f"{name} is none of {', '.join(known)}")
    if type(raw.get("causal")) is not bool:
        raise _damaged(path, index, "causal is neither true nor false")
    why = raw.get("why", "")
    return Rule(
        **{name: raw[name] for name in _SIZES},
        dtype=raw["dtype"],
        causal=raw["causal"],
        pass_=raw["pass"],
        backend=raw["backend"],
        why=why if isinstance(why, str) else "",
        median_ns=_number(raw.get("median_ns")),
        over_auto=_number(raw.get("over_auto")),
    )


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _damaged(path: Path, index: int, what: str) -> PolicyError:
    return PolicyError(f"{path} is damaged: of rule {index}, {what}.", "Tune again, or mend the rule.")
