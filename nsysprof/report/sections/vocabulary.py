"""Choose the words for a report: kernels of a GPU, or operators on a machine without one."""

from __future__ import annotations

from dataclasses import dataclass

from nsysprof.results.analysis import TraceInfo


@dataclass(frozen=True)
class Words:
    """The nouns that a report uses."""

    work: str
    works: str
    launches: str
    device: str
    memory: str


KERNELS = Words("kernel", "kernels", "launches", "GPU", "VRAM")
OPERATORS = Words("operator", "operators", "calls", "cpu", "memory")

# Causes of idle time as they follow a share: "38 % while the host is busy outside CUDA". docs/causes.md defines each.
IDLE_WORDS = {
    "sync-then-late-launch": "after the host has waited for the GPU (sync-then-late-launch)",
    "host-outside-cuda": "while the host is busy outside CUDA (host-outside-cuda)",
    "slow-call": "during slow CUDA calls (slow-call)",
    "pageable-copy": "around copies of pageable memory (pageable-copy)",
    "dependency": "until other work of the GPU is done (dependency)",
    "collective": "until other ranks take part (collective)",
    "profiler": "for the profiler (profiler)",
    "unknown": "for an unknown cause (unknown)",
    "outside": "before the first or after the last work of the trace",
}


def words_for(trace: TraceInfo) -> Words:
    """Return the nouns for a trace. Operators are never called kernels, and the CPU's memory is not VRAM."""
    return OPERATORS if trace.work_kind == "operator" else KERNELS
