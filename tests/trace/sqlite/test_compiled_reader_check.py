"""A compiled reader that cannot work leaves large traces to SQLite, and a note says so."""

import os
import subprocess
import sys

import pytest

from nsysprof.trace.open import Trace, open_trace
from nsysprof.trace.tables import read_tables
from tests.builders.build_trace import TraceBuilder

ANALYZE = """
from pathlib import Path
from nsysprof.trace import open as trace_open
from nsysprof.app.trace_analysis.analyze_trace import analyze_trace
trace_open.LARGE_BYTES = 0
analysis = analyze_trace(Path({path!r}))
print(analysis.totals.kernel_count, *(note.text for note in analysis.notes if note.code == "slow-reader"), sep="|")
"""
# What numba does in an installation that is read-only when HOME and NUMBA_CACHE_DIR cannot be written either.
UNWRITABLE = """
from numba.core import caching
for cache in vars(caching).values():
    if hasattr(cache, "_locator_classes"):
        cache._locator_classes = []
"""
DAMAGED = """
from nsysprof.trace.sqlite import sqlite_cells
for function in (sqlite_cells.decode, sqlite_cells.encode):
    index = Path(function._cache._cache_file._index_path)
    index.parent.mkdir(parents=True, exist_ok=True)
    index.write_bytes({content!r})
"""


@pytest.mark.parametrize(
    "before",
    [
        "from pathlib import Path\n" + DAMAGED.format(content=b""),
        "from pathlib import Path\n" + DAMAGED.format(content=b"\x80\x04garbage"),
        "import sys\nsys.modules['numba'] = None\n",
    ],
    ids=["empty", "garbage", "absent"],
)
@pytest.mark.slow
def test_it_is_not_needed(tmp_path, before):
    count, _, note = analyze(before, tmp_path).partition("|")
    assert count == "1"
    assert "SQLite read this large trace" in note


@pytest.mark.slow
def test_without_a_folder_for_its_code_each_run_compiles(tmp_path):
    assert analyze(UNWRITABLE, tmp_path) == "1"


def analyze(before, tmp_path):
    """Return the number of kernels and the notes that a process prints, after the lines `before`."""
    builder = TraceBuilder()
    builder.launch(0, 1)
    program = before + ANALYZE.format(path=str(builder.write(tmp_path / "t.sqlite")))
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_problem_is_a_note_of_large_traces_alone(tmp_path, monkeypatch):
    builder = TraceBuilder()
    builder.launch(0, 1)
    path = builder.write(tmp_path / "t.sqlite")
    for module in ("open", "tables"):
        monkeypatch.setattr(f"nsysprof.trace.{module}.compiled_reader_problem", lambda: "no locator")
    with open_trace(path, large_bytes=0) as trace:
        assert not trace.is_large
        tables = read_tables(trace)
        assert tables.work.kernels == 1
        assert [note.code for note in tables.notes] == ["slow-reader"]
    with open_trace(path) as trace:
        assert isinstance(trace, Trace)
        assert read_tables(trace).notes == []
