import json

import numpy as np
import pandas as pd
from hypothesis import given
from hypothesis import strategies as st

from nsysprof.results.column_registry.csv_table import to_records


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), max_size=5))
def test_numbers_keep_all_of_their_digits(values):
    rows = json.loads(json.dumps(to_records(pd.DataFrame({"x": np.array(values, dtype=float)}))))
    assert [row["x"] for row in rows] == values


def test_unknown_is_null_and_types_are_those_of_python():
    table = pd.DataFrame({
        "i": pd.array([1, None], dtype="Int64"), "f": [0.5, float("nan")], "s": pd.array(["a", None], dtype="string"),
        "b": pd.array([True, None], dtype="boolean"), "o": ["x", None],
    })  # fmt: skip
    first, second = to_records(table)
    assert first == {"i": 1, "f": 0.5, "s": "a", "b": True, "o": "x"}
    assert {type(value) for value in first.values()} == {int, float, str, bool}
    assert second == dict.fromkeys("ifsbo")
    assert to_records(table.iloc[:0]) == []
