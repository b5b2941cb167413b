"""Runs an action again and again, each time in a process that dies at the next of its file-system calls."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

_EVENTS = ("open", "os.rename", "os.mkdir", "os.remove", "os.rmdir", "os.link", "os.chmod", "shutil.", "os.listdir")


def kill_at_step(action: Callable[[], None], step: int, below: Path) -> bool:
    """Run `action` in a fork that is killed at the file-system call `step` (from 0); False where it ended before."""
    child = os.fork()
    if child == 0:
        _die_at(step, str(below))
        try:
            action()
        except BaseException:  # noqa: BLE001
            sys.excepthook(*sys.exc_info())
            os._exit(3)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0, "the action failed before it was killed"
    return os.WIFSIGNALED(status)


def _die_at(step: int, below: str) -> None:
    left = step

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        nonlocal left
        if event.startswith(_EVENTS) and any(str(argument).startswith(below) for argument in arguments):
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            left -= 1

    sys.addaudithook(hook)
