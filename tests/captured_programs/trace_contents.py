"""Read the content of a trace with separate SQL, so that the comparison does not depend on nsysprof's reader."""

from __future__ import annotations

import contextlib
import re
import sqlite3
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

PREFIX = "CUPTI_ACTIVITY_KIND_"
# Tables whose rows are compared by name below, or that say how something was recorded and not what.
_NAMED = ("KERNEL", "RUNTIME", "GRAPH_TRACE")
_OTHER = ("MEMCPY", "MEMSET", "SYNCHRONIZATION")


@dataclass(frozen=True)
class TraceContents:
    """How many rows of each kind and name a trace has."""

    kernels: dict[str, int] = field(default_factory=dict)
    # Names of CUDA API calls, without the version.
    calls: dict[str, int] = field(default_factory=dict)
    ranges: dict[str, int] = field(default_factory=dict)
    # Replays of graphs, whether they were recorded as wholes or by nodes.
    replays: int = 0
    others: dict[str, int] = field(default_factory=dict)
    # Processes with kernels, and how many.
    by_process: dict[int, int] = field(default_factory=dict)
    # Samples of the CPU and switches of threads, which nsys takes by default where it is permitted.
    cpu_samples: int = 0


def read_contents(trace: Path) -> TraceContents:
    """Return what a trace holds. A table without rows is absent from it."""
    if not trace.exists():
        return TraceContents()
    with contextlib.closing(sqlite3.connect(f"{trace.absolute().as_uri()}?mode=ro", uri=True)) as database:

        def counts(query: str) -> dict[str, int]:
            try:
                return {str(name): int(count) for name, count in database.execute(query)}
            except sqlite3.Error:
                return {}

        def rows(table: str, where: str = "1") -> int:
            return sum(counts(f"SELECT '', count(*) FROM {table} WHERE {where}").values())

        by_name = "SELECT value, count(*) FROM {} JOIN StringIds ON id = {} GROUP BY 1"
        calls: dict[str, int] = {}
        for name, count in counts(by_name.format(f"{PREFIX}RUNTIME", "nameId")).items():
            short = re.sub(r"_v\d+$", "", name)
            calls[short] = calls.get(short, 0) + count
        nodes = counts(
            f"SELECT '', count(DISTINCT correlationId || ' ' || globalPid) FROM {PREFIX}KERNEL WHERE graphNodeId > 0"
        )
        return TraceContents(
            kernels=counts(by_name.format(f"{PREFIX}KERNEL", "demangledName")),
            calls=calls,
            ranges=counts(
                "SELECT coalesce(text, value), count(*) FROM NVTX_EVENTS LEFT JOIN StringIds ON id = textId "
                "WHERE eventType IN (59, 60, 70, 71) AND coalesce(text, value) NOT NULL GROUP BY 1"
            ),
            replays=rows(f"{PREFIX}GRAPH_TRACE") + sum(nodes.values()),
            others={table.lower(): rows(PREFIX + table) for table in _OTHER},
            by_process={
                int(pid): count
                for pid, count in counts(
                    f"SELECT (globalPid >> 24) & 16777215, count(*) FROM {PREFIX}KERNEL GROUP BY 1"
                ).items()
            },
            cpu_samples=rows("COMPOSITE_EVENTS") + rows("SCHED_EVENTS"),
        )


def add_up(traces: Iterable[TraceContents]) -> TraceContents:
    """Return what several traces of one program hold together, as far as the proof needs it."""
    found = list(traces)
    if len(found) == 1:
        return found[0]
    kernels: Counter[str] = Counter()
    for each in found:
        kernels.update(each.kernels)
    return TraceContents(kernels=dict(kernels))


def matching(names: Mapping[str, int], patterns: Mapping[str, int]) -> int:
    """Return how many rows have names that match one of the patterns."""
    return sum(count for name, count in names.items() if any(re.search(each, name) for each in patterns))


def only_in(bare: TraceContents, ours: TraceContents) -> list[str]:
    """Return what a trace of a bare nsys has and ours lacks: kernels by name and count, copies, calls and ranges."""
    found = [
        f"{count - ours.kernels.get(name, 0)} kernels {name[:60]}"
        for name, count in sorted(bare.kernels.items())
        if count > ours.kernels.get(name, 0)
    ]
    if bare.replays > ours.replays:
        found.append(f"{bare.replays - ours.replays} replays of graphs")
    found += [
        f"{bare.others[kind] - ours.others.get(kind, 0)} rows of {kind}"
        for kind in ("memcpy", "memset")
        if bare.others.get(kind, 0) > ours.others.get(kind, 0)
    ]
    found += [f"calls of {name}" for name in sorted(set(bare.calls) - set(ours.calls))]
    found += [f"ranges {name[:60]}" for name in sorted(set(bare.ranges) - set(ours.ranges))[:5]]
    return found
