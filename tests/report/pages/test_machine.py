import pytest

from nsysprof.report.formats.console import render_console
from nsysprof.report.pages.machine import doctor_report
from nsysprof.results.checks import Check, State

WORKS = Check("python", State.OK, "Python 3.12.1")
BROKEN = Check("nsys", State.PROBLEM, "does not run", "Install it again.")


@pytest.mark.parametrize(
    ("checks", "last"),
    [
        ([WORKS], "no problem found"),
        ([WORKS, Check("nvtx", State.ABSENT, "not installed", "pip install nvtx")], "no problem found"),
        ([WORKS, BROKEN], "1 problem"),
        ([BROKEN, WORKS, BROKEN], "2 problems"),
    ],
)
def test_only_problems_are_counted(checks: list[Check], last: str) -> None:
    assert render_console(doctor_report(checks), 80).splitlines()[-1] == last


def test_no_check_and_no_fix_is_left_out() -> None:
    lines = render_console(doctor_report([BROKEN] * 60), 80).splitlines()
    assert lines.count("problem: nsys: does not run -> Install it again.") == 60
    assert sum(line.startswith("nsys ") for line in lines) == 60
