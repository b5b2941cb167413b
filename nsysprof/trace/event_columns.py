"""Read the kernels or calls of a large trace from the file's pages into their final columns, in one compiled pass.

Read in batches, each value would be written and read again several times: as a number of 64 bits, checked, narrowed,
coded, appended. What comes out is the same.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass, field

import numpy as np

from nsysprof.arrays import GrowingColumn
from nsysprof.trace.columns import TableSource, expected_rows, page_positions
from nsysprof.trace.leaf_pages import MOST_ROWS, LeafPages, UnusualLayoutError, encode, scan_leaves
from nsysprof.trace.leaf_pages import read_events as read
from nsysprof.trace.open import Trace
from nsysprof.trace.schema import Int64s, Ints

# What a row of a call and of a kernel holds, in the order in which loops.c reads it.
_FIRST = ("start_ns", "end_ns", "correlation_id")
_CALL_ROLES = (*_FIRST, "name_id", "global_tid", "return_value", "event_class")
_WORK_ROLES = (
    *_FIRST, "global_pid", "device_id", "context_id", "stream_id", "name_id", "short_name_id", "graph_node_id"
)  # fmt: skip
# The kind of calls there, where that of work is a kind of schema.
CALLS = -1
# Why a page was not read.
_FULL_TUPLES, _WIDE_DURATION, _WIDE_CODE = 1, 2, 3
# How many integers loops.c keeps about headers of rows, and needs for one row.
_OF_HEADERS, _OF_A_ROW = 65 * 21, 10 + 8
# What is read, by the name that the caller gives it. Some rows belong to a graph and have a node.
_COLUMNS = ("start_ns", "duration_ns", "correlation_id", "variant", "graph_node")
_NODES = "graph_node"


@dataclass
class _Reading:
    """What compiled code fills, and what it remembers from one batch to the next.

    counts: rows, graph nodes, tuples, dropped rows, and why the
    last page was not read.
    """

    kind: int
    wanted: Int64s
    variants: TupleEncoder
    columns: dict[str, GrowingColumn]
    counts: Int64s = field(default_factory=lambda: np.zeros(5, dtype=np.int64))
    headers: Int64s = field(default_factory=lambda: np.zeros(_OF_HEADERS, dtype=np.int64))
    row: Int64s = field(default_factory=lambda: np.zeros(_OF_A_ROW, dtype=np.int64))


def read_events(
    trace: Trace,
    source: TableSource,
    kind: int,
    variants: TupleEncoder,
    dtypes: Mapping[str, type],
    followers: Sequence[str] = (),
) -> tuple[dict[str, GrowingColumn], int] | None:
    """Return the columns of a table, and how many rows were dropped because their times are impossible.

    None: the table must be read in batches, because its layout is unusual or because its tuples were made to collide.

    kind: CALLS, or a kind of work.
    variants: codes the tuples of the rows. It also holds those of a table that had to be given up.
    dtypes: the narrowest type of each column. Those that compiled code does not read stay empty.
    followers: see grow_columns.
    """
    try:
        root, positions = page_positions(trace, source)
        # Room for another batch, because how many rows it will hold is not known before.
        expected = expected_rows(trace, source.table, followers) + MOST_ROWS
        columns = {
            name: GrowingColumn(np.empty(0, dtype), expected if name in _COLUMNS and name != _NODES else 0)
            for name, dtype in dtypes.items()
        }
        columns.setdefault(_NODES, GrowingColumn(np.empty(0, dtype=np.int64)))
        reading = _Reading(kind, _roles_of(source, kind, positions), variants, columns)
        for leaves in scan_leaves(trace.path, root):
            if trace.limits.cancelled.is_set():
                raise CancelledError
            if not _read(reading, leaves):
                variants.leave_hash_table()
                return None
            rows, nodes = (int(count) for count in reading.counts[:2])
            if 2 * nodes > rows:  # as grow_columns does: room for all, but only where most rows have one
                columns[_NODES].make_room(max(expected - nodes, 0))
        return columns, int(reading.counts[3])
    except UnusualLayoutError:
        return None
    except sqlite3.DatabaseError as error:
        trace.explain(error)
        return None


def _roles_of(source: TableSource, kind: int, positions: Sequence[int]) -> Int64s:
    """Return for each column of the table, up to the last needed one, which part of a row it is, or -1."""
    roles = _CALL_ROLES if kind == CALLS else _WORK_ROLES
    present = [name for name, column in zip(source.names, source.columns, strict=True) if column is not None]
    wanted = np.full(max(positions) + 1, -1, dtype=np.int64)
    wanted[list(positions)] = [roles.index(name) for name in present]
    return wanted


def _read(reading: _Reading, leaves: LeafPages) -> bool:
    """Read all rows of some pages; return False where the hash table of the tuples cannot be used."""
    while True:
        done = _read_on(reading, leaves)
        if done < 0:
            raise UnusualLayoutError
        if done == leaves.pages:
            return True
        leaves = leaves.since(done)
        reason = int(reading.counts[4])
        if reason == _WIDE_DURATION:
            reading.columns["duration_ns"].widen(np.int64)
        elif reason == _WIDE_CODE:
            codes = reading.columns["variant"]
            codes.widen(np.int16 if codes.dtype == np.uint8 else np.int32)
        elif reason != _FULL_TUPLES or not reading.variants.grow():
            return False


def _read_on(reading: _Reading, leaves: LeafPages) -> int:
    """Read pages until one does not fit, and return their number; -1 where SQLite must read the table."""
    slots, tuples, reading.counts[2] = reading.variants.hash_table
    room = [reading.columns[name].make_room(leaves.most_rows) for name in _COLUMNS]
    done = read(leaves, reading.wanted, reading.kind, room, slots, tuples,
                (reading.headers, reading.row, reading.counts))  # fmt: skip
    rows, nodes, used = (int(count) for count in reading.counts[:3])
    reading.variants.count_rows(used)
    for name in _COLUMNS:
        reading.columns[name].take_in(nodes if name == _NODES else rows)
    return done


class TupleEncoder:
    """Encodes tuples of integers as 0, 1, 2, ... in order of appearance; `rows` is the table of the tuples.

    compiled: whether to use the compiled hash table, until a file appears whose tuples were made to collide in it.
    """

    def __init__(self, width: int, *, compiled: bool) -> None:
        self._width = width
        # Tuples as bytes: Python hashes bytes with a secret key, but tuples of integers without one.
        self._known: dict[bytes, int] = {}
        self._compiled = compiled
        self._count = 0
        self._rows = np.zeros((64 if compiled else 0, width), dtype=np.int64)
        self._slots = np.full(256, -1, dtype=np.int64)

    @property
    def rows(self) -> Int64s:
        """Return the tuple of each code, as int64 (tuples, width)."""
        if self._compiled:
            return self._rows[: self._count].copy()
        return np.frombuffer(b"".join(self._known), dtype=np.int64).reshape(-1, self._width).copy()

    def encode(self, *columns: Int64s) -> Ints:
        """Return the code of each row of `columns`, in the narrowest type that holds all codes so far."""
        values = np.stack(columns)
        codes = self._encode_compiled(values) if self._compiled else None
        if codes is None:
            codes = self._encode_by_dictionary(values)
        return codes.astype(np.uint8 if self._count <= 2**8 else np.int16 if self._count <= 2**15 else np.int32)

    def _encode_by_dictionary(self, values: Int64s) -> Int64s:
        known = self._known
        codes = np.array([known.setdefault(row, len(known)) for row in _as_bytes(values.T)], np.int64)
        self._count = len(known)
        return codes

    def _encode_compiled(self, values: Int64s) -> Int64s | None:
        """Return the codes; where the hash table fails, return None and keep the known tuples in the dictionary."""
        codes = np.empty(values.shape[1], dtype=np.int64)
        done, self._count = encode(values, 0, self._slots, self._rows, self._count, codes)
        while 0 <= done < values.shape[1] and self.grow():
            done, self._count = encode(values, done, self._slots, self._rows, self._count, codes)
        if done == values.shape[1]:
            return codes
        self.leave_hash_table()
        return None

    @property
    def hash_table(self) -> tuple[Int64s, Int64s, int]:
        """Return the slots and rows of the compiled hash table, and how many rows are used."""
        return self._slots, self._rows, self._count

    def count_rows(self, count: int) -> None:
        """Take in the tuples that compiled code added to the hash table, so that `count` rows are used."""
        self._count = count

    def leave_hash_table(self) -> None:
        """Use the dictionary from now on, because too many tuples have one hash."""
        self._compiled = False
        self._known = {row: code for code, row in enumerate(_as_bytes(self._rows[: self._count]))}

    def grow(self) -> bool:
        """Make room for four times as many tuples, and return whether the known ones found their places in it."""
        old = self._rows[: self._count]
        rows = np.zeros((4 * len(self._rows), self._width), dtype=np.int64)
        slots = np.full(4 * len(rows), -1, dtype=np.int64)
        done, _ = encode(np.ascontiguousarray(old.T), 0, slots, rows, 0, np.empty(len(old), dtype=np.int64))
        if done < 0:
            return False
        self._rows, self._slots = rows, slots
        return True


def _as_bytes(rows: Int64s) -> list[bytes]:
    """Return each row of an array (n, width) as bytes."""
    row_bytes: list[bytes] = np.ascontiguousarray(rows).view(f"V{8 * rows.shape[1]}").ravel().tolist()
    return row_bytes
