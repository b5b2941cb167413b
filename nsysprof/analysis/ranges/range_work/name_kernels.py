"""Replace the numbers of ranges and kernels in tables by their names."""

from __future__ import annotations

import numpy as np
import pandas as pd

from nsysprof.analysis.ranges.range_evidence import RangeEvidence


def name_kernels(table: pd.DataFrame, evidence: RangeEvidence, columns: tuple[str, ...]) -> pd.DataFrame:
    """Return these columns of the table, with names instead of its `group` and its kernel `number`."""
    keys, names = evidence.attributed.keys, evidence.names
    table = table.reset_index(drop=True)
    group, number = table["group"].to_numpy(dtype=np.int64), table["number"].to_numpy(dtype=np.int64)
    for column, key in (("range", "name"), ("style", "style"), ("domain", "domain")):
        table[column] = keys[key].to_numpy(dtype=object)[group]
    table["name"], table["short_name"] = names.texts[number], names.short[number]
    table["category"], table["label"] = names.category[number], names.label[number]
    return table[list(columns)]
