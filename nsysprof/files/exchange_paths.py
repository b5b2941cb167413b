"""Exchange two paths in one atomic step, where the system supports it."""

from __future__ import annotations

import ctypes
import os
from functools import cache
from pathlib import Path
from typing import Any

_AT_FDCWD, _RENAME_EXCHANGE = -100, 2


def exchange_paths(first: Path, second: Path) -> bool:
    """Exchange two folders of one file system, and return whether the system supports that."""
    renameat2 = _renameat2()
    if renameat2 is None:
        return False
    paths = (os.fsencode(first), os.fsencode(second))
    return bool(renameat2(_AT_FDCWD, paths[0], _AT_FDCWD, paths[1], _RENAME_EXCHANGE) == 0)


@cache
def _renameat2() -> Any:
    """Return the C library's function; None where it has none, as on macOS and Windows."""
    try:
        function = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError, TypeError):
        return None
    function.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint]
    function.restype = ctypes.c_int
    return function
