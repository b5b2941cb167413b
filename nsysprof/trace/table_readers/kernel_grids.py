"""Read the grid and block of each kernel, which the page shows beside it."""

from __future__ import annotations

import numpy as np
import pandas as pd

from nsysprof.trace.columns import Batch, expected_rows, find_columns, read_columns
from nsysprof.trace.open import Trace
from nsysprof.trace.schema import NULL, Int64s

# A page has every row of traces up to this many kernels; those of a larger one are not read.
_MOST_KERNELS = 1_000_000
# The most different grids, whose places fit in 16 bits.
_MOST_GRIDS = 60_000
_TABLE = "CUPTI_ACTIVITY_KIND_KERNEL"
_SIZES = tuple(f"{what}{axis}" for what in ("grid", "block") for axis in "XYZ")


def read_grids(trace: Trace) -> tuple[Int64s, Int64s, Int64s, tuple[str, ...]] | None:
    """Return start and end (ns) of kernels, the place of each one's grid in the texts, and these: `grid 8, block 256`.

    The first text stands for an unknown grid. Kernels that ran at the same time with different grids are left out. None
    where the trace has no grids, or too many kernels or different grids.
    """
    source = find_columns(trace, _TABLE, {"start": "start", "end": "end"}, {name: name for name in _SIZES})
    if source is None or None in source.columns or expected_rows(trace, source.table) > _MOST_KERNELS:
        return None
    columns = read_columns(trace, source, dict.fromkeys(source.names, np.int64), _known)
    if columns is None or not len(columns["start"]):
        return None
    kernels = pd.DataFrame(columns, copy=False)
    sizes = list(_SIZES)
    kernels["place"] = kernels.groupby(sizes, sort=False).ngroup() + 1
    different = kernels.drop_duplicates(sizes)
    if len(different) > _MOST_GRIDS:
        return None
    kernels = kernels[["start", "end", "place"]].drop_duplicates()
    alone = kernels[~kernels.duplicated(["start", "end"], keep=False).to_numpy(dtype=bool)]
    texts = [f"grid {_shape(row[:3])}, block {_shape(row[3:])}" for row in different[sizes].itertuples(index=False)]
    return (alone["start"].to_numpy(), alone["end"].to_numpy(), alone["place"].to_numpy(), ("", *texts))


def _known(batch: Batch) -> Batch:
    """Return the rows whose sizes are all known."""
    known = np.all([batch[name] != NULL for name in _SIZES], axis=0)
    return {name: column[known] for name, column in batch.items()}


def _shape(sizes: tuple[int, ...]) -> str:
    """Return three sizes as text, without the ones at their end: `1024` or `32 x 4`."""
    last = max((number for number, size in enumerate(sizes) if size != 1), default=0)
    return " x ".join(f"{size:,}" for size in sizes[: last + 1])
