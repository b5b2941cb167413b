"""What is known of some traces, of one or of ten thousand: bounded, picklable, and two of them make one."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from nsysprof.rank_results import Lanes, RankRow
from nsysprof.ranks import distributions
from nsysprof.ranks.collectives import Collectives
from nsysprof.ranks.distributions import Distributions

RANGE_COLUMNS = (
    "range", "style", "domain", "instances", "wall_ns", "host_ns", "compute_ns", "comm_ns", "exposed_comm_ns",
    "kernel_count",
)  # fmt: skip


@dataclass(frozen=True)
class Partial:
    """A row for each trace, in order of position, and the durations of all of them."""

    rows: tuple[RankRow, ...]
    durations: Distributions


@dataclass(frozen=True)
class Detail:
    """What only the whole picture needs of one trace; it stays on disk and is in no merge.

    ranges: RANGE_COLUMNS, one row a (range, style, domain).
    """

    ranges: pd.DataFrame
    collectives: Collectives | None
    lanes: Lanes | None


@dataclass(frozen=True)
class Leaf:
    """One trace's share."""

    partial: Partial
    detail: Detail


def merge(first: Partial, second: Partial) -> Partial:
    """Both together; associative and commutative."""
    rows = sorted((*first.rows, *second.rows), key=lambda row: row.position)
    return Partial(tuple(rows), distributions.merge(first.durations, second.durations))


def failed(row: RankRow) -> Leaf:
    """The share of a trace that could not be read."""
    nothing = pd.DataFrame({column: [] for column in RANGE_COLUMNS})
    return Leaf(Partial((row,), distributions.empty()), Detail(nothing, None, None))
