"""Steps of a program from its output."""

import time

import pytest

from nsysprof.capture.live.step_sources import OutputSteps
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
