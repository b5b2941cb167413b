"""Check the pages of a Parquet file before it is unpacked: their headers must agree with the footer.

A reader allocates as much memory as the header of a page says, and a page of a hundred bytes may say two gigabytes. The
footer says how large all pages are together, and is small itself. Headers and footer are in Thrift's compact protocol.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import IO, Any

# The encodings that nsys and Arrow write. In the others, a few bytes can stand for any number of values.
_PLAIN, _OLD_DICTIONARY, _RUNS, _DICTIONARY = 0, 2, 3, 8
_ENCODINGS = (_PLAIN, _OLD_DICTIONARY, _RUNS, _DICTIONARY)
# The footer of a file of nsys has a few kilobytes; a parsed one takes some hundred times its size.
MOST_FOOTER_BYTES = 1 << 20
_MARK = b"PAR1"
_MOST_HEADER_BYTES = 1 << 16
_MOST_DEPTH = 8
_REAL, _BINARY, _LIST, _STRUCT = 7, 8, 9, 12


class PagesError(ValueError):
    """The pages are not those that the footer describes."""


def check_footer_size(path: Path) -> None:
    """Raise PagesError for a footer that is larger than any of nsys. Its reader finds all other faults."""
    with path.open("rb") as stream:
        if os.fstat(stream.fileno()).st_size < 12:
            return
        stream.seek(-8, os.SEEK_END)
        size, mark = struct.unpack("<I4s", stream.read(8))
    if mark == _MARK and size > MOST_FOOTER_BYTES:
        raise PagesError(f"its footer has {size:,} bytes")


def check_pages(path: Path, metadata: Any) -> None:
    """Raise PagesError unless the pages of every column have the sizes and numbers of values in the footer.

    metadata: what pyarrow read from the footer.
    """
    with path.open("rb") as stream:
        for number in range(metadata.num_row_groups):
            group = metadata.row_group(number)
            for column in range(group.num_columns):
                _check_column(stream, group.column(column))


def _check_column(stream: IO[bytes], column: Any) -> None:
    starts = (column.dictionary_page_offset, column.data_page_offset)
    at = min(start for start in starts if start is not None and start >= 0)
    end, unpacked, values = at + column.total_compressed_size, 0, 0
    while at < end and values < column.num_values:
        stream.seek(at)
        header = _Compact(stream.read(_MOST_HEADER_BYTES))
        page = header.struct()
        size, packed = page.get(2), page.get(3)
        data = next((page[key] for key in (5, 7, 8) if isinstance(page.get(key), dict)), None)
        if not isinstance(size, int) or not isinstance(packed, int) or data is None or min(size, packed) < 0:
            raise PagesError("the header of a page is damaged")
        count, encoding = data.get(1), data.get(4 if 8 in page else 2)
        if encoding not in _ENCODINGS or not isinstance(count, int) or count < 0:
            raise PagesError("a page uses an encoding that nsys never writes")
        is_dictionary = isinstance(page.get(7), dict)
        values += 0 if is_dictionary else count
        unpacked += size + header.at
        at += header.at + packed
        if unpacked > column.total_uncompressed_size or values > column.num_values or (is_dictionary and count > size):
            raise PagesError("a page claims more than the footer")


class _Compact:
    """Reads one struct of Thrift's compact protocol into a dict by the numbers of its fields."""

    def __init__(self, raw: bytes) -> None:
        self._raw = raw
        self.at = 0

    def struct(self, depth: int = 0) -> dict[int, Any]:
        if depth > _MOST_DEPTH:
            raise PagesError("the header of a page is nested too deeply")
        fields: dict[int, Any] = {}
        number = 0
        while head := self._byte():
            number = number + (head >> 4) if head >> 4 else _signed(self._varint())
            fields[number] = self._value(head & 0xF, depth)
        return fields

    def _value(self, kind: int, depth: int) -> Any:
        if kind in (1, 2):  # the kind of a truth is its value
            return kind == 1
        if kind in (3, 4, 5, 6):
            return self._byte() if kind == 3 else _signed(self._varint())
        if kind in (_REAL, _BINARY):
            return self._skip(8 if kind == _REAL else self._varint())
        if kind == _LIST:
            head = self._byte()
            count = head >> 4 if head >> 4 < 15 else self._varint()
            return [self._value(head & 0xF, depth + 1) for _ in range(min(count, _MOST_HEADER_BYTES))]
        if kind == _STRUCT:
            return self.struct(depth + 1)
        raise PagesError("the header of a page is damaged")

    def _byte(self) -> int:
        if self.at >= len(self._raw):
            raise PagesError("the header of a page is damaged")
        self.at += 1
        return self._raw[self.at - 1]

    def _skip(self, count: int) -> None:
        self.at += count
        if self.at > len(self._raw):
            raise PagesError("the header of a page is damaged")

    def _varint(self) -> int:
        value = shift = 0
        while True:
            byte = self._byte()
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80 or shift > 63:
                return value


def _signed(number: int) -> int:
    """Return the integer behind Thrift's zigzag encoding."""
    return (number >> 1) ^ -(number & 1)
