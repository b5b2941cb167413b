"""Compare what owned the memory at two peaks: which lines of code explain the difference."""

from __future__ import annotations

import re

from nsysprof.results.allocator_memory import AllocatorMemory, MemoryComparison, OwnerChange

_LINE = re.compile(r"(?P<file>.*):(?P<line>\d+) (?P<function>.*)", re.DOTALL)


def compare_owners(baseline: AllocatorMemory, candidate: AllocatorMemory) -> MemoryComparison:
    """Return every owner of either side, the largest difference first. The rows add up to the difference of the peaks.

    Owners are matched by their line. The remaining ones are matched by file and function, in the order of lines,
    because a line moves when the code above it changes.
    """
    before, after = _by_owner(baseline), _by_owner(candidate)
    moved = _moved([owner for owner in before if owner not in after], [owner for owner in after if owner not in before])
    taken = set(moved.values())
    changes = [_change(owner, moved.get(owner, owner), before, after) for owner in before]
    changes += [_change(owner, owner, before, after) for owner in after if owner not in before and owner not in taken]
    return MemoryComparison(
        baseline=baseline.path_name,
        candidate=candidate.path_name,
        baseline_peak_bytes=sum(before.values()),
        candidate_peak_bytes=sum(after.values()),
        changes=tuple(sorted(changes, key=lambda change: -abs(change.difference_bytes))),
    )


def _by_owner(memory: AllocatorMemory) -> dict[str, int]:
    sums = memory.owners.groupby("owner", sort=False)["peak_bytes"].sum()
    return {str(owner): int(size) for owner, size in zip(sums.index, sums, strict=True)}


def _change(owner: str, now: str, before: dict[str, int], after: dict[str, int]) -> OwnerChange:
    was, is_ = before.get(owner), after.get(now)
    return OwnerChange(owner, now if now != owner else "", was, is_, (is_ or 0) - (was or 0))


def _moved(gone: list[str], new: list[str]) -> dict[str, str]:
    """Return where owners of one side probably are on the other: the same file and function with as many lines."""
    new_by_old: dict[str, str] = {}
    sides = [_by_function(owners) for owners in (gone, new)]
    for function, lines in sides[0].items():
        others = sides[1].get(function, [])
        if len(lines) == len(others):
            new_by_old |= dict(zip(lines, others, strict=True))
    return new_by_old


def _by_function(owners: list[str]) -> dict[tuple[str, str], list[str]]:
    lines_by_function: dict[tuple[str, str], list[tuple[int, str]]] = {}
    for owner in owners:
        match = _LINE.fullmatch(owner)
        if match is not None:
            lines_by_function.setdefault((match["file"], match["function"]), []).append((int(match["line"]), owner))
    return {function: [owner for _, owner in sorted(lines)] for function, lines in lines_by_function.items()}
