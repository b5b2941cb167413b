"""Search a shared file for private content: every byte, and everything packed in it, for every original text."""

from __future__ import annotations

import base64
import json
import mmap
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar
from urllib.parse import quote as percent_encode

from nsysprof.bundle.leak_corpus import Originals
from nsysprof.bundle.program_text import is_revealed_by
from nsysprof.bundle.secret_values import SHORTEST, is_public
from nsysprof.bundle.verification.searchable_streams import Stream, streams_of
from nsysprof.errors import OutputError

_SHORTEST_ENCODED = 6  # bytes; base64 or hex of fewer bytes is found in any file by chance
# Among packed bytes, pixels and integers, a short needle is found by chance.
_SHORTEST_SECRET_IN_BINARY, _SHORTEST_TEXT_IN_BINARY = 6, 10
_WHOLE_WORD = 12  # bytes; a shorter text counts only where it is not part of a longer word
_BATCH = 200_000  # needles in one automaton, which takes at worst about 2 KB each
_WINDOW = 32 << 20


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
    found: dict[tuple[bytes, str], str] = {}
    files = [path for path in paths if path.stat().st_size > 0]
    for needles in _batches(_all_needles(originals)):
        search = _Search(needles, originals)
        for path in files:
            for needle in search.file(path):
                found.setdefault((needle.value, needle.encoding), path.name)
    return [_describe(value, encoding, name) for (value, encoding), name in sorted(found.items())]


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


def _needles(secret: str, short: bool) -> Iterator[tuple[str, bytes]]:
    """Yield a value in each encoding. short: it is too short or common to be distinguished when encoded."""
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
