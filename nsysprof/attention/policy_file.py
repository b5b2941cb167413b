"""Read and write the policy file: the best backend found for each shape, and where it was found. It is JSON.

    {"format_version": 1, "nsysprof_version": ..., "gpu_name": ..., "torch_version": ..., "cudnn_version": ...,
     "device": "cuda", "created_utc": ...,
     "rules": [{"batch": 1, "heads": 8, "kv_heads": 8, "seq": 512, "head_dim": 64, "dtype": "fp16", "causal": true,
                "pass": "fwd", "backend": "cudnn", "why": "winner", "median_ns": 10200.0, "over_auto": 1.08}, ...]}

A backend is one of torch's own, `auto`, which leaves the choice to torch, or one of a fixed list of libraries whose
adapters nsysprof has. A policy may come from others, so no other name in it is ever imported: neither a function of
your own nor a kernel of a hub. A lossy backend is none of them, because every backend is compared with torch's choice.

`seq_to` and `kv_seq_to` make a rule hold for all lengths from `seq` and `kv_seq` up to them.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from msgspec import Meta

from nsysprof.attention.shape import Case, Shape
from nsysprof.errors import PolicyError
from nsysprof.files.plain_file import VERSION, FileHeader, encode_json, read_json, write_whole
from nsysprof.plain_text import plain_line

# The version of the format. 1: the first.
FORMAT_VERSION = 1
SDPA_BACKENDS = ("math", "flash", "efficient", "cudnn")
AUTO = "auto"
LIBRARY_BACKENDS = ("flex", "varlen", "flash3", "flash4", "flash_attn", "xformers", "flashinfer", "te")
POLICY_BACKENDS = (*SDPA_BACKENDS, *LIBRARY_BACKENDS, AUTO)
_LARGEST_BYTES = 64 << 20
_Text = Annotated[str, Meta(max_length=1000)]


class PolicyRule(Case, frozen=True, order=True, kw_only=True):
    """A shape, and the backend that was found best for it."""

    # "winner", "tie" or "alone".
    why: _Text = ""
    median_ns: float | None = None
    # The latency of torch's own choice divided by the latency of this backend.
    over_auto: float | None = None
    # The longest queries and keys for which it holds; 0 for those of the shape alone.
    seq_to: Annotated[int, Meta(ge=0, le=10**12)] = 0
    kv_seq_to: Annotated[int, Meta(ge=0, le=10**12)] = 0

    @property
    def is_range(self) -> bool:
        """Return whether the rule holds for several lengths."""
        return bool(self.seq_to or self.kv_seq_to)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.heads % self.kv_heads:
            raise ValueError("kv_heads does not divide heads")
        if self.backend not in POLICY_BACKENDS:
            raise ValueError(f"backend is not one of {', '.join(POLICY_BACKENDS)}")
        if (self.seq_to and self.seq_to < self.seq) or (self.kv_seq_to and self.kv_seq_to < self.kv_seq):
            raise ValueError("seq_to or kv_seq_to is less than the length from which it counts")


@dataclass(frozen=True)
class PolicyFile:
    """The rules of a policy, and the machine for which they are valid."""

    rules: tuple[PolicyRule, ...]
    device: str
    gpu_name: str | None
    torch_version: str | None
    cudnn_version: str | None
    created_utc: str = ""


class _PolicyFile(FileHeader, kw_only=True):
    """A policy on disk. A file from another program may lack any fact about the machine, or have null."""

    rules: tuple[PolicyRule, ...]
    device: _Text | None = None
    gpu_name: _Text | None = None
    torch_version: _Text | None = None
    cudnn_version: _Text | None = None
    created_utc: _Text | None = None


def write_policy(path: Path, policy: PolicyFile) -> None:
    """Write the policy. Raises OutputError."""
    file = _PolicyFile(
        format_version=FORMAT_VERSION,
        nsysprof_version=VERSION,
        created_utc=policy.created_utc,
        device=policy.device,
        gpu_name=policy.gpu_name,
        torch_version=policy.torch_version,
        cudnn_version=policy.cudnn_version,
        rules=policy.rules,
    )
    write_whole(path, encode_json(file))


def read_policy(path: Path) -> PolicyFile:
    """Return a policy. Raises PolicyError for a file that is missing, damaged, not ours, or of a newer version."""
    file = read_json(
        path,
        _PolicyFile,
        kind="a policy of nsysprof",
        advice="Give the policy.json that tune wrote, or tune again.",
        error=PolicyError,
        newest=FORMAT_VERSION,
        largest_bytes=_LARGEST_BYTES,
    )
    seen: dict[Shape, int] = {}
    for index, rule in enumerate(file.rules):
        first = seen.setdefault(rule.shape, index)
        if first != index:
            raise PolicyError(f"{path} is damaged: rules {first} and {index} are for the same call.", "Tune again.")
    return PolicyFile(
        file.rules,
        device=plain_line(file.device or "cuda"),
        gpu_name=_plain(file.gpu_name),
        torch_version=_plain(file.torch_version),
        cudnn_version=_plain(file.cudnn_version),
        created_utc=plain_line(file.created_utc or ""),
    )


def _plain(text: str | None) -> str | None:
    """Return a text of the file without what could command a terminal."""
    return None if text is None else plain_line(text)
