"""Many rows are written as csv.writer writes them, to the byte."""

import csv
import io
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nsysprof.results.column_registry import csv_table
from nsysprof.results.column_registry.csv_table import NumberCells, TextCells, render_blocks

EDGES = [0, 1, 9, 10, 9999, 10_000, 10_001, 99_999_999, 10**8, 2**32 - 1, 2**32, 2**63 - 1, -1, -10_000, -(2**63)]
DOUBLES = [0.0, -0.0, 1e15, 1e15 - 1, 1e16, -7.0, 5e-324, -2.2250738585072014e-308, math.inf, math.nan, 0.1 + 0.2]
ROW = st.tuples(
    st.none() | st.text(st.characters(codec="utf-8", exclude_characters="\0")),
    st.none() | st.sampled_from(EDGES) | st.integers(-(2**63), 2**63 - 1),
    st.integers(0, 2**64 - 1),
    st.none() | st.sampled_from(DOUBLES) | st.floats(),
    st.none() | st.booleans(),
)


def numbers(cells, dtype):
    unknown = np.array([cell is None for cell in cells])
    return NumberCells(np.array([cell or 0 for cell in cells], dtype), unknown if unknown.any() else None)


def by_csv_writer(rows):
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().encode()


@pytest.mark.parametrize("block_rows", [2, 1 << 15])
@settings(max_examples=50)
@given(rows=st.lists(ROW, min_size=1, max_size=7))
def test_the_bytes_are_those_of_csv_writer(rows, block_rows):
    texts, integers, positive, doubles, flags = zip(*rows, strict=True)
    found = [text for text in dict.fromkeys(texts) if text is not None]
    name = TextCells(np.array([-1 if text is None else found.index(text) for text in texts]), [*found, ""])
    numbered = [numbers(integers, np.int64), numbers(positive, np.uint64), numbers(doubles, np.float64)]
    numbered[2].values[[cell is not None and cell == 0 for cell in doubles]] = 0.0  # `or` took its sign
    columns = [numbered[0], name, numbered[1], numbers(flags, bool), numbered[2], name]
    doubles = [0.0 if cell is not None and cell == 0 else cell for cell in doubles]
    cells = list(zip(integers, texts, positive, flags, doubles, texts, strict=True))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(csv_table, "_BLOCK_ROWS", block_rows)
        assert b"".join(render_blocks(columns, len(rows))) == by_csv_writer(cells)


def test_a_zero_keeps_its_sign():
    doubles = np.array([-0.0, 0.0, -3.0])
    assert b"".join(render_blocks([NumberCells(doubles, None), NumberCells(doubles, None)], 3)) == (
        b"-0.0,-0.0\n0.0,0.0\n-3.0,-3.0\n"
    )
