"""Compose the report of `whatif`: how long a step took, and would take with each change and with all changes."""

from __future__ import annotations

from nsysprof.report.document import Cell, Column, Lines, Report, Section, Unit, Value, make_table
from nsysprof.report.pages.range_rows import step_label
from nsysprof.results.findings import JOB, TRACE, WhatIf, WhatIfAnswer
from nsysprof.units import format_ns

_COLUMNS = (Column("change", Unit.PROSE), Column("would take", Unit.NS), Column("saved", Unit.PERCENT))
_WHOLE = {TRACE: "the trace", JOB: "the job without its warm-up"}
# Each change was requested, so no format leaves any out.
_ALL = 1000


def whatif_report(whatif: WhatIf) -> Report:
    """Return the time as recorded and as replayed, and a row for each change; with several, also one for all."""
    of = _WHOLE.get(whatif.per) or step_label(whatif.per)
    text = f"{format_ns(whatif.recorded_ns)} for {of} as recorded, {format_ns(whatif.replayed_ns)} replayed."
    if whatif.per not in _WHOLE:
        steps = (
            f"step {whatif.first_step}"
            if whatif.first_step == whatif.last_step
            else (f"the mean of steps {whatif.first_step} to {whatif.last_step}")
        )
        text += f" This is {steps}. A steady step takes {format_ns(whatif.step_ns)} on average."
    answers = whatif.answers if len(whatif.answers) == 1 else (*whatif.answers, whatif.together)
    rows = [_row(answer, whatif.replayed_ns) for answer in answers]
    title = f"What {of} would take"
    table = make_table(title, _COLUMNS, rows, terminal_rows=_ALL, document_rows=_ALL)
    assumed = (Lines(whatif.assumptions),) if whatif.assumptions else ()
    return Report("whatif", (Section("", (Lines((text,), is_verdict=True), table, *assumed)),))


def _row(answer: WhatIfAnswer, replayed_ns: int) -> tuple[Cell | Value, ...]:
    step = Cell(answer.step_ns, low=answer.low_ns, high=answer.high_ns)
    return answer.option, step, 100 * (replayed_ns - answer.step_ns) / replayed_ns if replayed_ns else None
