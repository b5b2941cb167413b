"""Small files that claim more than anyone can read: refused, or the table is, in a time that their size explains."""

from __future__ import annotations

import _thread
import gc
import gzip
import io
import json
import lzma
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest

from nsysprof.app.analyze import analyze_trace
from nsysprof.bundle.sanitize import sanitize_trace
from nsysprof.errors import NsysprofError, OutputError, TraceDamagedError, TraceForeignError
from nsysprof.native import load
from nsysprof.results.analysis import Analysis
from nsysprof.trace import columns
from nsysprof.trace.columns import read_rows
from nsysprof.trace.inputs.resolve_input import _READERS, resolve_input, zstd
from nsysprof.trace.open import Trace, open_trace
from nsysprof.trace.tables import read_strings
from tests.builders.build_trace import TraceBuilder
from tests.trace.numbers import codes

PAGE = 4096
SECONDS = 10


@pytest.fixture(params=["sqlite", "pages"])
def reader(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load, "is_wanted", lambda _unit: request.param == "pages")


@pytest.fixture
def in_time() -> Iterator[None]:
    """Make the test fail instead of hang when its thread has worked for longer than it may."""

    def fail(*_: object) -> None:
        raise AssertionError(f"more than {SECONDS} s of work")

    before = signal.signal(signal.SIGVTALRM, fail)
    signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS)
    yield
    signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    signal.signal(signal.SIGVTALRM, before)


def program(path: Path) -> Path:
    builder = TraceBuilder("2025.3")
    builder.gpu(0, cuda=0)
    for number in range(1, 600):
        builder.launch(1_000 * number, number, name=f"kernel{number % 7}")
    builder.range(0, 600_000, "all")
    return builder.write(path)


def root_of(path: Path, table: str) -> int:
    with closing(sqlite3.connect(path)) as database:
        (root,) = database.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (table,)).fetchone()
    return int(root)


def interior(children: list[int], size: int = PAGE) -> bytes:
    """Return a page of a table that refers to `children`, rowids counting up."""
    cells = [child.to_bytes(4, "big") + bytes([0x80 | (key >> 7), key & 0x7F]) for key, child in enumerate(children, 1)]
    pointers = [size - 6 * (i + 1) for i in range(len(cells) - 1)]
    page = bytearray(size)
    page[:12] = bytes([5, 0, 0]) + len(pointers).to_bytes(2, "big") + bytes(3) + children[-1].to_bytes(4, "big")
    for number, (pointer, cell) in enumerate(zip(pointers, cells, strict=False)):
        page[12 + 2 * number : 14 + 2 * number] = pointer.to_bytes(2, "big")
        page[pointer : pointer + 6] = cell
    return bytes(page)


def first_leaf(content: bytes, root: int) -> int:
    """Return the leaf that the first cell of the interior page `root` leads to."""
    page = content[(root - 1) * PAGE : root * PAGE]
    while page[0] == 5:
        at = int.from_bytes(page[12:14], "big")
        root = int.from_bytes(page[at : at + 4], "big")
        page = content[(root - 1) * PAGE : root * PAGE]
    return root


