"""Record a block of the running program: with torch's profiler, or as an NVTX range where nsys already records."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from nsysprof.workload.measuring.timing import synchronize
from nsysprof.workload.recording.nvtx_ranges import annotate
from nsysprof.workload.recording.torch_trace import TorchTrace

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
