"""Run the work behind the pages of `view`, one job at a time, when a page first needs it."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

import msgspec

from nsysprof.app.progress import Progress
from nsysprof.errors import InterruptedCaptureError, NsysprofError
from nsysprof.files.json_file import read_json
from nsysprof.report.formats.html import ViewFinding

# How long to wait at the end for the job that is running (s).
_PATIENCE_S = 3.0
Work = Callable[[Progress], Path]
# How many findings of each trace the list shows.
_FIRST_FINDINGS = 3
_LARGEST_BYTES = 1 << 26
T = TypeVar("T")


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


class SummaryDevice(msgspec.Struct):
    """The fields to read about a device; null is unknown."""

    gpu_span_ns: int | None = None
    gpu_busy_ns: int | None = None


class SummaryTotals(msgspec.Struct):
    """The fields to read about the totals; null is unknown."""

    kernel_count: int | None = None


class SummaryFile(msgspec.Struct):
    """The fields to read from summary.json."""

    devices: list[SummaryDevice] = []
    totals: SummaryTotals = msgspec.field(default_factory=SummaryTotals)


class ListedFinding(msgspec.Struct):
    """The fields to read about a finding."""

    code: str
    range: str
    saving_ns: int
    per: str
    text: str


class FindingsFile(msgspec.Struct):
    """The fields to read from findings.json."""

    findings: list[ListedFinding] | None = None


class ListedRank(msgspec.Struct):
    """The fields to read about a rank; null is unknown. A rank that could not be read has no kernels."""

    kernel_count: int | None = None


class ListedStraggler(msgspec.Struct):
    """The fields to read about a rank that delays the others, and about one range in which it is late."""

    rank: int
    cost_ns: int | None = None
    range: str | None = None


class RanksFile(msgspec.Struct):
    """The fields to read from ranks.json."""

    ranks: list[ListedRank] = []
    stragglers: list[ListedStraggler] = []


@dataclass(frozen=True)
class FolderOverview:
    """What the list shows of a folder.

    busy_pct: the share of their spans in which the GPUs were busy (percent); None is unknown.
    """

    busy_pct: float | None = None
    kernels: int | None = None
    findings: tuple[ViewFinding, ...] = ()


def read_overview(folder: Path | None) -> FolderOverview:
    """Return the overview of an analysis folder. For any other or damaged folder, everything is unknown."""
    if folder is None:
        return FolderOverview()
    try:
        if (folder / "ranks.json").is_file():
            return _of_ranks(_read(folder / "ranks.json", RanksFile))
        summary = _read(folder / "summary.json", SummaryFile)
        found = _read(folder / "findings.json", FindingsFile).findings or []
    except NsysprofError:
        return FolderOverview()
    first = tuple(ViewFinding(each.code, each.range, each.saving_ns, each.per, each.text) for each in found)
    return FolderOverview(_busy_pct(summary), summary.totals.kernel_count, first[:_FIRST_FINDINGS])


def _of_ranks(found: RanksFile) -> FolderOverview:
    """Return the kernels of all ranks, and what each straggler costs the job."""
    counts = [rank.kernel_count for rank in found.ranks if rank.kernel_count is not None]
    first = {straggler.rank: straggler for straggler in reversed(found.stragglers)}
    listed = tuple(
        ViewFinding(
            "straggler", f"rank {rank}", one.cost_ns, "job", f"It falls behind in {one.range}." if one.range else ""
        )
        for rank, one in sorted(first.items())
        if one.cost_ns is not None
    )
    return FolderOverview(None, sum(counts) if counts else None, listed[:_FIRST_FINDINGS])


def _busy_pct(summary: SummaryFile) -> float | None:
    spans, busy = 0, 0
    for device in summary.devices:
        if device.gpu_span_ns is None or device.gpu_busy_ns is None:
            return None
        spans, busy = spans + device.gpu_span_ns, busy + device.gpu_busy_ns
    return 100 * busy / spans if spans > 0 else None


def _read(path: Path, type_: type[T]) -> T:
    return read_json(path, type_, kind="a file of an analysis", advice="", largest_bytes=_LARGEST_BYTES)
