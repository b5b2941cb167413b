"""A process with a limit of memory keeps what it allocates in a file, and computes the same numbers."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from nsysprof.files.memory_limit import LEAST_BYTES
from tests.builders.run_command import run

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux has /proc")

# Each runs in a process of its own, because a limit holds until the process ends. The arrays of this one are watched
# without compiled code.
_BEGIN = """
import json, os, resource, sys, tempfile, time
from nsysprof.files.memory_reuse import reuse_freed_memory
reuse_freed_memory()
from nsysprof.files import memory_limit
"""
_ARRAYS = """
import numpy as np
memory_limit._compiled_keep = lambda: None
memory_limit.limit_memory(384 << 20, 1 << 30)
resident = memory_limit._resident_bytes()
def settled(value):
    while resident() > 192 << 20:  # until the thread has had its turn, however busy the machine is
        time.sleep(0.001)
    return value
arrays = [settled(np.arange(number, number + (6 << 20))) for number in range(9)]
sums = [settled(int(array.sum())) for array in reversed(arrays)]
folder = os.listdir(tempfile.gettempdir())
# ru_maxrss would be that of the process which started this one, where that is larger.
peak = next(int(line.split()[1]) << 10 for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(json.dumps({"sums": sums, "folder": folder, "peak": peak, "times": int(memory_limit._watch.times[0])}))
"""
# Memory is written while this thread keeps Python's lock, as numpy does where it adds to a large array.
_HELD = """
import ctypes
import numpy as np
memory_limit.limit_memory(512 << 20, 1 << 30)
sys.setswitchinterval(1000)
library, text = ctypes.PyDLL(None), ctypes.create_string_buffer(100)
library.pread.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_long]
library.memset.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t]
statm, written = os.open("/proc/self/statm", os.O_RDONLY), np.empty(512 << 20, np.uint8)
def is_high():
    library.pread(statm, text, 100, 0)
    return int(text.value.split()[1]) << 12 > 320 << 20
for begin in range(0, len(written), 16 << 20):
    library.memset(written.ctypes.data + begin, 1 + (begin >> 24), 16 << 20)
    for _ in range(60_000):  # until it is let go, however busy the machine is
        if not is_high():
            break
        library.usleep(1000)
