"""Compose the report of one snapshot of torch's allocator, and of a comparison of two."""

from __future__ import annotations

from collections.abc import Sequence

from nsysprof.report.document import (
    Cell,
    Column,
    Figure,
    Lines,
    Notes,
    Part,
    Report,
    Section,
    Unit,
    make_table,
)
from nsysprof.report.sections.memory_parts import memory_parts
from nsysprof.results.allocator_memory import AllocatorMemory, MemoryComparison
from nsysprof.units import format_bytes

_METHOD = (
    "An owner is the innermost line of the stack outside torch, Python's library and C++.",
    "Sizes are those that were requested. A block counts until it can be used again (free_completed).",
    "Memory from before the first event of the snapshot counts if it was freed later, or was still there at the end.",
)
_LEAST_CHANGE_BYTES = 1 << 20


def memory_report(memory: AllocatorMemory, figures: Sequence[Figure] = ()) -> Report:
    """Return what owned the memory at the peak, and how much of the allocator's memory was idle."""
    sections = [Section("Memory", tuple(memory_parts(memory)))]
    sections += [Section("Figures", tuple(figures), in_terminal=False)] if figures else []
    sections += [Section("Notes", (Notes(memory.notes),)), Section("Method", (Lines(_METHOD),), in_terminal=False)]
    return Report(memory.path_name, tuple(sections))


def memory_comparison_report(found: MemoryComparison) -> Report:
    """Return the peaks of both sides, and the lines that explain their difference."""
    return Report(f"{found.baseline} against {found.candidate}", (Section("Memory", memory_comparison_parts(found)),))


def memory_comparison_parts(found: MemoryComparison) -> tuple[Part, ...]:
    """Return the verdict on the peaks of both sides, and the lines that explain their difference."""
    change = found.candidate_peak_bytes - found.baseline_peak_bytes
    verdict = (
        f"The peak is {format_bytes(found.candidate_peak_bytes)}, and was {format_bytes(found.baseline_peak_bytes)}: "
        f"{'+' if change > 0 else ''}{format_bytes(change)}."
    )
    least = min(_LEAST_CHANGE_BYTES, abs(change))
    rows = [
        (
            Cell(each.owner, remark=f"(now {each.now})" if each.now else ""),
            each.baseline_bytes,
            each.candidate_bytes,
            Cell(each.difference_bytes, is_signed=True),
        )
        for each in found.changes
        if each.difference_bytes and abs(each.difference_bytes) >= least
    ]
    columns = (
        Column("owner", Unit.NAME), Column("baseline", Unit.BYTES, drop=1), Column("candidate", Unit.BYTES, drop=1),
        Column("difference", Unit.BYTES),
    )  # fmt: skip
    table = make_table("Lines behind the difference", columns, rows, is_kept_empty=True)
    return Lines((verdict,), is_verdict=True), table
