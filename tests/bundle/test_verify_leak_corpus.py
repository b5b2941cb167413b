import sqlite3

from nsysprof.bundle.verify import collect_originals
from tests.builders.build_trace import TraceBuilder


def corpus(tmp_path, *names):
    path = tmp_path / "trace.sqlite"
    builder = TraceBuilder()
    builder.kernel(10, 20, 1)
    builder.write(path)
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE ENUM_OPENMP_EVENT_KIND (id INTEGER, name TEXT)")
        connection.executemany("INSERT INTO ENUM_OPENMP_EVENT_KIND VALUES (?, ?)", enumerate(names))
        connection.execute("CREATE TABLE OPENMP_EVENT_KIND_THREAD (start INTEGER)")
    return collect_originals(path, None, frozenset(), frozenset())


def test_a_label_that_is_also_the_name_of_a_table_is_no_leak(tmp_path):
    """nsys export --lazy=false writes empty tables of OpenMP, whose names its own tables of labels hold too."""
    found = corpus(tmp_path, "OPENMP_EVENT_KIND_THREAD", "OPENMP_EVENT_KIND_OF_OURS")
    assert found.explains(b"OPENMP_EVENT_KIND_THREAD")
    assert b"OPENMP_EVENT_KIND_OF_OURS" in found.texts
    assert not found.explains(b"OPENMP_EVENT_KIND_OF_OURS")
