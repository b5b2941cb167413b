from nsysprof.report.document import Table, list_parts
from nsysprof.report.formats.console import render_console
from nsysprof.report.pages.program import whatif_report
from nsysprof.results.findings import STEP, TRACE, WhatIf, WhatIfAnswer
from tests.report.fixed_results import what_if

SYNC = WhatIfAnswer("--no-sync all", 75, 70, 80)
PINNED = WhatIfAnswer("--pin-copies", 90, 85, 95)
BOTH = WhatIfAnswer("all", 65, 60, 70)


def table(found: WhatIf) -> Table:
    return next(part for part in list_parts(whatif_report(found)) if isinstance(part, Table))


def test_all_changes_together_are_shown_where_there_are_several() -> None:
    several = table(what_if("train", (SYNC, PINNED), BOTH))
    assert [[cell.value for cell in row] for row in several.rows] == [
        ["--no-sync all", 75, 25.0],
        ["--pin-copies", 90, 10.0],
        ["all", 65, 35.0],
    ]
    assert [cell.value for (cell, *_) in table(what_if("train", (SYNC,), SYNC)).rows] == ["--no-sync all"]


def test_the_name_of_a_step_cannot_steer_the_terminal() -> None:
    text = render_console(whatif_report(what_if("st\x1b[2Jep", (SYNC,), SYNC)), 80)
    assert text.startswith("110 ns for a step (st")
    assert "\x1b" not in text


def test_a_trace_without_steps_is_called_a_trace() -> None:
    assert "a step" not in render_console(whatif_report(what_if(TRACE, (SYNC,), SYNC)), 80)


def test_it_says_which_steps_were_replayed_and_how_long_a_usual_one_takes() -> None:
    text = " ".join(render_console(whatif_report(what_if(STEP, (SYNC,), SYNC)), 80).split())
    assert "This is the mean of steps 2 to 3. A steady step takes 120 ns on average." in text
