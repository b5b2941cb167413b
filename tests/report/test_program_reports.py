"""What `analyze` says in the terminal of each program that was recorded on an H200, so that a change of it is seen.

The tables are there for six programs. scripts/oracle.py computes the tables of all a second time.

`pytest -m '' tests/report/test_program_reports.py --snapshot-update` writes the snapshots anew. Small traces are tested
always, in less than 10 s; the others are marked slow.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from nsysprof.app.analyze import analyze_trace
from nsysprof.report.formats.console import render_console
from nsysprof.report.pages.analysis import analysis_report
from tests.conftest import REPOSITORY

WHOLE = ("train-all", "cupy", "emit_nvtx", "layers-eager", "power", "two_processes")
SLOW_BYTES = 300_000  # compressed
FOLDERS = ("h200-programs", "h200-forms", "h200-ranges", "h200-ddp-even")
TRACES = {
    f"{folder}/{path.name.removesuffix('.sqlite.xz')}": path
    for folder in FOLDERS
    for path in sorted((REPOSITORY / "traces" / folder).glob("*.xz"))
    if path.name != "rank00001.sqlite.xz"  # much like rank 0
}
PROGRAMS = [
    pytest.param(name, id=name.partition("/")[2], marks=[pytest.mark.slow] if path.stat().st_size > SLOW_BYTES else [])
    for name, path in TRACES.items()
]


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_report_of_a_program(program: str, trace_path: Callable[[str], Path], snapshot: SnapshotAssertion) -> None:
    text = render_console(analysis_report(analyze_trace(trace_path(program)), None), 120)
    assert "\nCoverage:" in text
    assert (text if program.endswith(WHOLE) else without_tables(text)) == snapshot


def without_tables(text: str) -> str:
    head, _, tables = text.partition("\nIdle time by cause")
    return head + tables[tables.rindex("\nCoverage:") :] if tables else text
