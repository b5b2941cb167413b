"""Compose the report of `tune`: the winners, what follows from them, what they cost, and how to use the policy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from nsysprof.attention.shape import named_columns
from nsysprof.notes import Note
from nsysprof.report.document import (
    Cell,
    Code,
    Column,
    Figure,
    Lines,
    Notes,
    Paragraph,
    Report,
    Section,
    Table,
    Unit,
    make_table,
)
from nsysprof.report.pages.bench import median_cell
from nsysprof.results.roof import known

_HOUR_NS = 3600e9
_CSV = "winners.csv"


def tuning_report(sections: Sequence[Section], notes: Sequence[Note]) -> Report:
    """Return what the terminal shows of a tuning."""
    return Report("tune", (*sections, Section("", (Notes(tuple(notes)),))))


def tuning_sections(
    winners: pd.DataFrame,
    insights: Sequence[str],
    *,
    price: float | None,
    policy: str | None,
    budget_note: str,
    figures: Sequence[Figure] = (),
) -> list[Section]:
    """Return the part of a tuning's report that follows the verdicts.

    price: the price of an hour of the GPU; None for a report without costs.
    policy: the name of the policy's file; None where there is none.
    budget_note: why the search ended; empty where it was completed.
    """
    lines = (*insights, *([budget_note] if budget_note else []))
    sections = [
        Section("What follows", (Lines(lines, terminal_lines=1000),)),
        Section("", (*figures, winner_table(winners))),
    ]
    if price is not None:
        sections.append(Section("", (cost_table(winners, price),), in_terminal=False))
    return [*sections, *([] if policy is None else [_how_to_use(policy)])]


def _how_to_use(policy: str) -> Section:
    code = (
        "import nsysprof\nimport torch.nn.functional as F\n\n"
        f'with nsysprof.policy("{policy}"):\n'
        "    out = F.scaled_dot_product_attention(q, k, v, is_causal=True)"
    )
    text = (
        "It holds for these shapes on this GPU with these versions; anything else is left to torch. A shorter sequence "
        "is other work and not a speedup: see `nsysprof help tune`."
    )
    return Section("How to use it", (Code(code, "python"), Paragraph(text)), in_terminal=False)


def winner_table(winners: pd.DataFrame) -> Table:
    """Return the best backend of each shape, and by how much."""
    shape = _varied(winners)
    columns = (
        *(Column(name) for name in shape),
        Column("best", Unit.NAME),
        Column("verdict"),
        Column("median [95 %]", Unit.NS, drop=2),
        Column("next slower", Unit.RATIO, drop=1),
        Column("auto over best", Unit.RATIO, drop=3),
    )
    rows = [
        (
            *(str(row[name]) for name in shape),
            str(row["backend"]) or None,
            _verdict(row),
            median_cell(row),
            Cell(known(row["margin"]), remark=str(row["runner_up"])),
            known(row["over_auto"]),
        )
        for row in winners.to_dict("records")
    ]
    return make_table("Best backend by shape", columns, rows, source=_CSV, terminal_rows=1000, document_rows=64)


def cost_table(winners: pd.DataFrame, price: float) -> Table:
    """Return what a million calls cost with the best backend and with torch's own choice.

    price: the price of an hour of the GPU.
    """
    shape = _varied(winners)
    rows = []
    for row in winners[winners["median_ns"].notna()].to_dict("records"):
        best = price * row["median_ns"] * 1e6 / _HOUR_NS
        over = known(row["over_auto"])
        rows.append(
            (*(str(row[name]) for name in shape), str(row["backend"]), best, None if over is None else best * over)
        )
    columns = (
        *(Column(name) for name in shape),
        Column("best", Unit.NAME),
        Column("a million calls", Unit.PRICE),
        Column("with auto", Unit.PRICE),
    )
    title = f"Cost at {price:g} per hour of GPU, the GPU kept busy"
    return make_table(title, columns, rows, source=_CSV, document_rows=30)


def _verdict(row: dict[Any, Any]) -> str:
    words = {"tie": "tie with", "inconclusive": "not told from"}
    verdict = str(row["verdict"])
    return f"{words[verdict]} {row['tied']}" if verdict in words else verdict


def _varied(winners: pd.DataFrame) -> list[str]:
    return named_columns(winners)
