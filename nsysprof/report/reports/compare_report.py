"""Compose the report of `compare`: warnings first, then the verdict, the tables and the gate's result."""

from __future__ import annotations

from collections.abc import Sequence

from nsysprof.files.written_by import VERSION
from nsysprof.report.document import (
    Cell,
    Column,
    Figure,
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
from nsysprof.report.pages.analysis import figure_sections
from nsysprof.report.pages.memory import memory_comparison_parts
from nsysprof.report.sections.compare_tables import (
    difference_lines,
    finding_lines,
    kernel_table,
    latency_table,
    open_questions,
    part_table,
    range_table,
    step_line,
    verdict_line,
    wall_line,
)
from nsysprof.results.checks import Outcome
from nsysprof.results.comparison import Side, VersionComparison

OUTCOMES = {Outcome.PASS: "pass", Outcome.REGRESSION: "REGRESSION", Outcome.INCONCLUSIVE: "inconclusive"}
_SIDE_NAMES = 3


def compare_report(found: VersionComparison, figures: Sequence[Figure] = ()) -> Report:
    """Return the report of a comparison.

    figures: the figures that were drawn, in order.
    """
    title = "nsysprof compare" + (f": {OUTCOMES[found.outcome]}" if found.outcome is not None else "")
    head: list[Part] = [Paragraph(f"{_side(found.baseline)} against {_side(found.candidate)}"), *_forced(found)]
    sections = [Section("", tuple(head))]
    if found.outcome is not None:
        sections.append(Section(f"gate: {OUTCOMES[found.outcome]}", (Gate(found.gate),), is_conclusion=True))
    lines = filter(None, (step_line(found), wall_line(found), verdict_line(found)))
    sections.append(Section("", (Lines(tuple(lines), is_verdict=True),)))
    changed = finding_lines(found.findings)
    if changed:
        sections.append(Section("Findings", (Lines(tuple(changed)),)))
    if found.memory is not None:
        sections.append(Section("Memory of torch's allocator", memory_comparison_parts(found.memory)))
    sections += figure_sections(figures)
    tables = (latency_table(found), range_table(found), part_table(found), kernel_table(found))
    floor = floor_lines(found)
    sections += [
        Section("", (*tables, Lines(open_questions(found)), Lines(floor))),
        Section("Notes", (Notes(found.notes),)),
        Section(
            "Method and environment",
            (Lines(found.method), _environment_table(found)),
            in_terminal=False,
            is_folded=True,
        ),
    ]
    return Report(title, tuple(sections))


def _side(side: Side) -> str:
    names = ", ".join(side.inputs[:_SIDE_NAMES])
    more = f" and {len(side.inputs) - _SIDE_NAMES} more" if len(side.inputs) > _SIDE_NAMES else ""
    return f"{names}{more} ({', '.join(side.kinds)})"


def _forced(found: VersionComparison) -> list[Part]:
    if not found.differences:
        return []
    text = "NOT COMPARABLE, compared because of --ignore-conditions. A change may come from these differences:"
    return [Paragraph(text, is_warning=True), Lines(difference_lines(found.differences))]


def floor_lines(found: VersionComparison) -> tuple[str, ...]:
    """Return the noise floor that differences had to exceed, where it is known."""
    latency = found.latency
    if not latency.changes or latency.floor_pct is None:
        return ()
    return (f"noise floor of one {latency.unit}: {latency.floor_pct:.2f} %, {latency.floor_from}",)


def _environment_table(found: VersionComparison) -> Table:
    old, new = found.baseline.environment, found.candidate.environment
    rows: list[tuple[Cell, Cell, Cell]] = [(Cell("nsysprof"), Cell(VERSION), Cell(VERSION))]
    for fact in dict.fromkeys((*old, *new)):
        cells = (Cell(str(side.get(fact, "differs or unknown"))) for side in (old, new))
        rows.append((Cell(fact), *cells))  # type: ignore[arg-type]
    columns = (Column("what"), Column("baseline", Unit.PROSE), Column("candidate", Unit.PROSE))
    return make_table("Environment", columns, rows, document_rows=100)
