"""Steps of a program from its output and from its own counters."""

import struct
import time

import pytest

from nsysprof.capture.live.step_sources import HookSteps, OutputSteps
from nsysprof.errors import UsageError


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "stdout.log"
    path.write_bytes(b"latency=9 ms before anybody looked\nlatency=8")
    return path


def write(path, text):
    with path.open("ab") as file:
        file.write(text)


def test_each_new_line_that_matches_is_a_step_with_its_duration(log):
    source = OutputSteps((log,), r"latency=(?P<ms>[\d.]+)")
    assert source.poll() == []
    write(log, b" ms\nlatency=1.5 ms\nsomething else\nlatency=2")
    steps = source.poll()
    assert [step.duration_ns for step in steps] == [1_500_000]
    assert abs(steps[0].end_ns - time.time_ns()) < 5e9
    write(log, b".25 ms\n")
    assert [step.duration_ns for step in source.poll()] == [2_250_000]


def test_without_a_group_the_time_between_lines_is_taken(log):
    source = OutputSteps((log,), "^step")
    write(log, b"\nstep 1\n")
    assert [step.duration_ns for step in source.poll()] == [None]
    time.sleep(0.05)
    write(log, b"step 2\n")
    (step,) = source.poll()
    assert 45e6 < step.duration_ns < 5e9


@pytest.mark.parametrize(
    ("text", "duration"),
    [(b"took 1 s", 10**9), (b"took 1..2 s", None), (b"took 1e999 s", None), (b"took 9\xff s", None)],
)
def test_a_duration_that_is_not_a_number_is_unknown(log, text, duration):
    source = OutputSteps((log,), r"took (?P<s>\S+)")
    write(log, b"\n" + text + b"\n")
    assert [step.duration_ns for step in source.poll()] == [duration]


@pytest.mark.parametrize("pattern", ["(", r"(?P<s>\d)(?P<ms>\d)"])
def test_patterns_that_make_no_sense(log, pattern):
    with pytest.raises(UsageError):
        OutputSteps((log,), pattern)


def ring(path, size, steps):
    slots = [(0, 0)] * size
    for number, step in enumerate(steps):
        slots[number % size] = step
    path.write_bytes(struct.pack("<QQ", len(steps), size) + b"".join(struct.pack("<QQ", *slot) for slot in slots))


def test_counters_of_processes_the_one_with_the_most_steps_speaks(tmp_path):
    ring(tmp_path / "1.steps", 4, [(10, 20)])
    source = HookSteps(tmp_path, "optimizer step")
    assert source.poll() == []
    ring(tmp_path / "1.steps", 4, [(10, 20), (20, 35)])
    ring(tmp_path / "2.steps", 4, [(0, 30), (30, 40), (40, 42)])
    assert [(step.end_ns, step.duration_ns) for step in source.poll()] == [(30, None), (40, 10), (42, 2)]


def test_of_more_steps_than_the_ring_holds_the_last_are_known(tmp_path):
    source = HookSteps(tmp_path, "step")
    ring(tmp_path / "1.steps", 2, [(1, 2), (2, 4), (4, 7)])
    assert [step.duration_ns for step in source.poll()] == [2, 3]


@pytest.mark.parametrize("data", [b"", b"short", struct.pack("<QQ", 5, 2), struct.pack("<QQQQ", 1, 1, 9, 3)])
def test_damaged_counters(tmp_path, data):
    source = HookSteps(tmp_path, "step")
    (tmp_path / "1.steps").write_bytes(data)
    assert all(step.duration_ns is None for step in source.poll())
