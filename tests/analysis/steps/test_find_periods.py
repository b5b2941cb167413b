"""A program without ranges has steps all the same where its kernels repeat."""

import numpy as np
import pytest

from nsysprof.analysis.steps.find_periods import find_periods
from nsysprof.results.findings.causes import STEP
from nsysprof.trace.open import open_trace
from nsysprof.trace.tables import read_tables
from tests.analysis.programs import MS, US, Program
from tests.builders.build_trace import PID


@pytest.fixture
def periods(tmp_path):
    def run(program):
        with open_trace(program.builder.write(tmp_path / "t.sqlite")) as trace:
            tables = read_tables(trace)
        return find_periods(tables, tables.launch, PID)

    return run


def train(program, steps=8):
    """Add steps of ten layers with three kernels each, a loss and an optimizer; return when each loss was launched."""
    at = []
    for _ in range(steps):
        for _ in range(10):
            for name in ("norm", "gemm", "add"):
                program.launch(200 * US, name)
        at.append(program.now)
        program.launch(100 * US, "loss")
        program.launch(900 * US, "optimizer")
    return at


def test_a_step_begins_with_a_kernel_that_comes_once_in_each(periods):
    program = Program()
    at = train(program)
    assert periods(program).tolist() == at


def test_the_beginning_of_a_program_is_no_step(periods):
    program = Program()
    for number in range(40):
        program.launch(50 * US, f"initialise_{number}")
    at = train(program)
    assert periods(program).tolist() == at


@pytest.mark.parametrize("kinds", [1, 3, 200])
def test_a_loop_over_pieces_and_a_program_that_never_repeats_have_none(periods, kinds):
    program = Program()
    for number in np.random.default_rng(0).permutation(300) % kinds:
        program.launch(50 * US, f"kernel_{number}")
    assert len(periods(program)) == 0


@pytest.mark.parametrize("seed", range(3))
def test_a_kernel_at_equal_distances_between_others_that_never_repeat_is_no_step(periods, seed):
    program, random = Program(), np.random.default_rng(seed)
    for _ in range(20):
        program.launch(50 * US, "begin")
        for number in random.integers(0, 60, 19):
            program.launch(50 * US, f"kernel_{number}")
    assert len(periods(program)) == 0


def test_a_fault_is_counted_per_repetition(findings):
    program = Program()
    program.call("cudaMalloc_v3020", 40 * MS)
    program.copy(1 << 30, 150 * MS)  # the model goes to the GPU: once, and no fault
    for _ in range(12):
        program.copy(64 << 20, 10 * MS)
        train(program, steps=1)
    (item,) = findings(program.builder).items
    assert (item.code, item.per, item.count) == ("pageable-copy", STEP, 1)
    # 64 MiB take 2.8 ms from pinned memory.
    assert item.saving_ns == pytest.approx(7.2 * MS, rel=0.1)


def test_kernels_of_a_replayed_graph_are_another_phase_than_the_same_ones_eager(periods):
    program = Program()
    eager = train(program, steps=10)
    for _ in range(6):
        program.graph(32, 100 * US, "norm")
    assert periods(program).tolist() == eager