def share_pages(path: Path, table: str, levels: int = 4) -> None:
    """Let the table be `levels` pages of 500 equal children each above one leaf: 63 billion leaves for four."""
    content = bytearray(path.read_bytes())
    root = root_of(path, table)
    child = first_leaf(bytes(content), root)
    for level in range(levels):
        page = interior([child] * 500)
        if level == levels - 1:
            content[(root - 1) * PAGE : root * PAGE] = page
        else:
            content += page
            child = len(content) // PAGE
    content[28:32] = (len(content) // PAGE).to_bytes(4, "big")
    path.write_bytes(content)


def analyze(path: Path) -> Analysis | None:
    """Return the analysis; None where an error of ours refused it."""
    try:
        return analyze_trace(path)
    except NsysprofError as error:
        assert error.next_step
        return None


@pytest.mark.usefixtures("in_time", "reader")
@pytest.mark.parametrize("table", ["CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_RUNTIME"])
def test_pages_that_are_shared_by_their_parents(tmp_path: Path, table: str) -> None:
    """Such a file of 258 KB claimed a billion rows."""
    path = program(tmp_path / "t.sqlite")
    share_pages(path, table)
    with closing(sqlite3.connect(path)) as database:  # SQLite itself sees nothing wrong, and would go on for days
        database.execute(f"SELECT start FROM {table} LIMIT 1 OFFSET 100000").fetchone()
    analysis = analyze(path)
    assert analysis is not None
    assert "table-unreadable" in codes(analysis)
    assert analysis.totals.kernel_count is None or table.endswith("RUNTIME")


@pytest.mark.usefixtures("in_time")
def test_the_limit_of_time_is_one_of_sqlite_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever lets it work for long: here the search for shared pages is taken away."""
    monkeypatch.setattr("nsysprof.trace.confine._LEAST_SECONDS", 0.3)
    monkeypatch.setattr(columns, "has_shared_pages", lambda *_: False)
    path = program(tmp_path / "t.sqlite")
    share_pages(path, "CUPTI_ACTIVITY_KIND_RUNTIME")
    with open_trace(path) as trace, trace.lock:
        with pytest.raises(sqlite3.OperationalError, match="interrupted") as caught:
            trace.connection.execute("SELECT max(end) FROM CUPTI_ACTIVITY_KIND_RUNTIME").fetchall()
        assert trace.limits.explain(caught.value) == "reading it takes far longer than its size allows"


@pytest.mark.usefixtures("in_time")
def test_all_statements_share_one_limit_of_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Twelve tables that each took the whole limit kept a file of 37 kB for eight minutes."""
    monkeypatch.setattr("nsysprof.trace.confine._LEAST_SECONDS", 0.5)
    monkeypatch.setattr(columns, "has_shared_pages", lambda *_: False)
    path = program(tmp_path / "t.sqlite")
    share_pages(path, "CUPTI_ACTIVITY_KIND_RUNTIME")
    with open_trace(path) as trace, trace.lock:
        begun = time.thread_time()
        for _ in range(8):
            with pytest.raises(sqlite3.OperationalError, match="interrupted") as caught:
                trace.limits.begin()
                trace.connection.execute("SELECT max(end) FROM CUPTI_ACTIVITY_KIND_RUNTIME").fetchall()
            assert trace.limits.explain(caught.value) == "reading it takes far longer than its size allows"
        assert time.thread_time() - begun < 1.5
        # Each of twelve tables whose rows shared one text of 2.5 MB still took 4 s before SQLite looked at the clock.
        with pytest.raises(sqlite3.OperationalError, match="interrupted"):
            trace.limits.begin()


def test_two_tables_in_one_place_are_damage(tmp_path: Path) -> None:
    path = program(tmp_path / "t.sqlite")
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute("PRAGMA writable_schema=ON")
        database.execute(
            "UPDATE sqlite_master SET rootpage = (SELECT rootpage FROM sqlite_master WHERE name = 'StringIds') "
            "WHERE name = 'CUPTI_ACTIVITY_KIND_RUNTIME'"
        )
    with pytest.raises(TraceDamagedError, match="two of its tables are in the same place"), open_trace(path):
        pass


@pytest.mark.parametrize("varied", ["device", "stream", "name"])
@pytest.mark.usefixtures("in_time")
def test_a_small_file_of_many_devices_streams_or_names(tmp_path: Path, varied: str) -> None:
    """Each device took 4 ms, and each stream time in proportion to the others."""
    path, count = tmp_path / "t.json", 4_000
    arguments = {"stream": 7, "device": 0}
    events = [
        {
            "ph": "X", "cat": "kernel", "name": f"k{number}" if varied == "name" else "k", "pid": 0, "tid": 7,
            "ts": number, "dur": 1,
            "args": {**arguments, varied: number, "correlation": number + 1},
        }
        for number in range(count)
    ]  # fmt: skip
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}), encoding="utf-8")
    trace = resolve_input(path, None, tmp_path)
    if varied == "device":
        with pytest.raises(TraceForeignError, match="4,000 GPUs"):
            analyze_trace(trace)
    else:
        assert analyze_trace(trace).totals.kernel_count == count


