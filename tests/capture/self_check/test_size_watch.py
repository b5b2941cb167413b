import os
import subprocess
import sys
import threading
import time

import pytest

from nsysprof.capture.self_check import size_watch
from nsysprof.capture.self_check.gpu_watch import MarkedProcesses
from nsysprof.capture.self_check.size_watch import SizeWatch, StopReason

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
WRITER = """
import os, sys, time
os.makedirs(sys.argv[1])
files = [open(os.path.join(sys.argv[1], name), "wb") for name in ("storage.dat", "other.dat")]
for file in files:
    file.write(bytes(4 << 20)), file.flush(), os.fsync(file.fileno())
print("ready", flush=True)
time.sleep(60)
"""


@pytest.fixture
def writer(tmp_path):
    """Return a function that starts a program which writes twice 4 MiB as nsys does, or elsewhere."""
    processes = []

    def start(watch, folder):
        argv = [sys.executable, "-c", WRITER, str(tmp_path / folder)]
        environment = {**os.environ, **watch.environment}
        process = subprocess.Popen(argv, env=environment, stdout=subprocess.PIPE)
        processes.append(process)
        process.stdout.readline()

    yield start
    for process in processes:
        process.kill()
        process.wait()
        process.stdout.close()


def test_only_what_nsys_writes_in_this_recording_counts(writer, tmp_path):
    watch, other = SizeWatch(6 << 20, tmp_path), SizeWatch(6 << 20, tmp_path)
    writer(watch, "elsewhere")
    writer(other, "nsight_systems/quadd_session_11/files")
    watch.look()
    assert (watch.bytes, watch.stopped) == (0, None)
    writer(watch, "nsight_systems/quadd_session_12/files")
    watch.look()
    assert 8 << 20 <= watch.bytes < 9 << 20
    assert watch.stopped is StopReason.SIZE


def test_what_an_earlier_recording_of_the_same_program_wrote_does_not_count(writer, tmp_path):
    first = SizeWatch(6 << 20, tmp_path)
    writer(first, "nsight_systems/quadd_session_12/files")
    ((name, value),) = first.environment.items()
    second = SizeWatch(6 << 20, tmp_path, processes=MarkedProcesses(name, value=value))
    second.begin()
    second.look()
    assert (second.bytes, second.stopped) == (0, None)
    for name in ("storage.dat", "other.dat"):
        os.truncate(tmp_path / "nsight_systems/quadd_session_12/files" / name, 0)  # as nsys does between recordings
    second.look()
    writer(second, "nsight_systems/quadd_session_12/more")
    second.look()
    assert second.stopped is StopReason.SIZE


def test_a_recording_is_stopped_once_and_at_once(writer, tmp_path, monkeypatch):
    monkeypatch.setattr(size_watch, "_EVERY_S", 0.05)
    watch, stops = SizeWatch(1 << 20, tmp_path), []
    writer(watch, "nsight_systems/quadd_session_12/files")
    stopped = threading.Event()

    def stop():
        stops.append(1)
        stopped.set()

    with watch.watching(stop):
        assert stopped.wait(60)
        time.sleep(0.2)  # in which it would look again
    assert stops == [1]


def test_a_disk_that_fills_up_stops_the_recording(tmp_path, monkeypatch):
    free = [3 << 30]
    monkeypatch.setattr(size_watch, "_free", lambda _place: free[0])
    watch = SizeWatch(0, tmp_path)
    watch.look()
    assert watch.stopped is None
    free[0] = 400 << 20
    watch.look()
    assert watch.stopped is StopReason.DISK


def test_a_disk_that_is_nearly_full_from_the_start_stops_nothing_yet(tmp_path, monkeypatch):
    free = [300 << 20]
    monkeypatch.setattr(size_watch, "_free", lambda _place: free[0])
    watch = SizeWatch(0, tmp_path)
    watch.look()
    assert watch.stopped is None
    free[0] = 100 << 20
    watch.look()
    assert watch.stopped is StopReason.DISK
