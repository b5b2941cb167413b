import hashlib
import sqlite3

import pytest

from nsysprof.app.analyze import analyze_one
from nsysprof.app.inputs.reading_requests import AnalyzeRequest
from nsysprof.app.progress import SILENT
from nsysprof.errors import TraceDamagedError, TraceEmptyError, TraceError, TraceForeignError
from nsysprof.trace import open as open_module
from nsysprof.trace.open import open_trace
from nsysprof.trace.schema import KERNEL
from nsysprof.trace.table_readers.native_stacks import read_native_stacks
from nsysprof.trace.tables import read_tables
from tests.builders.build_trace import TraceBuilder


@pytest.fixture
def small(tmp_path):
    builder = TraceBuilder()
    for number in range(1, 400):
        builder.launch(number * 1000, number)
    builder.range(0, 500_000, "step")
    return builder.write(tmp_path / "Report 1 #100%.sqlite")


def read(path):
    with open_trace(path) as trace:
        return read_tables(trace)


def test_the_users_file_is_not_changed_and_odd_names_open(small):
    before = hashlib.sha256(small.read_bytes()).hexdigest()
    tables = read(small)
    assert tables.digest.result() == before == hashlib.sha256(small.read_bytes()).hexdigest()
    assert sorted(path.name for path in small.parent.iterdir()) == [small.name]
    assert tables.work.kernels == len(tables.calls) == 399


@pytest.mark.parametrize(
    ("content", "error", "word"),
    [
        (b"", TraceEmptyError, "0 bytes"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:1\n", TraceForeignError, "git-lfs"),
        (b"\0" * 4096, TraceDamagedError, "interrupted"),
        (b"PK\x03\x04 a zip", TraceForeignError, "not a SQLite file"),
        (b"SQLite format 3\0", TraceDamagedError, "truncated"),
    ],
)
def test_what_is_not_a_trace_says_so_with_the_next_step(tmp_path, content, error, word):
    path = tmp_path / "x.sqlite"
    path.write_bytes(content)
    with pytest.raises(error, match=word) as caught:
        read(path)
    assert caught.value.next_step
    assert path.read_bytes() == content


def test_a_missing_file(tmp_path):
    with pytest.raises(TraceError, match="cannot be read"):
        read(tmp_path / "nothing.sqlite")


def test_another_programs_database_is_foreign(tmp_path):
    path = tmp_path / "places.sqlite"
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE moz_places (id INTEGER)")
    database.close()
    with pytest.raises(TraceForeignError, match="not an nsys export"):
        read(path)


def test_a_database_without_tables_is_empty(tmp_path):
    path = tmp_path / "x.sqlite"
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE t (x)")
        database.execute("DROP TABLE t")
    database.close()
    with pytest.raises(TraceEmptyError, match="without tables"):
        read(path)


@pytest.mark.parametrize("share", [0.02, 0.3, 0.5, 0.9, 0.999])
def test_a_truncated_trace_is_damaged_wherever_it_was_cut(small, share):
    content = small.read_bytes()
    small.write_bytes(content[: int(len(content) * share)])
    with pytest.raises((TraceDamagedError, TraceForeignError)):
        read(small)


def test_a_zeroed_page_costs_its_table_and_not_the_rest(small):
    content = bytearray(small.read_bytes())
    tables = read(small)
    pages = len(content) // 4096
    read_anything = 0
    for page in range(1, pages):
        broken = bytearray(content)
        broken[page * 4096 : (page + 1) * 4096] = bytes(4096)
        small.write_bytes(broken)
        try:
            found = read(small)
        except TraceDamagedError:
            continue
        read_anything += 1
        damaged = [note for note in found.notes if note.code == "table-unreadable"]
        assert damaged or found.work.kernels == tables.work.kernels or KERNEL not in found.recorded
    assert read_anything > 0


def test_hostile_values_end_in_notes_and_not_in_tracebacks(tmp_path):
    builder = TraceBuilder()
    builder.launch(0, 1)
    builder.range(0, 50, "a")
    builder.range(60, 90, "b")
    path = builder.write(tmp_path / "x.sqlite")
    with sqlite3.connect(path) as database:
        database.execute("UPDATE NVTX_EVENTS SET text = x'fffe', start = 1e300 WHERE rowid = 1")
    database.close()
    ranges = read(path).ranges
    assert ranges["name"].tolist() == ["", "b"]


def test_views_and_triggers_are_not_looked_at(tmp_path):
    builder = TraceBuilder()
    builder.launch(0, 1)
    path = builder.write(tmp_path / "x.sqlite")
    with sqlite3.connect(path) as database:
        database.execute("CREATE VIEW NVTX_EVENTS AS SELECT randomblob(1000000000) AS start")
    database.close()
    assert read(path).ranges is None


def test_a_table_whose_name_is_no_text_is_not_there(small):
    with sqlite3.connect(small) as database:
        database.execute("PRAGMA writable_schema = ON")
        database.execute("UPDATE sqlite_master SET name = CAST(name AS BLOB) WHERE name = 'NVTX_EVENTS'")
    database.close()
    found = read(small)
    assert found.ranges is None
    assert found.work.kernels == 399


def test_a_trace_being_written_is_recognised(small):
    small.with_name(small.name + "-wal").write_bytes(b"x")
    assert [note.code for note in read(small).notes] == ["being-written"]


def test_text_that_is_not_utf8_and_wrong_types_are_survived(tmp_path):
    builder = TraceBuilder()
    builder.launch(0, 1)
    path = builder.write(tmp_path / "x.sqlite")
    with sqlite3.connect(path) as database:
        database.execute("UPDATE StringIds SET value = CAST(x'ff66' AS TEXT) WHERE id = 1")
        database.execute("UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET start = 'soon', correlationId = NULL")
    database.close()
    tables = read(path)
    assert tables.strings[1] == "\ufffdf"
    assert (tables.work.kernels, tables.work.dropped) == (0, 1), "a text is no time, and no 0 either"


def test_an_analysis_hashes_the_file_once_and_a_look_at_one_table_never(small, tmp_path, monkeypatch):
    hashed = []
    real = open_module._sha256
    monkeypatch.setattr(open_module, "_sha256", lambda path, cancelled: hashed.append(path) or real(path, cancelled))
    read_native_stacks(small)
    assert hashed == []
    analyze_one(AnalyzeRequest((small,), out=tmp_path / "out", figures=False), SILENT)
    assert hashed == [small]


def test_the_digest_begins_before_the_tables_are_read(tmp_path):
    path = TraceBuilder().write(tmp_path / "t.sqlite")
    with open_trace(path) as trace:
        trace.begin()
        assert trace.digest.result() == hashlib.sha256(path.read_bytes()).hexdigest()
