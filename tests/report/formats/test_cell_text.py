import pytest

from nsysprof.report.document import Cell, Column, Unit, ValueChange, make_table
from nsysprof.report.formats.cell_text import cell_json, cell_text, sort_key


@pytest.mark.parametrize(
    ("cell", "unit", "text"),
    [
        (Cell(), Unit.NS, "–"),
        (Cell(reason="out of memory"), Unit.NS, "out of memory"),
        (Cell(52_540, low=50_300, high=54_460), Unit.NS, "52.54 [50.30, 54.46] us"),
        (Cell(1.052, low=1.041, high=1.063), Unit.QUOTIENT, "1.052 [1.041, 1.063]"),
        (Cell(738 << 30, error=12 << 30), Unit.BYTES, "738 GiB ± 12 GiB"),
        (Cell(5, before=3), Unit.COUNT, "3 → 5"),
        (Cell(None, before=3), Unit.COUNT, "3 → –"),
        (Cell(5, change=ValueChange(2, Unit.COUNT)), Unit.COUNT, "5 (+2)"),
        (Cell(500, change=ValueChange(-3.1, Unit.PERCENT, "maybe")), Unit.NS, "500 ns (-3.100 % maybe)"),
        (Cell(500, change=ValueChange(96.7, Unit.CHANGE_PERCENT)), Unit.NS, "500 ns (+96.7 %)"),
        (Cell(500, change=ValueChange(37646.0, Unit.CHANGE_PERCENT)), Unit.NS, "500 ns (377x)"),
        (Cell(3.99, Unit.RATIO, remark="as long"), Unit.TEXT, "3.990x as long"),
        (Cell(0.004), Unit.RATIO, "<0.01x"),
        (Cell(0), Unit.RATIO, "<0.01x"),
        (Cell(0.0004), Unit.PROBABILITY, "< 0.001"),
        (Cell(0.5, is_signed=True), Unit.NUMBER, "+0.50"),
        (Cell(True), Unit.TEXT, "yes"),
        (Cell("kernel(int)", full="void kernel(int)"), Unit.NAME, "kernel(int)"),
        (Cell(7), Unit.TEXT, "7"),
    ],
)  # fmt: skip
def test_text(cell, unit, text):
    assert cell_text(cell, Column("a", unit)) == text


def test_cells_sort_by_their_values_whatever_their_texts():
    cells = [Cell(999), Cell(1_500, low=1, high=9_999), Cell(2_000_000), Cell(None, reason="failed")]
    assert [sort_key(cell) for cell in cells] == ["999", "1500", "2000000", ""]
    assert sort_key(Cell("12 monkeys")) == "12 monkeys"


def test_json_has_plain_values_and_more_only_where_there_is_more():
    assert cell_json(Cell(5)) == 5
    assert cell_json(Cell(5, low=4, high=6)) == {"value": 5, "low": 4, "high": 6}
    assert cell_json(Cell(reason="failed")) == {"value": None, "reason": "failed"}


def test_first_rows_keep_the_count_of_all():
    table = make_table("T", [Column("a")], [["x"], ["y"], ["z"]]).first_rows(2)
    assert [row[0].value for row in table.rows] == ["x", "y"]
    assert table.row_count == 3