peak = next(int(line.split()[1]) << 10 for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(json.dumps({"kept": written[:: 16 << 20].tolist(), "peak": peak}))
"""
# Each page of these is Python's own and lies in no file.
_OBJECTS = """
memory_limit.set_memory_limit(768 << 20)
memory_limit.limit_memory(320 << 20, 256 << 20)
kept = []
try:
    while True:
        kept.append(list(range(len(kept), len(kept) + 50)))
except KeyboardInterrupt:
    del kept
    print(json.dumps([memory_limit.memory_limit_failure().text, memory_limit.memory_limit_failure().next_step]))
"""
_NO_ROOM = """
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
try:
    memory_limit.limit_memory(512 << 20, 1 << 30)
except Exception as error:
    print(json.dumps([error.text, error.next_step, os.listdir(tempfile.gettempdir())]))
"""
# A limit that a command prefers. Its trace is read as a large one, and Python's own objects outgrow the limit.
_PREFERRED = """
from pathlib import Path
memory_limit.LARGE_TRACE_BYTES, memory_limit._FILE_BYTES = 1 << 20, 256 << 20
memory_limit.prefer_memory_limit(200 << 20)
trace = Path(sys.argv[1])
trace.write_bytes(b"x" * (1 << 10))
memory_limit.keep_memory_limit(trace)
before = len(memory_limit.threading.enumerate())
trace.write_bytes(b"x" * (1 << 20))
memory_limit.shutil.disk_usage = lambda _: memory_limit.shutil._ntuple_diskusage(0, 0, 1 << 20)
memory_limit.keep_memory_limit(trace)
without_room = len(memory_limit.threading.enumerate())
memory_limit.shutil.disk_usage = lambda _: memory_limit.shutil._ntuple_diskusage(0, 0, 1 << 40)
memory_limit.keep_memory_limit(trace)
watch = next(each for each in memory_limit.threading.enumerate() if each.daemon)
kept = []
while watch.is_alive() and len(kept) < 2_000_000:
    kept.append(list(range(len(kept), len(kept) + 50)))
watch.join()
print(json.dumps([before, without_room, len(kept) > 0, memory_limit.has_memory_limit(), kept[-1][0] == len(kept) - 1]))
"""
# So small a limit that pages are let go all the time.
_ANALYZE = """
memory_limit.LEAST_BYTES = memory_limit._MARGIN_BYTES = 0
memory_limit._LIBRARY_BYTES = -1 << 40  # what lies in no file is never too much
memory_limit._SECONDS_BETWEEN_LOOKS = 0.05
import nsysprof.cli, atexit
atexit.register(lambda: print(memory_limit._watch.times[0], file=sys.stderr))
sys.argv = ["nsysprof", "analyze", *sys.argv[1:], "--no-figures", "--memory-limit", "64MiB"]
nsysprof.cli.main()
"""


def child(code: str, folder: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-c", _BEGIN + code, *map(str, arguments)]
    environment: dict[str, Any] = {"PATH": "/usr/bin", "TMPDIR": str(folder)}
    return subprocess.run(argv, capture_output=True, text=True, env=environment, check=True)


def test_arrays_larger_than_the_limit_keep_their_values_and_the_limit(tmp_path: Path) -> None:
    done = json.loads(child(_ARRAYS, tmp_path).stdout)
    count = 6 << 20
    assert done["sums"] == [count * number + count * (count - 1) // 2 for number in reversed(range(9))]
    assert done["times"] > 1
    assert done["peak"] < 384 << 20  # the arrays have 432 MiB
    assert done["folder"] == []  # so nothing is left, however the process ends


@pytest.mark.slow
def test_the_limit_holds_while_no_other_thread_gets_a_turn(tmp_path: Path) -> None:
    pytest.importorskip("llvmlite")
    done = json.loads(child(_HELD, tmp_path).stdout)
    assert done["kept"] == list(range(1, 33))
    assert done["peak"] < 512 << 20  # as much is written, beside Python and LLVM


def test_what_cannot_lie_in_a_file_ends_the_process_with_the_least_that_works(tmp_path: Path) -> None:
    text, next_step = json.loads(child(_OBJECTS, tmp_path).stdout)
    assert "--memory-limit 768 MiB is too small" in text
    assert next_step.startswith("Give ")
    assert next_step.endswith("MiB or more.")


def test_a_preferred_limit_ends_nothing_and_is_for_large_traces_on_a_disk_with_room(tmp_path: Path) -> None:
    done = json.loads(child(_PREFERRED, tmp_path, tmp_path / "t.sqlite").stdout)
    assert done == [1, 1, True, False, True]


def test_a_disk_without_room_is_said_before_anything_is_computed(tmp_path: Path) -> None:
    text, next_step, folder = json.loads(child(_NO_ROOM, tmp_path).stdout)
    assert f"a file of 1,024 MiB in {tmp_path}: File too large" in text
    assert "TMPDIR" in next_step
    assert folder == []


def test_an_analysis_within_a_limit_writes_the_same_files(trace_path: Any, tmp_path: Path) -> None:
    source, scratch = trace_path("mem"), tmp_path / "scratch"
    scratch.mkdir()
    done = child(_ANALYZE, scratch, source, "--out", tmp_path / "limited")
    assert int(done.stderr.split()[-1]) > 0
    assert run("analyze", source, "--no-figures", "--out", tmp_path / "plain").returncode == 0
    files = {path.name: path.read_bytes() for path in (tmp_path / "plain").iterdir() if path.suffix != ".html"}
    assert any(name.endswith(".csv") for name in files)
    for name, content in files.items():
        assert (tmp_path / "limited" / name).read_bytes() == content, name
    assert list(scratch.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--memory-limit", "100MiB"), ("100 MiB is too small", "Give 768MiB or more.")),
        (("--memory-limit", "much"), ("'much' is not a valid size", "GiB")),
        (("second.sqlite", "--memory-limit", "1GiB"), ("needs a single trace", "Leave it out.")),
    ],
)
def test_a_limit_that_cannot_be_kept(trace_path: Any, arguments: tuple[str, ...], words: tuple[str, ...]) -> None:
    done = run("analyze", trace_path("mem"), *arguments)
    assert done.returncode == 2
    assert all(word in done.stderr for word in words), done.stderr


def test_the_least_limit_is_what_the_help_says() -> None:
    assert LEAST_BYTES == 768 << 20
    assert "768MiB" in run("analyze", "--help").stdout
