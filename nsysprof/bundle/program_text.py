"""Provide the words of nsysprof's own source code. Everybody has it, so such a word in a report reveals nothing."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable

TOKEN = re.compile(rb"[A-Za-z0-9_][A-Za-z0-9_.-]*[A-Za-z0-9_]|[A-Za-z0-9_]")
_IN_TOKEN = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-")
_WHOLE_WORD = 6  # bytes; a shorter secret counts only where it is not part of a longer word


def is_revealed_by(text: bytes, start: int, end: int) -> bool:
    """Return whether a secret at `start` to `end` of a text is really revealed there.

    It is not where it is part of a word that nsysprof writes anyway, such as a column's name. A short secret is not
    revealed as part of any longer word.
    """
    first, last = start, end
    while first > 0 and text[first - 1] in _IN_TOKEN and start - first < 100:
        first -= 1
    while last < len(text) and text[last] in _IN_TOKEN and last - end < 100:
        last += 1
    if is_program_token(text[first:last].strip(b".-")):
        return False
    around = text[start - 1 : start] + text[end : end + 1]
    return end - start >= _WHOLE_WORD or not any(chr(byte).isalnum() for byte in around)


@cache
def program_text() -> bytes:
    """Return every module and template of nsysprof, and the scripts of its page."""
    return b"\n".join(_sources(files("nsysprof"), (".py", ".j2", ".js", ".css")))


@cache
def page_parts() -> tuple[bytes, ...]:
    """Return what every page of a report contains literally: its scripts, styles and licences, the longest first."""
    vendored = files("nsysprof.report").joinpath("vendor").iterdir()
    licences = [file.read_bytes() for file in vendored if file.name.startswith(("LICENSE", "NOTICE"))]
    return tuple(sorted([*licences, *_sources(files("nsysprof.report"), (".js", ".css"))], key=len, reverse=True))


def is_program_word(value: str) -> bool:
    """Return whether a value is one plain word that nsysprof itself writes often, such as `median`."""
    return value in _words()


def is_program_token(token: bytes) -> bool:
    """Return whether nsysprof itself writes this run of letters, digits and `_-.`, such as `kernel_total_ns`."""
    return token in _tokens()


@cache
def _tokens() -> frozenset[bytes]:
    tokens = set(TOKEN.findall(b"\n".join(_sources(files("nsysprof"), (".j2",)))))
    for source in _sources(files("nsysprof"), (".py",)):
        for text in _written_texts(ast.parse(source)):
            tokens.update(TOKEN.findall(text.encode("utf-8", "replace")))
    return frozenset(tokens)


def _written_texts(module: ast.Module) -> Iterator[str]:
    """Yield what a module can print: its literals, and the fields of its classes, which become keys of JSON."""
    nodes = list(ast.walk(module))
    docstrings = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield node.value
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id


@cache
def _words() -> frozenset[str]:
    # Without the words of the page's minified scripts, whose short names could be anybody's.
    written = b"\n".join(_sources(files("nsysprof"), (".py", ".j2")))
    return frozenset(re.findall(r"[A-Za-z]{4,20}", written.decode("utf-8", "replace")))


def _sources(folder: Traversable, suffixes: tuple[str, ...]) -> Iterator[bytes]:
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if entry.is_dir():
            yield from _sources(entry, suffixes)
        elif entry.name.endswith(suffixes):
            yield entry.read_bytes()
