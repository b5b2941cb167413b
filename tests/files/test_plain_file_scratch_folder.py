import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from nsysprof.files.plain_file import scratch_folder

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no flock")
REPOSITORY = Path(__file__).parents[2]
# A process that holds a folder with a file in it until it is killed.
HOLDER = """
import sys, time
from nsysprof.files.plain_file import scratch_folder
with scratch_folder() as folder:
    (folder / "nsys.sqlite").write_text("secret")
    print(folder, flush=True)
    time.sleep(60)
"""


@pytest.fixture(autouse=True)
def _own_tmpdir(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


def hold(tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        cwd=REPOSITORY,
    )
    return process, Path(process.stdout.readline().strip())


def kill(process):
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=30)


def test_the_folder_is_private_and_removed_at_the_end():
    with scratch_folder() as folder:
        (folder / "x").write_text("x")
        assert folder.stat().st_mode & 0o777 == 0o700
    assert not folder.exists()


def test_the_next_start_removes_what_a_killed_process_left_and_nothing_else(tmp_path):
    killed, left = hold(tmp_path)
    kill(killed)
    living, in_use = hold(tmp_path)
    try:
        assert not left.exists(), "the next start removes the folder of the killed process"
        named_alike = [tmp_path / "nsysprof-work", tmp_path / "nsysprof-work-00000000-abc"]
        for other in named_alike:
            other.mkdir()
            (other / "x").write_text("x")
        target = tmp_path / "target"
        target.mkdir()
        (target / "x").write_text("x")
        (tmp_path / f"{in_use.name}-link").symlink_to(target)
        (tmp_path / f"{in_use.name}-file").write_text("x")
        with scratch_folder() as folder:
            assert folder != in_use
            assert (in_use / "nsys.sqlite").read_text() == "secret"
        assert all((other / "x").is_file() for other in (*named_alike, target))
    finally:
        kill(living)


def test_a_killed_analyze_leaves_no_trace_behind_the_next_one(tmp_path):
    folder = tmp_path / "tmp"
    folder.mkdir()
    environment = {**os.environ, "TMPDIR": str(folder)}
    analyze = [sys.executable, "-m", "nsysprof", "analyze", REPOSITORY / "traces" / "mp.sqlite.xz", "--no-figures"]
    killed = subprocess.Popen([*analyze, "--out", tmp_path / "a"], env=environment, cwd=REPOSITORY,
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # fmt: skip
    deadline = time.monotonic() + 60
    while not list(folder.glob("*/*.sqlite")) and time.monotonic() < deadline:
        time.sleep(0.005)
    kill(killed)
    assert list(folder.glob("*/*.sqlite")), "the process was killed while its unpacked trace lay there"
    subprocess.run([*analyze, "--out", tmp_path / "b"], env=environment, cwd=REPOSITORY, capture_output=True,
                   check=True, timeout=120)  # fmt: skip
    assert list(folder.iterdir()) == []