@pytest.mark.usefixtures("in_time")
def test_one_long_text_for_all_rows(tmp_path: Path) -> None:
    """Rows whose texts go on on the same overflow pages: 3 MB on the disk, 4 GB to be read."""
    path = tmp_path / "t.sqlite"
    long = "x" * (508 * 2_000 + 34)  # so that as little as possible of it, 39 bytes, lies in the row itself
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute("PRAGMA page_size = 512")
        database.execute("CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL)")
        database.execute("INSERT INTO StringIds VALUES (1, ?)", (long,))
    content = bytearray(path.read_bytes())
    (root,) = [root_of(path, "StringIds")]
    page = content[(root - 1) * 512 : root * 512]
    at = int.from_bytes(page[8:10], "big")
    cell = bytes(page[at:512])
    leaves = []
    for leaf in range(80):
        fresh = bytearray(512)
        fresh[:8] = bytes([13, 0, 0, 0, 6, 0, 0, 0])
        for i in range(6):
            key = leaf * 6 + i + 1
            row = cell[:3] + bytes([0x80 | (key >> 7), key & 0x7F]) + cell[4:]
            begin = 512 - (i + 1) * len(row)
            fresh[8 + 2 * i : 10 + 2 * i] = begin.to_bytes(2, "big")
            fresh[begin : begin + len(row)] = row
        content += fresh
        leaves.append(len(content) // 512)
    for level in range(2):  # 50 rows a page, as many as the keys of two bytes leave room for
        parents = []
        for begin in range(0, len(leaves), 40):
            content += interior(leaves[begin : begin + 40], 512)
            parents.append(len(content) // 512)
        leaves = parents
        if level == 1:
            content[(root - 1) * 512 : root * 512] = content[(leaves[0] - 1) * 512 : leaves[0] * 512]
    content[28:32] = (len(content) // 512).to_bytes(4, "big")
    path.write_bytes(content)
    with closing(sqlite3.connect(path)) as database:
        assert database.execute("SELECT count(*), max(length(value)) FROM StringIds").fetchone() == (480, len(long))
    with open_trace(path) as trace:
        assert len(read_strings(trace)) == 0
        assert "the same text" in trace.notes[0].text


@pytest.mark.usefixtures("in_time")
@pytest.mark.parametrize("table", ["StringIds", "NVTX_EVENTS", "META_DATA_CAPTURE"])
def test_a_view_without_end_is_never_run(tmp_path: Path, table: str) -> None:
    path = program(tmp_path / "t.sqlite")
    endless = "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) SELECT n AS id, n AS name, 'x' AS value"
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute(f"DROP TABLE IF EXISTS {table}")
        database.execute(f"CREATE VIEW {table} AS {endless} FROM c")
    analysis = analyze(path)
    assert analysis is not None
    assert "table-unreadable" in codes(analysis)
    with open_trace(path) as trace, pytest.raises(sqlite3.DatabaseError, match="prohibited|not authorized"):
        trace.connection.execute(f"SELECT * FROM {table} LIMIT 1").fetchall()
    try:
        sanitize_trace(path, tmp_path / "out.sqlite")
    except NsysprofError as error:
        assert error.next_step


def test_what_is_not_reading_is_not_allowed(tmp_path: Path) -> None:
    other = program(tmp_path / "other.sqlite")
    with open_trace(program(tmp_path / "t.sqlite")) as trace:
        for statement in (f"ATTACH '{other}' AS o", "PRAGMA writable_schema = ON", "CREATE TEMP TABLE t (x)"):
            with pytest.raises(sqlite3.DatabaseError):
                trace.connection.execute(statement)


@pytest.mark.usefixtures("in_time")
def test_a_file_of_holes(tmp_path: Path) -> None:
    path = program(tmp_path / "t.sqlite")
    size = 8 << 30
    os.truncate(path, size)
    if path.stat().st_blocks * 512 > size // 2:
        pytest.skip("this disk has no sparse files")
    with pytest.raises(TraceDamagedError, match="holes") as caught, open_trace(path):
        pass
    assert "fetch it again" in caught.value.next_step


PACKERS = {".xz": partial(lzma.compress, preset=0), ".gz": gzip.compress, ".zst": zstd.compress}


@pytest.mark.parametrize("suffix", PACKERS)
def test_a_packed_bomb_is_refused_before_it_fills_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str
) -> None:
    monkeypatch.setattr("nsysprof.trace.inputs.resolve_input.MAX_FREE_BYTES", 1 << 20)
    source = tmp_path / f"t.sqlite{suffix}"
    source.write_bytes(PACKERS[suffix](bytes(16 << 20)))
    work = tmp_path / "work"
    work.mkdir()
    with pytest.raises(TraceForeignError, match="40 times its size"):
        resolve_input(source, None, work)
    assert list(work.iterdir()) == []


@pytest.mark.parametrize("suffix", PACKERS)
def test_no_step_of_unpacking_takes_much_memory(suffix: str) -> None:
    """98 KB of .zst took 3.2 GB: all that one megabyte unpacked to."""
    packed = PACKERS[suffix](bytes(150 << 20) if suffix == ".zst" else bytes(8 << 20))
    pieces = [len(piece) for piece in _READERS[suffix](io.BytesIO(packed), len(packed))]
    assert sum(pieces) == (150 << 20 if suffix == ".zst" else 8 << 20)
    assert max(pieces) <= 64 << 20


def test_a_disk_that_is_too_small_is_not_filled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tmp_path / "t.sqlite.gz"
    source.write_bytes(gzip.compress(bytes(3 << 20)))
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=2 << 20))
    work = tmp_path / "work"
    work.mkdir()
    with pytest.raises(OutputError, match="more than the disk has room for") as caught:
        resolve_input(source, None, work)
    assert "TMPDIR" in caught.value.next_step
    assert list(work.iterdir()) == []


