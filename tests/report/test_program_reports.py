"""What `analyze` says in the terminal of each program that was recorded on an H200, so that a change of it is seen.

`pytest -m slow tests/report/test_program_reports.py --snapshot-update` writes the snapshots anew.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from nsysprof.app.trace_analysis.analyze_trace import analyze_trace
from nsysprof.report.formats.console import render_console
from nsysprof.report.reports.analysis_report import analysis_report
from tests.conftest import REPOSITORY

PROGRAMS = sorted(
    f"{folder}/{path.name.removesuffix('.sqlite.xz')}"
    for folder in ("h200-programs", "h200-forms", "h200-ranges", "h200-ddp-even")
    for path in (REPOSITORY / "traces" / folder).glob("*.xz")
    if path.name != "rank00001.sqlite.xz"  # much like rank 0
)


@pytest.mark.slow
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.partition("/")[2])
def test_the_report_of_a_program(program: str, trace_path: Callable[[str], Path], snapshot: SnapshotAssertion) -> None:
    text = render_console(analysis_report(analyze_trace(trace_path(program)), None), 120)
    assert "Coverage:" in text
    assert text == snapshot
