"""Programs run without nsys: their output, their end, and what is sent to us meanwhile."""

import io
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from nsysprof.capture.user_program import streamed
from nsysprof.capture.user_program.streamed import Streams, run_streamed

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")


class Run:
    def __init__(self, folder):
        self.out, self.err, self.said = io.BytesIO(), io.BytesIO(), []
        self.streams = Streams(folder / "out.log", folder / "err.log", folder / "tool.log", self.out, self.err)

    def __call__(self, *program, **options):
        return run_streamed([*program], self.streams, dict(os.environ), say=self.said.append, **options)

    def python(self, code, **options):
        return self(sys.executable, "-c", code, **options)


@pytest.fixture
def run(tmp_path):
    return Run(tmp_path)


def wait_until(condition):
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not condition():
        time.sleep(0.02)


def send_once(path, text, *numbers, heard=lambda: True):
    """Signals to this process once the program has written `text`.

    heard: returns whether the first signal was answered, for which the next one waits.
    """

    def work():
        wait_until(lambda: text in (path.read_bytes() if path.exists() else b""))
        for number in numbers:
            os.kill(os.getpid(), number)
            wait_until(heard)

    thread = threading.Thread(target=work)
    thread.start()
    return thread


def test_both_streams_are_passed_on_apart_and_kept(run, tmp_path):
    ended = run("sh", "-c", "printf 'a\\r\\377'; echo b >&2; exit 3")
    assert (ended.exit_code, ended.tool_code, ended.interrupted) == (3, 3, None)
    assert run.out.getvalue() == b"a\r\xff" == (tmp_path / "out.log").read_bytes()
    assert run.err.getvalue() == b"b\n" == (tmp_path / "err.log").read_bytes()


def test_output_comes_while_the_program_runs(run, tmp_path):
    seen = []

    class Watcher(io.BytesIO):
        def write(self, data):
            seen.append(bytes(data))
            (tmp_path / "seen").touch()
            return super().write(data)

    run.streams = Streams(run.streams.stdout_log, run.streams.stderr_log, run.streams.tool_log, Watcher(), None)
    # It goes on once its first line has been shown; otherwise it fails after a minute.
    code = "echo a; for i in $(seq 1200); do [ -e $0 ] && break; sleep 0.05; done; [ -e $0 ] && echo b"
    assert run("sh", "-c", code, str(tmp_path / "seen")).exit_code == 0
    assert seen == [b"a\n", b"b\n"]


def test_nobody_watching_any_more_does_not_end_the_program(run, tmp_path):
    class Closed(io.BytesIO):
        def write(self, _data):
            raise BrokenPipeError

    run.streams = Streams(run.streams.stdout_log, run.streams.stderr_log, run.streams.tool_log, Closed(), None)
    assert run("sh", "-c", "echo a; sleep 0.3; echo b").exit_code == 0
    assert (tmp_path / "out.log").read_text() == "a\nb\n"


@pytest.mark.parametrize(("number", "code"), [(signal.SIGKILL, 137), (signal.SIGTERM, 143), (signal.SIGSEGV, 139)])
def test_a_death_by_signal_is_said_as_a_shell_says_it(run, number, code):
    assert run("sh", "-c", f"kill -{int(number)} $$").exit_code == code


def test_a_program_that_cannot_be_started(run, tmp_path):
    ended = run(str(tmp_path / "nothing"))
    assert ended.exit_code == 127
    assert "No such file" in ended.refused
    (tmp_path / "text").write_text("x")
    assert run(str(tmp_path / "text")).exit_code == 126


def test_what_the_program_leaves_behind_is_not_waited_for(run):
    started = time.monotonic()
    ended = run("sh", "-c", "sleep 30 & echo $!")
    assert ended.exit_code == 0
    assert time.monotonic() - started < 10
    os.kill(int(run.out.getvalue()), signal.SIGKILL)


def test_an_interrupt_reaches_all_of_the_program_which_may_take_its_time(run):
    code = (
        "import time\n"
        "try: print('up', flush=True); time.sleep(60)\n"
        "except KeyboardInterrupt:\n"
        "    time.sleep(1); print('saved', flush=True); raise SystemExit(9)"
    )
    before = signal.getsignal(signal.SIGINT)
    thread = send_once(run.streams.stdout_log, b"up", signal.SIGINT)
    ended = run.python(code)
    thread.join()
    assert (ended.exit_code, ended.interrupted) == (9, signal.SIGINT)
    assert run.out.getvalue() == b"up\nsaved\n"
    assert run.said == ["Interrupt passed on to the program. Press Ctrl-C again to kill it."]
    assert signal.getsignal(signal.SIGINT) is before


