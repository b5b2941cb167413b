"""Name the types of arrays, and group the rows of a table by a key without a second table in memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

Int64s = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


def rows_by_key(keys: pd.Series, rows: Int64s | None = None) -> list[tuple[Any, Int64s]]:
    """Return pairs (key, its rows) in order of key. Rows without a key are in no group.

    rows: the row of each key; None means 0, 1, 2 and so on.
    """
    codes, unique = pd.factorize(keys, sort=True)
    order = np.argsort(codes, kind="stable")
    edges = np.searchsorted(codes[order], np.arange(len(unique) + 1))
    ordered = order if rows is None else rows[order]
    return [(key, ordered[edges[number] : edges[number + 1]]) for number, key in enumerate(unique)]
