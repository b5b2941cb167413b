"""Processes of a program: names, forks, and those that left the tree."""

import os
import subprocess
import sys
import time

import pytest

from nsysprof.capture.live.process_tree import list_processes

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/proc")
MARK = f"A_MARK={os.getpid()}"
TREE = """\
import ctypes, os, subprocess, sys, time
if sys.argv[1] == "leaf":
    ctypes.CDLL(None).prctl(15, b"toy::leaf", 0, 0, 0)
    print("named", flush=True)
    time.sleep(60)
subprocess.Popen([sys.executable, __file__, "leaf"])
if os.fork() == 0:
    time.sleep(60)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        time.sleep(60)
    os._exit(0)
os.wait()
print("ready", flush=True)
time.sleep(60)
"""


@pytest.fixture
def tree(tmp_path):
    script = tmp_path / "tree.py"
    script.write_text(TREE)
    process = subprocess.Popen(
        [sys.executable, script, "root"],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "A_MARK": str(os.getpid())},
    )
    assert {process.stdout.readline(), process.stdout.readline()} == {"ready\n", "named\n"}
    time.sleep(0.1)
    argv = (sys.executable, str(script), "root")
    yield process.pid, argv
    for each in list_processes(process.pid, argv, MARK):
        os.kill(each.pid, 9)
    process.wait()
    process.stdout.close()


def test_names_parents_forks_and_daemons(tree):
    root_pid, argv = tree
    found = list_processes(root_pid, argv, MARK)
    assert sorted((each.name, each.is_forked) for each in found) == [
        ("toy::leaf", False), ("tree.py", False), ("tree.py", True), ("tree.py", True),
    ]  # fmt: skip
    root = next(each for each in found if each.pid == root_pid)
    assert root.command.endswith("tree.py root")
    children = [each for each in found if each.is_forked and each.parent_pid == root_pid]
    assert len(children) == 1, "the daemon has another parent"
    assert not any(each.has_nsys or each.uses_gpu for each in found)


def test_a_process_that_has_ended():
    process = subprocess.Popen(["true"])
    process.wait()
    assert list_processes(process.pid) == ()
