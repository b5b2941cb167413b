"""Find the backends that installed packages register: entry points of the group `nsysprof.backends`.

A package names a callable (q, k, v, is_causal) -> out in its pyproject.toml, and the name becomes a backend:

    [project.entry-points."nsysprof.backends"]
    mine = "mypkg.kernels:attention"

Reading the names imports neither the package nor torch. Only the measured process loads the callable.
"""

from __future__ import annotations

import re
import sys
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

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
    found: dict[str, EntryPoint] = {}
    for point in _points(tuple(sys.path)):
        if _NAME.fullmatch(point.name):
            found.setdefault(point.name, point)
    return dict(sorted(found.items()))
