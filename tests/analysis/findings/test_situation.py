"""Which calls allocated the memory that is given back: by address, and by when the events happened."""

import numpy as np
import pytest

from nsysprof.analysis.findings.situation import find_given_back
from nsysprof.app.analyze import analyze_trace
from nsysprof.report.pages.analysis import finding_item
from nsysprof.trace.open import open_trace
from nsysprof.trace.schema import PID_MASK
from nsysprof.trace.tables import read_tables
from tests.analysis.programs import US, Program


@pytest.fixture
def given_back(tmp_path):
    """Return what a program gave back, and the names of its calls."""

    def read(program):
        with open_trace(program.builder.write(tmp_path / "trace.sqlite")) as trace:
            tables = read_tables(trace)
        calls = tables.calls
        rows = np.arange(len(calls))
        return find_given_back(tables, rows, int(calls.tid_of[0]) & PID_MASK, device=0)

    return read


def test_a_block_belongs_to_the_call_that_allocated_it_and_the_next_that_freed_its_address(given_back):
    program = Program()
    for address, size in ((1, 100), (2, 50), (3, 7)):
        # Another device has memory at the same addresses, which stays.
        program.builder.allocate(program.now + 1 * US, address, 1000, device=1)
        program.builder.allocate(program.now + 2 * US, address, size)
        program.call("cudaMalloc_v3020", 3 * US)
    for address in (2, 1):
        program.builder.free(program.now + 1 * US, address)
        program.call("cudaFree_v3020", 3 * US)
    # The same address again, which stays.
    program.builder.allocate(program.now + 1 * US, 1, 30)
    program.call("cudaMalloc_v3020", 3 * US)
    program.launch(10 * US)
    found = given_back(program)
    blocks = zip(found.allocating.tolist(), found.freeing.tolist(), found.bytes.tolist(), strict=True)
    assert sorted(blocks) == [(0, 4, 100), (1, 3, 50)]
    second = np.arange(7) == 1
    assert found.share(second) == pytest.approx(50 / 150)
    assert np.flatnonzero(found.freeing_of(second)).tolist() == [3]


def test_pinned_memory_and_events_outside_every_call_do_not_count(given_back):
    program = Program()
    program.builder.allocate(program.now + 1 * US, 1, 100, kind=1)
    program.call("cudaHostAlloc_v3020", 3 * US)
    program.builder.allocate(program.now + 10 * US, 2, 100)
    program.host(20 * US)
    for address in (1, 2):
        program.builder.free(program.now + 1 * US, address, kind=1 if address == 1 else 2)
        program.call("cudaFree_v3020", 3 * US)
    program.launch(10 * US)
    found = given_back(program)
    assert len(found.bytes) == 0
    assert found.share(np.ones(4, dtype=bool)) == 0


def test_a_trace_without_events_of_memory_gives_back_nothing_known(given_back):
    program = Program()
    program.call("cudaMalloc_v3020", 3 * US)
    program.call("cudaFree_v3020", 3 * US)
    program.launch(10 * US)
    assert len(given_back(program).bytes) == 0


def test_a_finding_over_many_ranges_names_the_one_that_holds_most(trace_path):
    """The short sequences of a grid have as many calls as the long ones, and take a tenth of their time or less."""
    analysis = analyze_trace(trace_path("h200-roofline/nsys"))
    (finding,) = [item for item in analysis.findings.items if item.code == "unfused-attention"]
    others = finding.other_ranges
    assert f" of it is in {finding.range}, the rest in {others} other ranges." in finding.text
    assert finding_item(finding).where == f"{finding.range} and {others} other ranges"


def test_no_finding_of_one_range_saves_more_than_the_range_lasts(trace_path):
    """Those of several ranges say so."""
    for name in ("h200-roofline/nsys", "sdpa", "graph_node", "h200-faults/all", "mem", "h200-programs/train-all"):
        analysis = analyze_trace(trace_path(name))
        wall_ns = analysis.ranges.groupby("range")["wall_ns"].sum()
        for item in analysis.findings.items:
            times = analysis.findings.usual_steps if item.per != "trace" else 1
            if not item.other_ranges and item.range in wall_ns.index:
                assert item.saving_ns * times <= wall_ns[item.range], item