def test_a_second_interrupt_ends_what_does_not_listen(run):
    code = "import signal, time; signal.signal(2, signal.SIG_IGN); print('up', flush=True); time.sleep(60)"
    thread = send_once(run.streams.stdout_log, b"up", signal.SIGINT, signal.SIGINT, heard=lambda: run.said)
    ended = run.python(code)
    thread.join()
    assert ended.exit_code == 137


def test_other_signals_are_the_programs_own_affair(run):
    """Slurm's --signal=USR1 tells a program to write a checkpoint."""
    code = (
        "import signal, time\n"
        "def save(*_): print('saved', flush=True); raise SystemExit(0)\n"
        "signal.signal(signal.SIGUSR1, save); print('up', flush=True); time.sleep(60)"
    )
    thread = send_once(run.streams.stdout_log, b"up", signal.SIGUSR1)
    ended = run.python(code)
    thread.join()
    assert (ended.exit_code, ended.interrupted) == (0, None)
    assert run.out.getvalue() == b"up\nsaved\n"


def short_tool(argv):
    """Start the program and leave after a second, as nsys does when its duration is over."""
    code = "import subprocess, sys, time; subprocess.Popen(sys.argv[1:]); time.sleep(1)"
    return [sys.executable, "-c", code, *argv]


def test_the_exit_status_is_known_though_the_tool_has_left(run):
    ended = run("sh", "-c", "sleep 2; echo late; exit 5", wrap=short_tool)
    assert (ended.exit_code, ended.tool_code, ended.ended_by_us) == (5, 0, False)
    assert run.out.getvalue() == b"late\n"


def test_an_end_between_the_last_two_looks_is_known(run, tmp_path, monkeypatch):
    """The tool has left, and the program ends after it was asked for its status and before it is looked for."""
    left, real = tmp_path / "left", streamed._is_alive

    def is_alive(pid):
        if pid is not None and left.exists() and time.time() - left.stat().st_mtime > 0.5:
            wait_until(lambda: not is_running(pid))
            return False
        return real(pid)

    monkeypatch.setattr(streamed, "_is_alive", is_alive)
    code = (
        "import pathlib, subprocess, sys, time\nleft = pathlib.Path(sys.argv[1])\nsubprocess.Popen(sys.argv[2:])\n"
        "while not left.with_name('up').exists(): time.sleep(0.05)\ntime.sleep(0.5); left.touch()"
    )
    ended = run(
        "sh",
        "-c",
        f"touch {tmp_path}/up; sleep 2; exit 5",
        wrap=lambda argv: [sys.executable, "-c", code, str(left), *argv],
    )
    assert (ended.exit_code, ended.tool_code) == (5, 0)


def test_a_program_can_be_ended_with_the_recording(run):
    ended = run("sh", "-c", "sleep 60", wrap=short_tool, end_with_tool=True)
    assert (ended.exit_code, ended.ended_by_us) == (143, True)


def test_a_tool_that_never_starts_the_program(run):
    ended = run("true", wrap=lambda _argv: ["sh", "-c", "echo no such option; exit 1"])
    assert (ended.exit_code, ended.tool_code) == (None, 1)
    assert run.streams.tool_log.read_text() == "no such option\n"


def test_a_killed_starter_leaves_no_program_behind(tmp_path):
    code = (
        "import os, sys\n"
        "from pathlib import Path\n"
        "from nsysprof.capture.user_program.streamed import Streams, run_streamed\n"
        "logs = [Path(sys.argv[1]) / name for name in ('out', 'err', 'tool')]\n"
        "run_streamed(['sh', '-c', 'echo $$; exec sleep 300'], Streams(*logs, None, None), dict(os.environ))\n"
    )
    starter = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)])
    wait_until(lambda: (tmp_path / "out").exists() and (tmp_path / "out").read_text().endswith("\n"))
    starter.kill()
    starter.wait()
    pid = int((tmp_path / "out").read_text())
    wait_until(lambda: not is_running(pid))
    assert not is_running(pid)


def is_running(pid):
    """Not so of a process that nobody waits for, in a container without an init."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
