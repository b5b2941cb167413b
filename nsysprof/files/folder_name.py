"""Make a name for a new folder or file from the name of its source."""

from __future__ import annotations

from pathlib import Path

from nsysprof.plain_text import plain_line

_SUFFIXES = (
    ".zip", ".xz", ".gz", ".zst", ".sqlite", ".nsys-rep", ".qdrep", ".json", ".pt.trace", ".pickle", ".pkl",
)  # fmt: skip


def name_after(source: Path, otherwise: str = "trace") -> str:
    """Return a folder's name, or a file's without its suffixes, in characters that a terminal shows.

    otherwise: what to return where nothing is left.
    """
    name = source.resolve().name
    if not source.is_dir():
        for suffix in _SUFFIXES:
            name = name.removesuffix(suffix)
    return plain_line(name) or otherwise
