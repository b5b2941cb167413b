"""Compare findings: which appeared, which disappeared, and which both sides have."""

from __future__ import annotations

from collections.abc import Sequence

from nsysprof.results.allocator_memory import AllocatorMemory
from nsysprof.results.comparison import FindingChange

# The saving per step (ns) by code and range.
Savings = dict[tuple[str, str], int]


def compare_findings(
    baseline: Sequence[Savings | None], candidate: Sequence[Savings | None]
) -> tuple[FindingChange, ...]:
    """Return the findings of both sides: first those that only the candidate has, each part by saving.

    A side has a finding when any of its traces has it. None stands for a trace whose findings are unknown.
    """
    old, new = _most(baseline), _most(candidate)
    changes = []
    for code, where in dict.fromkeys((*new, *old)):
        before, after = old.get((code, where)), new.get((code, where))
        changes.append(FindingChange(code, where, _how(before, after), before, after))
    order = ("appeared", "vanished", "both")
    return tuple(
        sorted(changes, key=lambda each: (order.index(each.how), -(each.candidate_ns or each.baseline_ns or 0)))
    )


def compare_memory_findings(
    baseline: Sequence[AllocatorMemory | None], candidate: Sequence[AllocatorMemory | None]
) -> tuple[FindingChange, ...] | None:
    """Return the findings about torch's memory of both sides; None where one side did not record it."""
    old, new = _most_bytes(baseline), _most_bytes(candidate)
    if old is None or new is None:
        return None
    changes = []
    for code in dict.fromkeys((*new, *old)):
        before, after = old.get(code), new.get(code)
        changes.append(FindingChange(code, "", _how(before, after), None, None, before, after))
    return tuple(changes)


def _how(before: int | None, after: int | None) -> str:
    return "appeared" if before is None else "vanished" if after is None else "both"


def _most_bytes(side: Sequence[AllocatorMemory | None]) -> dict[str, int] | None:
    """Return the most bytes that any trace of a side would save, by code; None where none recorded memory."""
    known = [each for each in side if each is not None]
    found: dict[str, int] = {}
    for memory in known:
        for finding in memory.findings:
            found[finding.code] = max(finding.bytes, found.get(finding.code, 0))
    return found if known else None


def _most(side: Sequence[Savings | None]) -> Savings:
    found: Savings = {}
    for savings in side:
        for key, saving in (savings or {}).items():
            found[key] = max(saving, found.get(key, 0))
    return found
