"""Unpack a file into streams of bytes to search: the file itself, and everything packed in it."""

from __future__ import annotations

import base64
import binascii
import html
import re
import sqlite3
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
import mmap
from pathlib import Path

from nsysprof.bundle.leak_corpus import text_columns
from nsysprof.bundle.program_text import page_parts
from nsysprof.trace.open import quote

_SQLITE, _PNG = b"SQLite format 3\0", b"\x89PNG\r\n\x1a\n"
_TEXT_SUFFIXES = (".json", ".csv", ".md", ".html", ".txt")
_DATA_URI = re.compile(rb"base64,([A-Za-z0-9+/]{64,}={0,2})")
_MOST_PIXELS = 512 << 20  # bytes; one of our figures has about ten million


@dataclass(frozen=True)
class Stream:
    """Bytes to search."""

    data: bytes | mmap.mmap
    # Whether short matches are words. Among pixels, packed bytes or integers they appear by chance.
    is_text: bool


def streams_of(path: Path, content: bytes | mmap.mmap) -> Iterator[Stream]:
    """Yield the content itself, then what is inside it: a SQLite file's texts, a PNG's pixels, figures in a page."""
    if content[:16] == _SQLITE:
        yield Stream(content, is_text=False)
        yield from (Stream(texts, is_text=True) for texts in _sqlite_texts(path))
    elif content[:8] == _PNG:
        yield Stream(content, is_text=False)
        yield from _png(bytes(content))
    elif path.suffix == ".md":
        yield from _page(bytes(content))
        # As it is displayed, without the backslashes and zero-width spaces that keep names from being markup.
        yield Stream(re.sub(rb"\\(?=[!-/:-@\[-`{-~])|\xe2\x80\x8b", b"", bytes(content)), is_text=True)
    elif path.suffix in _TEXT_SUFFIXES:
        yield from _page(_without_parts(bytes(content)) if path.suffix == ".html" else bytes(content))
    else:
        # The kind is unknown, so any of it may be text, unless it is an archive.
        yield Stream(content, is_text=path.suffix not in (".zip", ".xz", ".gz", ".zst"))


def _without_parts(content: bytes) -> bytes:
    """Return a page without what every page contains: a minified script contains short secrets by chance."""
    for part in page_parts():
        content = content.replace(part, b"")
    return content


def _page(content: bytes) -> Iterator[Stream]:
    """Yield a text as it is, with HTML's entities resolved, and the figures embedded in it."""
    rest = _DATA_URI.sub(b"base64,", content)
    yield Stream(rest, is_text=True)
    if b"&" in rest:
        plain = html.unescape(rest.decode("utf-8", "replace")).encode("utf-8", "replace")
        yield Stream(plain, is_text=True)
    if len(rest) < len(content):
        yield Stream(content, is_text=False)
    for found in _DATA_URI.finditer(content):
        try:
            data = base64.b64decode(found.group(1))
        except binascii.Error:
            continue  # it is not base64 after all, and its bytes have been searched
        yield Stream(data, is_text=False)
        if data[:8] == _PNG:
            yield from _png(data)


def _png(data: bytes) -> Iterator[Stream]:
    """Yield the unpacked pixels, and every text that the file contains.

    This does not use Pillow, which refuses damaged files: a secret can be in them as well.
    """
    position, pixels = len(_PNG), []
    while position + 12 <= len(data):
        (size,) = struct.unpack(">I", data[position : position + 4])
        kind, body = data[position + 4 : position + 8], data[position + 8 : position + 8 + size]
        if kind == b"IDAT":
            pixels.append(body)
        elif kind in (b"tEXt", b"iTXt", b"eXIf"):
            yield Stream(body, is_text=True)
        if kind in (b"zTXt", b"iTXt", b"iCCP"):
            # The packed part begins two zero bytes or more after the keyword, depending on the kind.
            for begin in range(body.find(b"\0") + 1, min(len(body), body.find(b"\0") + 200)):
                unpacked = _inflate(body[begin:])
                if unpacked:
                    yield Stream(unpacked, is_text=True)
                    break
        position += 12 + size
    yield Stream(_inflate(b"".join(pixels)), is_text=False)


def _inflate(data: bytes) -> bytes:
    try:
        return zlib.decompressobj().decompress(data, _MOST_PIXELS)
    except zlib.error:
        return b""


def _sqlite_texts(path: Path) -> Iterator[bytes]:
    """Yield every text and blob of a SQLite file, joined a few thousand at a time, and its schema."""
    connection = sqlite3.connect(path.resolve().as_uri() + "?mode=ro&immutable=1", uri=True)
    connection.text_factory = bytes
    try:
        tables = [
            name.decode() for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        ]
        statements = ["SELECT sql FROM sqlite_master"]
        for table in tables:
            listed = connection.execute(f"PRAGMA table_info({quote(table)})").fetchall()
            for column in text_columns(connection, quote(table), [quote(row[1].decode()) for row in listed]):
                condition = f"typeof({column}) IN ('text', 'blob')"
                statements.append(f"SELECT DISTINCT {column} FROM {quote(table)} WHERE {condition}")
        for statement in statements:
            cursor = connection.execute(statement)
            while rows := cursor.fetchmany(5000):
                yield b"\n\0\n".join(cell for (cell,) in rows if isinstance(cell, bytes))
    finally:
        connection.close()
