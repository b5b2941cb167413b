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

    q, k and v all have shape (batch, heads, seq, head_dim).
    """

    backend: str
    seq: int
    batch: int = 1
    heads: int = 8
    head_dim: int = 64
    dtype: str = "fp16"
    causal: bool = True
    pass_: str = "fwd"

    @property
    def input_bytes(self) -> int:
        """Bytes of q, k and v together."""
        return 3 * self.batch * self.heads * self.seq * self.head_dim * DTYPE_BYTES[self.dtype]

    @property
    def score_bytes(self) -> int:
        """Bytes of one full (seq x seq) score matrix over all heads, which `math` and `naive` write out."""
        return self.batch * self.heads * self.seq * self.seq * DTYPE_BYTES[self.dtype]

    def to_json(self) -> dict[str, Any]:
        data = asdict(self)
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
) -> list[Case]:
    """Every combination, backend slowest, in the order given and without repeats.

    Raises UsageError for an empty list, an unknown name or a size below one.
    """
    _check_names("backend", backends, known_backends())
    _check_names("dtype", dtypes, DTYPES)
    _check_names("pass", passes, PASSES)
    for name, sizes in (("seq", seqs), ("batch", batches), ("heads", heads), ("head-dim", head_dims)):
        check_sizes(name, sizes)
    cells = itertools.product(backends, batches, heads, head_dims, dtypes, causals, passes, seqs)
    return list(dict.fromkeys(Case(b, s, n, h, d, t, c, p) for b, n, h, d, t, c, p, s in cells))


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
