"""Join the measured cost of recording with an analysis, where a capture also ran the program with less recorded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from nsysprof.analysis.overview.recording_cost import compare_with_plain, judge_cost, name_of, without_distorted
from nsysprof.capture.self_check.record_again import RANGES_ALONE
from nsysprof.files.plain_file import read_json
from nsysprof.notes import Note, make_note
from nsysprof.results.analysis import COSTS, Analysis, RangeCost, RecordingCosts
from nsysprof.trace.open import open_trace
from nsysprof.trace.tables import read_ranges, read_strings


def join_recording_cost(analysis: Analysis, source: Path, trace: Path) -> Analysis:
    """Return the analysis with what recording cost each range, without findings that this makes unreliable."""
    if not source.is_dir():  # only a capture folder has measured it
        return analysis
    measured = read_measured_costs(source, trace)
    if measured is None:
        return analysis
    found = analysis.findings
    gone: tuple[str, ...] = ()
    if found is not None:
        found, gone = without_distorted(found, measured.costs)
    return replace(
        analysis,
        recording_cost=measured.costs,
        findings=found,
        notes=(*analysis.notes, *cost_notes(measured.costs, left_out=gone, in_one_run=measured.in_one_run)),
    )


def read_measured_costs(source: Path, trace: Path) -> RecordingCosts | None:
    """Return what recording cost, as the capture folder says; None where it was not measured."""
    if (source / RANGES_ALONE).is_file():
        return RecordingCosts(1, read_costs(trace, source / RANGES_ALONE), in_one_run=False)
    if (source / COSTS).is_file():
        advice = "Record the part again."
        found = read_json(source / COSTS, RecordingCosts, kind="the cost of a recording", advice=advice, newest=1)
        return replace(found, costs=tuple(judge_cost(cost) for cost in found.costs))
    return None


def costs_to_share(source: Path, trace: Path, is_public: Callable[[str], bool]) -> RecordingCosts | None:
    """Return what recording cost, for a reader who does not have the capture; None where it was not measured.

    is_public: whether a range keeps its name when it is shared. Other names become tokens that do not tell to which
    family (train#) they belong, so that each range of such a family is listed with the family's cost.
    """
    measured = read_measured_costs(source, trace) if source.is_dir() else None
    if measured is None:
        return None
    private = {cost.range for cost in measured.costs if "#" in cost.range and not is_public(cost.range)}
    if not private:
        return measured
    with open_trace(trace) as opened:
        ranges = read_ranges(opened, read_strings(opened))
    names = [] if ranges is None else [str(name) for name in ranges["name"].unique()]
    members: dict[str, list[str]] = {}
    for name in names:
        members.setdefault(name_of(name, private), []).append(name)
    costs = [
        replace(cost, range=name)
        for cost in measured.costs
        for name in (members.get(cost.range, [cost.range]) if cost.range in private else [cost.range])
    ]
    return replace(measured, costs=tuple(costs))


def read_costs(trace: Path, plain: Path) -> tuple[RangeCost, ...]:
    """Return what recording costs each range.

    plain: the trace of the program with only NVTX recorded.
    """
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
