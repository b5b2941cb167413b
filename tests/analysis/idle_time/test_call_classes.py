import pytest

from nsysprof.analysis.idle_time.call_classes import (
    COPIES,
    LAUNCH,
    LEAST_COPY_BYTES,
    MEMORY,
    MODULE,
    OTHER,
    WAIT,
    classify_calls,
)  # fmt: skip
from nsysprof.trace.open import open_trace
from nsysprof.trace.tables import read_tables
from tests.builders.build_trace import TraceBuilder


def classes(builder, tmp_path):
    with open_trace(builder.write(tmp_path / "t.sqlite")) as trace:
        tables = read_tables(trace)
    return classify_calls(tables, tables.launch)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("cudaDeviceSynchronize", WAIT),
        ("cuStreamSynchronize_ptsz", WAIT),
        ("cudaMalloc_v3020", MEMORY),
        ("cudaMallocAsync_v11020", OTHER),
        ("cuMemMap", MEMORY),
        ("cuLibraryLoadData", MODULE),
        ("cudaMemcpyAsync_v3020", COPIES),
        ("cuLaunchKernelEx", LAUNCH),
        ("cudaGraphLaunch_v10000", LAUNCH),
        ("cudaLaunchHostFunc_v10000", OTHER),
        ("cudaGetDevice", OTHER),
    ],
)
def test_a_call_is_classed_by_its_name(tmp_path, name, expected):
    builder = TraceBuilder()
    builder.call(10, 20, 1, name=name)
    assert classes(builder, tmp_path).of().tolist() == [expected]


@pytest.mark.parametrize(
    ("kind", "host", "size", "name", "blocking", "waits"),
    [
        (1, 0, 8, "cudaMemcpyAsync_v3020", True, False),  # pageable to the device
        (2, 0, LEAST_COPY_BYTES, "cudaMemcpyAsync_v3020", True, False),  # pageable and large, to the host
        (2, 0, 8, "cudaMemcpyAsync_v3020", False, True),  # a value that the program waits for
        (1, 1, 8, "cudaMemcpyAsync_v3020", False, False),  # pinned and asynchronous
        (1, 1, 8, "cudaMemcpy_v3020", False, True),  # pinned, but waited for
        (8, None, 8, "cudaMemcpy_v3020", False, False),  # within the device
    ],
)
def test_what_a_copy_holds_up_depends_on_memory_direction_and_size(tmp_path, kind, host, size, name, blocking, waits):
    builder = TraceBuilder()
    builder.call(0, 100, 1, name=name)
    builder.copy(20, 90, 1, size, kind, host=host)
    found = classes(builder, tmp_path)
    assert (found.is_blocking_copy().tolist(), found.is_wait().tolist()) == ([blocking], [waits])


@pytest.mark.parametrize(("at", "is_part"), [(10_000, True), (50_000, False)])
def test_a_wait_right_after_a_pageable_copy_is_part_of_the_copy(tmp_path, at, is_part):
    builder = TraceBuilder()
    builder.call(0, 100, 1, name="cudaMemcpyAsync_v3020")
    builder.copy(20, 90, 1, 8, 1, host=0)
    builder.call(at, at + 100, 2, name="cudaStreamSynchronize_v3020")
    found = classes(builder, tmp_path)
    assert found.is_blocking_copy().tolist() == [True, is_part]
    assert found.is_wait().tolist() == [False, not is_part]
