"""A compiled reader that cannot work leaves large traces to SQLite, and a note says so."""

import subprocess
import sys

import pytest

from nsysprof.arrays import _library
from nsysprof.trace.open import Trace, open_trace
from nsysprof.trace.sqlite.compiled_reader_check import compiled_reader_problem
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
# As after an installation without a compiler.
UNCOMPILED = "from nsysprof import arrays\narrays._library = lambda: None\n"


@pytest.mark.parametrize(
    "before",
    [
        f"{UNCOMPILED}import sys\nsys.modules['llvmlite'] = None\n",
        f"{UNCOMPILED}import llvmlite.binding as llvm\nllvm.parse_assembly = lambda text: llvm.no_such_name\n",
    ],
    ids=["absent", "too old"],
)
@pytest.mark.slow
def test_it_is_not_needed(tmp_path, before):
    count, _, note = analyze(before, tmp_path).partition("|")
    assert count == "1"
    assert "SQLite read this large trace" in note


def test_it_works_wherever_llvmlite_does():
    pytest.importorskip("llvmlite")
    assert compiled_reader_problem() is None


@pytest.mark.slow
def test_it_works_without_llvmlite_where_the_installation_compiled_it(tmp_path):
    if _library() is None:
        pytest.skip("nothing was compiled")
    assert analyze("import sys\nsys.modules['llvmlite'] = None\n", tmp_path) == "1"


def analyze(before, tmp_path):
    """Return the number of kernels and the notes that a process prints, after the lines `before`."""
    builder = TraceBuilder()
    builder.launch(0, 1)
    program = before + ANALYZE.format(path=str(builder.write(tmp_path / "t.sqlite")))
    done = subprocess.run(
        [sys.executable, "-c", program],
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
