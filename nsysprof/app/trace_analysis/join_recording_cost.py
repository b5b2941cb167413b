"""Join what recording costs, where a capture has the same program with NVTX recorded alone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nsysprof.notes import Note
    from nsysprof.results.analysis import Analysis
    from nsysprof.results.checks.recording_cost import RangeCost


def join_recording_cost(analysis: Analysis, source: Path, trace: Path) -> Analysis:
    """Return the analysis with what recording cost each range, and without the advice that this makes worthless."""
    from nsysprof.analysis.overview.recording_cost import without_distorted
    from nsysprof.capture.self_check.ranges_alone import RANGES_ALONE

    plain = source / RANGES_ALONE
    if not source.is_dir() or not plain.is_file():
        return analysis
    costs = read_costs(trace, plain)
    found = analysis.findings
    gone: tuple[str, ...] = ()
    if found is not None:
        found, gone = without_distorted(found, costs)
    return replace(
        analysis, recording_cost=costs, findings=found, notes=(*analysis.notes, *cost_notes(costs, left_out=gone))
    )


def read_costs(trace: Path, plain: Path) -> tuple[RangeCost, ...]:
    """Return what recording costs each range. plain: the trace of the program with NVTX recorded alone."""
    from nsysprof.analysis.overview.recording_cost import compare_with_plain
    from nsysprof.trace.open import open_trace
    from nsysprof.trace.tables import read_ranges, read_strings

    tables = []
    for path in (trace, plain):
        with open_trace(path) as opened:
            tables.append(read_ranges(opened, read_strings(opened)))
    recorded, alone = tables
    return () if recorded is None or alone is None else compare_with_plain(recorded, alone)


def cost_notes(costs: tuple[RangeCost, ...], *, left_out: tuple[str, ...] = ()) -> list[Note]:
    """Return the notes on what recording cost. left_out: the codes of findings that are worthless therefore."""
    from nsysprof.notes import make_note

    if not costs:
        return [make_note("recording-cost", "unknown")]
    first = costs[0]
    interval = "" if first.slowdown_low is None else f" [{first.slowdown_low:.2f}, {first.slowdown_high:.2f}]"
    notes = [
        make_note("recording-cost", range=first.range, slowdown=first.slowdown, interval=interval, count=len(costs))
    ]
    slowed = [cost.range for cost in costs if cost.is_distorted]
    if slowed:
        more = f" and {len(slowed) - 3} more" if len(slowed) > 3 else ""
        advice = f" These findings were left out: {', '.join(left_out)}." if left_out else ""
        notes.append(make_note("ranges-distorted", ranges=", ".join(slowed[:3]) + more, advice=advice))
    return notes
