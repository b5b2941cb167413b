"""Define the partial result of one trace or of ten thousand: bounded, picklable, and mergeable."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pandas as pd

from nsysprof.ranks import distributions
from nsysprof.ranks.collective_waits.collectives import Collectives
from nsysprof.ranks.distributions import Distributions
from nsysprof.ranks.job_facts import JobFacts
from nsysprof.ranks.replay.rank_graph import RankGraph
from nsysprof.results.column_registry.rank_columns import RANK_RANGES
from nsysprof.results.rank_results import Lanes, RankRow

RANGE_COLUMNS = tuple(name for name in RANK_RANGES.names if name != "rank")


@dataclass(frozen=True)
class Partial:
    """The rows and the durations of some traces, with one row per trace in order of position."""

    rows: tuple[RankRow, ...]
    durations: Distributions


@dataclass(frozen=True)
class Detail:
    """What only the final overview needs from one trace. It stays on disk and is not merged."""

    # One row per (range, style, domain), with RANGE_COLUMNS.
    ranges: pd.DataFrame
    collectives: Collectives | None
    lanes: Lanes | None
    # The energy of its boards by range, with the columns of rank_energy.csv but the rank.
    energy: pd.DataFrame = field(default_factory=pd.DataFrame)
    facts: JobFacts = field(default_factory=JobFacts)
    # Its last steps, where a finding about the job's communication may need their replay.
    graph: RankGraph | None = None


@dataclass(frozen=True)
class Leaf:
    """The result of one trace."""

    partial: Partial
    detail: Detail


def merge_partials(partials: Sequence[Partial]) -> Partial:
    """Return several merged into one. The operation is associative and commutative."""
    rows = sorted((row for partial in partials for row in partial.rows), key=lambda row: row.position)
    return Partial(tuple(rows), distributions.merge_all([partial.durations for partial in partials]))


def failed(row: RankRow) -> Leaf:
    """Return the result of a trace that could not be read: only its row."""
    nothing = pd.DataFrame({column: [] for column in RANGE_COLUMNS})
    return Leaf(Partial((row,), distributions.empty()), Detail(nothing, None, None))
