"""Idle time by cause: it adds up whatever the trace holds, and each cause is found where it was planted."""

import itertools
import shutil
import sqlite3

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nsysprof.analysis.overview.summarize import summarize
from nsysprof.results.column_registry.analysis_columns import CAUSES, IDLE_INSTANCES, cause_column
from nsysprof.results.findings import IDLE_COLUMNS
from nsysprof.trace.open import open_trace
from nsysprof.trace.tables import read_tables
from tests.analysis.programs import train
from tests.builders.build_trace import OTHER_PID, OTHER_TID, PID, TID, TraceBuilder

US = 1_000
FOREIGN_PID, FOREIGN_TID = OTHER_PID, OTHER_PID + 1
NAMES = (
    "cudaLaunchKernel_v7000", "cudaStreamSynchronize_v3020", "cudaMalloc_v3020", "cudaMemcpyAsync_v3020",
    "cudaEventQuery_v3020", "cuModuleLoadData",
)  # fmt: skip


def analysed(builder, folder):
    path = folder / "t.sqlite"
    path.unlink(missing_ok=True)
    with open_trace(builder.write(path)) as trace:
        return summarize(read_tables(trace))


def by_cause(analysis, name=""):
    table = analysis.idle.table
    return {row["cause"]: row["idle_ns"] for row in table[table["range"] == name].to_dict("records")}


@pytest.fixture
def causes(tmp_path):
    return lambda builder, name="": by_cause(analysed(builder, tmp_path), name)


def test_a_synchronisation_takes_the_time_by_which_it_made_the_launch_late(causes):
    builder = TraceBuilder()
    builder.launch(0, 1, delay=20)  # runs from 20 to 70
    builder.call(15, 75, 2, "cudaStreamSynchronize_v3020")
    builder.call(95, 105, 3)
    builder.kernel(110, 160, 3)
    assert causes(builder) == {"sync-then-late-launch": 40}


def test_what_the_host_did_beyond_the_time_it_had_waited_is_its_own(causes):
    builder = TraceBuilder()
    builder.launch(0, 1, delay=20)
    builder.call(60, 80, 2, "cudaStreamSynchronize_v3020")
    builder.call(1000, 1010, 3)
    builder.kernel(1020, 1070, 3)
    # It waited 10 before the gap and 10 in it; 10 more of the gap are credited to the wait before it.
    assert causes(builder) == {"sync-then-late-launch": 20, "host-outside-cuda": 930}


def test_work_that_had_been_issued_waited_for_something_else(causes):
    builder = TraceBuilder()
    builder.launch(0, 1, delay=20)
    builder.launch(12, 2, delay=100)
    builder.call(30, 35, 3)
    builder.kernel(200, 220, 3, "ncclDevKernel_AllReduce")
    assert causes(builder) == {"dependency": 42, "collective": 38}


@pytest.mark.parametrize(
    ("name", "lasts", "cause"),
    [
        ("cudaMalloc_v3020", 30 * US, "slow-call"),
        ("cudaFree_v3020", 2 * US, "slow-call"),
        ("cuModuleLoadData", 90 * US, "slow-call"),
        ("cudaEventQuery_v3020", 2 * US, "host-outside-cuda"),
        ("cudaMallocAsync_v11020", 2 * US, "host-outside-cuda"),
        ("cudaDeviceSynchronize_v3020", 2 * US, "sync-then-late-launch"),
    ],
)
def test_a_call_in_the_gap_takes_its_own_time(causes, name, lasts, cause):
    builder = TraceBuilder()
    builder.launch(0, 1, delay=20)
    builder.call(100, 100 + lasts, 2, name)
    builder.call(200 + lasts, 210 + lasts, 3)
    builder.kernel(300 + lasts, 400 + lasts, 3)
    found = causes(builder)
    assert found[cause] >= lasts
    assert sum(found.values()) == 230 + lasts


@pytest.mark.parametrize(("host", "cause"), [(0, "pageable-copy"), (1, "host-outside-cuda")])
def test_a_copy_from_pageable_memory_is_prepared_by_the_host(causes, host, cause):
    builder = TraceBuilder()
    builder.launch(0, 1, delay=20)
    builder.call(70, 200, 2, "cudaMemcpyAsync_v3020")
    builder.copy(170, 190, 2, 8 << 20, host=host)
    assert causes(builder) == {cause: 100}


