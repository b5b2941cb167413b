"""Wait for a limited time for processes that a program leaves behind, and tell the user."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

# nsys waits for everything that the program started. If a helper process never ends, the report must be written anyway.
WAIT_S = 60.0
_SAY_S = 3.0
_LOOK_S = 0.5
_MOST_NAMED = 4


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
