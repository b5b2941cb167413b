"""Compose the report of `bench -- PROGRAM`: which side is faster and by how much, memory, values, and the method."""

from __future__ import annotations

from collections.abc import Sequence

from nsysprof.report.document import (
    Cell,
    Column,
    Gate,
    Lines,
    Notes,
    Paragraph,
    Part,
    Report,
    Section,
    Table,
    Unit,
    make_table,
)
from nsysprof.report.reports.compare_report import OUTCOMES
from nsysprof.results.program_runs import (
    MemoryChange,
    MemoryKind,
    ProgramComparison,
    ProgramSideSummary,
    Sameness,
    ValueComparison,
)
from nsysprof.units import format_bytes


def program_report(found: ProgramComparison) -> Report:
    """Return the report of a program on two sides."""
    title = "nsysprof bench" + (f": {OUTCOMES[found.outcome]}" if found.outcome is not None else "")
    head = Paragraph(f"{found.change.case}: {found.baseline.label} against {found.candidate.label}")
    sections = [Section("", (head,))]
    if found.outcome is not None:
        sections.append(Section(f"gate: {OUTCOMES[found.outcome]}", (Gate(found.gate),), is_conclusion=True))
    return Report(
        title,
        (
            *sections,
            Section("", (Lines((comparison_line(found),), is_verdict=True), Lines(detail_lines(found)))),
            Section("", (side_table([("", found)]),)),
            Section("Notes", (Notes(found.notes),)),
            Section("Method", (Lines(found.method),), in_terminal=False, is_folded=True),
        ),
    )


def comparison_line(found: ProgramComparison) -> str:
    """Return the verdict on the time of a step, with its interval, in one sentence."""
    change = found.change
    if change.verdict is None or change.ratio is None:
        old, new = change.baseline, change.candidate
        if old.status != "ok":
            return f"There is no verdict, because the baseline {old.reason or old.status}."
        if new.status != "ok":
            return f"The candidate {new.reason or new.status}; the baseline runs."
        return f"There is no verdict: {change.reason}."
    interval = f"{_percent(change.ratio)} [{_percent(change.low)}, {_percent(change.high)}]"
    return f"{change.verdict.value}: a step of the candidate takes {interval} of the time (95 % interval)."


def _percent(ratio: float | None) -> str:
    return "unknown" if ratio is None else f"{100 * ratio:.1f} %"


def detail_lines(found: ProgramComparison) -> tuple[str, ...]:
    """Return more details: where times come from, why a verdict is missing, memory, values, and the policy's calls."""
    change, lines = found.change, [f"Times are from {found.source or 'nothing'}."]
    if change.reason and change.verdict is not None:
        lines.append(f"{change.reason.capitalize()}.{f' {change.next_step}' if change.next_step else ''}")
    old, new = found.baseline.peak_bytes, found.candidate.peak_bytes
    if old and new is not None:
        told = f"Peak memory: {format_bytes(old)} to {format_bytes(new)} ({100 * (new / old - 1):+.1f} %)"
        reserved = found.baseline.reserved_bytes, found.candidate.reserved_bytes
        if reserved[0] is not None and reserved[1] is not None:
            told += f"; reserved {format_bytes(reserved[0])} to {format_bytes(reserved[1])}"
        lines.append(f"{told}.")
    lines += [memory_line(each) for each in found.memory]
    if found.values is not None:
        lines.append(values_line(found.values))
    use = found.candidate.use
    if use is not None:
        compiled = f", {use.compiled} forms were compiled with a rule" if use.compiled else ""
        told = f"{use.calls:,} calls ran as tuned, {use.left:,} were left to torch{compiled}"
        lines.append(f"Policy: {'it was not in force' if use.was_refused else told}.")
        lines += use.reasons
    return tuple(lines)


def memory_line(found: MemoryChange) -> str:
    """Return by how much memory certainly differs, with the runs that show it, in one sentence."""
    old, new = found.baseline_bytes, found.candidate_bytes
    what = "It reserves" if found.kind is MemoryKind.RESERVED else "It needs"
    more = "less" if found.is_lower else "more"
    amount = found.saved_bytes if found.is_lower else min(new) - max(old)
    runs = f"{_span(old)} in {len(old)} runs of the baseline, {_span(new)} in {len(new)} of the candidate"
    return f"{what} at least {format_bytes(amount)} {more} memory: {runs}."


def _span(values: Sequence[int]) -> str:
    least, most = format_bytes(min(values)), format_bytes(max(values))
    return least if least == most else f"{least} to {most}"


def values_line(values: ValueComparison) -> str:
    """Return whether the values of both sides are the same, in one sentence."""
    largest = "" if values.largest_pct is None else f"; the largest difference is {values.largest_pct:.2g} %"
    within = f"within {values.tolerance_pct:g} %"
    if values.verdict is Sameness.EQUAL:
        return f"Values: all {values.count} are equal {within}{largest}."
    if values.verdict is Sameness.DIFFERENT:
        return f"Values: they DIFFER, not all {values.count} are {within}{largest}. {values.reason}".strip()
    return f"Values: not compared, because {values.reason}."


def side_table(comparisons: Sequence[tuple[str, ProgramComparison]]) -> Table:
    """Return one row for each side.

    comparisons: each comparison with its name; an empty name for the only one.
    """
    rows: list[tuple[Cell | str, ...]] = []
    for title, found in comparisons:
        for name, side in (("baseline", found.baseline), ("candidate", found.candidate)):
            rows.append((f"{title} {name}".strip(), side.label, *_facts(side)))
    columns = (
        Column("side", Unit.NAME),
        Column("with", Unit.NAME, drop=2),
        Column("step", Unit.NS),
        Column("steps", Unit.COUNT, drop=3),
        Column("runs", Unit.COUNT, drop=1),
        Column("failed", Unit.COUNT, drop=4),
        Column("peak", Unit.BYTES),
    )
    return make_table("Sides", columns, rows, source="comparison.json")


def _facts(side: ProgramSideSummary) -> tuple[Cell, ...]:
    values = (side.step_ns, side.steps, side.runs, side.failed, side.peak_bytes)
    return tuple(Cell(value) for value in values)


def parts_of(found: ProgramComparison) -> tuple[Part, ...]:
    """Return the parts by which a larger report describes one comparison."""
    return (Lines((comparison_line(found), *detail_lines(found))), Notes(found.notes))
