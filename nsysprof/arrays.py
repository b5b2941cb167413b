"""Define array types, and small functions on arrays: merge spans, group rows by key, compile loops."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pandas as pd

Int64s = npt.NDArray[np.int64]
Integer = TypeVar("Integer", bound=np.integer)
Floats = npt.NDArray[np.float64]


def rows_by_key(keys: pd.Series, rows: Int64s | None = None) -> list[tuple[Any, Int64s]]:
    """Return pairs (key, its rows) in order of key. Rows without a key are in no group.

    rows: the row of each key; None means 0, 1, 2 and so on.
    """
    codes, unique = pd.factorize(keys, sort=True)
    # Numbers with few bits are sorted by counting, which is faster than comparing.
    codes = codes.astype(np.int16 if len(unique) < 1 << 15 else np.int64)
    order = np.argsort(codes, kind="stable")
    edges = np.searchsorted(codes[order], np.arange(len(unique) + 1))
    ordered = order if rows is None else rows[order]
    return [(key, ordered[edges[number] : edges[number + 1]]) for number, key in enumerate(unique)]


def different(values: npt.NDArray[Integer]) -> npt.NDArray[Integer]:
    """Return the different values in order.

    np.unique hashes large arrays first. That takes eight times as long as this where most values differ.
    """
    ordered = np.sort(values)
    fresh = np.ones(len(ordered), dtype=np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=fresh[1:])
    found: npt.NDArray[Integer] = ordered[fresh]
    return found


def merge_spans(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the spans (start, end) in order. Those that overlap or touch are joined into one."""
    merged: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def compile_function(**options: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that compiles a function. Raises ImportError without numba.

    Compiling takes a second or two. Where neither the installation nor the user's own folders can be written, every run
    compiles again, which is still faster than the uncompiled code.

    options: see numba.njit.
    """
    import numba

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        try:
            kept: Callable[..., Any] = numba.njit(cache=True, **options)(function)
        except RuntimeError:  # numba finds no folder for its cache
            kept = numba.njit(**options)(function)
        return kept

    return decorate
