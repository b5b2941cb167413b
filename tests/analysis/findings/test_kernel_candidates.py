"""What the GPU could do less of: waiting in collectives."""

import pytest

from nsysprof.analysis.overview.summarize import summarize
from nsysprof.trace.open import open_trace
from nsysprof.trace.tables import read_tables
from tests.analysis.programs import MS, Program


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
    assert item.saving_ns <= item.saving_high_ns <= 20 * MS / 3 + 1 * MS
