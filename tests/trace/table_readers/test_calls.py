"""Work finds the call that launched it, in compiled code as without it."""

from nsysprof.trace.open import open_trace
from nsysprof.trace.tables import read_tables
from tests.builders.build_trace import OTHER_PID, TID, TraceBuilder


def launches(builder, tmp_path):
    """Return the start of the call of each kernel by the kernel's start; None without one."""
    with open_trace(builder.write(tmp_path / "t.sqlite")) as trace:
        tables = read_tables(trace)
    calls = tables.calls.start_ns.tolist()
    found = zip(tables.work.start_ns.tolist(), tables.launch.tolist(), strict=True)
    return {start: None if call < 0 else calls[call] for start, call in found}


def test_a_correlation_id_counts_within_its_process_only(tmp_path):
    builder = TraceBuilder()
    builder.launch(0, 5)
    builder.launch(1000, 5, tid=OTHER_PID | 1)
    assert launches(builder, tmp_path) == {100: 0, 1100: 1000}


def test_of_several_calls_with_one_id_the_earliest_launched_it(tmp_path):
    builder = TraceBuilder()
    builder.call(50, 60, 5)
    builder.call(10, 20, 5)
    builder.kernel(100, 150, 5)
    assert launches(builder, tmp_path) == {100: 10}


def test_without_an_id_or_a_call_there_is_no_launch(tmp_path):
    builder = TraceBuilder()
    builder.call(10, 20, 0)
    builder.call(30, 40, 7)
    for at, correlation in ((100, 0), (200, 8), (300, None), (400, 7)):
        builder.kernel(at, at + 50, correlation)
    assert launches(builder, tmp_path) == {100: None, 200: None, 300: None, 400: 30}


def test_ids_that_lie_far_apart_are_found_too(tmp_path):
    builder = TraceBuilder()
    for at, correlation in ((0, 2**32 - 1), (1000, 1), (2000, 2**31)):
        builder.launch(at, correlation, tid=TID)
    assert launches(builder, tmp_path) == {100: 0, 1100: 1000, 2100: 2000}