def test_a_small_copy_to_pageable_memory_is_a_wait_for_a_value(causes):
    builder = TraceBuilder()
    builder.launch(0, 1, delay=20)
    builder.call(10, 90, 2, "cudaMemcpyAsync_v3020")
    builder.copy(72, 74, 2, 4, kind=2, host=0)
    builder.call(120, 130, 3)
    builder.kernel(140, 150, 3)
    assert causes(builder) == {"sync-then-late-launch": 68}


def test_the_profiler_takes_its_own_time_before_all_others(causes):
    builder = TraceBuilder()
    builder.launch(0, 1, delay=20)
    builder.call(60, 300, 2, "cudaStreamSynchronize_v3020")
    builder.overhead(80, 280)
    builder.call(310, 320, 3)
    builder.kernel(330, 340, 3)
    found = causes(builder)
    assert found["profiler"] == 200
    assert sum(found.values()) == 260


def test_a_thread_that_takes_over_inherits_what_held_up_the_one_before(causes):
    builder = TraceBuilder()
    builder.launch(0, 1, delay=20)
    builder.call(15, 100, 2, "cudaStreamSynchronize_v3020")
    builder.launch(5, 4, tid=OTHER_TID, delay=30)  # until 85
    builder.call(200, 210, 3, tid=OTHER_TID)
    builder.kernel(220, 230, 3)
    # The main thread waited 70 before the gap and 15 in it.
    assert causes(builder) == {"sync-then-late-launch": 85, "host-outside-cuda": 50}


def test_unknown_has_a_reason(tmp_path):
    builder = TraceBuilder()
    builder.launch(0, 1, delay=20)
    builder.kernel(100, 150, 99)
    analysis = analysed(builder, tmp_path)
    assert by_cause(analysis) == {"unknown": 30}
    assert analysis.idle.unknown_reasons == {"the work that ends the gap has no launch record": 30}
    assert "idle-cause-unknown" in [note.code for note in analysis.notes]


def test_without_calls_every_cause_is_unknown(tmp_path):
    builder = TraceBuilder()
    builder.kernel(0, 10, None)
    builder.kernel(100, 150, None)
    analysis = analysed(builder, tmp_path)
    assert by_cause(analysis) == {"unknown": 90}
    assert list(analysis.idle.unknown_reasons) == ["no CUDA API calls were recorded"]


def test_a_lost_kernel_may_have_run_in_the_gap(tmp_path):
    builder = TraceBuilder()
    builder.launch(0, 1, delay=20)
    builder.call(100, 110, 2)
    builder.launch(200, 3, delay=20)
    analysis = analysed(builder, tmp_path)
    assert by_cause(analysis) == {"unknown": 150}
    assert list(analysis.idle.unknown_reasons) == ["work that was launched meanwhile is not in the trace"]


def test_a_graph_of_copies_alone_is_not_lost(tmp_path):
    builder = TraceBuilder()
    builder.launch(0, 1, delay=20)
    builder.call(100, 110, 2, "cudaGraphLaunch_v10000")
    builder.copy(120, 130, 2, 64)
    builder.launch(200, 3, delay=20)
    assert "unknown" not in by_cause(analysed(builder, tmp_path))


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("INSERT INTO DIAGNOSTIC_EVENT VALUES (0, 1, 1, 3, 'CUDA events were dropped', 0)", "nsys lost events"),
        ("INSERT INTO DIAGNOSTIC_EVENT VALUES (0, 1, 1, 2, 'Error when processing events:', 0)", "could not import"),
        ("DELETE FROM StringIds", "names of CUDA API calls are missing"),
    ],
)
def test_where_anything_may_be_missing_no_cause_is_known_and_nothing_is_found(tmp_path, statement, reason):
    builder, _ = train(faults=("sync",))
    builder.row(
        "DIAGNOSTIC_EVENT",
        "timestamp INTEGER, timestampType INTEGER, source INTEGER, severity INTEGER, text TEXT, globalPid INTEGER",
        (0, 1, 1, 1, "Profiling has started.", 0),
    )
    whole = analysed(builder, tmp_path)
    assert [item.code for item in whole.findings.items] == ["sync"]
    with sqlite3.connect(tmp_path / "t.sqlite") as connection:
        connection.execute(statement)
    connection.close()
    with open_trace(tmp_path / "t.sqlite") as trace:
        damaged = summarize(read_tables(trace))
    assert by_cause(damaged) == {"unknown": sum(by_cause(whole).values())}
    ((said, idle_ns),) = damaged.idle.unknown_reasons.items()
    assert (reason in said, idle_ns) == (True, whole.idle.devices[0].idle_ns)
    assert damaged.findings is None


