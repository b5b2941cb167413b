"""A program without ranges has steps all the same where its kernels repeat."""

import numpy as np
import pytest

from nsysprof.analysis.steps.find_steps import find_periods
from nsysprof.results.findings import STEP, TRACE
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


def solve(steps=40, *, kernels=2, wait_every=1):
    """Return a solver of few kernels that looks after each step whether it may stop, and writes a result sometimes."""
    program = Program()
    program.launch(5 * MS, "initialise")
    for number in range(steps):
        for kernel in range(kernels):
            program.launch(50 * US, f"kernel_{kernel}")
        if number % wait_every == 0:
            program.wait()
        if number % 10 == 0:
            program.copy(1 << 20, 100 * US)
    return program


@pytest.mark.parametrize(
    ("program", "steps"),
    [
        (solve(), 40),
        (solve(kernels=3), 40),
        (solve(wait_every=2), 0),  # a loop over pieces
        (solve(kernels=1), 0),
        (solve(12), 0),  # too few to be sure
    ],
)
def test_a_solver_of_few_kernels_has_steps_where_the_host_waits_in_each(periods, program, steps):
    assert len(periods(program)) == steps


def test_steps_of_a_solver_say_how_sure_they_are(findings):
    found = findings(solve().builder)
    assert found.per == STEP
    assert found.found_pct > 95


@pytest.mark.parametrize("seed", range(4))
def test_a_few_kernels_in_any_order_are_no_steps_however_often_the_host_waits(periods, seed):
    program, random = Program(), np.random.default_rng(seed)
    for number in random.integers(0, 2 + seed, 300):
        program.launch(50 * US, f"kernel_{number}")
        if random.random() < 0.5:
            program.wait()
    assert len(periods(program)) == 0


def serve(lengths, *, kernels=4, waits_each=False, prefill=0, pause_ns=20 * MS):
    """Return a server: each request does the same kernels once for each of its tokens, then it waits for the next."""
    program = Program()
    for tokens in lengths:
        for number in range(prefill):
            program.launch(50 * US, f"prefill_{number}")
        for _ in range(tokens):
            for number in range(kernels):
                program.launch(50 * US, f"token_{number}")
            if waits_each:
                program.wait()
        program.wait()
        program.host(pause_ns)
    return program


LENGTHS = np.random.default_rng(0).integers(5, 60, 20).tolist()


@pytest.mark.parametrize(
    "server",
    [
        serve(LENGTHS),
        serve(LENGTHS, waits_each=True),
        serve(LENGTHS, waits_each=True, kernels=2),
        serve(LENGTHS, prefill=6),
        serve(LENGTHS, pause_ns=0),
    ],
    ids=["requests", "tokens with a wait", "tokens of two kernels with a wait", "prefill", "no pause"],
)
def test_the_pieces_of_requests_of_any_length_are_no_steps(periods, findings, server):
    assert len(periods(server)) == 0
    found = findings(server.builder)
    assert (found.per, found.found_pct) == (TRACE, None)


def test_tokens_of_many_kernels_are_steps_whatever_the_requests(periods):
    assert len(periods(serve(LENGTHS[:6], kernels=70))) == sum(LENGTHS[:6])


def test_requests_of_one_length_leave_the_steps(periods):
    assert len(periods(serve([24] * 8))) == 24 * 8


def test_two_hiccups_leave_the_steps(periods):
    program = Program()
    for number in range(60):
        for kernel in range(20):
            program.launch(50 * US, f"kernel_{kernel}")
        program.wait()
        program.host(8 * MS if number in (7, 31) else 100 * US)
    assert len(periods(program)) == 60


def test_found_steps_say_how_much_of_the_program_they_are(findings):
    program = Program()
    for number in range(64):
        program.launch(50 * US, f"initialise_{number}")
    train(program)
    found = findings(program.builder)
    assert found.per == STEP
    assert found.found_pct == pytest.approx(100 * 7 * 32 / (64 + 8 * 32), abs=1)


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


# What the programs did, whatever their ranges say: 16 blocks, 24 steps, 200 iterations of a
# solver; the rest has no steps.
@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("h200-programs/cupy", 16),
        ("h200-ranges/train-compiled", 23),
        ("h200-ranges/stencil", 200),
        ("h200-programs/threads", 0),
        ("h200-ranges/nccl", 0),
    ],
)
def test_steps_of_recorded_programs_are_found_by_their_kernels(trace_path, name, found):
    with open_trace(trace_path(name)) as trace:
        tables = read_tables(trace)
    pids, rows = np.unique(tables.work.pid_of[tables.work.variant], return_counts=True)
    assert len(find_periods(tables, tables.launch, int(pids[np.argmax(rows)]))) == found
