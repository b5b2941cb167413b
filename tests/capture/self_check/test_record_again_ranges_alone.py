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
