"""Real processes with real torch on the CPU, and callables that misbehave in every way."""

import threading
import time

import pytest
from msgspec.structs import replace

torch = pytest.importorskip("torch", reason="needs the extra [torch]")

from nsysprof.attention.shape import Case  # noqa: E402
from nsysprof.capture.sampling.bench import (  # noqa: E402
    _mark_throttled,
    hopeless_cells,
    prepare_bench_folder,
    run_bench,
)
from nsysprof.capture.sampling.bench_run import (  # noqa: E402
    BenchPlan,
    new_run,
    read_run,
)
from nsysprof.results.samples import OK, Block  # noqa: E402

KERNELS = """
import os, signal, time, torch
import torch.nn.functional as F

def good(q, k, v, is_causal):
    return F.scaled_dot_product_attention(q, k, v, is_causal=is_causal)

def raises(q, k, v, is_causal):
    raise ValueError("no such tile")

def wrong(q, k, v, is_causal):
    return good(q, k, v, is_causal) * 1.01

def wrong_gradient(q, k, v, is_causal):
    out = good(q, k, v, is_causal)
    return out + 0.1 * (v - v.detach())

def crashes(q, k, v, is_causal):
    os.kill(os.getpid(), signal.SIGSEGV)

def hangs(q, k, v, is_causal):
    time.sleep(1000)

def crashes_once(q, k, v, is_causal):
    flag = os.environ["FLAG"]
    if not os.path.exists(flag):
        open(flag, "w").close()
        os.kill(os.getpid(), signal.SIGKILL)
    return good(q, k, v, is_causal)
"""


@pytest.fixture
def kernels(tmp_path, monkeypatch):
    (tmp_path / "mykernels.py").write_text(KERNELS)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=":")
    monkeypatch.setenv("FLAG", str(tmp_path / "flag"))


def case(backend, seq=32):
    return Case(backend, seq=seq, heads=2, head_dim=16, dtype="fp32")


def run(tmp_path, backends, **fields):
    numbers = {"processes": 2, "rounds": 2, "samples": 4, "warmup_seconds": 0.05, "check": False, "flush": False}
    plan = BenchPlan(tuple(case(backend) for backend in backends), "cpu", **{**numbers, **fields})
    folder = tmp_path / "out"
    prepare_bench_folder(folder)
    made = new_run(plan)
    finished = run_bench(made, folder, lambda _run, _left, _cell: None)
    return made, finished, folder


def statuses(made, cell):
    return [block.status for block in made.blocks if block.cell == cell]


def test_every_cell_gets_its_blocks_and_all_of_it_is_on_disk(tmp_path):
    made, finished, folder = run(tmp_path, ["math", "naive"])
    assert finished
    assert [statuses(made, cell) for cell in (0, 1)] == [[OK] * 4] * 2
    assert all(len(block.values_ns) == 4 and min(block.values_ns) > 0 for block in made.blocks)
    assert {(block.process, block.round) for block in made.blocks if block.cell == 0} == {
        (0, 0),
        (0, 1),
        (1, 0),
        (1, 1),
    }
    assert made.ceilings["bytes_per_s"] > 1e8
    assert made.ceilings["flops"]["fp32"] > 1e8
    assert read_run(folder / "samples.json") == made
    assert read_run(folder / "samples.json").complete
    starts = [block.started_ns for block in made.blocks]
    assert starts == sorted(starts)


@pytest.mark.slow
def test_a_failing_kernel_costs_itself_alone(tmp_path, kernels):
    backends = ["naive", "mykernels:raises", "mykernels:crashes", "mykernels:nothing", "nowhere:f"]
    made, finished, _ = run(tmp_path, backends)
    assert finished
    assert statuses(made, 0) == [OK] * 4
    assert set(statuses(made, 1)) == {"error"}
    assert set(statuses(made, 2)) == {"crashed"}
    assert "SIGSEGV" in next(block.reason for block in made.blocks if block.cell == 2)
    assert set(statuses(made, 3)) == {"error"}
    assert set(statuses(made, 4)) == {"error"}
    # Each once a process, and not once a round.
    assert all(len(statuses(made, cell)) == 2 for cell in (1, 2, 3, 4))


@pytest.mark.slow
def test_a_wrong_kernel_is_never_timed(tmp_path, kernels):
    made, finished, _ = run(tmp_path, ["naive", "mykernels:wrong"], check=True)
    assert finished
    assert statuses(made, 1) == ["wrong"]
    assert "out" in next(block.reason for block in made.blocks if block.cell == 1)
    first, *later = [block for block in made.blocks if block.cell == 0]
    assert 0 < first.errors["out"] < 1e-5
    assert not any(block.errors for block in later if block.process > 0)


def test_a_kernel_that_is_wrong_in_its_gradient_alone(tmp_path, kernels):
    plan = BenchPlan((replace(case("mykernels:wrong_gradient"), pass_="bwd"),), "cpu", processes=1, rounds=1, samples=2)
    prepare_bench_folder(tmp_path / "out")
    made = new_run(plan)
    run_bench(made, tmp_path / "out", lambda _run, _left, _cell: None)
    assert statuses(made, 0) == ["wrong"]
    assert "dv" in made.blocks[0].reason


@pytest.mark.slow
def test_a_kernel_that_never_returns(tmp_path, kernels):
    made, finished, _ = run(tmp_path, ["naive", "mykernels:hangs"], processes=1, case_timeout_s=2.0)
    assert finished
    assert statuses(made, 1) == ["timeout"]
    assert statuses(made, 0) == [OK] * 2


