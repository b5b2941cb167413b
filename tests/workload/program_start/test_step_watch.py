"""Steps that a program marks by ranges or by its optimizer, with a stand-in for torch: what is written at the end."""

import json
import subprocess
import sys
import time
from types import ModuleType, SimpleNamespace

import pytest

from nsysprof.workload.program_start import step_watch


@pytest.fixture
def torch(monkeypatch, tmp_path):
    """Stand in for a torch without a GPU, and give what would run at the end of the program."""
    hooks, ends, pushed = [], [], []
    optimizer = ModuleType("torch.optim.optimizer")
    optimizer.register_optimizer_step_post_hook = hooks.append
    monkeypatch.setitem(sys.modules, "torch.optim.optimizer", optimizer)
    monkeypatch.setitem(sys.modules, "torch.optim", ModuleType("torch.optim"))
    monkeypatch.setitem(sys.modules, "torch", ModuleType("torch"))
    monkeypatch.setattr(step_watch.atexit, "register", ends.append)
    monkeypatch.setenv("NSYSPROF_STEPS_FOLDER", str(tmp_path))
    nvtx = SimpleNamespace(range_push=pushed.append)

    def finish():
        ends[0]()
        (path,) = tmp_path.glob("steps-*.json")
        return json.loads(path.read_text())

    cuda = SimpleNamespace(is_initialized=lambda: False, nvtx=nvtx)
    return SimpleNamespace(cuda=cuda, hooks=hooks, pushed=pushed, finish=finish)


def test_steps_of_the_first_optimizer_count(torch):
    step_watch.begin(torch)
    first, second = object(), object()
    for _ in range(4):
        for optimizer in (first, second):
            torch.hooks[0](optimizer, (), {})
        time.sleep(0.002)
    data = torch.finish()
    assert len(data["steps_ns"]) == 3
    assert all(step >= 2_000_000 for step in data["steps_ns"])
    assert data["peak_bytes"] > 1e6
    assert data["ran_ns"] >= sum(data["steps_ns"])


def test_ranges_whose_whole_name_matches_count(torch, monkeypatch):
    monkeypatch.setenv("NSYSPROF_STEP_RANGE", r"step\d+")
    step_watch.begin(torch)
    for name in ("step0", "forward", "step1", "step1x", "step2"):
        torch.cuda.nvtx.range_push(name)
    assert torch.pushed == ["step0", "forward", "step1", "step1x", "step2"], "the program's own ranges go on"
    assert len(torch.finish()["steps_ns"]) == 2


def test_the_peak_is_that_of_this_process_and_not_of_the_one_that_started_it():
    """A process inherits the largest memory of its parent, as getrusage tells it."""
    ballast = bytearray(b"1" * (400 << 20))
    code = "from nsysprof.workload.program_start import step_watch; print(step_watch._peak_resident_bytes())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert 1 << 20 < int(done.stdout) < len(ballast)
