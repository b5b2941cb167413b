"""Read integers from the leaf pages of a SQLite table in compiled code, without SQLite.

SQLite's own interface returns one value per call, so that ten million rows take half a minute. The file format
(https://www.sqlite.org/fileformat2.html, sections 1.6 and 2.1) is simple enough to read whole pages at once. The file
is not trusted: for anything unexpected the result is -1, and SQLite reads that table instead.
"""

from __future__ import annotations

import numpy as np

from nsysprof.arrays import compile_function

_NULL = np.iinfo(np.int64).min
_MOST = np.iinfo(np.int64).max
_LEAF = 13
# Bytes of each serial type below 12; 10 and 11 are reserved.
_SIZES = np.array([0, 1, 2, 3, 4, 6, 8, 8, 0, 0, -1, -1], dtype=np.int64)
# How many slots of the hash table a tuple may try. At most a quarter of them are taken, so a few tries are usual. Only
# a file made for this purpose has many tuples with one hash.
_MOST_PROBES = 200
# Zero bytes that must follow the pages in the buffer, so that a varint at their very end stays inside it.
SLACK = 32


@compile_function(nogil=True)
def _varint(buffer, at):  # type: ignore[no-untyped-def]
    value = np.int64(0)
    for _ in range(8):
        byte = np.int64(buffer[at])
        at += 1
        value = (value << 7) | (byte & 0x7F)
        if byte < 0x80:
            return value, at
    return (value << 8) | np.int64(buffer[at]), at + 1


@compile_function(nogil=True, inline="always")
def _number(buffer, at, serial):  # type: ignore[no-untyped-def]
    if 8 <= serial <= 9:  # the constants 0 and 1
        return np.int64(serial - 8)
    if serial == 0 or serial >= 12:  # NULL, text, blob
        return np.int64(_NULL)
    value = np.int64(buffer[at])
    if value >= 128:
        value -= 256
    for i in range(1, _SIZES[serial]):
        value = (value << 8) | np.int64(buffer[at + i])
    if serial == 7:
        real = np.int64(value).view(np.float64)
        if real >= 9.223372036854775807e18:
            return np.int64(_MOST)
        if real > -9.223372036854775808e18:
            return np.int64(real)
        return np.int64(_NULL)  # as SQLite's cast gives it; SQLite stores no NaN
    return value


@compile_function(nogil=True)
def decode(  # type: ignore[no-untyped-def]  # noqa: PLR0911, PLR0912
    buffer, pages, page_size, usable, wanted, above, at_most, is_only, out
):
    """Read rows of `pages` leaf pages into out (columns, rows); return their number, or -1 when SQLite must read them.

    wanted: for each column of the table up to the last needed one, its row in `out`, or -1. Text becomes NULL. The last
        row of `out` takes the rowids.
    above, at_most: for each page, the bounds of its rowids according to the pages that refer to it.
    is_only: whether the table is one page, which may be empty.
    """
    row = 0
    for page in range(pages):
        base = page * page_size
        end = base + usable
        cells = (np.int64(buffer[base + 3]) << 8) | buffer[base + 4]
        first = base + 8 + 2 * cells
        if buffer[base] != _LEAF or first > end or row + cells > out.shape[1] or (cells == 0 and not is_only):
            return -1
        last = above[page]
        is_first = last == _NULL
        for cell in range(cells):
            pointer = base + 8 + 2 * cell
            at = base + ((np.int64(buffer[pointer]) << 8) | buffer[pointer + 1])
            if at < first or at >= end:
                return -1
            begin = at
            # Most of these numbers are one byte; with a call for the others alone, there is less to compile.
            size = np.int64(buffer[at])
            at += 1
            if size >= 0x80:
                size, at = _varint(buffer, begin)
            # SQLite reads nine bytes of a size differently; no page needs more than three.
            if at > begin + 3 or size < 1 or size > usable - 35:  # damaged, or continued on an overflow page
                return -1
            key, at = _varint(buffer, at)
            stop = at + size
            if stop > end or (key <= last and not is_first) or key > at_most[page]:
                return -1
            last = key
            is_first = False
            header = np.int64(buffer[at])
            kind = at + 1
            if header >= 0x80:
                header, kind = _varint(buffer, at)
            if header < 1 or header > size:
                return -1
            body = at + header
            serials_end = body
            for column in range(len(wanted)):
                if kind >= serials_end:  # the row is older than the column
                    return -1
                serial = np.int64(buffer[kind])
                kind += 1
                if serial >= 0x80:
                    serial, kind = _varint(buffer, kind - 1)
                if serial < 0:
                    return -1
                length = _SIZES[serial] if serial < 12 else (serial - 12) >> 1
                if length < 0 or length > stop - body:
                    return -1
                if wanted[column] >= 0:
                    out[wanted[column], row] = _number(buffer, body, serial)
                body += length
            # SQLite checks this too: a header that ends here belongs to a row that ends here.
            if kind > serials_end or (kind == serials_end and body != stop):
                return -1
            out[-1, row] = key
            row += 1
    return row


@compile_function(nogil=True)
def encode(values, begin, slots, rows, count, codes):  # type: ignore[no-untyped-def]  # noqa: PLR0912
    """Code each column of `values` (width, n) from `begin` on by its row in `rows`, and add new tuples to `rows`.

    Return (columns done, rows used). There are fewer columns than `values` has when `rows` is full, and -1 columns when
    too many tuples have one hash.

    slots: an open-addressing hash table of row numbers (-1: free); its length is a power of two.
    """
    width, n = values.shape
    mask = len(slots) - 1
    last = -1
    for i in range(begin, n):
        same = last >= 0
        if same:
            for j in range(width):
                if rows[last, j] != values[j, i]:
                    same = False
                    break
        if not same:
            mixed = np.uint64(0)
            for j in range(width):
                mixed = (mixed ^ np.uint64(values[j, i])) * np.uint64(0x9E3779B97F4A7C15)
                mixed ^= mixed >> np.uint64(32)
            slot = np.int64(mixed & np.uint64(mask))
            probes = 0
            while True:
                last = slots[slot]
                if last < 0:
                    if count == len(rows):
                        return i, count
                    for j in range(width):
                        rows[count, j] = values[j, i]
                    slots[slot] = count
                    last = count
                    count += 1
                    break
                found = True
                for j in range(width):
                    if rows[last, j] != values[j, i]:
                        found = False
                        break
                if found:
                    break
                slot = (slot + 1) & mask
                probes += 1
                if probes > _MOST_PROBES:
                    return -1, count
        codes[i] = last
    return n, count
