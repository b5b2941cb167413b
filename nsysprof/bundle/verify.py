"""Collect every private text of a trace, and search a shared file for each: every byte, and everything packed in it."""

from __future__ import annotations

import base64
import binascii
import csv
import html
import io
import json
import mmap
import re
import sqlite3
import struct
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar
from urllib.parse import quote as percent_encode

from nsysprof.bundle.allow_list import NSYS_TABLE
from nsysprof.bundle.public_names import (
    is_public_call,
    is_public_kernel,
    is_public_range,
    is_revealed_by,
    page_parts,
    program_text,
    public_backends,
)
from nsysprof.bundle.secret_values import SHORTEST, collect_secrets, is_public, machine_secrets
from nsysprof.errors import OutputError
from nsysprof.trace.open import open_trace, quote

_SHORTEST_LINE = 8  # characters; a shorter line that a program printed, such as `done`, reveals nothing
_LEAST_BYTES = 6  # a text is searched for only if it has this many different bytes
_LONGEST = 64  # the bytes of a text that are searched for, at its beginning and at its end

_SHORTEST_ENCODED = 6  # bytes; base64 or hex of fewer bytes is found in any file by chance
# Among packed bytes, pixels and integers, a short needle is found by chance.
_SHORTEST_SECRET_IN_BINARY, _SHORTEST_TEXT_IN_BINARY = 6, 10
_WHOLE_WORD = 12  # bytes; a shorter text counts only where it is not part of a longer word
_BATCH = 200_000  # needles in one automaton, which takes at worst about 2 KB each
_WINDOW = 32 << 20


@dataclass(frozen=True)
class Originals:
    """The texts of the original that a bundle is searched for."""

    # Values that must not appear anywhere, in any encoding.
    secrets: frozenset[str]
    # Parts of the source's texts that were not kept. Finding one is a leak, unless `vocabulary` contains it.
    texts: frozenset[bytes]
    # What is shared on purpose, and the source code of this program.
    vocabulary: bytes

    def joined(self, other: Originals) -> Originals:
        """Return the secrets, texts and vocabulary of both."""
        vocabulary = self.vocabulary + b"\n" + other.vocabulary
        return Originals(self.secrets | other.secrets, self.texts | other.texts, vocabulary)

    def with_texts(self, texts: Iterable[str], shared: Iterable[str]) -> Originals:
        """Return this with more texts to search for.

        shared: texts that the bundle contains on purpose.
        """
        more = _parts_worth_a_search(text.encode("utf-8", "replace") for text in texts)
        words = b"\n".join(sorted(text.encode("utf-8", "replace") for text in shared))
        return Originals(self.secrets, self.texts | more, self.vocabulary + b"\n" + words)

    def explains(self, text: bytes) -> bool:
        """Return whether a text is public anyway: in a library, in nsysprof, or shared on purpose."""
        if text in self.vocabulary or text in program_text():
            return True
        name = text.decode("utf-8", "replace")
        return is_public_kernel(name) or is_public_call(name) or is_public_range(name, public_backends())


def texts_of_json(text: str, name: str) -> Iterator[str]:
    """Yield every text in a JSON or CSV file, without its keys."""
    if name.endswith(".csv"):
        yield from {cell for row in csv.reader(io.StringIO(text)) for cell in row}
        return
    pending = [json.loads(text)]
    while pending:
        value = pending.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, dict | list):
            pending += value.values() if isinstance(value, dict) else value


def collect_originals(
    source: Path, target: Path | None, more_secrets: frozenset[str], public: frozenset[str]
) -> Originals:
    """Return what to search the bundle for.

    source: the original trace.
    target: the trace that was made from it; None when no trace is shared.
    """
    with open_trace(source) as trace:
        secrets = collect_secrets(trace.connection) | machine_secrets() | more_secrets
        before = _all_texts(trace.connection)
        # Tables and columns that were left out are listed by name; nsys' label tables contain some of these names too.
        tables = {name.encode() for name in trace.columns if NSYS_TABLE.fullmatch(name)}
    kept: set[bytes] = set()
    if target is not None:
        with open_trace(target) as trace:
            kept = _all_texts(trace.connection)
    shared = {value.encode("utf-8", "replace") for value in public}
    texts = _parts_worth_a_search(before - kept)
    return Originals(secrets - public, texts - shared, b"\n".join(sorted(kept | shared | tables)))


def _parts_worth_a_search(texts: Iterable[bytes]) -> frozenset[bytes]:
    return frozenset(part for text in texts for part in _parts(text) if _is_worth_a_search(part))


