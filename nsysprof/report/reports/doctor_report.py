"""Compose the report of `doctor`: every check, how to fix what does not work, and how many problems there are."""

from __future__ import annotations

from collections.abc import Sequence

from nsysprof.report.document import Column, Lines, Report, Section, Unit, make_table
from nsysprof.results.checks import Check, State

_COLUMNS = (Column("what"), Column("state"), Column("found", Unit.PROSE))
# Every check matters, so no format leaves any out.
_ALL = 1000


def doctor_report(checks: Sequence[Check]) -> Report:
    """Return the table of all checks, a line with the fix of each that has one, and the number of problems."""
    rows = [(check.name, check.state.value, check.found) for check in checks]
    table = make_table("This machine", _COLUMNS, rows, terminal_rows=_ALL, document_rows=_ALL)
    fixes = tuple(f"{check.state.value}: {check.name}: {check.found} -> {check.fix}" for check in checks if check.fix)
    count = sum(check.state is State.PROBLEM for check in checks)
    problems = "no problem found" if not count else "1 problem" if count == 1 else f"{count} problems"
    return Report(
        "doctor",
        (
            Section("", (table, Lines(fixes, terminal_lines=_ALL))),
            Section("", (Lines((problems,), is_verdict=True),), is_conclusion=True),
        ),
    )
