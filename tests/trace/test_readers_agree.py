"""The reader of large files against SQLite itself on damaged files: the same rows, or the table is left to SQLite."""

from __future__ import annotations

import random
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from nsysprof.errors import NsysprofError
from nsysprof.native import load
from nsysprof.trace.columns import read_integers
from nsysprof.trace.open import open_trace
from tests.builders.build_trace import TraceBuilder
from tests.builders.damaged_traces import BYTE_DAMAGES
from tests.trace.compare_readers import compare_table


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """Trees of several levels in few pages."""
    builder = TraceBuilder("2025.3")
    for number in range(1, 300):
        builder.launch(1_000 * number, number, name=f"kernel{number % 7}")
        builder.range(1_000 * number, 1_000 * number + 500, f"range {number % 5}")
    path = builder.write(tmp_path_factory.mktemp("sound") / "t.sqlite")
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute("PRAGMA page_size = 512")
        database.execute("VACUUM")
    return path.read_bytes()


def test_whatever_bytes_are_damaged(sound: bytes, tmp_path: Path) -> None:
    """Of 200 files. A leaf whose count of cells was zeroed was read as empty, where SQLite says malformed."""
    path = tmp_path / "t.sqlite"
    accepted = 0
    for seed in range(200):
        source = random.Random(seed)
        content = bytearray(sound)
        for damage in source.choices(BYTE_DAMAGES, k=source.choice((1, 1, 2))):
            damage(content, source)
        path.write_bytes(content)
        try:
            with open_trace(path, one_thread=True) as trace:
                for table in ("CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_RUNTIME", "NVTX_EVENTS"):
                    if trace.has(table):
                        assert compare_table(trace, table) == "", f"seed {seed}: {table}"
                        accepted += 1
        except NsysprofError:
            continue
    assert accepted > 200


@pytest.mark.parametrize("cells", [0, 1, 3])
def test_a_leaf_that_lost_its_count_of_cells(sound: bytes, tmp_path: Path, cells: int) -> None:
    """With none SQLite calls the file malformed; with fewer it reads fewer, and so do both."""
    path = tmp_path / "t.sqlite"
    leaves = [start for start in range(512, len(sound), 512) if sound[start] == 13]
    for start in leaves[::7]:
        if int.from_bytes(sound[start + 3 : start + 5], "big") > 3:
            content = bytearray(sound)
            content[start + 3 : start + 5] = cells.to_bytes(2, "big")
            path.write_bytes(content)
            try:
                with open_trace(path, one_thread=True) as trace:
                    for table in ("CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_RUNTIME", "NVTX_EVENTS"):
                        assert compare_table(trace, table) == ""
            except NsysprofError:
                continue


@pytest.mark.parametrize("compiled", [True, False])
def test_damage_that_was_found_once_is_found_again(
    sound: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compiled: bool
) -> None:
    """SQLite checks the cells of a page only when it loads it: the second read took the page from its cache."""
    path = tmp_path / "t.sqlite"
    path.write_bytes(sound)
    with closing(sqlite3.connect(path)) as database:
        query = "SELECT rootpage FROM sqlite_master WHERE name = 'CUPTI_ACTIVITY_KIND_KERNEL'"
        (page,) = database.execute(query).fetchone()
    content = bytearray(sound)
    while content[512 * (page - 1)] != 13:  # down the right side, where the largest rowid is sought
        page = int.from_bytes(content[512 * (page - 1) + 8 : 512 * (page - 1) + 12], "big")
    content[512 * (page - 1) + 8 : 512 * (page - 1) + 10] = bytes(2)  # the first cell is the page's header
    path.write_bytes(content)
    monkeypatch.setattr(load, "is_wanted", lambda _unit: compiled)
    with open_trace(path, one_thread=True) as trace:
        for _ in range(2):
            assert read_integers(trace, "CUPTI_ACTIVITY_KIND_KERNEL", {"start": "start_ns"}) is None
        assert [loss.note.code for loss in trace.losses] == ["table-unreadable"] * 2
