"""What a held program writes down about its steps, and how `record` reads it."""

import os

import pytest

from nsysprof.capture.live.step_sources import STEP_ENDS, TorchSteps
from nsysprof.workload.program_start.step_ends import StepEnds
from nsysprof.workload.program_start.watched_program.program_steps import ModuleCalls

torch = pytest.importorskip("torch")


@pytest.fixture
def ends(tmp_path, monkeypatch):
    """Return the steps of this process, which looks for the request only when it is told to."""
    (tmp_path / STEP_ENDS).mkdir()
    monkeypatch.setattr(StepEnds, "_watch", lambda _: None)
    ends = StepEnds(str(tmp_path / STEP_ENDS), lambda ended: ModuleCalls(torch, ended))
    ends.start()
    yield ends
    ends._count(wanted=False)
    ends._file.close()


def test_calls_of_the_outermost_module_are_told_while_that_is_requested(tmp_path, ends):
    steps, model, before = TorchSteps(tmp_path), torch.nn.Linear(2, 2), torch.nn.Module.__call__
    assert steps.is_there
    with steps.on():
        ends.look()
        for _ in range(4):
            model(torch.ones(2))
        first, second, third = steps.poll()
        assert first.duration_ns is None
        assert second.duration_ns == second.end_ns - first.end_ns > 0
        assert third.end_ns > second.end_ns
        assert steps.poll() == []
    ends.look()
    assert torch.nn.Module.__call__ is before, "nothing is left in the program"
    model(torch.ones(2))
    assert steps.poll() == []


def test_steps_of_an_optimizer_count_instead_where_there_is_one(tmp_path, ends):
    steps, optimizers, before = TorchSteps(tmp_path), (object(), object()), torch.nn.Module.__call__
    ends.optimizer.take(optimizers[0])
    assert steps.poll() == [], "it was not requested"
    with steps.on():
        ends.look()
        assert torch.nn.Module.__call__ is before
        for optimizer in optimizers:
            ends.optimizer.take(optimizer)
        assert len(steps.poll()) == 1, "the second belongs to the step of the first"


def test_an_optimizer_that_comes_later_ends_the_count_of_calls(tmp_path, ends):
    before = torch.nn.Module.__call__
    with TorchSteps(tmp_path).on():
        ends.look()
        assert torch.nn.Module.__call__ is not before
        ends.optimizer.take(object())
        assert torch.nn.Module.__call__ is before


def test_the_process_that_steps_first_is_the_one_that_counts(tmp_path):
    folder = tmp_path / STEP_ENDS
    folder.mkdir()
    assert not TorchSteps(tmp_path).is_there
    (folder / "1.txt").write_bytes(b"5\n")
    steps = TorchSteps(tmp_path)
    with steps.on():
        (folder / "2.txt").write_bytes(b"10\n30\n4")
        assert [(each.end_ns, each.duration_ns) for each in steps.poll()] == [(10, None), (30, 20)]
        (folder / "1.txt").write_bytes(b"5\n70\n")
        (folder / "2.txt").write_bytes(b"10\n30\n45\n")
        assert [each.end_ns for each in steps.poll()] == [45]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_a_fork_writes_a_file_of_its_own(tmp_path, ends):
    """Here without the fork: what happens in one."""
    with TorchSteps(tmp_path).on():
        ends.look()
        before = ends._file
        ends.start_in_fork()
        assert ends._file is not before
        assert ends._calls is None
        before.close()


def test_compiled_code_is_not_compiled_again_when_the_count_begins_and_ends(tmp_path, ends):
    compiled = []

    def backend(graph, _inputs):
        compiled.append(graph)
        return graph.forward

    torch._dynamo.reset()
    model = torch.compile(torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU()), backend=backend)
    model(torch.ones(2))
    with TorchSteps(tmp_path).on():
        ends.look()
        for _ in range(3):
            model(torch.ones(2))
    ends.look()
    model(torch.ones(2))
    assert len(compiled) == 1
    assert len(TorchSteps(tmp_path).poll()) == 2
