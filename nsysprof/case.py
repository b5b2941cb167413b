"""Case: one cell of the grid, the key of every measurement."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from nsysprof.errors import UsageError
from nsysprof.registered import registered_backends

BACKENDS = ("math", "flash", "efficient", "cudnn", "auto", "naive")
DTYPES = ("fp16", "bf16", "fp32")
DTYPE_BYTES = {"fp16": 2, "bf16": 2, "fp32": 4}
PASSES = ("fwd", "bwd", "fwdbwd")


@dataclass(frozen=True, order=True)
class Case:
    """Backend, shape (batch, heads, seq, head_dim), dtype, mask and pass of one measurement.

    q has shape (batch, heads, seq, head_dim), k and v (batch, kv_heads, seq, head_dim); without kv_heads as many as q.
    """

    backend: str
    seq: int
    batch: int = 1
    heads: int = 8
    head_dim: int = 64
    dtype: str = "fp16"
    causal: bool = True
    pass_: str = "fwd"
    kv_heads: int | None = None

    def __post_init__(self) -> None:
        if self.kv_heads == self.heads:  # one way to say it, so that equal cases are equal
            object.__setattr__(self, "kv_heads", None)

    @property
    def key_heads(self) -> int:
        """Heads of k and v."""
        return self.heads if self.kv_heads is None else self.kv_heads

    @property
    def input_bytes(self) -> int:
        """Bytes of q, k and v together."""
        return self.output_bytes + 2 * self.output_bytes * self.key_heads // self.heads

    @property
    def output_bytes(self) -> int:
        """Bytes of the result, as large as q."""
        return self.batch * self.heads * self.seq * self.head_dim * DTYPE_BYTES[self.dtype]

    @property
    def score_bytes(self) -> int:
        """Bytes of one full (seq x seq) score matrix over all heads, which `math` and `naive` write out."""
        return self.batch * self.heads * self.seq * self.seq * DTYPE_BYTES[self.dtype]

    def to_json(self) -> dict[str, Any]:
        """The fields by their names in files; `kv_heads` only where it is not `heads`."""
        data = asdict(self)
        if self.kv_heads is None:
            del data["kv_heads"]
        data["pass"] = data.pop("pass_")
        return data

    @staticmethod
    def from_json(data: dict[str, Any]) -> Case:
        fields = dict(data)
        fields["pass_"] = fields.pop("pass")
        return Case(**fields)


def expand_grid(
    backends: Sequence[str],
    seqs: Sequence[int],
    batches: Sequence[int] = (1,),
    heads: Sequence[int] = (8,),
    head_dims: Sequence[int] = (64,),
    dtypes: Sequence[str] = ("fp16",),
    causals: Sequence[bool] = (True,),
    passes: Sequence[str] = ("fwd",),
    kv_heads: Sequence[int] = (),
) -> list[Case]:
    """Every combination, backend slowest, in the order given and without repeats. No kv_heads: as many as heads.

    Raises UsageError for an empty list, an unknown name, a size below one, or heads that kv_heads does not divide.
    """
    _check_names("backend", backends, known_backends())
    _check_names("dtype", dtypes, DTYPES)
    _check_names("pass", passes, PASSES)
    for name, sizes in (("seq", seqs), ("batch", batches), ("heads", heads), ("head-dim", head_dims)):
        check_sizes(name, sizes)
    head_pairs = [(h, kv) for h in heads for kv in _key_heads(h, kv_heads)]
    cells = itertools.product(backends, batches, head_pairs, head_dims, dtypes, causals, passes, seqs)
    return list(dict.fromkeys(Case(b, s, n, h, d, t, c, p, kv) for b, n, (h, kv), d, t, c, p, s in cells))


def _key_heads(heads: int, kv_heads: Sequence[int]) -> Sequence[int | None]:
    if not kv_heads:
        return [None]
    check_sizes("kv-heads", kv_heads)
    for count in kv_heads:
        if heads % count:
            raise UsageError(
                f"--kv-heads {count} does not divide --heads {heads}.",
                "Each head of k and v serves equally many of q: give a divisor of every --heads.",
            )
    return kv_heads


def known_backends() -> tuple[str, ...]:
    """Torch's backends and ours, then those that installed packages register under other names."""
    return (*BACKENDS, *(name for name in registered_backends() if name not in BACKENDS))


_CALLABLE = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")


def is_callable_backend(name: str) -> bool:
    """Whether a backend's name is a `module:function` of the user's own."""
    return _CALLABLE.fullmatch(name) is not None


def _check_names(what: str, names: Sequence[str], known: Sequence[str]) -> None:
    if not names:
        raise UsageError(f"--{what} names nothing.", f"Give one or more of {', '.join(known)}.")
    for name in names:
        if name not in known and not (what == "backend" and is_callable_backend(name)):
            more = ", or module:function of your own" if what == "backend" else ""
            raise UsageError(f"Unknown {what} '{name}'.", f"Known: {', '.join(known)}{more}.")


def check_sizes(name: str, sizes: Sequence[int]) -> None:
    """Raises UsageError for no size at all, or one below one."""
    if not sizes:
        raise UsageError(f"--{name} names nothing.", "Give one or more positive integers, separated by commas.")
    for size in sizes:
        if size < 1:
            raise UsageError(f"--{name} {size} is not a size.", "Give positive integers.")
