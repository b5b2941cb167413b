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

from nsysprof.trace.columns import TableSource, expected_rows, page_positions
from nsysprof.trace.growing_column import GrowingColumn
from nsysprof.trace.open import Trace
from nsysprof.trace.schema import Int64s
from nsysprof.trace.sqlite.leaf_pages import MOST_ROWS, LeafPages, UnusualLayoutError, scan_leaves
from nsysprof.trace.sqlite.sqlite_cells import read_events as read
from nsysprof.trace.tuple_encoder import TupleEncoder

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
