"""Hold what is known of one trace or of ten thousand: bounded, picklable, and two of them merge into one."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from nsysprof.ranks import distributions
from nsysprof.ranks.collective_waits.collectives import Collectives
from nsysprof.ranks.distributions import Distributions
from nsysprof.results.column_registry.rank_columns import RANK_RANGES
from nsysprof.results.rank_results import Lanes, RankRow

RANGE_COLUMNS = tuple(name for name in RANK_RANGES.names if name != "rank")


@dataclass(frozen=True)
class Partial:
    """The rows and the durations of some traces. It has one row per trace, in order of position."""

    rows: tuple[RankRow, ...]
    durations: Distributions


@dataclass(frozen=True)
class Detail:
    """What only the final overview needs of one trace. It stays on disk and takes no part in merging."""

    # One row per (range, style, domain), with RANGE_COLUMNS.
    ranges: pd.DataFrame
    collectives: Collectives | None
    lanes: Lanes | None


@dataclass(frozen=True)
class Leaf:
    """The share of one trace."""

    partial: Partial
    detail: Detail


def merge(first: Partial, second: Partial) -> Partial:
    """Return both merged. The operation is associative and commutative."""
    rows = sorted((*first.rows, *second.rows), key=lambda row: row.position)
    return Partial(tuple(rows), distributions.merge(first.durations, second.durations))


def failed(row: RankRow) -> Leaf:
    """Return the share of a trace that could not be read: its row alone."""
    nothing = pd.DataFrame({column: [] for column in RANGE_COLUMNS})
    return Leaf(Partial((row,), distributions.empty()), Detail(nothing, None, None))
