"""Run one program until it ends, with or without nsys: show its output, pass on signals, keep its exit status."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import IO, Any

_POLL_S = 0.1
_GRACE_S = 10.0  # the time between a signal and the next, stronger one (s)
FINISH_S = 600.0  # how long nsys may take to write a large report after the program's end (s)
_INTERRUPTS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_PASSED_ON = (*_INTERRUPTS, signal.SIGUSR1, signal.SIGUSR2)
_CHUNK = 1 << 16

Wrap = Callable[[list[str]], list[str]]
Say = Callable[[str], None]
# A function that is called once with the id of the program's process.
OnStart = Callable[[int], None]
# nsys waits for everything that the program started. If a helper process never ends, the report must be written anyway.
WAIT_S = 60.0
_SAY_S = 3.0
_LOOK_S = 0.5
_MOST_NAMED = 4


@dataclass(frozen=True)
class Ended:
    """How a program ended."""

    # The program's exit code, 128 + n for signal n; None when it never started or its end is unknown.
    exit_code: int | None
    # The exit code of the tool under which it ran.
    tool_code: int | None
    duration_ns: int
    argv: tuple[str, ...]
    # Why the program could not be started.
    refused: str = ""
    # The signal that we received and passed on.
    interrupted: int | None = None
    # Whether we ended the program because the recording was over and the user wanted that.
    ended_by_us: bool = False


@dataclass(frozen=True)
class Streams:
    """Where output goes: files in the capture folder, and streams that show it at once (None: not shown)."""

    stdout_log: Path
    stderr_log: Path
    tool_log: Path
    stdout: IO[bytes] | None
    stderr: IO[bytes] | None


def run_streamed(
    program: list[str],
    streams: Streams,
    environment: dict[str, str],
    *,
    wrap: Wrap = lambda argv: argv,
    end_with_tool: bool = False,
    say: Say = lambda _text: None,
    on_start: OnStart = lambda _pid: None,
    on_signal: Mapping[int, Callable[[], None]] | None = None,
    finish_s: float = FINISH_S,
    left: LeftRunning | None = None,
) -> Ended:
    """Run `program`, and return how it ended once the tool of `wrap` has finished too.

    end_with_tool: whether to end the program when the tool ends, that is, when its recording is over.
    on_signal: what to do on a signal instead of passing it on to the program.
    finish_s: how long the tool may continue after the program's end (s).
    left: waits for what the program leaves behind; None where the tool does not wait for that.
    """
    with tempfile.TemporaryDirectory(prefix="nsysprof-") as work, _Signals() as signals:
        status = Path(work) / "status.json"
        files = [str(os.getpid()), str(status), str(streams.stdout_log.resolve()), str(streams.stderr_log.resolve())]
        argv = wrap([sys.executable, "-P", "-m", "nsysprof.capture.user_program.run_program", *files, *program])
        started = time.monotonic_ns()
        for log in (streams.stdout_log, streams.stderr_log):
            log.touch()
        with streams.tool_log.open("ab") as tool_log, _tails(streams) as forward:
            # It gets its own session: Ctrl-C reaches only us and is passed on only to the program, so that nsys still
            # writes its report. The program cannot read from a terminal there, but it can read from a pipe.
            tool = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL if sys.stdin is None or sys.stdin.isatty() else None,
                stdout=tool_log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env=environment,
            )
            run = _Running(tool, status, signals, end_with_tool, say, on_signal or {}, finish_s, left)
            is_known = False
            while not run.is_over():
                forward()
                if not is_known and "pid" in run.facts():
                    is_known = True
                    on_start(run.facts()["pid"])
                time.sleep(_POLL_S)
            forward()
            facts = run.facts()  # its folder goes now, and the program may have ended since the last look
    return Ended(
        exit_code=facts.get("exit_code"),
        tool_code=tool.returncode,
        duration_ns=time.monotonic_ns() - started,
        argv=tuple(argv),
        refused=str(facts.get("refused", "")),
        interrupted=signals.interrupted,
        ended_by_us=run.ended_by_us,
    )


class _Running:
    """The tool and the program inside it, and the steps that end them."""

    def __init__(
        self,
        tool: subprocess.Popen[bytes],
        status: Path,
        signals: _Signals,
        end_with_tool: bool,
        say: Say,
        on_signal: Mapping[int, Callable[[], None]],
        finish_s: float,
        left: LeftRunning | None,
    ) -> None:
        self._tool, self._status, self._signals = tool, status, signals
        self._on_signal, self._finish_s, self._left = on_signal, finish_s, left
        self._end_with_tool, self._say = end_with_tool, say
        self._facts: dict[str, Any] = {}
        self._finish_by: float | None = None
        self._measures: list[tuple[float, Callable[[], None]]] = []
        self.ended_by_us = False

    def facts(self) -> dict[str, Any]:
        """Return the latest report of run_program. It is kept when its folder is gone."""
        if "exit_code" not in self._facts:
            with contextlib.suppress(OSError, ValueError):
                self._facts = json.loads(self._status.read_text(encoding="utf-8"))
        return self._facts

    def is_over(self) -> bool:
        tool_ended = self._tool.poll() is not None
        facts = self.facts()
        program_ended = "exit_code" in facts or not _is_alive(facts.get("wrapper_pid"))
        for number in self._signals.take():
            self._pass_on(number)
        self._take_measures()
        if tool_ended and program_ended:
            return True
        if tool_ended and self._end_with_tool and not self.ended_by_us:
            self.ended_by_us = True
            self._end_soon(signal.SIGTERM)
        if program_ended and facts and not tool_ended and not (self._left and self._left.is_waited_for()):
            self._finish_by = self._finish_by or time.monotonic() + self._finish_s
            if time.monotonic() > self._finish_by or (self._left and self._left.is_written):
                self._kill_tool()
        return False

    def _pass_on(self, number: int) -> None:
        if number in self._on_signal:
            self._on_signal[number]()
            return
        if self._left is not None and "exit_code" in self.facts():
            self._left.end()
            return
        if number not in _INTERRUPTS:
            self._send(number)
        elif self._signals.interrupts > 1:
            self._send(signal.SIGKILL)  # the user asked twice
        elif number == signal.SIGINT:
            self._say("Interrupt passed on to the program. Press Ctrl-C again to kill it.")
            self._send(number)  # the program may have a checkpoint to write, so there is no deadline
        else:  # the signal comes from a scheduler, which kills soon
            self._end_soon(number)
        if "pid" not in self.facts():
            self._stop_tool(signal.SIGTERM)  # nothing has been recorded yet

    def _end_soon(self, number: int) -> None:
        """Ask the program to end. After a while, make nsys write what it has, and then kill the program."""
        self._send(number)
        now = time.monotonic()
        self._measures = [
            (now + _GRACE_S, lambda: self._stop_tool(signal.SIGINT)),
            (now + 2 * _GRACE_S, lambda: self._send(signal.SIGKILL)),
        ]

    def _take_measures(self) -> None:
        while self._measures and time.monotonic() >= self._measures[0][0] and "exit_code" not in self.facts():
            self._measures.pop(0)[1]()

    def _send(self, number: int) -> None:
        pid = self.facts().get("pid")
        if pid and "exit_code" not in self.facts():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(pid, number)

    def _stop_tool(self, number: int) -> None:
        if self._tool.poll() is None:
            self._tool.send_signal(number)

    def _kill_tool(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._tool.pid, signal.SIGKILL)


class _Signals:
    """Collects the signals that we receive while the program runs, so that they do not end us."""

    def __init__(self) -> None:
        self._pending: list[int] = []
        self._before: dict[int, Any] = {}
        self.interrupted: int | None = None
        self.interrupts = 0

    def __enter__(self) -> _Signals:
        for number in _PASSED_ON:
            self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *_exception: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _note(self, number: int, _frame: FrameType | None) -> None:
        self._pending.append(number)

    def take(self) -> Iterator[int]:
        while self._pending:
            number = self._pending.pop(0)
            if number in _INTERRUPTS:
                self.interrupted = self.interrupted or number
                self.interrupts += 1
            yield number


@contextlib.contextmanager
def _tails(streams: Streams) -> Iterator[Callable[[], None]]:
    """Yield a function that passes on what the program has written since the function's last call."""
    with contextlib.ExitStack() as stack:
        pairs: list[tuple[IO[bytes], IO[bytes]]] = []
        for log, watcher in ((streams.stdout_log, streams.stdout), (streams.stderr_log, streams.stderr)):
            source = stack.enter_context(log.open("rb"))
            source.seek(0, os.SEEK_END)
            if watcher is not None:
                pairs.append((source, watcher))

        def forward() -> None:
            for pair in tuple(pairs):
                try:
                    while chunk := pair[0].read(_CHUNK):
                        pair[1].write(chunk)
                        pair[1].flush()
                except (BrokenPipeError, ValueError):  # the output is no longer shown, but the program continues
                    pairs.remove(pair)

        yield forward


