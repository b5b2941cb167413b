import sqlite3

import pytest

from nsysprof.errors import TraceForeignError
from nsysprof.trace import tables as module
from nsysprof.trace.open import open_trace
from nsysprof.trace.schema import KERNEL
from nsysprof.trace.tables import read_tables
from tests.builders.build_trace import PID, TID, TraceBuilder


def read(builder, tmp_path):
    with open_trace(builder.write(tmp_path / "t.sqlite")) as trace:
        return read_tables(trace)


def test_absent_tables_are_none_and_not_empty(tmp_path):
    builder = TraceBuilder()
    builder.range(0, 1, "a")
    tables = read(builder, tmp_path)
    assert tables.calls is tables.memory is None
    assert tables.recorded == frozenset()
    assert len(tables.ranges) == 1


def test_null_keeps_its_meaning_and_large_ids_their_low_bits(tmp_path):
    builder = TraceBuilder()
    builder.kernel(1, 2, None, pid=PID | (1 << 55))
    tables = read(builder, tmp_path)
    work = tables.work
    assert tables.launch.tolist() == [-1]
    assert work.pid_of[work.variant].tolist() == [PID | (1 << 55)]


def test_an_empty_memory_table_is_no_memory_events(tmp_path):
    builder = TraceBuilder()
    builder.allocate(0, 1, 100)
    path = builder.write(tmp_path / "t.sqlite")
    with sqlite3.connect(path) as database:
        database.execute("DELETE FROM CUDA_GPU_MEMORY_USAGE_EVENTS")
    database.close()
    with open_trace(path) as trace:
        assert read_tables(trace).memory is None, "full exports have the table without the tracing"


def test_a_kernel_without_a_demangled_name_keeps_its_short_one(tmp_path):
    builder = TraceBuilder()
    builder.kernel(0, 1, 1, "gemm")
    path = builder.write(tmp_path / "t.sqlite")
    with sqlite3.connect(path) as database:
        database.execute("ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL DROP COLUMN demangledName")
    database.close()
    with open_trace(path) as trace:
        tables = read_tables(trace)
    assert tables.strings[tables.work.names_of[0, 0]] == "gemm"


def test_progress_is_told_what_was_read(tmp_path):
    builder = TraceBuilder()
    builder.launch(0, 1)
    said = []
    with open_trace(builder.write(tmp_path / "t.sqlite")) as trace:
        read_tables(trace, said.append)
    assert said == ["read 1 kernels", "read 1 API calls"]


def test_backtraces_that_repeat_a_call_are_left_out(tmp_path):
    builder = TraceBuilder()
    builder.call(0, 1, 1)
    builder.call(0, 1, 1, event_class=67)
    assert len(read(builder, tmp_path).calls) == 1


def test_ranges_take_registered_and_plain_names_and_their_domain(tmp_path):
    builder = TraceBuilder()
    builder.range(0, 9, "plain")
    builder.range(0, 9, "registered", registered=True)
    builder.range(0, None, "NCCL", kind=75, domain=3)
    builder.range(0, 9, "ncclAllReduce", domain=3)
    builder.range(0, 9, "orphan", domain=4)
    builder.range(0, None, "a mark", kind=34)
    ranges = read(builder, tmp_path).ranges
    assert ranges[["name", "domain"]].to_records(index=False).tolist() == [
        ("plain", ""), ("registered", ""), ("ncclAllReduce", "NCCL"), ("orphan", "domain 4"),
    ]  # fmt: skip
    assert set(ranges["global_tid"]) == {TID}


def test_devices_go_by_the_cuda_ordinal_that_kernels_name(tmp_path):
    builder = TraceBuilder()
    builder.gpu(0, "second", cuda=1)
    builder.gpu(1, "first", cuda=0)
    builder.gpu(2, "Microsoft Basic Render Driver", cuda=2)
    assert [(d.device_id, d.name) for d in read(builder, tmp_path).devices] == [(0, "first"), (1, "second")]


def test_a_table_that_lacks_a_needed_column_is_named(tmp_path):
    builder = TraceBuilder()
    builder.row("CUPTI_ACTIVITY_KIND_KERNEL", "start INTEGER, finish INTEGER", (1, 2))
    tables = read(builder, tmp_path)
    assert KERNEL not in tables.recorded
    assert "lacks the columns end, deviceId, streamId" in tables.notes[0].text


def test_metadata_of_old_and_new_exports(tmp_path):
    builder = TraceBuilder()
    builder.fact("EXPORT_PRODUCT_VERSION", "2022.4.2.1", "EXPORT_META_DATA")
    builder.fact("NSYSPROF:TOOL", "torch")
    tables = read(builder, tmp_path)
    assert tables.export_facts["EXPORT_PRODUCT_VERSION"] == "2022.4.2.1"
    assert tables.capture_facts["NSYSPROF:TOOL"] == ["torch"]


def test_what_cupti_produced_before_the_recording_is_not_held_against_it(tmp_path):
    counted = "Number of CUPTI events produced: 12756, CUPTI buffers: 49 of 50."
    for began, is_told in ((-7_000_000_000, False), (400_000_000, True)):
        builder = TraceBuilder("2024.2")
        builder.range(0, 1, "a")
        texts = ((began, "CUDA injection initialized successfully."), (9, counted))
        for time, text in texts:
            builder.put("DIAGNOSTIC_EVENT", timestamp=time, severity=1, text=text, globalPid=PID)
        assert ((1, counted) in read(builder, tmp_path).diagnostics) is is_told
        (tmp_path / "t.sqlite").unlink()


@pytest.mark.parametrize("what", ["GPUs", "processes", "streams", "threads"])
def test_more_of_a_kind_than_a_real_program_has_is_refused(tmp_path, monkeypatch, what):
    """50,000 processes in 5 MB took half a minute, and 80,000 streams as long."""
    builder = TraceBuilder()
    for number in range(4):
        process = PID + ((number << 24) if what == "processes" else 0)
        builder.call(number, number + 1, number + 1, tid=process + 1 + (number if what == "threads" else 0))
        places = {"GPUs": "device", "streams": "stream"}
        place = {places[what]: number} if what in places else {}
        builder.kernel(number + 5, number + 6, number + 1, pid=process, **place)
    path = builder.write(tmp_path / "t.sqlite")
    monkeypatch.setattr(module, "_MOST", dict.fromkeys(module._MOST, 4))
    with open_trace(path) as trace:
        read_tables(trace)
    monkeypatch.setattr(module, "_MOST", {**module._MOST, what: 3})
    with open_trace(path) as trace, pytest.raises(TraceForeignError, match=f"names 4 {what}; at most 3 are read"):
        read_tables(trace)
