"""Job: the file by which `capture` tells the measured processes what to do; Event: the lines they answer with."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from nsysprof.case import Case


@dataclass(frozen=True)
class Job:
    """One pass over a grid.

    pass_name: "timed" (untraced latency and memory), "traced" (calls in an NVTX range), "counted" (the same, one call,
    for hardware counters) or "bench" (one block of samples for each element of `cases`, in which a case may come
    several times).
    profiler: "nsys", "torch", "ncu" or "none"; says who records the traced or counted pass.
    traced_calls: in each case's range, more where they take less than traced_seconds together.
    events_path: JSON lines, appended by supervisor and worker. stop_path: exists when the pass shall end early.
    torch_trace_path: the SQLite that the embedded profiler writes. parent_pid: the capture that waits for the pass;
    when it dies, so does the pass. check: whether each backend's results are first compared with the reference.

    Of "bench" alone: flush, whether the caches are emptied before each sample; graph, "auto", "always" or "never";
    warmup_seconds, the longest warm-up of a block. Of "bench" and "timed": ceilings, the dtypes whose ceilings are
    measured first.
    """

    cases: tuple[Case, ...]
    range_keys: tuple[str, ...]
    pass_name: str
    profiler: str
    device: str
    samples: int
    sample_seconds: float
    warmup: int
    traced_calls: int
    case_timeout_s: float
    events_path: str
    stop_path: str
    torch_trace_path: str
    parent_pid: int
    skip: tuple[int, ...] = ()
    flush: bool = True
    graph: str = "auto"
    warmup_seconds: float = 1.0
    ceilings: tuple[str, ...] = ()
    check: bool = True
    traced_seconds: float = 0.0

    def is_stopped(self) -> bool:
        """Whether the pass shall end now: it was told to, or nobody waits for it any more."""
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
        data = asdict(self)
        data["cases"] = [case.to_json() for case in self.cases]
        path.write_text(json.dumps(data, indent=1), encoding="utf-8")

    @staticmethod
    def read(path: Path) -> Job:
        data = json.loads(path.read_text(encoding="utf-8"))
        data["cases"] = tuple(Case.from_json(cell) for cell in data["cases"])
        data["range_keys"] = tuple(data["range_keys"])
        data["skip"] = tuple(data["skip"])
        data["ceilings"] = tuple(data["ceilings"])
        return Job(**data)


def append_event(path: str, event: str, **fields: Any) -> None:
    """Append one JSON line in a single write, so that a kill never leaves another writer's line broken."""
    line = json.dumps({"event": event, **fields}, ensure_ascii=True) + "\n"
    with Path(path).open("ab", buffering=0) as stream:
        stream.write(line.encode())


class EventReader:
    """Reads complete lines that were appended since the last call."""

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
                continue  # a writer killed in mid-line; the next line is whole again
        return events