def _is_alive(pid: int | None) -> bool:
    if pid is None:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


class LeftRunning:
    """The processes that still run after the program itself has ended, while nsys records.

    look: returns the names of those that run.
    stop: makes nsys write its report now, while they continue, and returns when it is written.
    wait_s: how long they are recorded after the program's end (s).
    """

    def __init__(
        self,
        look: Callable[[], Sequence[str]],
        stop: Callable[[], None],
        say: Callable[[str], None],
        *,
        wait_s: float = WAIT_S,
    ) -> None:
        self._look, self._stop, self._say, self._wait_s = look, stop, say, wait_s
        self._began: float | None = None
        self._looked = 0.0
        self._is_said = False
        self._thread: threading.Thread | None = None
        self._names: Sequence[str] = ()
        # The names of what still ran when the recording was stopped; empty where nothing did.
        self.left: Sequence[str] = ()

    def is_waited_for(self) -> bool:
        """Return whether the report is delayed because processes of the program still run.

        This is called repeatedly, and stops the recording once the time is over.
        """
        now = time.monotonic()
        if self.left or now - self._looked < _LOOK_S:
            return bool(self._names) and not self.left
        self._began, self._looked = self._began or now, now
        self._names = self._look()
        if not self._names:
            return False
        if not self._is_said and now - self._began >= _SAY_S:
            self._is_said = True
            self._say(
                f"the program has ended; {self.names} runs on and is recorded for {self._wait_s:.0f} s at most. Ctrl-C "
                "ends the recording now, and --nsys-option=--wait=primary does not wait"
            )
        if now - self._began >= self._wait_s:
            self.end()
        return not self.left

    @property
    def names(self) -> str:
        """Return the names of the processes that still run, or that were left."""
        names = self.left or self._names
        more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
        return ", ".join(names[:_MOST_NAMED]) + more

    def end(self) -> None:
        """Stop the recording if something of the program still runs."""
        if self._names and not self.left:
            self.left = self._names
            self._thread = threading.Thread(target=self._stop, name="nsysprof-stop", daemon=True)
            self._thread.start()

    @property
    def is_written(self) -> bool:
        """Return whether nsys was told to write its report and has done so. It then waits without need."""
        return self._thread is not None and not self._thread.is_alive()
