"""Record with torch.profiler where there is no Nsight Systems, and write a trace in the same form."""

from __future__ import annotations

import os
import sqlite3
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch.autograd.profiler import profile, record_function

from nsysprof.files.plain_file import VERSION
from nsysprof.torchprof.kineto_events import Event, read_events, read_header
from nsysprof.torchprof.session_rows import global_tid
from nsysprof.torchprof.torch_tables import TorchTables
from nsysprof.workload.measuring.timing import synchronize
from nsysprof.workload.recording.nvtx_ranges import annotate


class TorchTrace:
    """A SQLite trace to which profiled sessions are appended. Several processes may do so in turn."""

    def __init__(self, path: str, origin_ns: int, device: str) -> None:
        """Open the trace. origin_ns: its time zero (ns since 1970, UTC), the same for all sessions."""
        begun = Path(path).exists()
        try:
            self._open(Path(path), origin_ns, device)
        except sqlite3.Error:
            if not begun:  # no room: the beginning is not a trace yet, and would take the room of the error message
                Path(path).unlink(missing_ok=True)
            raise

    def _open(self, path: Path, origin_ns: int, device: str) -> None:
        self._tables = TorchTables(path, device, VERSION)
        self._device = device
        earlier = self._tables.origin_ns
        if earlier is None:
            self._tables.describe(origin_ns, _gpus() if device == "cuda" else (), str(torch.__version__))
            thread = global_tid(os.getpid(), threading.get_native_id())
            self._tables.announce(0, time.time_ns() - origin_ns, thread)
        self._origin_ns = origin_ns if earlier is None else earlier

    def close(self) -> None:
        self._tables.close()

    @contextmanager
    def record(self) -> Iterator[None]:
        """Profile the block and append what was recorded, also when the block raises."""
        # Not torch.profiler.profile around it: that loads torch's compiler first, which takes seconds.
        profiler = profile(use_device="cuda" if self._device == "cuda" else None, profile_memory=True, use_kineto=True)
        try:
            with profiler:
                yield
        finally:
            self._append(profiler)

    @staticmethod
    def annotate(name: str) -> Any:
        return record_function(name)

    def _append(self, profiler: profile) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "kineto.json"
            profiler.export_chrome_trace(str(path))
            base_ns = read_header(path).base_ns
            self._tables.append(filter(_is_ours, read_events(path)), base_ns - self._origin_ns)


def _is_ours(event: Event) -> bool:
    """Return whether the measured program made this event: the profiler adds ranges of its own."""
    return not (event.category == "user_annotation" and event.name.startswith("ProfilerStep"))


def _gpus() -> list[dict[str, Any]]:
    rows = []
    for index in range(torch.cuda.device_count()):
        facts = torch.cuda.get_device_properties(index)
        rows.append(
            {
                "id": index,
                "name": facts.name,
                "totalMemory": facts.total_memory,
                "smCount": facts.multi_processor_count,
                "cuDevice": index,
                "computeMajor": facts.major,
                "computeMinor": facts.minor,
            }
        )
    return rows


# Environment variables that nsys sets for the program that it profiles; the second is from versions before 2022.
_OF_NSYS = ("NSYS_PROFILING_SESSION_ID", "QUADD_INJECTION_PROXY")


def is_under_nsys() -> bool:
    """Return whether nsys records this process. CUPTI serves only one profiler, so a second one would see nothing."""
    return any(name in os.environ for name in _OF_NSYS)


def has_gpu() -> bool:
    return bool(torch.cuda.is_available())


@contextmanager
def record_block(path: Path, name: str, device: str) -> Iterator[None]:
    """Write what the block launches, moves and allocates into a trace at `path`, within a range `name`.

    device: "cuda", or "cpu" for torch's operators. The block ends when the device is idle. Raises RuntimeError where
    another profiler of torch is at work.
    """
    trace = TorchTrace(str(path), time.time_ns(), device)
    try:
        synchronize(device)  # work that was launched earlier does not belong to the block
        with trace.record(), trace.annotate(name):
            try:
                yield
            finally:
                synchronize(device)
    finally:
        trace.close()


@contextmanager
def mark_block(name: str) -> Iterator[None]:
    """Mark the block with an NVTX range, for the process and on this thread, that ends when the GPU is idle."""
    device = "cuda" if has_gpu() else "cpu"
    synchronize(device)
    with annotate(name):
        try:
            yield
        finally:
            synchronize(device)
