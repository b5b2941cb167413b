"""Run the work behind the pages of `view`, one job at a time, when a page first needs it."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from nsysprof.app.progress import Progress
from nsysprof.errors import InterruptedCaptureError, NsysprofError

# How long to wait at the end for the job that is running (s).
_PATIENCE_S = 3.0
Work = Callable[[Progress], Path]


@dataclass(frozen=True)
class ViewJob:
    """The state of a job.

    step: what it does now.
    begun: when it began (s of time.monotonic).
    result: the file or folder that it made; None until then, and where it failed.
    """

    step: str = ""
    begun: float = 0.0
    result: Path | None = None
    error: NsysprofError | None = None

    @property
    def is_over(self) -> bool:
        return self.result is not None or self.error is not None


class Jobs:
    """A queue of jobs with its own thread. Results are kept until `close`."""

    def __init__(self) -> None:
        self._jobs: dict[str, ViewJob] = {}
        self._waiting: deque[tuple[str, Work]] = deque()
        self._changed = threading.Condition()
        self._is_closing = threading.Event()
        self._thread = threading.Thread(target=self._work, name="nsysprof-view", daemon=True)
        self._thread.start()

    def start(self, key: str, work: Work) -> ViewJob:
        """Return the job with this key. If there is none yet, queue the work."""
        with self._changed:
            if key not in self._jobs:
                before = sum(not job.is_over for job in self._jobs.values())
                self._jobs[key] = ViewJob(f"waits for {before} before it" if before else "starts", time.monotonic())
                self._waiting.append((key, work))
                self._changed.notify()
            return self._jobs[key]

    def of(self, key: str) -> ViewJob | None:
        """Return the job with this key; None if it was never started."""
        with self._changed:
            return self._jobs.get(key)

    def close(self) -> None:
        """Stop the running job at its next step, and drop the waiting ones."""
        self._is_closing.set()
        with self._changed:
            self._waiting.clear()
            self._changed.notify()
        self._thread.join(_PATIENCE_S)

    def tell(self, key: str, step: str) -> None:
        """Note what a job does now. Raises InterruptedCaptureError where the view is ending."""
        if self._is_closing.is_set():
            raise InterruptedCaptureError("The view ended.")
        with self._changed:
            self._jobs[key] = replace(self._jobs[key], step=step)

    def _work(self) -> None:
        while True:
            with self._changed:
                while not self._waiting and not self._is_closing.is_set():
                    self._changed.wait()
                if self._is_closing.is_set():
                    return
                key, work = self._waiting.popleft()
                self._jobs[key] = ViewJob("starts", time.monotonic())
            over = self._do(key, work)
            with self._changed:
                self._jobs[key] = over

    def _do(self, key: str, work: Work) -> ViewJob:
        begun = self._jobs[key].begun
        try:
            return ViewJob("", begun, result=work(_JobProgress(self, key)))
        except NsysprofError as error:
            return ViewJob("", begun, error=error)
        except MemoryError:
            text = "There is not enough memory for this."
            return ViewJob(
                "", begun, error=NsysprofError(text, "End other programs, or use a machine with more memory.")
            )
        except Exception as error:  # noqa: BLE001 - one bad trace must not end the view of the others
            text = f"Unexpected {type(error).__name__}: {error}"
            step = "This is a fault of nsysprof; please report it. nsysprof analyze with NSYSPROF_DEBUG=1 shows where."
            return ViewJob("", begun, error=NsysprofError(text, step))


class _JobProgress(Progress):
    """Progress that a page shows."""

    def __init__(self, jobs: Jobs, key: str) -> None:
        self._jobs, self._key = jobs, key

    def say(self, text: str) -> None:
        self._jobs.tell(self._key, text)

    @contextmanager
    def traces(self, count: int) -> Iterator[Callable[[int, str], None]]:
        with self.rows("traces", count) as advance:
            yield lambda more, _name: advance(more)

    @contextmanager
    def rows(self, title: str, count: int) -> Iterator[Callable[[int], None]]:
        done = 0

        def advance(more: int) -> None:
            nonlocal done
            done += more
            self.say(f"{title}: {done:,} of {count:,}")

        self.say(title)
        yield advance
