"""One page made by hand: its integers are read, and whatever does not fit ends in a refusal."""

import numpy as np
import pytest

from nsysprof.trace.leaf_pages import SLACK, decode
from nsysprof.trace.schema import NULL

SIZE = 512
# Serial types of SQLite's file format and their bytes: 1 byte, 2 bytes, a real, the constants 0 and 1, a text, NULL.
ROW = ((1, b"\xff"), (2, b"\x01\x00"), (7, b"\x40\x08" + bytes(6)), (8, b""), (9, b""), (17, b"ab"), (0, b""))


def cell(key, values):
    header = bytes([len(values) + 1, *(serial for serial, _ in values)])
    payload = header + b"".join(data for _, data in values)
    return bytes([len(payload), key]) + payload


def page(*cells, leaf=13):
    """Return a leaf page with these cells, the first one at its end."""
    data, pointers = bytearray(SIZE), []
    at = SIZE
    for each in cells:
        at -= len(each)
        data[at : at + len(each)] = each
        pointers.append(at)
    data[0], data[3:5] = leaf, len(cells).to_bytes(2, "big")
    for number, place in enumerate(pointers):
        data[8 + 2 * number : 10 + 2 * number] = place.to_bytes(2, "big")
    return data


def read(data, wanted=(0, 1, 2, 3, 4, 5, 6), *, is_only=True):
    buffer = np.frombuffer(bytes(data) + bytes(SLACK), dtype=np.uint8).copy()
    out = np.full((len(wanted) + 1, 8), -7, dtype=np.int64)
    bounds = (np.array([each], dtype=np.int64) for each in (NULL, 100))
    columns = np.array(wanted, dtype=np.int64)
    rows = decode(buffer, 1, SIZE, SIZE, columns, *bounds, is_only, out)
    return rows, out[:, : max(rows, 0)].T.tolist()


def test_each_kind_of_value_is_read_as_sqlite_casts_it():
    rows, found = read(page(cell(5, ROW), cell(9, ROW)))
    assert rows == 2
    assert found == [[-1, 256, 3, 0, 1, NULL, NULL, key] for key in (5, 9)]


def test_columns_that_nobody_wants_are_passed_over():
    assert read(page(cell(5, ROW)), (-1, 0, -1, -1, 1))[1] == [[256, 1, -7, -7, -7, 5]]


def test_an_empty_page_is_a_table_only_where_there_is_no_other():
    assert read(page())[0] == 0
    assert read(page(), is_only=False)[0] == -1


@pytest.mark.parametrize(
    "damaged",
    [
        page(cell(5, ROW), leaf=10),
        page(cell(9, ROW), cell(5, ROW)),  # keys that fall
        page(cell(101, ROW)),  # a key above what the page may hold
        page(cell(5, ROW[:3])),  # a row that is older than a column
        page(cell(5, ((10, b""), *ROW[1:]))),  # a reserved serial type
        page(cell(5, ((3, b"\x01"), *ROW[1:]))),  # a value that goes beyond its row
        page(bytes([0]) + cell(5, ROW)[1:]),  # a row without a size
        page(b"\xff\xff\xff\xff\x7f" + cell(5, ROW)),  # a row of more than a page
        bytes(page(cell(5, ROW)))[:8] + b"\x00\x01" + bytes(SIZE - 10),  # a cell within the header of the page
    ],
)
def test_what_does_not_fit_is_left_to_sqlite(damaged):
    assert read(damaged)[0] == -1