def test_real_recordings_with_losses_have_no_causes(trace_path):
    for name, reason in (("sdpa23", "have none"), ("h200-forms/lost_import", "could not import")):
        with open_trace(trace_path(name)) as trace:
            analysis = summarize(read_tables(trace))
        assert set(analysis.idle.table["cause"]) == {"unknown"}, name
        (said,) = analysis.idle.unknown_reasons
        assert reason in said
        assert analysis.findings is None


def test_causes_do_not_need_the_table_of_synchronisations(trace_path, tmp_path):
    path = tmp_path / "t.sqlite"
    shutil.copyfile(trace_path("ddp_rank0"), path)
    with sqlite3.connect(path) as connection:
        connection.execute("DROP TABLE CUPTI_ACTIVITY_KIND_SYNCHRONIZATION")
    connection.close()
    found = []
    for each in (trace_path("ddp_rank0"), path):
        with open_trace(each) as trace:
            found.append(summarize(read_tables(trace)))
    assert by_cause(found[0]) == by_cause(found[1])
    assert found[0].findings == found[1].findings


def test_a_range_without_a_name_is_not_the_whole_trace(causes):
    builder = TraceBuilder()
    builder.launch(0, 1, delay=20)
    builder.launch(200, 2, delay=20)
    builder.range(60, 300, "")
    assert sum(causes(builder).values()) == 150


def test_a_range_has_the_idle_time_of_its_own_wall_time(causes):
    builder = TraceBuilder()
    builder.launch(0, 1, delay=20)
    builder.range(80, 180, "load")
    builder.range(90, 120, "load")
    builder.range(0, 1000, "step")
    builder.launch(200, 2, delay=20)
    assert causes(builder, "load") == {"host-outside-cuda": 100}
    assert causes(builder, "step") == causes(builder) == {"host-outside-cuda": 150}


def brute_force_idle(work, windows):
    """Nanoseconds between the first start and the last end in which nothing runs and a window is open."""
    first, last = min(start for start, _ in work), max(end for _, end in work)
    busy = {t for start, end in work for t in range(start, end)}
    return sum(1 for t in range(first, last) if t not in busy and any(low <= t < high for low, high in windows))


@st.composite
def random_trace(draw):
    """Two processes, of which one has two threads, on two devices with two streams each; ranges nest and overlap."""
    builder, work = TraceBuilder(), {}
    number = itertools.count(1)
    time = st.integers(0, 300)
    for _ in range(draw(st.integers(1, 14))):
        at, lasts, correlation = draw(time), draw(st.integers(0, 40)), next(number)
        name, tid = draw(st.sampled_from(NAMES)), draw(st.sampled_from([TID, OTHER_TID, FOREIGN_TID]))
        pid = FOREIGN_PID if tid == FOREIGN_TID else PID
        if draw(st.booleans()):
            builder.call(at, at + lasts, correlation, name, tid=tid)
        for _ in range(draw(st.integers(0, 2))):
            begin, size, device = draw(time), draw(st.integers(0, 30)), draw(st.integers(0, 1))
            stream = draw(st.sampled_from([7, 8]))
            work.setdefault(device, []).append((begin, begin + size, pid))
            if name.startswith("cudaMemcpy"):
                kind, host = draw(st.sampled_from([1, 2, 8])), draw(st.sampled_from([0, 1, None]))
                builder.copy(begin, begin + size, correlation, draw(st.sampled_from([4, 1 << 21])), kind,
                             host=host, device=device, stream=stream, pid=pid)  # fmt: skip
            elif draw(st.integers(0, 4)) == 0 and (device, pid) == (0, PID):
                builder.graph(begin, begin + size, correlation)
            else:
                builder.kernel(begin, begin + size, correlation, device=device, stream=stream, pid=pid)
        if draw(st.booleans()):
            begin = draw(time)
            builder.overhead(begin, begin + draw(st.integers(0, 50)), tid=tid)
    windows = []
    for low in draw(st.lists(time, max_size=3)):
        # What the main thread waits for inside of "r", the other thread launches: it is adopted.
        tid = draw(st.sampled_from([TID, TID, FOREIGN_TID]))
        windows.append((low, low + draw(st.integers(0, 100)), FOREIGN_PID if tid == FOREIGN_TID else PID))
        builder.range(*windows[-1][:2], "r", tid=tid)
    if not work:
        builder.kernel(1, 5, None)
        work[0] = [(1, 5, PID)]
    # Rows that start and end at 0 are how CUPTI writes what it could not time; the reader leaves them out.
    return builder, {d: [w for w in rows if w[:2] != (0, 0)] for d, rows in work.items()}, windows


