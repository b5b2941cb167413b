"""Kernels that no line of the data file knows: they have less than 2 % of the time of every trace in the repository."""

import lzma
import sqlite3
from contextlib import closing

import pytest

from nsysprof.kernels.names import categorize
from tests.conftest import REPOSITORY

TRACES = sorted(path.relative_to(REPOSITORY / "traces") for path in (REPOSITORY / "traces").rglob("*.sqlite.xz"))
TABLE = "CUPTI_ACTIVITY_KIND_KERNEL"


@pytest.mark.parametrize("name", TRACES, ids=str)
def test_other_is_below_2_percent_of_the_time(name, tmp_path):
    path = tmp_path / "t.sqlite"
    path.write_bytes(lzma.decompress((REPOSITORY / "traces" / name).read_bytes()))
    with closing(sqlite3.connect(path)) as connection:
        if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (TABLE,)).fetchall():
            return  # a trace of copies, or of another recorder, has no kernels
        times = connection.execute(
            f"SELECT value, SUM(end - start) FROM {TABLE} JOIN StringIds ON id = demangledName GROUP BY 1"
        ).fetchall()
    others = {text: time for text, time in times if categorize(text) == "other"}
    assert sum(others.values()) <= 0.02 * sum(time for _, time in times), others
