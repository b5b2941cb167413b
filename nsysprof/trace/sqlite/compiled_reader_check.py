"""Check whether the compiled reader of large traces works here: compiled at the installation, or by llvmlite."""

from __future__ import annotations

import os
from functools import cache

from nsysprof.notes import Note, make_note


@cache
def compiled_reader_problem() -> str | None:
    """Return why compiled code cannot read large traces; None where it can. This is found by trying."""
    if not hasattr(os, "preadv"):
        return "this system has no preadv"
    import numpy as np  # the workers of many traces start before it is loaded

    none = np.zeros(0, dtype=np.int64)
    try:
        from nsysprof.trace.sqlite.leaf_pages import SLACK
        from nsysprof.trace.sqlite.sqlite_cells import decode

        page = np.zeros(512 + SLACK, dtype=np.uint8)
        decode(page, 0, 512, 512, none, none, none, True, np.zeros((1, 1), dtype=np.int64))
    except Exception as error:  # noqa: BLE001 - an llvmlite that makes no code here can raise anything
        return (str(error).splitlines() or [type(error).__name__])[0][:200]
    return None


def slow_reader_note(problem: str) -> Note:
    """Return the note that SQLite, which is slower, reads a large trace."""
    return make_note("slow-reader", problem=problem)
