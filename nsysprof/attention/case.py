"""Define a case, which is one cell of the grid and the key of every measurement; make the grid and list its backends.

Backends are also those that installed packages register as entry points of the group `nsysprof.backends`. A package
names a callable (q, k, v, is_causal) -> out in its pyproject.toml, and the name becomes a backend:

    [project.entry-points."nsysprof.backends"]
    mine = "mypkg.kernels:attention"

Reading the names imports neither the package nor torch. Only the measured process loads the callable.
"""

from __future__ import annotations

import difflib
import itertools
import re
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import Meta
from msgspec.structs import asdict

from nsysprof.attention.shape import BACKENDS, DTYPES, PASSES, Shape, Window, check_masks, mask_of_window, shape_of_row
from nsysprof.errors import UsageError
from nsysprof.files.json_file import explain_decoding

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

# One of our names, a plug-in's name, or the user's own `module:function`, as far as a range name can contain it.
BACKEND_PATTERN = r"^[A-Za-z_][\w.]*(:[A-Za-z_]\w*)?$"


class Case(Shape, frozen=True, order=True):
    """A shape and the backend that computes it."""

    backend: Annotated[str, Meta(pattern=BACKEND_PATTERN, max_length=300)]


def case_of_row(row: Mapping[Any, Any]) -> Case:
    """Return the case in a row of a table with `backend` and SHAPE_COLUMNS."""
    return make_case(str(row["backend"]), shape_of_row(row))


def row_of_case(case: Case) -> dict[str, Any]:
    """Return a case as a row of a table: `backend` and SHAPE_COLUMNS."""
    return dict(msgspec.to_builtins(case))


def check_case_row(row: Mapping[Any, Any]) -> None:
    """Raise ValueError, which names the column, when a row of a file does not describe a case."""
    causal = {"True": True, "False": False}.get(str(row["causal"]))
    try:
        msgspec.convert({**row, "causal": causal}, Case)
    except msgspec.ValidationError as failed:
        raise ValueError(explain_decoding(failed)) from failed


def make_case(backend: str, shape: Shape) -> Case:
    """Return the case of a backend on a shape."""
    return Case(backend, **asdict(shape))


def expand_grid(
    backends: Sequence[str],
    seqs: Sequence[int],
    batches: Sequence[int] = (1,),
    heads: Sequence[int] = (8,),
    head_dims: Sequence[int] = (64,),
    dtypes: Sequence[str] = ("fp16",),
    causals: Sequence[bool] = (),
    passes: Sequence[str] = ("fwd",),
    kv_heads: Sequence[int] = (),
    kv_seqs: Sequence[int] = (),
    masks: Sequence[str] = ("none",),
    window: Window | None = None,
) -> list[Case]:
    """Return every combination, in the order given and without repeats. The backend changes slowest.

    Raises UsageError for an empty list, an unknown name, a size below one, or heads that kv_heads does not divide.

    causals: empty for a causal mask where there is no other.
    kv_heads, kv_seqs: empty for as many as heads and as long as seq.
    window: the keys before and after its place that a query sees, each None for all; None for no window.
    """
    check_names("backend", backends, known_backends())
    check_names("dtype", dtypes, DTYPES)
    check_names("pass", passes, PASSES)
    for name, sizes in (("seq", seqs), ("batch", batches), ("heads", heads), ("head-dim", head_dims)):
        check_sizes(name, sizes)
    check_sizes("kv-seq", kv_seqs or [1])
    head_pairs = [(h, kv) for h in heads for kv in _key_heads(h, kv_heads)]
    settled = _settle_masks(causals, masks, window)
    cells = itertools.product(backends, batches, head_pairs, head_dims, dtypes, settled, passes, seqs, kv_seqs or [0])
    cases = (
        Case(b, seq=s, batch=n, heads=h, kv_heads=kv, head_dim=d, dtype=t, pass_=p, kv_seq=ks, mask=m, causal=c)
        for b, n, (h, kv), d, t, mask, p, s, ks in cells
        for m, c in [mask if window is None else mask_of_window(window, s, ks or s)]
    )
    return list(dict.fromkeys(cases))