@pytest.mark.usefixtures("in_time")
@pytest.mark.parametrize("name", ["DRAM " * 3300 + "Read " * 50, "DRAM Read " * 1600, "DRAM Write " + "Read " * 3000])
def test_a_long_name_of_a_metric(tmp_path: Path, name: str) -> None:
    """16 KB took 153 s: three words in order are sought from every place of the first and of the second."""
    builder = TraceBuilder()
    builder.launch(0, 1)
    builder.sampled_gpu()
    builder.metric_names([name] * 4)
    for at in range(3):
        builder.sample(at, [1, 1, 1, 1])
    analysis = analyze(builder.write(tmp_path / "t.sqlite"))
    assert analysis is not None
    assert analysis.totals.kernel_count == 1


def endless(trace: Trace, table: str) -> str:
    return "(SELECT 1 AS id, 'x' AS value) JOIN " + " JOIN ".join(f"CUPTI_ACTIVITY_KIND_KERNEL k{i}" for i in range(4))


@pytest.fixture
def no_gc_callbacks() -> Iterator[None]:
    """Hypothesis has one, and an interrupt that arrives in it is lost, as in any callback of the collector."""
    kept, gc.callbacks[:] = gc.callbacks[:], []
    yield
    gc.callbacks[:] = kept


@pytest.mark.usefixtures("no_gc_callbacks")
@pytest.mark.slow
def test_an_interrupt_stops_sqlite_in_the_midst_of_a_statement(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite swallows what is raised while it asks whether to go on: one SIGTERM became a damaged table."""
    monkeypatch.setattr(columns, "table_sql", endless)
    with open_trace(program(tmp_path / "t.sqlite")) as trace:
        threading.Timer(0.3, _thread.interrupt_main).start()
        begin = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            read_rows(trace, "StringIds", ("id", "value", "x", "y"))
        assert time.monotonic() - begin < SECONDS


def test_one_sigterm_ends_analyze_while_another_thread_reads(tmp_path: Path) -> None:
    path = program(tmp_path / "t.sqlite")
    code = (
        "import sys, threading, os, signal\nfrom nsysprof.trace import columns\nfrom nsysprof.cli import main\n"
        "real = columns.table_sql\n"
        "def endless(trace, table):\n"
        "    if not table.endswith('RUNTIME'):\n        return real(trace, table)\n"
        "    threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGTERM)).start()\n"
        "    return ', '.join(f'CUPTI_ACTIVITY_KIND_RUNTIME k{i}' for i in range(1)) + ' JOIN ' + "
        "' JOIN '.join(f'(SELECT 1 AS x{i} FROM CUPTI_ACTIVITY_KIND_KERNEL)' for i in range(4))\n"
        "columns.table_sql = endless\n"
        "sys.argv = ['nsysprof', 'analyze', sys.argv[1]]\nmain()"
    )
    environment = {**os.environ, "NSYSPROF_NATIVE": "0"}  # compiled code would read the pages instead
    command = [sys.executable, "-c", code, path]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=60, check=False, cwd=tmp_path, env=environment
    )
    assert done.returncode == 130, done.stderr


@pytest.mark.usefixtures("in_time")
@pytest.mark.parametrize("table", ["CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_RUNTIME", "StringIds"])
def test_a_bundle_of_shared_pages_is_refused_at_once(tmp_path: Path, table: str) -> None:
    """It took the 20 s of the limit, and a disk full of rows, to be called damaged."""
    path = program(tmp_path / "t.sqlite")
    share_pages(path, table)
    with pytest.raises(TraceDamagedError, match=f"{table} .*twice"):
        sanitize_trace(path, tmp_path / "out.sqlite")
    assert not (tmp_path / "out.sqlite").exists()


@pytest.mark.usefixtures("in_time")
def test_a_bundle_that_reads_for_too_long_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nsysprof.trace.confine._LEAST_SECONDS", 0.3)
    monkeypatch.setattr(columns, "has_shared_pages", lambda *_: False)
    path = program(tmp_path / "t.sqlite")
    share_pages(path, "CUPTI_ACTIVITY_KIND_RUNTIME")
    with pytest.raises(TraceDamagedError, match="far longer than its size allows"):
        sanitize_trace(path, tmp_path / "out.sqlite")


def test_an_interrupt_of_a_bundle_is_no_damage(tmp_path: Path) -> None:
    """SQLite says `interrupted` for both; open_trace tells them apart for all that read with it."""
    with pytest.raises(KeyboardInterrupt), open_trace(program(tmp_path / "t.sqlite")):
        raise sqlite3.OperationalError("interrupted")


def test_memory_that_does_not_suffice_is_an_error_of_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def starve(_: object) -> None:
        raise MemoryError

    monkeypatch.setattr("nsysprof.trace.open.ConfinedConnections.own", starve)
    with (
        pytest.raises(TraceDamagedError, match="more memory than there is"),
        open_trace(program(tmp_path / "t.sqlite")),
    ):
        pass
