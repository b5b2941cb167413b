"""Open a range around each of Python's garbage collections in a captured program, whose time its steps lose.

It needs only torch, because it runs in the program's own Python. The ranges say `nsysprof gc GENERATION`, which
nsysprof.trace.table_readers.layer_ranges reads.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

from .attention_calls.range_marker import find_marker

WANTED = "NSYSPROF_GC"


def begin(torch: Any) -> None:
    """Watch this process, which has just imported torch."""
    push, pop, origin = find_marker(torch)
    if origin in ("nvtx", "torch"):
        gc.callbacks.append(mark_collections(push, pop))


def mark_collections(push: Callable[[str], Any], pop: Callable[[], Any]) -> Callable[[str, dict[str, int]], None]:
    """Return a function for gc.callbacks that opens a range when a collection starts, and closes it when it stops."""
    names = [f"nsysprof gc {generation}" for generation in range(10)]

    def mark(phase: str, facts: dict[str, int]) -> None:
        if phase == "start":
            push(names[facts["generation"]])
        else:
            pop()

    return mark
