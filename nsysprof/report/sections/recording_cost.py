"""Compose the table of what recording costs each range."""

from __future__ import annotations

from collections.abc import Sequence

from nsysprof.report.document import Cell, Column, Table, Unit, make_table
from nsysprof.results.analysis import MOST_COST, RangeCost

_MOST_ROWS, _TERMINAL_ROWS = 50, 8


def recording_cost_table(costs: Sequence[RangeCost]) -> Table:
    """Return the ranges with the most time, each when recorded and when not (or with only NVTX recorded)."""
    rows = [
        (
            cost.range,
            cost.wall_med_ns,
            cost.plain_wall_med_ns,
            Cell(cost.slowdown, low=cost.slowdown_low, high=cost.slowdown_high),
            cost.instances,
        )
        for cost in costs[:_MOST_ROWS]
    ]
    columns = (
        Column("range", Unit.NAME),
        Column("as recorded", Unit.NS),
        Column("not recorded", Unit.NS),
        Column("times as long", Unit.QUOTIENT),
        Column("instances", Unit.COUNT, drop=1),
    )
    slowed = f"more than {100 * MOST_COST:g} %"
    return make_table(
        "What recording costs",
        columns,
        rows,
        source="recording_cost.csv",
        total_rows=len(costs),
        terminal_rows=_TERMINAL_ROWS,
        marks={number: slowed for number, cost in enumerate(costs[:_MOST_ROWS]) if cost.is_distorted},
        marks_are_bad=True,
    )
