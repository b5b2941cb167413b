"""What a source holds and its bundle must not: every text of the trace that was not kept, and every private value."""

from __future__ import annotations

import csv
import io
import json
import sqlite3
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from nsysprof.bundle.program_text import program_text
from nsysprof.bundle.public_names import is_public_call, is_public_kernel, is_public_range, public_backends
from nsysprof.bundle.secret_values import collect_secrets, is_public, machine_secrets
from nsysprof.trace.open import open_trace, quote

_SHORTEST_LINE = 8  # characters; a line of what a program printed, e.g. `done`, says nothing
_LONGEST = 64  # bytes of a text that are searched for, at its begin and at its end


@dataclass(frozen=True)
class Originals:
    """secrets: values that must be nowhere, in no form. texts: parts of the source's texts that were not kept; finding
    one is a leak unless `vocabulary` holds it: what is shared on purpose, and the text of this very program."""

    secrets: frozenset[str]
    texts: frozenset[bytes]
    vocabulary: bytes

    def joined(self, other: Originals) -> Originals:
        """Those of both."""
        vocabulary = self.vocabulary + b"\n" + other.vocabulary
        return Originals(self.secrets | other.secrets, self.texts | other.texts, vocabulary)

    def with_texts(self, texts: Iterable[str], shared: Iterable[str]) -> Originals:
        """The same and more. shared: what the bundle holds on purpose."""
        more = _parts_worth_a_search(text.encode("utf-8", "replace") for text in texts)
        words = b"\n".join(sorted(text.encode("utf-8", "replace") for text in shared))
        return Originals(self.secrets, self.texts | more, self.vocabulary + b"\n" + words)

    def explains(self, text: bytes) -> bool:
        """Whether a text is anyway in what everybody has, or a name that a library gives."""
        if text in self.vocabulary or text in program_text():
            return True
        name = text.decode("utf-8", "replace")
        return is_public_kernel(name) or is_public_call(name) or is_public_range(name, public_backends())


def texts_of_json(text: str, name: str) -> Iterator[str]:
    """Every text in a JSON or CSV file, without its keys."""
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
    """What to search the bundle for. source: the trace as it was; target: what was made of it, if that is shared."""
    with open_trace(source) as trace:
        secrets = collect_secrets(trace.connection) | machine_secrets() | more_secrets
        before = _all_texts(trace.connection)
    kept: set[bytes] = set()
    if target is not None:
        with open_trace(target) as trace:
            kept = _all_texts(trace.connection)
    shared = {value.encode("utf-8", "replace") for value in public}
    texts = _parts_worth_a_search(before - kept)
    return Originals(secrets - public, texts - shared, b"\n".join(sorted(kept | shared)))


def _parts_worth_a_search(texts: Iterable[bytes]) -> frozenset[bytes]:
    return frozenset(part for text in texts for part in _parts(text) if _is_worth_a_search(part))


def _is_worth_a_search(text: bytes) -> bool:
    return not is_public(text.decode("utf-8", "replace")) and text.strip() == text


def _parts(text: bytes) -> Iterator[bytes]:
    """The text; of one that is many (what a program printed, the environment of a process), each line too."""
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
    """Every text and blob in every table that SQLite itself reads, those of virtual tables' shadows included."""
    found: set[bytes] = set()
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
                for column in map(quote, columns):
                    kinds = f"typeof({column}) IN ('text', 'blob')"
                    rows = connection.execute(f"SELECT DISTINCT {column} FROM {table} WHERE {kinds}")
                    found |= {cell for (cell,) in rows if isinstance(cell, bytes)}
            except sqlite3.DatabaseError:
                continue  # a damaged table: nothing of it was copied either
        found |= {sql for _, sql in listed if sql is not None}
    finally:
        connection.text_factory = decode
    return found
