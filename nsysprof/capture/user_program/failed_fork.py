"""Recognise a program that failed because a process was forked after its parent had used CUDA."""

from __future__ import annotations

import re
from pathlib import Path

from nsysprof.capture.measured_process import tail
from nsysprof.notes import Note, make_note

# What torch says by itself, and what the runtime answers there to other programs.
_SAID = re.compile(r"Cannot re-initialize CUDA in forked subprocess|cudaErrorInitializationError")


def fork_notes(stderr_log: Path) -> list[Note]:
    """Return the note that CUDA does not work in such a process, where the program's standard error says so."""
    found = _SAID.search(tail(stderr_log))
    return [] if found is None else [make_note("forked-after-cuda", said=found[0])]
