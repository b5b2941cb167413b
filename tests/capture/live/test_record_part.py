import os
import signal
import sys
import time
from types import SimpleNamespace

import pytest

from nsysprof.capture.live import record_part as module
from nsysprof.capture.live.record_part import RecordedPart, Until
from nsysprof.capture.self_check import size_watch
from nsysprof.capture.self_check.size_watch import SizeWatch, StopReason

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="programs are held on Linux alone")


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    monkeypatch.setattr(module, "_LOOK_S", 0.0)


def wait(tmp_path, until, *, limit_bytes=0, is_held=lambda: True):
    """Return whether the end was reached, and why the recording was stopped."""
    size = SizeWatch(limit_bytes, tmp_path)
    return module._await_end(is_held, until, None, [], size), size.stopped


def test_a_part_ends_in_time_or_with_the_program(tmp_path):
    began = time.monotonic()
    assert wait(tmp_path, Until(seconds=0.1)) == (True, None)
    assert time.monotonic() - began < 5
    assert wait(tmp_path, Until(seconds=60.0), is_held=lambda: False) == (False, None)


def test_a_part_ends_when_nsys_has_written_enough(tmp_path, monkeypatch):
    monkeypatch.setattr(SizeWatch, "_written", lambda _self: 3_000_000)
    assert wait(tmp_path, Until(most_bytes=2_000_000), limit_bytes=2_000_000) == (True, StopReason.SIZE)
    assert wait(tmp_path, Until(0.1, most_bytes=4_000_000), limit_bytes=4_000_000) == (True, None)
    assert Until(most_bytes=1).longest_s > Until(steps=1).longest_s > Until(seconds=9.0).longest_s


def test_a_disk_that_fills_up_ends_the_part_before_its_time(tmp_path, monkeypatch):
    free = iter([3 << 30] * 2)
    monkeypatch.setattr(size_watch, "_free", lambda _place: next(free, 100 << 20))
    assert wait(tmp_path, Until(seconds=60.0)) == (False, StopReason.DISK)


def test_a_first_ctrl_c_waits_until_the_recording_is_written_and_a_second_does_not(tmp_path):
    part, said = RecordedPart(tmp_path), []
    with module._finishing(part, said.append):
        os.kill(os.getpid(), signal.SIGINT)
        assert part.is_interrupted
        assert "Press Ctrl-C again" in said[0]
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_ctrl_c_just_after_nsys_began_to_record_stops_the_recording(tmp_path, monkeypatch):
    calls = []
    monkeypatch.setattr(module, "start_recording", lambda *_: calls.append("start"))
    monkeypatch.setattr(module, "stop_recording", lambda *_: calls.append("stop"))

    def say(_text):
        raise KeyboardInterrupt

    held = SimpleNamespace(nsys="nsys", session="s", start_options=(), environment={}, holder_pid=os.getpid())
    with pytest.raises(KeyboardInterrupt):
        module._record(held, RecordedPart(tmp_path), Until(seconds=1.0), None, lambda: True, say)
    assert calls == ["start", "stop"]
