"""Join the measured cost of recording with an analysis, where a capture also ran the program with less recorded."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nsysprof.notes import Note
    from nsysprof.results.analysis import Analysis, RangeCost


def join_recording_cost(analysis: Analysis, source: Path, trace: Path) -> Analysis:
    """Return the analysis with what recording cost each range, without findings that this makes unreliable."""
    if not source.is_dir():  # only a capture folder has measured it
        return analysis
    from nsysprof.analysis.overview.recording_cost import without_distorted
    from nsysprof.capture.self_check.record_again import RANGES_ALONE

    costs = _costs_of(source, trace)
    if costs is None:
        return analysis
    in_one_run = not (source / RANGES_ALONE).is_file()
    found = analysis.findings
    gone: tuple[str, ...] = ()
    if found is not None:
        found, gone = without_distorted(found, costs)
    return replace(
        analysis,
        recording_cost=costs,
        findings=found,
        notes=(*analysis.notes, *cost_notes(costs, left_out=gone, in_one_run=in_one_run)),
    )


def _costs_of(source: Path, trace: Path) -> tuple[RangeCost, ...] | None:
    """Return what recording cost, as the capture folder says; None where it was not measured."""
    from nsysprof.analysis.overview.recording_cost import judge_cost
    from nsysprof.capture.self_check.record_again import RANGES_ALONE
    from nsysprof.files.json_file import read_json
    from nsysprof.results.analysis import COSTS, CostsInOneRun

    if (source / RANGES_ALONE).is_file():
        return read_costs(trace, source / RANGES_ALONE)
    if (source / COSTS).is_file():
        advice = "Record the part again."
        found = read_json(source / COSTS, CostsInOneRun, kind="the cost of a recording", advice=advice, newest=1)
        return tuple(judge_cost(cost) for cost in found.costs)
    return None


def read_costs(trace: Path, plain: Path) -> tuple[RangeCost, ...]:
    """Return what recording costs each range.

    plain: the trace of the program with only NVTX recorded.
    """
    from nsysprof.analysis.overview.recording_cost import compare_with_plain
    from nsysprof.trace.open import open_trace
    from nsysprof.trace.tables import read_ranges, read_strings

    tables = []
    for path in (trace, plain):
        with open_trace(path) as opened:
            tables.append(read_ranges(opened, read_strings(opened)))
    recorded, alone = tables
    return () if recorded is None or alone is None else compare_with_plain(recorded, alone)


def cost_notes(costs: tuple[RangeCost, ...], *, left_out: tuple[str, ...] = (), in_one_run: bool = False) -> list[Note]:
    """Return the notes on what recording cost.

    left_out: the codes of findings that are unreliable because of it.
    in_one_run: whether the program was compared with itself while it was not recorded.
    """
    from nsysprof.notes import make_note

    if not costs:
        return [make_note("recording-cost", "unknown")]
    first = costs[0]
    interval = "" if first.slowdown_low is None else f" [{first.slowdown_low:.2f}, {first.slowdown_high:.2f}]"
    slowdown, count = first.slowdown, len(costs)
    if in_one_run:
        note = make_note(
            "recording-cost", "unrecorded", range=first.range, slowdown=slowdown, interval=interval, count=count
        )
    else:
        note = make_note("recording-cost", range=first.range, slowdown=slowdown, interval=interval, count=count)
    notes = [note]
    slowed = [cost.range for cost in costs if cost.is_distorted]
    if slowed:
        more = f" and {len(slowed) - 3} more" if len(slowed) > 3 else ""
        advice = f" These findings were left out: {', '.join(left_out)}." if left_out else ""
        notes.append(make_note("ranges-distorted", ranges=", ".join(slowed[:3]) + more, advice=advice))
    return notes
