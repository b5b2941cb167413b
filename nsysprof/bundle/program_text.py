"""What everybody has anyway: the source code of nsysprof. A word of it in a report came from there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable


@cache
def program_text() -> bytes:
    """Every module and template of nsysprof, and the scripts of its page."""
    return b"\n".join(_sources(files("nsysprof"), (".py", ".j2", ".js", ".css")))


@cache
def page_parts() -> tuple[bytes, ...]:
    """What every page of a report holds word for word: its scripts and styles, the longest first."""
    return tuple(sorted(_sources(files("nsysprof.report"), (".js", ".css")), key=len, reverse=True))


def is_program_word(value: str) -> bool:
    """Whether a value is one plain word that nsysprof itself writes, such as `median`: reports are full of them."""
    return value in _words()


@cache
def _words() -> frozenset[str]:
    # Not those of the page's minified scripts: their short names could be anybody's.
    written = b"\n".join(_sources(files("nsysprof"), (".py", ".j2")))
    return frozenset(re.findall(r"[A-Za-z]{4,20}", written.decode("utf-8", "replace")))


def _sources(folder: Traversable, suffixes: tuple[str, ...]) -> Iterator[bytes]:
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if entry.is_dir():
            yield from _sources(entry, suffixes)
        elif entry.name.endswith(suffixes):
            yield entry.read_bytes()
