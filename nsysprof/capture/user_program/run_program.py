"""Run a program with its output in files, and write down how it ended, which nsys does not always report.

Run under nsys as `python -P -m nsysprof.capture.user_program.run_program STARTER STATUS STDOUT STDERR PROGRAM...`. When
its duration is over, nsys ends before the program does, so the exit status is written here. Output goes directly to
files: it is not mixed with the output of nsys, does not stop when nsys ends, and is not part of the report. When the
process STARTER is killed, the program is asked to end, so that it does not stay on a GPU and nsys writes its report.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import FrameType
from typing import Any

_LOOK_S = 1.0
_GRACE_S = 10.0
_PASSED_ON = ("SIGINT", "SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2")


def main(arguments: list[str]) -> int:
    starter, status, stdout, stderr, *program = arguments
    facts: dict[str, Any] = {"wrapper_pid": os.getpid(), "started_ns": time.time_ns()}
    with Path(stdout).open("ab") as out, Path(stderr).open("ab") as err:
        try:
            # It gets its own process group, so that Ctrl-C can be passed on to all of it, as a terminal does.
            process = subprocess.Popen(program, stdout=out, stderr=err, process_group=0)
        except OSError as error:
            _write(status, facts | {"exit_code": 127 if isinstance(error, FileNotFoundError) else 126,
                                    "refused": error.strerror})  # fmt: skip
            return 126
    _pass_on_signals(process)
    threading.Thread(target=_end_with, args=(int(starter), process), daemon=True).start()
    _write(status, facts | {"pid": process.pid})
    code = process.wait()
    code = 128 - code if code < 0 else code
    _write(status, facts | {"pid": process.pid, "exit_code": code, "ended_ns": time.time_ns()})
    return code


def _pass_on_signals(process: subprocess.Popen[bytes]) -> None:
    def pass_on(number: int, _frame: FrameType | None) -> None:
        if process.returncode is None:
            os.killpg(process.pid, number)

    for name in _PASSED_ON:
        signal.signal(getattr(signal, name), pass_on)


def _end_with(starter: int, process: subprocess.Popen[bytes]) -> None:
    """Ask the program to end once its starter is gone, and kill it a while later."""
    while True:
        time.sleep(_LOOK_S)
        try:
            os.kill(starter, 0)
        except PermissionError:
            continue
        except ProcessLookupError:
            break
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        time.sleep(_GRACE_S)


def _write(path: str, facts: dict[str, Any]) -> None:
    scratch = Path(f"{path}.part")
    scratch.write_text(json.dumps(facts), encoding="utf-8")
    scratch.replace(path)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
