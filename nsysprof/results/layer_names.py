"""Fold the paths of equal modules, which differ in a number, into one name: `layers.[0-31].mlp`."""

from __future__ import annotations

import re
from collections.abc import Sequence

_NUMBER = re.compile(r"(?<![^.])\d+(?![^.])")
# The most numbers that a name lists where some are missing between the first and the last.
_MOST_LISTED = 4


def layer_shape(path: str) -> str:
    """Return a module's path without its first number; a space, which no path has, stands for it."""
    return _NUMBER.sub(" ", path, count=1)


def fold_paths(paths: Sequence[str]) -> str:
    """Return one name for modules of one shape: `layers.[0-31].mlp`, or `[3,5]` where some are missing."""
    parts = []
    for values in zip(*(path.split(".") for path in paths), strict=True):
        distinct = sorted(set(values), key=lambda value: (len(value), value))
        if len(distinct) == 1:
            parts.append(distinct[0])
            continue
        is_dense = int(distinct[-1]) - int(distinct[0]) == len(distinct) - 1
        listed = ",".join(distinct[:_MOST_LISTED]) + ("…" * (len(distinct) > _MOST_LISTED))
        parts.append(f"[{distinct[0]}-{distinct[-1]}]" if is_dense else f"[{listed}]")
    return ".".join(parts)