SETTINGS = {"deadline": None, "suppress_health_check": [HealthCheck.function_scoped_fixture]}


@settings(max_examples=10, **SETTINGS)
@given(made=random_trace())
def test_every_idle_nanosecond_has_exactly_one_cause(made, tmp_path):
    check_sums(*made, tmp_path)


@pytest.mark.slow
@settings(max_examples=300, **SETTINGS)
@given(made=random_trace())
def test_every_idle_nanosecond_of_many_traces_has_exactly_one_cause(made, tmp_path):
    check_sums(*made, tmp_path)


def check_sums(builder, work, windows, tmp_path):
    analysis = analysed(builder, tmp_path)
    if analysis.idle is None:
        return
    table = analysis.idle.table
    assert tuple(table.columns) == IDLE_COLUMNS
    assert set(table["cause"]) <= set(CAUSES)
    assert (table["idle_ns"] > 0).all()
    assert (table["count"] > 0).all()
    for device in analysis.idle.devices:
        rows = table[table["device_id"] == device.device_id]
        mine = [(start, end) for start, end, _ in work[device.device_id]]
        users = {pid for _, _, pid in work[device.device_id]}
        opened = [(low, high) for low, high, pid in windows if pid in users]
        assert device.span_ns == device.busy_ns + device.idle_ns
        assert rows[rows["range"] == ""]["idle_ns"].sum() == device.idle_ns
        assert device.idle_ns == brute_force_idle(mine, [(-1, 10_000)])
        assert rows[rows["range"] == "r"]["idle_ns"].sum() == brute_force_idle(mine, opened)
        check_instances(analysis.idle.instances, device, mine, opened)


def check_instances(table, device, work, windows):
    """Every instance adds up: its span is busy and idle, and its idle time has causes."""
    table = table[table["device_id"] == device.device_id]
    assert tuple(table.columns) == IDLE_INSTANCES.names
    assert (table["span_ns"] == table["busy_ns"] + table["idle_ns"]).all()
    assert (table["idle_ns"] == table[[cause_column(cause) for cause in CAUSES]].sum(axis=1)).all()
    each = [brute_force_idle(work, [window]) for window in windows]
    assert sorted(table["idle_ns"].tolist()) == sorted(idle for idle in each if idle)
    assert (table["busy_ns"] >= 0).all()


@pytest.mark.parametrize("name", ["ddp_rank0", "sdpa", "graph_node", "mp", "two_gpus"])
def test_real_traces_add_up(trace_path, name):
    with open_trace(trace_path(name)) as trace:
        analysis = summarize(read_tables(trace))
    table = analysis.idle.table
    for device in analysis.idle.devices:
        whole = table[(table["device_id"] == device.device_id) & (table["range"] == "")]
        assert whole["idle_ns"].sum() == device.idle_ns
    if len(analysis.idle.devices) == 1:
        (device,) = analysis.idle.devices
        assert device.idle_ns == analysis.totals.gpu_span_ns - analysis.totals.gpu_busy_ns
