import enum
import json
import os
import sqlite3
from contextlib import closing
from types import SimpleNamespace

import pytest

from nsysprof.capture.user_program.torch_capture import complete_lines
from nsysprof.trace.inputs.kineto_json import merge_kineto_files
from nsysprof.workload.program_start.cupti_recorder import CuptiRecorder, demangle


class Kind(enum.IntEnum):
    CONCURRENT_KERNEL, MEMCPY, MEMSET, RUNTIME, DRIVER, MARKER, OTHER = range(7)


CUPTI = SimpleNamespace(
    ActivityKind=Kind,
    CallbackDomain=SimpleNamespace(DRIVER_API=1, RUNTIME_API=2),
    get_callback_name=lambda _domain, number: {1: "cudaLaunchKernel_v7000", 2: "cudaGetLastError_v3020"}[number],
)
PLACE = {"device_id": 0, "context_id": 1, "stream_id": 7}


def kernel(number, name="step", **more):
    axes = {f"{kind}_{axis}": 1 for kind in ("grid", "block") for axis in "xyz"}
    times = {"start": 1_795_394_220_769_885_000 + number, "end": 1_795_394_220_769_885_667 + number}
    found = {"kind": 0, "name": name, "correlation_id": number, "registers_per_thread": 8, "graph_node_id": 0}
    return SimpleNamespace(**{**found, **PLACE, **axes, **times, **more})


def call(number, cbid=1):
    thread = {"process_id": os.getpid(), "thread_id": 5}
    return SimpleNamespace(kind=3, cbid=cbid, correlation_id=number, start=10**18, end=10**18 + 5, **thread)


def marker(number, flags, at, name=""):
    return SimpleNamespace(
        kind=5, id=number, flags_=flags, timestamp=10**18 + at, name=name, object_id=SimpleNamespace()
    )


@pytest.fixture
def recorder(tmp_path):
    return CuptiRecorder(CUPTI, str(tmp_path))


def rows(path, query):
    with closing(sqlite3.connect(path)) as database:
        return database.execute(query).fetchall()


def test_a_trace_is_made_of_what_a_killed_process_left(recorder, tmp_path):
    recorder.take([kernel(1), kernel(2, 'name "quoted"', graph_node_id=1 << 33), call(1), call(9, cbid=2)])
    copy = SimpleNamespace(kind=1, copy_kind=2, bytes=64, correlation_id=3, start=10**18, end=10**18 + 9, **PLACE)
    fill = SimpleNamespace(kind=2, bytes=32, correlation_id=4, start=10**18, end=10**18 + 9, **PLACE)
    recorder.take([copy, fill, marker(1, 2, 0, "step"), marker(2, 2, 1, "open"), marker(1, 4, 50)])
    recorder.take([SimpleNamespace(kind=6)])
    path = tmp_path / f"{os.getpid()}.jsonl"
    path.write_bytes(path.read_bytes() + b'{"ph": "X", "cat": "ker')
    made = complete_lines(path, {"gpu_name": "NVIDIA H200, NVIDIA H200"})
    assert len(json.loads(made.read_text())["traceEvents"]) == 6
    assert list(merge_kineto_files([made], tmp_path / "t.sqlite", tool="cupti").values()) == [6]
    found = rows(tmp_path / "t.sqlite", "SELECT value, end - start, graphNodeId, correlationId IS NULL FROM "
                 "CUPTI_ACTIVITY_KIND_KERNEL JOIN StringIds ON id = demangledName")  # fmt: skip
    assert found == [("step", 667, None, 0), ('name "quoted"', 667, 1 << 33, 0)]
    assert rows(tmp_path / "t.sqlite", "SELECT copyKind, bytes FROM CUPTI_ACTIVITY_KIND_MEMCPY") == [(2, 64)]
    assert rows(tmp_path / "t.sqlite", "SELECT bytes FROM CUPTI_ACTIVITY_KIND_MEMSET") == [(32,)]
    assert rows(tmp_path / "t.sqlite", "SELECT count(*) FROM CUPTI_ACTIVITY_KIND_RUNTIME") == [(1,)]
    assert rows(tmp_path / "t.sqlite", "SELECT value FROM META_DATA_CAPTURE WHERE name = 'NSYSPROF:TOOL'") == [
        ("cupti",)
    ]
    names = rows(
        tmp_path / "t.sqlite", "SELECT coalesce(text, value) FROM NVTX_EVENTS LEFT JOIN StringIds ON id = textId"
    )
    assert ("step",) in names
    assert ("open",) not in names, "it had not ended"


def test_a_fork_of_a_recorded_process_writes_nothing(recorder, tmp_path):
    recorder._process = -1
    recorder.take([kernel(1)])
    assert not list(tmp_path.iterdir())


def test_names_of_kernels_are_read_as_c_plus_plus_writes_them():
    assert demangle("_Z4stepPf") in ("step(float*)", "_Z4stepPf"), "without libstdc++ the symbol is kept"
    assert demangle("loop_add_fusion") == "loop_add_fusion"
    assert demangle("_Zwrong") == "_Zwrong"
