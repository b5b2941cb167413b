import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from nsysprof.capture.self_check.gpu_watch import GpuWatch, MarkedProcesses
from nsysprof.results.checks import CudaProcess

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
# A thread of the name that the CUDA driver gives its own.
THREAD = """
import ctypes, os, sys, threading, time
def wait():
    ctypes.CDLL(None).prctl(15, b"cuda00001800007", 0, 0, 0)
    print("ready", flush=True)
    time.sleep(60)
if "cuda" in sys.argv:
    threading.Thread(target=wait, daemon=True).start()
    time.sleep(0.2)
    if os.fork() == 0:
        time.sleep(60)
else:
    print("ready", flush=True)
time.sleep(60)
"""


def start(watch, *arguments, **variables):
    environment = {**os.environ, **watch.environment, **variables}
    process = subprocess.Popen(
        [sys.executable, "-c", THREAD, *arguments], env=environment, stdout=subprocess.PIPE, process_group=0
    )
    assert process.stdout is not None
    process.stdout.readline()
    time.sleep(0.4)
    return process


def end(process):
    os.killpg(process.pid, 9)
    process.wait()
    process.stdout.close()


def test_only_the_process_with_a_context_counts_and_not_what_it_forked():
    watch, stranger = GpuWatch(devices=lambda: None), GpuWatch(devices=lambda: None)
    processes = [start(watch, "cuda"), start(watch), start(stranger, "cuda")]
    try:
        watch.look()
        seen = watch.seen(is_whole=True)
    finally:
        for process in processes:
            end(process)
    (found,) = seen.processes
    assert found.pid == processes[0].pid
    assert seen.busy_s is None


def test_a_launcher_with_a_context_beside_its_workers_does_not_count():
    watch = GpuWatch(devices=lambda: None, only_with="NSYSPROF_RECORDING")
    processes = [start(watch, "cuda"), start(watch, "cuda", NSYSPROF_RECORDING="1")]
    try:
        watch.look()
        seen = watch.seen(is_whole=True)
    finally:
        for process in processes:
            end(process)
    assert [each.pid for each in seen.processes] == [processes[1].pid]


def test_time_and_strangers_by_nvml():
    reads = iter([(0.0, 0)] + [(0.5, 1)] * 2)
    watch = GpuWatch(devices=lambda: next(reads, None))
    with watch:
        for _ in range(2):
            watch._last -= 1.0
            watch.look()
    seen = watch.seen(is_whole=True)
    assert seen.busy_s == pytest.approx(1.0, abs=0.4)
    assert not seen.is_shared
    reads = iter([(0.0, 0)])
    watch = GpuWatch(devices=lambda: next(reads, (0.3, 0)))
    with watch:
        pass
    assert watch.seen(is_whole=True).is_shared, "something uses the GPU after the program"
    watch = GpuWatch(devices=lambda: (0.2, 1))
    with watch:
        assert watch.seen(is_whole=True).is_shared, "something used the GPU before the program"


def test_a_process_that_ends_is_remembered(tmp_path):
    proc = tmp_path / "proc"
    task = proc / "7" / "task" / "8"
    task.mkdir(parents=True)
    watch = GpuWatch(proc=proc, devices=lambda: None)
    (proc / "7" / "environ").write_bytes(f"A=1\0NSYSPROF_WATCHED={watch.environment['NSYSPROF_WATCHED']}\0".encode())
    (proc / "7" / "comm").write_text("trainer\n")
    (task / "comm").write_text("cuda-EvtHandlr\n")
    watch.look()
    (proc / "7" / "environ").unlink()
    watch.look()
    assert watch.seen(is_whole=True).processes == (CudaProcess(7, "trainer"),)


def test_what_belongs_to_nsys_is_not_the_program(tmp_path):
    proc, tools = tmp_path / "proc", tmp_path / "nsys" / "target-linux-x64"
    task = proc / "7" / "task" / "8"
    task.mkdir(parents=True)
    (tools / "bin").mkdir(parents=True)
    (tmp_path / "nsys" / "bin").mkdir()
    (tmp_path / "nsys" / "bin" / "nsys").touch()
    watch = GpuWatch(tmp_path / "nsys" / "bin" / "nsys", proc=proc, devices=lambda: None)
    (proc / "7" / "environ").write_bytes(f"NSYSPROF_WATCHED={watch.environment['NSYSPROF_WATCHED']}\0".encode())
    (task / "comm").write_text("cuda00001800007\n")
    (proc / "7" / "exe").symlink_to(tools / "bin" / "Other")
    watch.look()
    assert watch.seen(is_whole=True).processes == ()
    (proc / "7" / "exe").unlink()
    (proc / "7" / "exe").symlink_to("/usr/bin/python3")
    for name, count in (("nsys", 0), ("nsys-launcher", 0), ("nsysprof", 1)):
        (proc / "7" / "comm").write_text(f"{name}\n")
        watch.look()
        assert len(watch.seen(is_whole=True).processes) == count, name


# It ends its first program as `exec` does: the same process, and none of its threads.
REPLACES_ITSELF = f"""
import os, sys, time
exec({THREAD!r}.split("if ")[0])
if "again" in sys.argv:
    print("second", flush=True)
else:
    threading.Thread(target=wait, daemon=True).start()
    sys.stdin.readline()
    os.execv(sys.executable, [sys.executable, "-c", "print('second', flush=True); import time; time.sleep(60)"])
time.sleep(60)
"""


def test_a_process_that_replaces_itself_after_cuda_is_told_from_one_that_does_not():
    watch = GpuWatch(devices=lambda: None)
    environment = {**os.environ, **watch.environment}
    program = [sys.executable, "-c", REPLACES_ITSELF]
    process = subprocess.Popen(
        program, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, process_group=0, text=True
    )
    try:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        for _ in range(2):
            watch.look()
        (before,) = watch.seen(is_whole=True).processes
        asked_ns = time.time_ns()
        print(file=process.stdin, flush=True)
        assert process.stdout.readline() == "second\n"
        watch.look()
        (after,) = watch.seen(is_whole=True).processes
    finally:
        end(process)
        process.stdin.close()
    assert (before.pid, before.replaced_after_ns) == (process.pid, None)
    assert after.pid == process.pid
    assert after.replaced_after_ns is not None
    assert asked_ns - 5e9 < after.replaced_after_ns < asked_ns


def test_a_process_that_has_not_started_its_own_program_yet_is_looked_at_again(tmp_path):
    """Until then it has the environment of this process, in which the mark is missing."""
    (tmp_path / "7").mkdir()
    environ = tmp_path / "7" / "environ"
    environ.write_bytes(Path("/proc/self/environ").read_bytes())
    marked = MarkedProcesses("A_MARK", tmp_path, value="1")
    assert marked.look() == []
    environ.write_bytes(b"A_MARK=1\0")
    assert marked.look() == [tmp_path / "7"]
