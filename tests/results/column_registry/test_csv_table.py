"""CSV keeps every number to the last bit, and a spreadsheet finds no formula in it."""

import io

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsysprof.results.column_registry.column import Dtype, FileColumn, TableFile
from nsysprof.results.column_registry.csv_table import empty_table, format_cell, render_csv, set_dtypes

FILE = TableFile("analysis", "x.csv", "One row per x.", (
    FileColumn("name", Dtype.TEXT, "", "Name."), FileColumn("size", Dtype.INTEGER, "B", "Size.", nullable=True),
    FileColumn("avg", Dtype.NUMBER, "ns", "Mean.", nullable=True),
    FileColumn("is_last", Dtype.FLAG, "", "Last.", nullable=True),
    FileColumn("why", Dtype.TEXT, "", "Why.", nullable=True),
))  # fmt: skip
ROWS = st.tuples(
    st.none() | st.integers(-(2**63), 2**63 - 1),
    st.none() | st.floats(allow_nan=False, allow_infinity=False),
    st.none() | st.booleans(),
)


def read_back(data):
    return set_dtypes(pd.read_csv(io.BytesIO(data), dtype="string", keep_default_na=False, na_values=[""]), FILE)


@given(st.lists(ROWS, max_size=5))
def test_numbers_are_read_back_as_they_were(rows):
    table = pd.DataFrame({
        "name": ["k"] * len(rows), "size": pd.array([row[0] for row in rows], dtype="Int64"),
        "avg": pd.array([row[1] for row in rows], dtype="Float64"),
        "is_last": pd.array([row[2] for row in rows], dtype="boolean"), "why": [""] * len(rows),
    })  # fmt: skip
    found = read_back(render_csv(table, FILE))
    for column, number_of_row in (("size", 0), ("is_last", 2)):
        assert [None if cell is pd.NA else cell for cell in found[column]] == [row[number_of_row] for row in rows]
    for cell, (_, average, _) in zip(found["avg"], rows, strict=True):
        # pandas 3.0.0 rounds the last of seventeen digits otherwise.
        assert cell is pd.NA if average is None else cell == pytest.approx(average, rel=1e-15, abs=0)
    assert found["why"].tolist() == [""] * len(rows)


def test_unknown_is_empty_and_a_whole_number_has_no_point():
    table = pd.DataFrame({"name": ["a", "b"], "size": [1.0, np.nan], "avg": [1 / 3, None]})
    assert render_csv(table, FILE) == b"name,size,avg\na,1,0.3333333333333333\nb,,\n"


def test_a_table_without_rows_has_its_columns():
    table = empty_table(FILE)
    assert render_csv(table, FILE) == table.to_csv(index=False, lineterminator="\n").encode()


def test_a_column_that_is_not_registered_is_refused():
    with pytest.raises(KeyError, match=r"x\.csv has no registered columns size_ns"):
        render_csv(pd.DataFrame({"size_ns": [1]}), FILE)


def test_a_fraction_among_integers_is_refused():
    with pytest.raises(ValueError, match="size must be whole"):
        set_dtypes(pd.DataFrame({"size": ["1.5"]}, dtype="string"), FILE)
    with pytest.raises(ValueError, match="size must be whole"):
        render_csv(pd.DataFrame({"size": [1.5]}), FILE)


def test_cells_without_a_table_have_the_same_format():
    assert [format_cell(value) for value in (None, float("nan"), 0, 2**60, 0.1 + 0.2, True, "x")] == [
        "", "", "0", "1152921504606846976", "0.30000000000000004", "True", "x",
    ]  # fmt: skip


def test_a_spreadsheet_sees_text():
    assert format_cell("=1+1") == "'=1+1"
    assert format_cell("kernel<int>") == "kernel<int>"
    assert render_csv(pd.DataFrame({"name": ["@x"]}), FILE) == b"name\n'@x\n"


def test_a_long_table_is_written_as_a_short_one():
    rows = 1001
    table = pd.DataFrame({
        "name": ["b, c", "=1", None] * (rows // 3) + ["x"] * (rows % 3), "size": [None, *range(1, rows)],
        "avg": np.arange(rows) / 4, "is_last": pd.array([True, False, None] * (rows // 3) + [True] * (rows % 3)),
    })  # fmt: skip
    halves = [render_csv(part, FILE).split(b"\n", 1) for part in (table[:501], table[501:])]
    assert render_csv(table, FILE) == b"\n".join([halves[0][0], halves[0][1] + halves[1][1]])
