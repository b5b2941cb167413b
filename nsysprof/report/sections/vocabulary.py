"""Choose the word for a row of work: a kernel of a GPU, or an operator on a machine without one."""

from __future__ import annotations

from dataclasses import dataclass

from nsysprof.results.analysis import TraceInfo


@dataclass(frozen=True)
class Words:
    """The nouns of a report."""

    work: str
    works: str
    launches: str
    device: str
    memory: str


KERNELS = Words("kernel", "kernels", "launches", "GPU", "VRAM")
OPERATORS = Words("operator", "operators", "calls", "cpu", "memory")


def words_for(trace: TraceInfo) -> Words:
    """Return the nouns for a trace. Operators are never called kernels, and the CPU's memory is not VRAM."""
    return OPERATORS if trace.work_kind == "operator" else KERNELS
