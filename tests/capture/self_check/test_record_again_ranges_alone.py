"""What recording costs: the program runs twice, with a stand-in nsys whose first recording is slow."""

import json
import os
import sys

import pytest

from tests.builders.build_trace import TraceBuilder
from tests.builders.run_command import fails, run
from tests.builders.stand_in_nsys import recorded_options, write_stand_in

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="programs are captured on Linux alone")


def trace(path, wall, *, kernels):
    builder = TraceBuilder()
    for step in range(10):
        at = 1_000_000 * (step + 1)
        builder.range(at, at + wall + step, f"step{step}")
        if kernels:
            builder.launch(at + 100, step + 1)
    return builder.write(path)


@pytest.fixture
def capture(tmp_path):
    recorded, plain = (trace(tmp_path / f"{wall}.sqlite", wall, kernels=wall == 130_000) for wall in (130_000, 100_000))

    def call(*options, alone=plain, program=("true",)):
        nsys = write_stand_in(tmp_path / "tool", [("--trace=nvtx", alone), ("", recorded)])
        environment = {**os.environ, "NSYSPROF_NSYS": str(nsys)}
        done = run("capture", "--out", tmp_path / "c", *options, "--", *program, cwd=tmp_path, env=environment)
        return done, tmp_path / "c"

    return call


def codes(folder):
    return [note["code"] for note in json.loads((folder / "manifest.json").read_text())["notes"]]


def test_the_cost_is_said_by_capture_and_shown_by_analyze(capture, tmp_path):
    done, folder = capture("--measure-cost")
    assert done.returncode == 0, done.stderr
    assert "Recording makes step# 1.30 [1.30, 1.30] times as long" in done.stderr, done.stderr
    assert codes(folder) == ["recording-cost", "ranges-distorted"]
    first, second = recorded_options(tmp_path / "tool")
    assert "--trace=cuda,nvtx" in first
    assert "--trace=nvtx" in second
    assert (folder / "ranges_alone.sqlite").exists()
    assert not list(folder.glob("ranges_alone.nsys-rep"))
    done = run("analyze", folder, "--out", tmp_path / "a", "--no-figures")
    assert "What recording costs" in done.stdout
    assert (tmp_path / "a" / "recording_cost.csv").read_text().splitlines()[1].startswith("step#,9,9,130")


def test_a_second_run_that_fails_leaves_the_capture(capture):
    done, folder = capture("--measure-cost", alone=None)
    assert done.returncode == 0, done.stderr
    assert codes(folder) == ["recording-cost"]
    assert "the second run failed" in done.stderr
    assert (folder / "nsys.sqlite").exists()


def test_a_program_that_failed_is_not_run_again(capture, tmp_path):
    done, folder = capture("--measure-cost", program=("false",))
    assert done.returncode == 1
    assert codes(folder) == ["recording-cost"]
    assert len(recorded_options(tmp_path / "tool")) == 1


def test_it_is_not_for_ranks(capture):
    fails(capture("--measure-cost", "--per-rank", program=("torchrun",))[0], 2, "works with a single trace")


TRAINING = """
import sys, torch
model = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(10):
    optimizer.zero_grad()
    model(torch.ones(4, 8)).sum().backward()
    optimizer.step()
    print("step")
"""


@pytest.fixture
def training(tmp_path):
    """Return a function that captures a training of ten steps, of which a stand-in has kernels with such a name."""

    def call(*options, kernel="void at::native::elementwise_kernel", program=TRAINING):
        (tmp_path / "train.py").write_text(program)
        builder = TraceBuilder()
        for step in range(10):
            at = 400_000_000 * (step + 1)
            for part in range(3):
                builder.launch(at + 1000 * part, 3 * step + part + 1, name=f"{kernel}{part}")
            builder.range(at, at + 400_000_000, "step")
        nsys = write_stand_in(tmp_path / "tool", [("", builder.write(tmp_path / "recorded.sqlite"))])
        environment = {**os.environ, "NSYSPROF_NSYS": str(nsys)}
        program = (sys.executable, tmp_path / "train.py")
        return run("capture", "--out", tmp_path / "c", *options, "--", *program, cwd=tmp_path, env=environment)

    return call


@pytest.mark.torch
def test_a_short_program_of_torch_runs_once_more_without_a_profiler(training, tmp_path):
    done = training()
    assert done.returncode == 0, done.stderr
    assert "runs again without a profiler" in done.stderr
    assert done.stdout.count("step\n") == 10, "the second run prints into the log alone"
    assert (tmp_path / "c/logs/turn000-unrecorded.stdout.log").read_text().count("step") == 10
    data = json.loads((tmp_path / "c/unrecorded.json").read_text())
    assert (len(data["steps_ns"]), data["source"]) == (9, "steps of the optimizer")
    names = [step["name"] for step in json.loads((tmp_path / "c/manifest.json").read_text())["steps"]]
    assert names[-1] == "program, not recorded"


@pytest.mark.parametrize(
    ("options", "kernel"),
    [(("--no-measure-cost",), "void at::native::k"), (("--no-retry",), "void at::native::k"), ((), "stencil")],
)
def test_otherwise_it_runs_once(training, tmp_path, options, kernel):
    done = training(*options, kernel=kernel, program="print('the trace decides, not the program')")
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "c/unrecorded.json").exists()
    assert "runs again" not in done.stderr
