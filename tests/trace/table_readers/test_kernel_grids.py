"""The grid of a kernel is that of its own row, or unknown: never that of another kernel."""

import sqlite3
from contextlib import closing

import numpy as np
import pytest

from nsysprof.results.event_rows import KernelGrids
from nsysprof.trace.open import open_trace
from nsysprof.trace.table_readers.kernel_grids import read_grids

COLUMNS = "start, end, gridX, gridY, gridZ, blockX, blockY, blockZ"
ROWS = [
    (10, 20, 1024, 1, 1, 256, 1, 1),
    (30, 40, 32, 4, 1, 16, 16, 1),
    (50, 60, 1, 1, 1, 1, 1, 1),
    # Two that ran at the same time: with one grid, with two, and one whose grid is not known.
    (70, 80, 2, 1, 8, 64, 1, 1), (70, 80, 2, 1, 8, 64, 1, 1),
    (90, 95, 2, 1, 1, 64, 1, 1), (90, 95, 3, 1, 1, 64, 1, 1),
    (97, 99, None, 1, 1, 64, 1, 1),
]  # fmt: skip


def read(tmp_path, columns, rows):
    path = tmp_path / "trace.sqlite"
    with closing(sqlite3.connect(path)) as made, made:
        made.execute("CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT)")
        made.execute(f"CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL ({columns})")
        marks = ", ".join("?" * len(columns.split(", ")))
        made.executemany(f"INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES ({marks})", rows)
    with open_trace(path) as trace:
        return read_grids(trace)


def test_a_kernel_has_the_grid_of_its_row(tmp_path):
    grids = KernelGrids(*read(tmp_path, COLUMNS, ROWS))
    places = grids.places(*map(np.array, ([50, 10, 30, 70, 90, 97, 10], [60, 20, 40, 80, 95, 99, 21])))
    assert [grids.texts[place] for place in places] == [
        "grid 1, block 1", "grid 1,024, block 256", "grid 32 x 4, block 16 x 16", "grid 2 x 1 x 8, block 64", "", "", ""
    ]  # fmt: skip


@pytest.mark.parametrize(("columns", "rows"), [("start, end", [(1, 2)]), (COLUMNS, [])])
def test_a_trace_without_grids_has_none(tmp_path, columns, rows):
    assert read(tmp_path, columns, rows) is None
