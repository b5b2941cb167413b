"""Define the result of checking a recording against what was observed of the program while it ran."""

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
    # Samples of the GPU's counters.
    SAMPLES = "samples"


@dataclass(frozen=True)
class CudaProcess:
    """A process of the program that had a CUDA context."""

    pid: int
    name: str
    # When it was last seen with a context before another program replaced it (ns since 1970); None: none has.
    replaced_after_ns: int | None = None
    # The program and its arguments; empty where they could not be read.
    command: tuple[str, ...] = ()


@dataclass(frozen=True)
class RecordedProcess:
    """A process with calls of CUDA or GPU work in a trace."""

    pid: int
    # When the first of them began (ns since 1970); None where the trace does not tell.
    began_ns: int | None = None


@dataclass(frozen=True)
class WatchedGpu:
    """What the program did, observed from outside."""

    processes: tuple[CudaProcess, ...] = ()
    # How long its GPUs were busy, added over GPUs (s); None where NVML does not report it.
    busy_s: float | None = None
    # Whether other programs used the GPUs too, so that busy_s does not belong to this program alone.
    is_shared: bool = False
    # Whether everything that the program did should have been recorded.
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
    # What was lost; empty where no loss can be shown.
    lost: tuple[Lost, ...] = ()
    # What the trace contains; None where it does not say.
    kernels: int | None = None
    launches: int | None = None
    # The number of pieces of GPU work of any kind.
    gpu_work: int = 0
    # The number of processes with CUDA calls or GPU work.
    processes: tuple[RecordedProcess, ...] = ()
    # The NVTX domains that have ranges.
    domains: frozenset[str] = frozenset()
