"""Record a block of the running program: with the embedded profiler, or as an NVTX range where nsys records already."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from nsysprof.workload.nvtx_ranges import annotate
from nsysprof.workload.timing import synchronize
from nsysprof.workload.torch_trace import TorchTrace

# What nsys puts into the environment of what it profiles; the second one is of versions before 2022.
_OF_NSYS = ("NSYS_PROFILING_SESSION_ID", "QUADD_INJECTION_PROXY")


def is_under_nsys() -> bool:
    """Whether nsys records this process: CUPTI serves one profiler only, so that the embedded one would see nothing."""
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
        synchronize(device)  # what was launched before is none of the block's
        with trace.record(), trace.annotate(name):
            try:
                yield
            finally:
                synchronize(device)
    finally:
        trace.close()


@contextmanager
def mark_block(name: str) -> Iterator[None]:
    """The block as an NVTX range, process-wide and on this thread, which ends when the GPU is idle."""
    device = "cuda" if has_gpu() else "cpu"
    synchronize(device)
    with annotate(name):
        try:
            yield
        finally:
            synchronize(device)