def _is_worth_a_search(text: bytes) -> bool:
    # A run of few different bytes, such as a blob of zeros, appears many times in any file.
    is_run = len(set(text)) < min(_LEAST_BYTES, len(text) // 2)
    return not is_run and text.strip() == text and not is_public(text.decode("utf-8", "replace"))


def _parts(text: bytes) -> Iterator[bytes]:
    """Yield the text and, where it has several lines (a program's output, an environment), each of its lines."""
    pieces = {text}
    if b"\n" in text or b"\0" in text:
        pieces |= {piece.strip() for line in text.split(b"\0") for piece in line.splitlines()}
    for piece in pieces:
        if len(piece) <= _LONGEST:
            if piece is text or len(piece) >= _SHORTEST_LINE:
                yield piece
        else:
            yield piece[:_LONGEST].strip()
            yield piece[-_LONGEST:].strip()


def _all_texts(connection: sqlite3.Connection) -> set[bytes]:
    """Return every text and blob in every table that SQLite itself stores, also of the shadows of virtual tables."""
    texts: set[bytes] = set()
    decode = connection.text_factory
    connection.text_factory = bytes
    try:
        listed = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table'").fetchall()
        for name, sql in listed:
            if sql is None or not sql.lstrip().upper().startswith(b"CREATE TABLE"):
                continue
            table = quote(name.decode("utf-8", "replace"))
            try:
                columns = [
                    row[1].decode("utf-8", "replace") for row in connection.execute(f"PRAGMA table_xinfo({table})")
                ]
                for column in text_columns(connection, table, [quote(column) for column in columns]):
                    kinds = f"typeof({column}) IN ('text', 'blob')"
                    rows = connection.execute(f"SELECT DISTINCT {column} FROM {table} WHERE {kinds}")
                    texts |= {cell for (cell,) in rows if isinstance(cell, bytes)}
            except sqlite3.DatabaseError as error:
                if str(error) == "interrupted":  # by the limit of time, so that it may have been copied
                    raise
                continue  # the table is damaged, so nothing of it was copied either
        texts |= {sql for _, sql in listed if sql is not None}
    finally:
        connection.text_factory = decode
    return texts


def text_columns(connection: sqlite3.Connection, table: str, columns: Sequence[str]) -> list[str]:
    """Return the columns in which any row has a text or a blob, after one read of a table that has none, or two.

    A separate query for each column would read the table as often as there are columns, and most columns have no text.

    table, columns: quoted for SQL.
    """
    if not columns:
        return []
    # A text is greater than every number, and a blob is greater than every text. Most tables have neither, which takes
    # half the time to find out. The sign removes the column's affinity.
    any_text = " OR ".join(f"+{column} >= ''" for column in columns)
    if connection.execute(f"SELECT 1 FROM {table} WHERE {any_text} LIMIT 1").fetchone() is None:
        return []
    asked = ", ".join(f"typeof(max({column})) IN ('text', 'blob')" for column in columns)
    types = connection.execute(f"SELECT {asked} FROM {table}").fetchone()
    return [column for column, has_text in zip(columns, types, strict=True) if has_text]


class SecretLeakError(OutputError):
    """A private value was found in the file to be shared, and the file has been removed."""

    exit_code: ClassVar[int] = 13


@dataclass(frozen=True)
class _Needle:
    """What to search for: a value in one encoding."""

    value: bytes
    encoding: str
    # The value's bytes in this encoding.
    pattern: bytes
    is_secret: bool
    # Whether it is a common word that the caller named explicitly; it counts wherever it stands. A name of fewer than
    # SHORTEST characters does not: every file has it by chance within longer words.
    is_common: bool = False


def find_leaks(path: Path, secrets: Iterable[str]) -> list[str]:
    """Return a line for each secret found in a file or packed in it; a SQLite file is searched text by text as well."""
    return find_originals([path], Originals(frozenset(secrets), frozenset(), b""))


def find_originals(paths: Iterable[Path], originals: Originals) -> list[str]:
    """Return a line for each secret, and for each text that was not kept, that is found in the files."""
    file_by_needle: dict[tuple[bytes, str], str] = {}
    files = [path for path in paths if path.stat().st_size > 0]
    for needles in _batches(_all_needles(originals)):
        search = _Search(needles, originals)
        for path in files:
            for needle in search.file(path):
                file_by_needle.setdefault((needle.value, needle.encoding), path.name)
    return [_describe(value, encoding, name) for (value, encoding), name in sorted(file_by_needle.items())]


def _describe(value: bytes, encoding: str, name: str) -> str:
    text = value.decode("utf-8", "replace")
    return f"{text[:2]}... ({len(text)} characters) as {encoding} in {name}"


class _Search:
    """A search for many needles with one automaton."""

    def __init__(self, needles: list[_Needle], originals: Originals) -> None:
        from ahocorasick_rs import BytesAhoCorasick, Implementation

        self._needles = needles
        self._originals = originals
        self._automaton = BytesAhoCorasick(
            [needle.pattern for needle in needles], implementation=Implementation.ContiguousNFA
        )
        self._overlap = max(len(needle.pattern) for needle in needles)
        self._explained: set[bytes] = set()

    def file(self, path: Path) -> Iterator[_Needle]:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            for stream in streams_of(path, content):
                yield from self._stream(stream)

    def _stream(self, stream: Stream) -> Iterator[_Needle]:
        size = len(stream.data)
        for begin in range(0, size, _WINDOW):
            # A match near the end of a window is found completely in the next window as well.
            window = stream.data[max(0, begin - self._overlap) : begin + _WINDOW + 1]
            if isinstance(stream.data, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
                stream.data.madvise(mmap.MADV_DONTNEED)  # the pages that were read would count as our memory
            for index, start, end in self._automaton.find_matches_as_indexes(window, overlapping=True):
                needle = self._needles[index]
                if self._counts(needle, stream, window, start, end):
                    yield needle

    def _counts(self, needle: _Needle, stream: Stream, window: bytes, start: int, end: int) -> bool:
        """Return whether a match reveals something of the original, rather than being by chance or public anyway."""
        if needle.is_secret:
            is_chance = not stream.is_text and len(needle.pattern) < _SHORTEST_SECRET_IN_BINARY
            is_part = needle.encoding == "UTF-8" and not needle.is_common and not is_revealed_by(window, start, end)
            return not is_chance and not is_part
        if not stream.is_text and len(needle.pattern) < _SHORTEST_TEXT_IN_BINARY:
            return False
        if needle.encoding == "UTF-8" and len(needle.pattern) < _WHOLE_WORD:
            around = window[start - 1 : start] + window[end : end + 1]
            if any(chr(byte).isalnum() or byte == ord("_") for byte in around):
                return False
        if needle.value in self._explained:
            return False
        if self._originals.explains(needle.value):
            self._explained.add(needle.value)
            return False
        return True


def _all_needles(originals: Originals) -> Iterator[_Needle]:
    for secret in sorted(originals.secrets):
        common = is_public(secret)
        for encoding, pattern in _needles(secret, common):
            everywhere = common and len(secret) >= SHORTEST
            yield _Needle(secret.encode("utf-8", "surrogatepass"), encoding, pattern, True, everywhere)
    for text in sorted(originals.texts):
        for encoding, pattern in _needles(text.decode("utf-8", "replace"), len(text) < _SHORTEST_TEXT_IN_BINARY):
            yield _Needle(text, encoding, pattern, False)
        yield _Needle(text, "UTF-8", text, False)  # the name is a guess: the bytes may not be UTF-8


def _batches(needles: Iterator[_Needle]) -> Iterator[list[_Needle]]:
    batch: list[_Needle] = []
    for needle in needles:
        batch.append(needle)
        if len(batch) == _BATCH:
            yield batch
            batch = []
    if batch:
        yield batch


# Neither JSON nor a URL writes these characters in another way.
_NEVER_ESCAPED = re.compile(rb"[A-Za-z0-9_.~-]*")


def _needles(secret: str, short: bool) -> Iterator[tuple[str, bytes]]:
    """Yield a value in each encoding. short: it is too short or common to be distinguished when encoded."""
    plain = secret.encode("utf-8", "surrogatepass")
    yield "UTF-8", plain
    yield "UTF-16", secret.encode("utf-16-le", "surrogatepass")
    yield "UTF-16", secret.encode("utf-16-be", "surrogatepass")
    if _NEVER_ESCAPED.fullmatch(plain) is None:
        for escaped in (json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]):
            if escaped.encode("utf-8", "surrogatepass") != plain:
                yield "JSON", escaped.encode("utf-8", "surrogatepass")
        yield "percent-encoding", percent_encode(plain, safe="").encode()
    if len(plain) >= _SHORTEST_ENCODED and not short:
        yield "hex", plain.hex().encode()
        yield "hex", plain.hex().upper().encode()
        yield from (("base64", needle) for needle in _base64_needles(plain))


def _base64_needles(plain: bytes) -> Iterator[bytes]:
    """Yield base64 of the value at each of the three offsets, without the characters that depend on neighbours."""
    for offset in range(3):
        encoded = base64.b64encode(b"\0" * offset + plain)
        begin = (0, 2, 3)[offset]
        end = (len(plain) + offset) * 8 // 6
        needle = encoded[begin:end]
        yield needle
        if needle.translate(None, b"+/") != needle:
            yield needle.translate(bytes.maketrans(b"+/", b"-_"))


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
    for image in _DATA_URI.finditer(content):
        try:
            data = base64.b64decode(image.group(1))
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
