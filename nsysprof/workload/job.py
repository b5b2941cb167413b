"""Define the job file, which tells the measured processes what to do, and the JSON lines with which they answer."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nsysprof.attention.shape import Case
from nsysprof.files.plain_file import encode_json, read_json

# The kinds of passes: untraced samples and memory; calls in an NVTX range under a profiler; one call in a range under
# ncu.
TIMED, TRACED, COUNTED = "timed", "traced", "counted"
# The exit code of a process that can no longer be used: another one does the rest.
REPLACE_ME = 75  # EX_TEMPFAIL


@dataclass(frozen=True)
class Job:
    """One pass over a grid."""

    # One block of samples is taken for each element, so a case may appear several times.
    cases: tuple[Case, ...]
    # The dimensions that the names of the ranges contain.
    range_keys: tuple[str, ...]
    # TIMED, TRACED or COUNTED.
    pass_name: str
    # The profiler that records the pass: "nsys", "torch", "ncu" or "none".
    profiler: str
    # The device: "cuda" or "cpu".
    device: str
    case_timeout_s: float
    # The file of JSON lines to which supervisor and workers append.
    events_path: str
    # This file exists when the pass is to end early.
    stop_path: str
    # The process that waits for the pass; when it dies, so does the pass.
    parent_pid: int
    # Indices into cases that are left out.
    skip: tuple[int, ...] = ()

    # For a timed pass: how many samples a block has; fewer where they take longer than sample_seconds.
    samples: int = 10
    least_samples: int = 1
    sample_seconds: float = 1.0
    # How many calls warm up. None: until the times are stable, for at most warmup_seconds.
    warmup_calls: int | None = None
    warmup_seconds: float = 1.0
    # Whether each block follows a load of the same calls until the clocks are those that the GPU can hold.
    sustained: bool = False
    # Whether the caches are emptied before each sample.
    flush: bool = True
    # Whether CUDA graphs are timed too: "auto" (the first block of a case in a process), "always", "never",
    # or "short" (each block in which launching takes much of a call).
    graph: str = "auto"
    # Whether each backend's results are first compared with the reference.
    check: bool = True
    # The error against the reference up to which a result that rounding does not explain is approximate, not wrong.
    allow_error: float = 0.0
    # The dtypes whose ceilings are measured first.
    ceilings: tuple[str, ...] = ()

    # For a traced or counted pass: calls in each case's range; more where they take less than traced_seconds.
    traced_calls: int = 0
    traced_seconds: float = 0.0
    # The SQLite file that the embedded profiler writes.
    torch_trace_path: str = ""

    def is_stopped(self) -> bool:
        """Return whether the pass must end now: it was told to stop, or the process that waits for it has died."""
        if Path(self.stop_path).exists():
            return True
        if sys.platform == "win32":  # os.kill(pid, 0) ends the process there
            return False
        try:
            os.kill(self.parent_pid, 0)
        except ProcessLookupError:
            return True
        except PermissionError:
            pass
        return False

    def write(self, path: Path) -> None:
        path.write_bytes(encode_json(self))

    @staticmethod
    def read(path: Path) -> Job:
        """Return the job in a file. Raises TraceError when the file is damaged."""
        return read_json(path, Job, kind="a job of nsysprof", advice="Run the command again.")


def append_event(path: str, event: str, **fields: Any) -> None:
    """Append one JSON line in a single write, so that a kill never breaks a line of another writer."""
    line = json.dumps({"event": event, **fields}, ensure_ascii=True) + "\n"
    with Path(path).open("ab", buffering=0) as stream:
        stream.write(line.encode())


class EventReader:
    """Reads the complete lines that were appended since its last read."""

    def __init__(self, path: str) -> None:
        self._path = Path(path)
        self._offset = 0

    def read(self) -> list[dict[str, Any]]:
        try:
            with self._path.open("rb") as stream:
                stream.seek(self._offset)
                chunk = stream.read()
        except FileNotFoundError:
            return []
        whole = chunk.rfind(b"\n") + 1
        self._offset += whole
        events: list[dict[str, Any]] = []
        for line in chunk[:whole].splitlines():
            try:
                events.append(json.loads(line))
            except ValueError:
                continue  # a writer was killed in mid-line; the next line is complete again
        return events
