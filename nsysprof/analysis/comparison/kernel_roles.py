"""Find which kernel of the candidate replaced which kernel of the baseline, by role: names change with versions."""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import SequenceMatcher

from nsysprof.results.comparison import KernelFacts

_BACKWARD = re.compile(r"bwd|backward|dgrad|wgrad|bprop|grad", re.IGNORECASE)
# Kernels without a known category are paired only if their names are at least this similar.
_ALIKE = 0.6
_NAME = 200
_MOST = 100


def kernel_role(name: str, facts: KernelFacts) -> str:
    """Return the role of a kernel: its category, and whether it belongs to a backward pass."""
    return f"{facts.category} backward" if _BACKWARD.search(name[:4096]) else facts.category


def pair_kernels(vanished: Mapping[str, KernelFacts], appeared: Mapping[str, KernelFacts]) -> list[tuple[str, str]]:
    """Return pairs (name in the baseline, name in the candidate) of kernels with the same role.

    A kernel is in one pair at most. Where several are possible, the most similar short names are paired first, then the
    kernels that take the most time.
    """
    candidates = []
    for old, old_facts in _longest(vanished):
        role = kernel_role(old, old_facts)
        for new, new_facts in _longest(appeared):
            if kernel_role(new, new_facts) != role:
                continue
            alike = _likeness(old_facts.short_name, new_facts.short_name)
            if not role.startswith("other") or alike >= _ALIKE:
                candidates.append((-alike, -min(old_facts.total_ns, new_facts.total_ns), old, new))
    pairs: list[tuple[str, str]] = []
    used_old: set[str] = set()
    used_new: set[str] = set()
    for _, _, old, new in sorted(candidates):
        if old not in used_old and new not in used_new:
            used_old.add(old)
            used_new.add(new)
            pairs.append((old, new))
    return pairs


def _longest(kernels: Mapping[str, KernelFacts]) -> list[tuple[str, KernelFacts]]:
    """Return the kernels that take the most time. Comparing thousands of names with each other takes too long."""
    return sorted(kernels.items(), key=lambda item: -item[1].total_ns)[:_MOST]


def _likeness(one: str, other: str) -> float:
    """Return how similar two names are, from 0 to 1."""
    return SequenceMatcher(None, one[:_NAME], other[:_NAME], autojunk=False).ratio()
