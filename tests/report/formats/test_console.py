"""Tables of real traces in terminals of every width: nothing is cut but names, and these still differ."""

from __future__ import annotations

from pathlib import Path

import pytest
from rich.cells import cell_len

from nsysprof.app.analyze import analyze_trace
from nsysprof.report.document import Cell, Column, Item, Ranking, Table, Unit, make_table
from nsysprof.report.formats.console import lay_out, render_part, render_table, table_texts
from nsysprof.report.pages.analysis import analysis_report
from nsysprof.trace.inputs.resolve_input import unpack
from tests.conftest import REPOSITORY

TRACES = sorted((REPOSITORY / "traces").rglob("*.sqlite.xz"))
WIDTHS = (40, 80, 100, 120, 160)
QUICK = {"graphs", "inputs", "mp"}


def tables_of(source: Path, work: Path) -> list[Table]:
    """Return what a terminal shows of the tables of a trace."""
    report = analysis_report(analyze_trace(unpack(source, work)), None)
    parts = [part for section in report.sections if section.in_terminal for part in section.parts]
    return [part.first_rows(part.terminal_rows) for part in parts if isinstance(part, Table) and part.terminal_rows]


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(path, id=path.stem, marks=() if path.name.partition(".")[0] in QUICK else pytest.mark.slow)
        for path in TRACES
    ],
)
def test_only_names_are_shortened_and_they_still_differ(source: Path, tmp_path: Path) -> None:
    tables = tables_of(source, tmp_path)
    assert tables
    for table in tables:
        whole = table_texts(table)
        dropped = len(table.columns)
        for width in WIDTHS:
            layout = lay_out(table, width)
            lines = render_table(table, width).splitlines()
            assert max(map(cell_len, lines), default=0) <= width, f"{table.title} at {width}"
            assert len(layout.cells) == len(table.rows)
            if layout.is_stacked:
                continue
            assert len(table.columns) - len(layout.shown) <= dropped, "a wider terminal shows no less"
            dropped = len(table.columns) - len(layout.shown)
            for place, number in enumerate(layout.shown):
                shown, full = [row[place] for row in layout.cells], [row[number] for row in whole]
                if table.columns[number].unit is Unit.NAME:
                    assert len(set(shown)) == len(set(full)), f"{table.columns[number].title} at {width}: {shown}"
                elif table.columns[number].unit is not Unit.PROSE:
                    assert shown == full, f"{table.columns[number].title} at {width}"


def test_a_column_that_says_nothing_is_named_below_and_nested_names_keep_their_room() -> None:
    columns = [Column("range", Unit.NAME), *(Column(title, Unit.COUNT, drop) for title, drop in (("a", 2), ("b", 1)))]
    names = [f"{letter * 24}.{letter}" for letter in "xyz"]
    table = make_table("T", columns, [(name, 123_456_789, None) for name in names], depths=(0, 3, 3))
    wide, narrow = lay_out(table, 60), lay_out(table, 40)
    assert (wide.shown, narrow.shown) == ((0, 1), (0, 1))
    assert render_table(table, 60).endswith("\nnot known here: b")
    assert all(len(row[0].strip()) >= 20 for row in narrow.cells)
    assert narrow.cells[1][0].startswith(" " * 6)


@pytest.mark.parametrize(("count", "shown"), [(4, True), (5, False)])
def test_a_long_list_of_findings_has_the_gist_of_each_so_that_a_screen_holds_it(count: int, shown: bool) -> None:
    item = Item(
        "sync", "some range of long names", Cell(1000), "It waits, in 3 calls: they read. It is slow.", "Do less."
    )
    lines = render_part(Ranking((item,) * count, "saved per step", source="findings.csv"), 60).splitlines()
    assert max(map(cell_len, lines)) <= 60
    text = " ".join(" ".join(lines).split())
    assert text.count("It waits, in 3 calls") == count
    assert ("It is slow" in text) is shown
    assert text.count("-> Do less.") == (count if shown else 3)
    assert ("The evidence, and what to do about 4 to 5: findings.csv" in text) is not shown