def _settle_masks(causals: Sequence[bool], masks: Sequence[str], window: Window | None) -> list[tuple[str, bool]]:
    """Return each mask and whether it is causal. Raises UsageError for two of them at once."""
    check_masks(tuple(masks))
    others = [mask for mask in masks if mask != "none"]
    if window is not None and others:
        raise UsageError(
            f"--window and --mask {others[0]} exclude each other: a window is a mask of its own.",
            "Leave one of them out; --window 256,0 is a causal window.",
        )
    if True in causals and (window is not None or others):
        near = (
            "--window LEFT,0 is a causal window" if window is not None else "a bool mask may hide what is_causal hides"
        )
        raise UsageError(
            f"--causal and {'--window' if window is not None else '--mask'} exclude each other in torch.",
            f"Leave --causal out; {near}.",
        )
    return [(mask, causal) for mask in masks for causal in causals or [mask == "none"]]


def _key_heads(heads: int, kv_heads: Sequence[int]) -> Sequence[int]:
    if not kv_heads:
        return [heads]
    check_sizes("kv-heads", kv_heads)
    for count in kv_heads:
        if heads % count:
            raise UsageError(
                f"--kv-heads {count} does not divide --heads {heads}.",
                "Each head of k and v serves the same number of heads of q: give a divisor of every --heads.",
            )
    return kv_heads


def known_backends() -> tuple[str, ...]:
    """Return torch's backends and ours, then those that installed packages register under other names."""
    return (*BACKENDS, *(name for name in registered_backends() if name not in BACKENDS))


_CALLABLE = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")


def is_callable_backend(name: str) -> bool:
    """Return whether a backend's name is a `module:function` of the user's own."""
    return _CALLABLE.fullmatch(name) is not None


def check_names(what: str, names: Sequence[str], known: Sequence[str]) -> None:
    """Raise UsageError when there is no name, or an unknown one. The error suggests a known name that is close."""
    if not names:
        raise UsageError(f"--{what} is empty.", f"Give one or more of {', '.join(known)}.")
    for name in names:
        if name not in known and not (what == "backend" and is_callable_backend(name)):
            close = difflib.get_close_matches(name, known, 1)
            hint = f" Did you mean '{close[0]}'?" if close else ""
            more = ", or module:function of your own" if what == "backend" else ""
            raise UsageError(f"Unknown {what} '{name}'.{hint}", f"Known: {', '.join(known)}{more}.")


def check_sizes(name: str, sizes: Sequence[int]) -> None:
    """Raise UsageError when there is no size at all, or one below one."""
    if not sizes:
        raise UsageError(f"--{name} is empty.", "Give one or more positive integers, separated by commas.")
    for size in sizes:
        if size < 1:
            raise UsageError(f"--{name} {size} is not a valid size.", "Give positive integers.")


GROUP = "nsysprof.backends"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")  # what a range name can contain


@cache
def _points(_path: tuple[str, ...]) -> tuple[EntryPoint, ...]:
    """Return the entry points of the packages on this sys.path. They are cached: a command asks a dozen times."""
    from importlib.metadata import entry_points  # only here: it loads a parser of e-mail

    return tuple(entry_points(group=GROUP))


def registered_backends() -> dict[str, EntryPoint]:
    """Return every registered backend by name, sorted.

    A name that a range name cannot contain is left out. Where two packages register the same name, the first on
    sys.path counts, as in an import.
    """
    points_by_name: dict[str, EntryPoint] = {}
    for point in _points(tuple(sys.path)):
        if _NAME.fullmatch(point.name):
            points_by_name.setdefault(point.name, point)
    return dict(sorted(points_by_name.items()))
