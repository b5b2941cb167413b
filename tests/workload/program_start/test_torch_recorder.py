"""Torch's profiler, started from outside in a real program."""

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from nsysprof.workload.program_start import torch_recorder

HOOK = Path(__file__).parents[3] / "nsysprof" / "workload" / "program_start"
PROGRAM = """\
import os, signal, sys, threading
import torch, nvtx
model = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(6):
    with nvtx.annotate(f"step{step}"):
        model(torch.ones(4, 8)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
def elsewhere():
    nvtx.push_range("elsewhere")
    torch.ones(3).cumsum(0)
    nvtx.pop_range()
thread = threading.Thread(target=elsewhere)
thread.start()
thread.join()
if os.fork() == 0:
    print("from the fork")
    sys.exit(5)
assert os.waitstatus_to_exitcode(os.wait()[1]) == 5
if sys.argv[1:]:
    os.kill(os.getpid(), signal.SIGTERM)
"""


@pytest.fixture
def recorded(tmp_path):
    """`recorded(arguments, schedule)`: how a program ended, and the events that it left."""
    pytest.importorskip("torch")
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)

    def run(*arguments, **schedule):
        environment = {
            **os.environ,
            "PYTHONPATH": str(HOOK),
            "NSYSPROF_TORCH_FOLDER": str(tmp_path),
            "NSYSPROF_TORCH_SCHEDULE": json.dumps(schedule),
        }
        done = subprocess.run([sys.executable, program, *arguments], env=environment, check=False, timeout=120)
        (left,) = tmp_path.glob("*.json")  # and none of the fork
        data = left.read_bytes()
        return done.returncode, json.loads(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data)["traceEvents"]

    return run


def names(events, category):
    return [event["name"] for event in events if event.get("cat") == category]


def test_ranges_and_operators_of_all_threads_are_there_although_sigterm_ended_the_program(recorded):
    code, events = recorded("ends-by-a-signal")
    assert code == -15
    ranges = [name for name in names(events, "user_annotation") if not name.startswith("Optimizer")]
    assert sorted(ranges) == ["elsewhere", *(f"step{number}" for number in range(6))]
    assert names(events, "cpu_op").count("aten::cumsum") == 1
    assert names(events, "cpu_op").count("aten::linear") == 6
    (mark,) = [event for event in events if event["name"] == "elsewhere"]
    (sum_,) = [event for event in events if event["name"] == "aten::cumsum"]
    assert mark["tid"] == sum_["tid"]
    assert mark["ts"] <= sum_["ts"] <= mark["ts"] + mark["dur"]


@pytest.mark.slow
def test_a_schedule_of_steps(recorded):
    code, events = recorded(skip_steps=2, steps=3)
    assert code == 0
    assert names(events, "cpu_op").count("aten::linear") == 3
    assert {"step2", "step3", "step4"} >= {name for name in names(events, "user_annotation") if name[:4] == "step"}


@pytest.mark.slow
def test_a_schedule_of_calls_of_the_outermost_module(recorded):
    code, events = recorded(skip_steps=1, forward_steps=3)
    assert code == 0
    assert names(events, "cpu_op").count("aten::linear") == 3


@pytest.mark.parametrize("skip", [0, 2])
def test_calls_of_the_outermost_module_start_and_stop_the_recording(tmp_path, monkeypatch, skip):
    torch = pytest.importorskip("torch")
    monkeypatch.setenv("NSYSPROF_TORCH_FOLDER", str(tmp_path))
    monkeypatch.setenv("NSYSPROF_TORCH_SCHEDULE", json.dumps({"skip_steps": skip, "forward_steps": 2}))
    monkeypatch.setattr(torch_recorder.atexit, "register", lambda _: None)
    recorder = torch_recorder.TorchRecorder(torch)
    said, before = [], torch.nn.Module.__call__

    def stop():
        said.append("stop")
        recorder._is_over = True

    monkeypatch.setattr(recorder, "start", lambda: said.append("start"))
    monkeypatch.setattr(recorder, "stop", stop)
    recorder.arm()
    model = torch.nn.Linear(2, 2)
    model.register_forward_pre_hook(lambda _module, _inputs: said.append("call"))
    for _ in range(6):
        model(torch.ones(2))
    assert said == [*["call"] * skip, "start", "call", "call", "stop", *["call"] * (4 - skip)]
    assert torch.nn.Module.__call__ is before
