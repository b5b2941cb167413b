"""Collect what a bundle must not contain: every private value, and every text of the trace that was not kept."""

from __future__ import annotations

import csv
import io
import json
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from nsysprof.bundle.allow_list import NSYS_TABLE
from nsysprof.bundle.program_text import program_text
from nsysprof.bundle.public_names import is_public_call, is_public_kernel, is_public_range, public_backends
from nsysprof.bundle.secret_values import collect_secrets, is_public, machine_secrets
from nsysprof.trace.open import open_trace, quote

_SHORTEST_LINE = 8  # characters; a shorter line that a program printed, such as `done`, reveals nothing
_LEAST_BYTES = 6  # a text is searched for only if it has this many different bytes
_LONGEST = 64  # the bytes of a text that are searched for, at its beginning and at its end


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
