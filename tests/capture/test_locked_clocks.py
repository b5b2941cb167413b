"""The clocks of a real GPU are never locked here: a stand-in for NVML writes down what it was asked."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from nsysprof.capture.locked_clocks import locked_clocks
from nsysprof.errors import MissingToolError

STAND_IN = Path(__file__).parent / "stand_in_nvml"
HOLD = """
import signal, sys, time
from nsysprof.capture.locked_clocks import locked_clocks

def end(*_):
    raise KeyboardInterrupt

signal.signal(signal.SIGTERM, end)
with locked_clocks("GPU-1", 1500):
    print("held", flush=True)
    if "raise" in sys.argv:
        raise ValueError
    time.sleep(60)
"""


@pytest.fixture
def log(tmp_path, monkeypatch):
    path = tmp_path / "nvml.log"
    path.touch()
    monkeypatch.setenv("STAND_IN_NVML", str(path))
    monkeypatch.setenv("PYTHONPATH", str(STAND_IN), prepend=os.pathsep)
    return path


def test_a_bench_locks_the_gpu_that_it_measures_only_where_its_plan_says_so(log, monkeypatch):
    pytest.importorskip("torch", reason="needs the extra [torch]")
    from nsysprof.app.measuring import bench as module
    from nsysprof.app.measuring.bench import hold_clock
    from nsysprof.attention.shape import Case
    from nsysprof.capture.environment import merge_environment
    from nsysprof.capture.sampling.bench_run import BenchPlan

    monkeypatch.setattr(module, "measured_gpu", lambda: "GPU-2")
    cases = (Case("flash", seq=16),)
    with hold_clock(BenchPlan(cases, "cuda")):
        assert log.read_text() == ""
    with hold_clock(BenchPlan(cases, "cuda", locked_clock_mhz=1200)):
        assert log.read_text() == "lock GPU-2 1200 1200\n"
    gpus = [{"uuid": "GPU-2", "driver_version": "580", "power_limit_w": 700}]
    found = [merge_environment({"gpu_uuid": "GPU-2"}, {}, gpus, clock) for clock in (None, 1200)]
    assert [each["clocks_locked"] for each in found] == ["no", "1200 MHz"]
    assert found[0]["comparable_hash"] != found[1]["comparable_hash"]


def wait_for(log, lines):
    deadline = time.monotonic() + 20
    while log.read_text().splitlines() != lines and time.monotonic() < deadline:
        time.sleep(0.01)
    assert log.read_text().splitlines() == lines


def test_the_clock_is_held_inside_and_given_back(log):
    with locked_clocks("GPU-1", 1500):
        assert log.read_text() == "lock GPU-1 1500 1500\n"
    assert log.read_text().splitlines() == ["lock GPU-1 1500 1500", "free GPU-1"]


@pytest.mark.parametrize("number", ["SIGINT", "SIGTERM", "SIGKILL", "raise"])
def test_it_is_given_back_however_the_measuring_process_ends(log, number):
    process = subprocess.Popen([sys.executable, "-c", HOLD, number], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert process.stdout is not None
    assert process.stdout.readline() == b"held\n"
    if number != "raise":
        process.send_signal(getattr(signal, number))
    assert process.wait(20) != 0
    process.stdout.close()
    wait_for(log, ["lock GPU-1 1500 1500", "free GPU-1"])


def test_without_the_right_to_lock_nothing_is_measured(log):
    with (
        pytest.raises(MissingToolError, match="Insufficient Permissions") as refused,
        locked_clocks("GPU-refuse", 1500),
    ):
        raise AssertionError
    assert "--sustained" in refused.value.next_step
    assert log.read_text() == ""


def test_a_clock_that_stays_locked_is_an_error_that_says_how_to_free_it(log):
    with pytest.raises(MissingToolError, match="could not be released") as told, locked_clocks("GPU-stuck", 900):
        pass
    assert "--reset-gpu-clocks" in told.value.next_step
