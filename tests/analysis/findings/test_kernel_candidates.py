"""What the GPU could do less of: waiting in collectives."""

import pytest

from nsysprof.analysis.overview.summarize import summarize
from nsysprof.trace.open import open_trace
from nsysprof.trace.tables import read_tables
from tests.analysis.programs import MS, US, Program


def collectives(*waits_ms):
    """Return steps of 20 ms with a collective that takes 1 ms and waits as long as given."""
    program = Program()
    for wait_ms in waits_ms:
        begin = program.now
        for _ in range(10):
            program.launch(2 * MS)
        program.launch(int((1 + wait_ms) * MS), "ncclDevKernel_AllReduce_Sum_f32_RING_LL")
        program.wait()
        program.step(begin)
    return program.builder


def test_ranks_that_differ_a_little_are_not_accused(findings):
    assert [item.code for item in findings(collectives(*[0, 0.5] * 5)).items if item.code == "collective-wait"] == []


def test_a_rank_that_waits_for_others_may_save_nothing_by_itself(trace_path):
    with open_trace(trace_path("ddp_rank0")) as trace:
        items = {item.code: item for item in summarize(read_tables(trace)).findings.items}
    assert 0 == items["collective-wait"].saving_low_ns < items["collective-wait"].saving_ns


def test_waiting_for_another_rank_is_found(findings):
    (item,) = (each for each in findings(collectives(*[0, 10] * 5)).items if each.code == "collective-wait")
    # Of the three steps that are timed two wait: one more or one less is as near to the mean of all.
    assert item.saving_ns == pytest.approx(20 * MS / 3, rel=0.1)
    # What a collective takes without any waiting is not known: it may be nothing.
    assert item.saving_low_ns == 0
    assert item.saving_ns <= item.saving_high_ns <= 20 * MS / 3 + 1.2 * MS


def pipeline(*, kernel="saxpy", is_told=False, copies=True):
    """Return steps in which copies queue for their engine, or kernels of two streams alternate, as in public traces.

    is_told: whether the program tells the streams to wait for each other.
    """
    program = Program()
    for _ in range(8):
        begin = program.now
        for stream in (7, 8) * 3:
            if is_told:
                program.wait_stream(stream, 15 - stream)
            ready = max(program.free.get(7, 0), program.free.get(8, 0)) + 1 * US
            if copies:
                start = max(program.now + 8 * US, ready)
                number = program._call("cudaMemcpyAsync_v3020", program.now + 5 * US)
                program.builder.copy(start, start + 2 * MS, number, 24 << 20, 1, host=1, stream=stream)
                program.free[stream] = start + 2 * MS
                program.now += 5 * US
            else:
                program.free[stream] = ready - 1 * US
                program.launch(2 * MS, kernel, stream=stream)
        program.wait()
        program.step(begin)
    return program.builder


def dependencies(found):
    return [item for item in found.items if item.code == "stream-dependency"]


def test_copies_that_queue_for_their_engine_do_not_wait_for_a_stream(findings):
    """As in six public traces, none of which has a wait between streams."""
    assert dependencies(findings(pipeline())) == []


def test_copies_of_one_direction_queue_whatever_the_program_says(findings):
    assert dependencies(findings(pipeline(is_told=True))) == []


def test_kernels_wait_for_a_stream_only_where_the_program_says_so(findings):
    assert dependencies(findings(pipeline(copies=False))) == []
    (item,) = dependencies(findings(pipeline(copies=False, is_told=True)))
    assert item.saving_ns > 5 * MS


def test_streams_of_cudnn_are_no_dependency_of_the_program(findings):
    assert dependencies(findings(pipeline(copies=False, is_told=True, kernel="RNN_blockPersist_fp_LSTM"))) == []
