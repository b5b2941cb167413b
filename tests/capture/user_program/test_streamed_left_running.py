import itertools

import pytest

from nsysprof.capture.user_program import streamed as module
from nsysprof.capture.user_program.streamed import LeftRunning


@pytest.fixture
def wait(monkeypatch):
    """`wait(names, ...)`: what is waited for, with one look a second."""
    clock = itertools.count(100.0)
    monkeypatch.setattr(module.time, "monotonic", lambda: next(clock))
    said, stopped = [], []

    def make(*names, wait_s=10.0):
        looks = itertools.chain(names, itertools.repeat(names[-1]))
        return LeftRunning(lambda: next(looks), lambda: stopped.append(1), said.append, wait_s=wait_s), said, stopped

    return make


def test_a_program_that_leaves_nothing_is_not_waited_for(wait):
    left, said, stopped = wait(())
    assert not left.is_waited_for()
    assert (left.left, said, stopped) == ((), [], [])


def test_a_daemon_that_ends_in_time_is_recorded_to_its_end(wait):
    left, said, stopped = wait(*[["daemon (7)"]] * 6, ())
    assert [left.is_waited_for() for _ in range(7)] == [True] * 6 + [False]
    assert len(said) == 1
    assert "daemon (7) runs on and is recorded for 10 s at most" in said[0]
    assert (left.left, stopped) == ((), [])


def test_a_daemon_that_runs_on_is_left_and_the_recording_is_stopped(wait):
    left, _said, stopped = wait([f"d ({number})" for number in range(6)])
    assert [left.is_waited_for() for _ in range(13)] == [True] * 10 + [False] * 3
    assert (left.names, len(stopped)) == ("d (0), d (1), d (2), d (3) and 2 more", 1)


def test_ctrl_c_ends_the_wait_at_once_and_does_nothing_where_nothing_is_left(wait):
    left, _said, stopped = wait(["daemon (7)"])
    left.end()
    assert stopped == []
    assert left.is_waited_for()
    left.end()
    assert (left.is_waited_for(), left.names, len(stopped)) == (False, "daemon (7)", 1)
