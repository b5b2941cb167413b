"""Compare what was seen of a program while it ran with what its recording holds."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from nsysprof.notes import Remarks


class Lost(StrEnum):
    """What a recording lost."""

    # Kernels or graphs that the program launched.
    KERNELS = "kernels"
    # Nodes of graphs that were replayed.
    GRAPH_NODES = "graph-nodes"
    # Everything of a process that used the GPU.
    PROCESS = "process"
    # Events that nsys itself says it lost.
    EVENTS = "events"


@dataclass(frozen=True)
class CudaProcess:
    """A process of the program that had a CUDA context."""

    pid: int
    name: str


@dataclass(frozen=True)
class WatchedGpu:
    """What the program did, seen from outside."""

    processes: tuple[CudaProcess, ...] = ()
    # How long its GPUs worked, added over GPUs (s); None where NVML does not say.
    busy_s: float | None = None
    # Whether other programs used the GPUs too, so that busy_s is not the program's alone.
    is_shared: bool = False
    # Whether everything that the program did was to be recorded.
    is_whole: bool = False


NOT_WATCHED = WatchedGpu()


@dataclass(frozen=True)
class RecordingCheck:
    """The result of comparing a recording with what it should hold."""

    remarks: Remarks
    # What is lost; empty: nothing that can be told.
    lost: tuple[Lost, ...] = ()
    # What the trace holds; None where it does not tell.
    kernels: int | None = None
    launches: int | None = None
    # Pieces of GPU work of any kind.
    gpu_work: int = 0
    # Processes with calls of CUDA or GPU work.
    processes: tuple[int, ...] = ()
