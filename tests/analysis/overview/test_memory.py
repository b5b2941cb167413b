"""Memory of pools and managed memory; the rest of VRAM is in test_summarize."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsysprof.analysis.overview.memory import follow_memory
from nsysprof.analysis.overview.summarize import summarize
from nsysprof.trace.open import open_trace
from nsysprof.trace.tables import read_tables
from tests.builders.build_trace import OTHER_PID, PID, TraceBuilder

_EVENT = (
    "start INTEGER, globalPid INTEGER, deviceId INTEGER, address INTEGER, bytes INTEGER, memKind INTEGER, "
    "memoryOperationType INTEGER, localMemoryPoolAddress INTEGER, localMemoryPoolSize INTEGER, "
    "importedMemoryPoolAddress INTEGER"
)
_POOL = (
    "start INTEGER, globalPid INTEGER, deviceId INTEGER, address INTEGER, operationType INTEGER, "
    "localMemoryPoolSize INTEGER"
)
POOL = 900


class Pooled(TraceBuilder):
    def event(self, at, size, operation, *, pool=None, pool_bytes=None, imported=None, kind=2, address=1, pid=PID):
        values = (at, pid, 0, address, size, kind, operation, pool, pool_bytes, imported)
        self.row("CUDA_GPU_MEMORY_USAGE_EVENTS", _EVENT, values)

    def resized(self, at, operation, size):
        self.row("CUDA_GPU_MEMORY_POOL_EVENTS", _POOL, (at, PID, 0, POOL, operation, size))


@pytest.fixture
def memory(tmp_path):
    def run(builder):
        with open_trace(builder.write(tmp_path / "t.sqlite")) as trace:
            return follow_memory(read_tables(trace))

    return run


def test_a_pool_holds_what_it_keeps_and_not_what_it_handed_out(memory):
    builder = Pooled()
    builder.resized(0, 1, 32)
    builder.event(10, 100, 0, pool=POOL, pool_bytes=128)
    builder.event(20, 100, 1, pool=POOL, pool_bytes=128)
    builder.event(30, 40, 0, pool=POOL, pool_bytes=128)
    builder.event(35, 7, 0, address=2)
    builder.resized(40, 3, 64)
    builder.resized(50, 2, 64)
    found = memory(builder)
    assert found.usage["used_bytes"].tolist()[:7] == [32, 128, 128, 128, 135, 71, 7], "a destroyed pool holds nothing"
    assert found.unmatched_frees == 0


def test_a_pool_of_unknown_size_counts_what_it_handed_out_and_says_so(memory):
    builder = Pooled()
    builder.event(10, 100, 0, pool=POOL)
    builder.event(20, 100, 1, pool=POOL)
    found = memory(builder)
    assert found.peaks() == {0: 100}
    assert found.unsized_pools


def test_an_imported_pool_is_the_other_process_memory(memory):
    builder = Pooled()
    builder.event(10, 100, 0, pool=POOL, pool_bytes=100)
    builder.event(20, 100, 0, imported=POOL, pid=OTHER_PID)
    assert memory(builder).peaks() == {0: 100}


def test_managed_memory_is_said_apart(tmp_path):
    builder = Pooled()
    builder.event(0, 50, 0, address=3)
    builder.event(10, 1 << 20, 0, kind=4)
    builder.event(20, 1 << 20, 1, kind=4)
    builder.event(30, 1 << 19, 0, kind=6)
    with open_trace(builder.write(tmp_path / "t.sqlite")) as trace:
        analysis = summarize(read_tables(trace))
    assert analysis.totals.peak_vram_bytes == {0: 50}
    (note,) = [note for note in analysis.notes if note.code == "managed-memory"]
    assert "1 MiB of managed memory" in note.text


def test_memory_is_given_back_on_the_device_it_was_taken_from(memory):
    builder = TraceBuilder()
    builder.allocate(0, 7, 100)
    builder.free(10, 7, device=1)
    builder.allocate(20, 8, 100)
    builder.allocate(30, 8, 10, device=1)  # both cannot be at one address: the first was never freed
    found = memory(builder)
    assert found.peaks() == {0: 100, 1: 10}
    assert (found.usage["used_bytes"] >= 0).all()
    assert found.usage["used_bytes"].tolist()[:2] == [100, 0]


def test_memory_without_an_address_is_left_out(memory):
    builder = TraceBuilder()
    builder.allocate(0, None, 100)
    builder.free(10, None, device=1)
    builder.allocate(20, 8, 50)
    found = memory(builder)
    assert (found.peaks(), found.unplaced) == ({0: 50}, 2)


@given(
    st.lists(
        st.tuples(
            st.integers(0, 9), st.sampled_from((None, 1, 2)), st.integers(0, 99), st.integers(0, 1), st.integers(0, 1),
            st.sampled_from((PID, OTHER_PID)), st.sampled_from((None, 900)), st.sampled_from((None, 0, 32, 64)),
        ),
        max_size=12,
    )
)  # fmt: skip
def test_no_device_ever_holds_less_than_nothing(rows):
    builder = TraceBuilder()
    columns = _EVENT.replace("importedMemoryPoolAddress INTEGER", "contextId INTEGER")
    for at, address, size, operation, device, pid, pool, pool_bytes in rows:
        values = (at, pid, device, address, size, 2, operation, pool, pool_bytes, 1)
        builder.row("CUDA_GPU_MEMORY_USAGE_EVENTS", columns, values)
    with tempfile.TemporaryDirectory() as folder, open_trace(builder.write(Path(folder) / "t.sqlite")) as trace:
        found = follow_memory(read_tables(trace))
    if found is not None:
        assert (found.usage[["process_bytes", "used_bytes"]] >= 0).all(axis=None)
