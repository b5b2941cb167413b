"""Progress: one display in a terminal, nothing elsewhere but what the user must know."""

from __future__ import annotations

import os
import pty
import subprocess
import sys

import pytest

from nsysprof.cli.terminal import rate_text, show_progress

PROGRAM = """
import time
from nsysprof.cli.terminal import show_progress
from nsysprof.cli.terminal import forgive_streams, show_status
forgive_streams()
progress = show_progress()
progress.say("read a.sqlite" + 200 * "x")
progress.tell("seed 7")
progress.say("draw timeline")
with progress.traces(1200) as advance:
    for _ in range(3):
        advance(400, "rank7.sqlite")
        time.sleep(0.15)
progress.say("draw kernels")
print("The result")
"""


def in_terminal(program: str) -> str:
    """Return everything that a program writes to a terminal of 80 columns."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "COLUMNS": "80", "TERM": "xterm"}
    with subprocess.Popen([sys.executable, "-c", program], stdout=theirs, stderr=theirs, env=environment) as process:
        os.close(theirs)
        said = b""
        while True:
            try:
                part = os.read(ours, 65536)
            except OSError:  # Linux: the terminal has no other side any more
                break
            if not part:
                break
            said += part
    os.close(ours)
    assert process.returncode == 0, said.decode()
    return said.decode()


def test_a_terminal_shows_one_status_and_one_bar_and_keeps_neither():
    said = in_terminal(PROGRAM)
    assert "read a.sqlitex" in said
    assert 80 * "x" not in said, "a status is one line"
    erase = "\r\x1b[K"
    assert said.index("read a.sqlite") < said.index(erase) < said.index("seed 7")
    assert "1,200/1,200" in said
    assert "/s" in said
    assert "left" in said
    assert "rank7.sqlite" in said
    # The result stands in a line of its own.
    assert said.endswith(f"draw kernels{erase}The result\r\n")


def test_elsewhere_only_what_the_user_must_know_is_said():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("The result\n", "seed 7\n")


def test_a_quiet_command_says_nothing(capsys):
    progress = show_progress(quiet=True)
    progress.say("read")
    progress.tell("seed 7")
    with progress.rows("export", 5) as advance:
        advance(5)
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("rate", "text"), [(0, ""), (0.05, "20 s each"), (1, "1.00/s"), (12.34, "12/s"), (1_234_567, "1,234,567/s")]
)
def test_rates(rate, text):
    assert rate_text(rate) == text
