"""Prove that a sanitised file holds nothing private: search its bytes, and every cell, for every secret."""

from __future__ import annotations

import base64
import json
import mmap
import sqlite3
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import ClassVar
from urllib.parse import quote as percent_encode

from nsysprof.bundle.secret_values import collect_secrets, is_public
from nsysprof.errors import OutputError
from nsysprof.trace.open import open_trace, quote

_SHORTEST_ENCODED = 6  # bytes: base64 or hex of less is found in any file by chance


class SecretLeakError(OutputError):
    """A private value was found in what was to be shared; the file has been removed."""

    exit_code: ClassVar[int] = 13


def verify_sanitized(source: Path, target: Path, extra_secrets: Iterable[str] = ()) -> list[str]:
    """What of the source's private values is still in the target, one line each; empty when it is clean.

    A line shows the first two characters of a value and its length, never the value.
    """
    with open_trace(source) as trace:
        secrets = collect_secrets(trace.connection)
    return find_leaks(target, secrets | {text for text in extra_secrets if text})


def find_leaks(path: Path, secrets: Iterable[str]) -> list[str]:
    """Search the bytes of any file, and of a SQLite file also each text: a long one is cut over several pages."""
    if path.stat().st_size == 0:
        return []
    needles = [(secret, encoding, needle) for secret in sorted(secrets) for encoding, needle in _needles(secret)]
    leaks: dict[tuple[str, str], None] = {}
    with path.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as content:
        is_sqlite = content[:16] == b"SQLite format 3\0"
        for secret, encoding, needle in needles:
            if content.find(needle) >= 0:
                leaks[secret, encoding] = None
    if is_sqlite:
        for text in _texts(path):
            for secret, encoding, needle in needles:
                if needle in text:
                    leaks[secret, encoding] = None
    return [f"{secret[:2]}... ({len(secret)} characters) as {encoding}" for secret, encoding in leaks]


def _needles(secret: str) -> Iterator[tuple[str, bytes]]:
    plain = secret.encode("utf-8", "surrogatepass")
    yield "UTF-8", plain
    yield "UTF-16", secret.encode("utf-16-le", "surrogatepass")
    yield "UTF-16", secret.encode("utf-16-be", "surrogatepass")
    for escaped in (json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]):
        if escaped.encode("utf-8", "surrogatepass") != plain:
            yield "JSON", escaped.encode("utf-8", "surrogatepass")
    quoted = percent_encode(plain, safe="").encode()
    if quoted != plain:
        yield "percent-encoding", quoted
    if len(plain) >= _SHORTEST_ENCODED and not is_public(secret):
        yield "hex", plain.hex().encode()
        yield "hex", plain.hex().upper().encode()
        yield from (("base64", needle) for needle in _base64_needles(plain))


def _base64_needles(plain: bytes) -> Iterator[bytes]:
    """What base64 makes of the value at each of the three offsets, less the characters its neighbours share."""
    for offset in range(3):
        encoded = base64.b64encode(b"\0" * offset + plain)
        begin = (0, 2, 3)[offset]
        end = (len(plain) + offset) * 8 // 6
        needle = encoded[begin:end]
        yield needle
        if needle.translate(None, b"+/") != needle:
            yield needle.translate(bytes.maketrans(b"+/", b"-_"))


def _texts(path: Path) -> Iterator[bytes]:
    """Every text and blob of a SQLite file, a few thousand joined at a time, and its schema."""
    connection = sqlite3.connect(path.resolve().as_uri() + "?mode=ro&immutable=1", uri=True)
    connection.text_factory = bytes
    try:
        tables = [
            name.decode() for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        ]
        statements = ["SELECT sql FROM sqlite_master"]
        for table in tables:
            for row in connection.execute(f"PRAGMA table_info({quote(table)})"):
                column = quote(row[1].decode())
                condition = f"typeof({column}) IN ('text', 'blob')"
                statements.append(f"SELECT {column} FROM {quote(table)} WHERE {condition}")
        for statement in statements:
            cursor = connection.execute(statement)
            while rows := cursor.fetchmany(5000):
                yield b"\n\0\n".join(cell for (cell,) in rows if isinstance(cell, bytes))
    finally:
        connection.close()
