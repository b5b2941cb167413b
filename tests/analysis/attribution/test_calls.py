import pytest

from nsysprof.analysis.attribution.calls import graph_launch_calls, launch_calls, opaque_replays
from nsysprof.trace.open import open_trace
from nsysprof.trace.tables import read_tables
from tests.builders.build_trace import OTHER_PID, OTHER_TID, TraceBuilder

MODE = "PROCESS_0:CUDA_GRAPH_TRACE_OPTIONS:MODE"


@pytest.fixture
def read(tmp_path):
    def run(builder):
        with open_trace(builder.write(tmp_path / "t.sqlite")) as trace:
            return read_tables(trace)

    return run


@pytest.mark.parametrize(
    ("name", "launches", "replays"),
    [
        ("cudaLaunchKernel_v7000", True, False),
        ("cudaLaunchKernelExC_v11060", True, False),
        ("cuLaunchKernelEx", True, False),
        ("cudaLaunchCooperativeKernel_v9000", True, False),
        ("cudaGraphLaunch_v10000", True, True),
        ("cuGraphLaunch", True, True),
        ("cudaLaunchHostFunc_v10000", False, False),
        ("cudaMemcpyAsync_v3020", False, False),
        ("cudaGraphInstantiate_v12000", False, False),
    ],
)
def test_calls_by_name(read, name, launches, replays):
    builder = TraceBuilder()
    builder.call(0, 1, 1, name)
    tables = read(builder)
    assert launch_calls(tables).tolist() == [launches]
    assert graph_launch_calls(tables).tolist() == [replays]


def test_a_call_that_failed_launched_nothing(read):
    builder = TraceBuilder()
    builder.call(0, 1, 1, result=700)
    builder.call(2, 3, 2, result=-1)
    builder.call(4, 5, 3)
    assert launch_calls(read(builder)).tolist() == [False, False, True]


def capture(builder, start, end, **thread):
    builder.call(start, start + 1, start, "cudaStreamBeginCapture_v10000", **thread)
    builder.call(end, end + 1, end, "cudaStreamEndCapture_v10000", **thread)


def launches_at(tables):
    return tables.calls.start_ns[launch_calls(tables)].tolist()


def test_a_capture_covers_its_process_and_no_other(read):
    builder = TraceBuilder()
    capture(builder, 100, 200)
    for tid in (OTHER_TID, OTHER_PID | 1):
        builder.call(150, 151, tid, tid=tid)
    builder.call(300, 301, 9)
    tables = read(builder)
    assert launches_at(tables) == [150, 300]
    assert tables.calls.tid_of[tables.calls.variant[launch_calls(tables)][0]] == OTHER_PID | 1


def test_captures_nest_and_a_stray_end_closes_nothing(read):
    builder = TraceBuilder()
    builder.call(10, 11, 1, "cudaStreamEndCapture_v10000")
    capture(builder, 100, 400)
    capture(builder, 200, 300)
    for at in (50, 150, 250, 350, 450):
        builder.call(at, at + 1, at)
    assert launches_at(read(builder)) == [50, 450]


def test_a_capture_that_never_ends_or_never_began_hides_nothing(read):
    builder = TraceBuilder()
    builder.call(0, 1, 1, "cudaStreamBeginCapture_v10000")
    builder.call(10, 11, 2, "cudaStreamBeginCapture_v10000", tid=OTHER_TID, result=900)
    builder.call(30, 31, 3, "cudaStreamEndCapture_v10000", tid=OTHER_TID)
    builder.call(20, 21, 4)
    builder.call(25, 26, 5, tid=OTHER_TID)
    assert launches_at(read(builder)) == [20, 25]


def replays(read, *, mode=None, whole=False, node=False):
    builder = TraceBuilder()
    builder.call(0, 5, 1, "cudaGraphLaunch_v10000")
    builder.call(10, 15, 2, "cudaGraphLaunch_v10000")
    if whole:
        builder.graph(100, 200, 1)
    if node:
        builder.kernel(100, 200, 1, node=7)
    if mode:
        builder.fact(MODE, mode)
    tables = read(builder)
    return [found.tolist() for found in opaque_replays(tables, launch_calls(tables))]


def test_replays_recorded_as_wholes_are_known_and_the_rest_lost(read):
    assert replays(read, whole=True) == [[0], []]


@pytest.mark.parametrize("mode", [None, "Graph"])
def test_replays_without_any_record_are_the_graph_mode_of_an_older_nsys(read, mode):
    assert replays(read, mode=mode) == [[], [0, 1]]


@pytest.mark.parametrize("how", [{"node": True}, {"mode": "Node"}])
def test_by_node_every_replay_leaves_kernels(read, how):
    assert replays(read, **how) == [[], []]


def test_no_calls_at_all(read):
    builder = TraceBuilder()
    builder.kernel(0, 1, None)
    tables = read(builder)
    assert len(launch_calls(tables)) == len(graph_launch_calls(tables)) == 0
    assert [len(found) for found in opaque_replays(tables, launch_calls(tables))] == [0, 0]