@pytest.mark.slow
def test_a_kernel_that_fails_in_one_process_only(tmp_path, kernels):
    made, _, _ = run(tmp_path, ["naive", "mykernels:crashes_once"])
    assert sorted(statuses(made, 1)) == ["crashed", OK, OK]


@pytest.mark.slow
def test_ctrl_c_keeps_what_was_measured(tmp_path, monkeypatch):
    plan = BenchPlan((case("naive"), case("math")), "cpu", rounds=500, check=False, flush=False)
    folder = tmp_path / "out"
    prepare_bench_folder(folder)
    made = new_run(plan)

    stopped = []

    def stop(run, _left, _cell):
        if len(run.blocks) >= 3 and not stopped:
            stopped.append(True)
            raise KeyboardInterrupt

    begin = time.monotonic()
    assert not run_bench(made, folder, stop)
    assert time.monotonic() - begin < 60
    kept = read_run(folder / "samples.json")
    assert len(kept.blocks) >= 3
    assert not kept.complete


def test_hopeless_cells():
    plan = BenchPlan((case("math"),) * 4, "cpu")
    made = new_run(plan)
    made.blocks = [
        Block(0, 0, 0, "ineligible", "x"),
        Block(1, 0, 0, "crashed", "x"),
        Block(2, 0, 0, "crashed", "x"),
        Block(2, 1, 0, "timeout", "x"),
        Block(3, 0, 0, OK, values_ns=(1,)),
    ]
    assert hopeless_cells(made) == {0, 2}


def test_samples_beside_a_throttled_reading_are_marked():
    made = new_run(BenchPlan((case("math"),), "cuda"))
    made.blocks = [
        Block(0, 0, 0, OK, started_ns=1000, values_ns=(1, 1, 1), offsets_ns=(0, 500, 5000)),
        Block(0, 1, 0, OK, started_ns=1000, values_ns=(1,), offsets_ns=(0,)),
    ]
    made.clocks = [
        {"process": 0, "time_ns": 900, "throttle_reasons": ["gpu_idle"]},
        {"process": 0, "time_ns": 1400, "throttle_reasons": []},
        {"process": 0, "time_ns": 1600, "throttle_reasons": ["sw_power_cap"]},
        {"process": 0, "time_ns": 1800, "throttle_reasons": []},
        {"process": 0, "time_ns": 1900, "throttle_reasons": []},
    ]
    _mark_throttled(made, 0)
    assert made.blocks[0].throttled == (1,)
    assert made.blocks[1].throttled == ()


@pytest.mark.slow
def test_no_thread_is_left_behind(tmp_path):
    run(tmp_path, ["naive"], processes=1, rounds=1)
    assert threading.active_count() <= 2


def test_turns_end_where_every_case_is_decided_and_the_plan_says_how_many_there_were(tmp_path, monkeypatch):
    """The processes are left out: only when the question is asked, and what its answer does, is tested."""
    from nsysprof.capture.measured_process import HERE
    from nsysprof.capture.sampling import bench

    turns: list[int] = []
    monkeypatch.setattr(bench, "run_bench_process", lambda run, folder, turn, *rest, **more: turns.append(turn))
    plan = BenchPlan((Case("math", seq=16),), "cpu", processes=bench.MOST_TURNS)
    for decided_at, taken in ((6, 6), (99, bench.MOST_TURNS)):
        turns.clear()
        sides = [(new_run(plan), tmp_path, HERE) for _ in range(2)]
        asked: list[int] = []

        def is_decided(asked=asked, decided_at=decided_at):
            asked.append(1 + max(turns))
            return asked[-1] >= decided_at

        assert bench.run_in_turn(*sides, lambda *_: None, is_decided)
        assert [side[0].plan.processes for side in sides] == [taken, taken]
        assert (1 + max(turns), len(turns)) == (taken, 2 * taken)
        assert asked == [look for look in bench.LOOKS if look <= decided_at]
        assert all(side[0].complete for side in sides)


def test_winners_are_measured_again_in_processes_of_their_own(tmp_path, monkeypatch):
    """The processes are left out. What an earlier call measured counts, so that it can be resumed."""
    from nsysprof.capture.sampling import tune

    made: list[tuple[int, tuple[int, ...]]] = []

    def process(run, folder, number, order, *_rest):
        made.append((number, tuple(sorted(set(order)))))
        run.blocks += [Block(cell, number, 0, OK, values_ns=(1, 1)) for cell in sorted(set(order))]

    monkeypatch.setattr(tune, "run_bench_process", process)
    (tmp_path / ".work").mkdir()
    run = new_run(BenchPlan((Case("math", seq=16), Case("flash", seq=16), Case("auto", seq=16)), "cpu"), "tune")
    run.blocks = [Block(cell, 4, 0, OK, values_ns=(1, 1)) for cell in range(3)]
    assert tune.measure_again(run, tmp_path, time.monotonic() - 1, lambda _: [0, 2], None)
    assert (made, run.complete, run.again_from) == ([], False, 5), "no time is left"
    assert tune.measure_again(run, tmp_path, time.monotonic() + 60, lambda _: [0, 2], None)
    assert made == [(5, (0, 2)), (6, (0, 2)), (7, (0, 2))]
    assert run.complete
    made.clear()
    resumed = read_run(tmp_path / "samples.json")
    assert tune.measure_again(resumed, tmp_path, time.monotonic() + 60, lambda _: [0, 1, 2], None)
    assert made == [(8, (1,)), (9, (1,)), (10, (1,))]
