import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsysprof.analysis.attribution.nesting import nesting_levels
from nsysprof.analysis.overview.summarize import summarize
from nsysprof.trace.open import open_trace
from nsysprof.trace.tables import read_tables
from tests.builders.build_trace import OTHER_PID, OTHER_TID, TID, TraceBuilder


@pytest.fixture
def timeline(tmp_path):
    def run(builder):
        with open_trace(builder.write(tmp_path / "t.sqlite")) as trace:
            return summarize(read_tables(trace)).timeline

    return run


def test_work_is_named_and_sorted(timeline):
    builder = TraceBuilder()
    builder.launch(10, 1, name="gemm")
    builder.call(20, 25, 2, "cudaMemsetAsync_v3020", tid=OTHER_TID)
    builder.fill(50, 60, 2, 64)
    builder.kernel(5, 6, 99, "orphan")
    gpu = timeline(builder).gpu
    assert gpu[["start_ns", "kind", "name", "short_name", "category"]].to_numpy().tolist() == [
        [5, "kernel", "orphan(int)", "orphan", "other"],
        [50, "memset", "[CUDA memset]", "[CUDA memset]", "fill"],
        [110, "kernel", "gemm(int)", "gemm", "gemm"],
    ]


def test_work_names_the_call_that_launched_it_and_copies_their_kind(timeline):
    builder = TraceBuilder()
    builder.launch(10, 1)
    builder.call(20, 25, 2, "cudaMemcpyAsync_v3020", tid=OTHER_TID)
    builder.call(1, 2, 3, "cudaMalloc_v3020")
    builder.copy(50, 60, 2, 64, kind=2)
    builder.kernel(5, 6, 99, "orphan")
    found = timeline(builder)
    assert found.gpu[["name", "bytes", "call"]].to_numpy().tolist() == [
        ["orphan(int)", 0, -1], ["[CUDA memcpy Device-to-Host]", 64, 2], ["kernel(int)", 0, 1],
    ]  # fmt: skip
    assert found.api["name"].iloc[[1, 2]].tolist() == ["cudaLaunchKernel_v7000", "cudaMemcpyAsync_v3020"]


def test_streams_are_labelled_by_what_tells_them_apart(timeline):
    builder = TraceBuilder()
    builder.kernel(1, 2, None, stream=3)
    builder.kernel(3, 4, None, stream=7)
    builder.kernel(5, 6, None, stream=7, device=1)
    builder.kernel(7, 8, None, stream=7, pid=OTHER_PID)
    assert timeline(builder).gpu["stream"].tolist() == [
        "stream 3", "pid 100 GPU 0 stream 7", "pid 100 GPU 1 stream 7", "pid 200 GPU 0 stream 7",
    ]  # fmt: skip


@st.composite
def nested(draw):
    """Properly nested (start, end, depth) ranges, as a thread pushes and pops them."""
    clock, stack, done = 0, [], []
    for push in draw(st.lists(st.booleans(), max_size=30)):
        clock += draw(st.integers(1, 3))
        if push:
            stack.append((clock, len(stack)))
        elif stack:
            start, depth = stack.pop()
            done.append((start, clock, depth))
    while stack:
        clock += 1
        start, depth = stack.pop()
        done.append((start, clock, depth))
    return sorted(done)


@given(nested(), nested())
def test_levels_are_the_depth_of_the_stack_on_each_thread(first, second):
    rows = sorted([(*row, TID) for row in first] + [(*row, OTHER_TID) for row in second])
    columns = np.array(rows, dtype=np.int64).reshape(-1, 4)
    table = pd.DataFrame(columns, columns=["start_ns", "end_ns", "depth", "global_tid"]).assign(style="PushPop")
    assert nesting_levels(table).tolist() == table["depth"].tolist()


def test_start_end_ranges_have_level_zero_and_deepen_nothing(timeline):
    builder = TraceBuilder()
    builder.launch(10, 1)
    builder.range(0, 100, "all", kind=60)
    builder.range(1, 90, "outer")
    builder.range(2, 80, "inner")
    assert timeline(builder).nvtx[["name", "level"]].to_numpy().tolist() == [["all", 0], ["outer", 0], ["inner", 1]]
