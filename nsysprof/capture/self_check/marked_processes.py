"""Find the processes of a program by an environment variable that all of them inherit."""

from __future__ import annotations

import contextlib
import secrets
from pathlib import Path

PROC = Path("/proc")


class MarkedProcesses:
    """The processes that have `environment` in theirs. A process that clears its environment is not found.

    value: what the variable is set to; empty for a value that no other processes have.
    """

    def __init__(self, variable: str, proc: Path = PROC, *, value: str = "") -> None:
        self._mark = f"{variable}={value or secrets.token_hex(8)}"
        self._proc = proc
        self._mine: dict[str, bool] = {}
        self._own = b""
        with contextlib.suppress(OSError):
            self._own = (PROC / "self" / "environ").read_bytes()

    @property
    def environment(self) -> dict[str, str]:
        """Return the variable that marks the processes."""
        name, _, value = self._mark.partition("=")
        return {name: value}

    def look(self) -> list[Path]:
        """Return the folders in /proc of the processes that run now."""
        with contextlib.suppress(OSError):
            running = {path.name for path in self._proc.iterdir() if path.name.isdigit()}
            self._mine = {name: mine for name, mine in self._mine.items() if name in running}
            for name in running - self._mine.keys():
                is_mine = self._is_mine(name)
                if is_mine is not None:
                    self._mine[name] = is_mine
        return [self._proc / name for name, mine in self._mine.items() if mine]

    def _is_mine(self, name: str) -> bool | None:
        """Return whether a process belongs to the program; None while this cannot be determined."""
        try:
            environment = (self._proc / name / "environ").read_bytes()
        except PermissionError:
            return False
        except OSError:
            return None
        if self._mark.encode() in environment.split(b"\0"):
            return True
        # A child of this process has its environment until it starts its own program.
        return False if environment and environment != self._own else None
