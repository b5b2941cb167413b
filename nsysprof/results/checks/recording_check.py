"""Compare what was seen of a program while it ran with what its recording holds."""

from __future__ import annotations

from collections.abc import Iterable
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
    # What a process that used the GPU did before it replaced itself by another program.
    REPLACED = "replaced"
    # Events that nsys itself says it lost.
    EVENTS = "events"


@dataclass(frozen=True)
class CudaProcess:
    """A process of the program that had a CUDA context."""

    pid: int
    name: str
    # When it was last seen with a context before another program replaced it (ns since 1970); None: none has.
    replaced_after_ns: int | None = None


@dataclass(frozen=True)
class RecordedProcess:
    """A process with calls of CUDA or GPU work in a trace."""

    pid: int
    # When the first of them began (ns since 1970); None where the trace does not tell.
    began_ns: int | None = None


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

    def missing(self, recorded: Iterable[RecordedProcess]) -> tuple[CudaProcess, ...]:
        """Return the processes that ought to be among those recorded, and are not."""
        pids = {each.pid for each in recorded}
        return tuple(each for each in self.processes if each.pid not in pids) if self.is_whole else ()

    def replaced(self, recorded: Iterable[RecordedProcess]) -> tuple[CudaProcess, ...]:
        """Return the processes whose first program used CUDA and is not recorded, although a later one may be."""
        began = {each.pid: each.began_ns for each in recorded}
        found = []
        for each in self.processes if self.is_whole else ():
            first = began.get(each.pid)
            if each.replaced_after_ns is not None and (first is None or first > each.replaced_after_ns):
                found.append(each)
        return tuple(found)


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
    processes: tuple[RecordedProcess, ...] = ()
    # The NVTX domains that have ranges.
    domains: frozenset[str] = frozenset()
