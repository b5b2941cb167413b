"""What a tuning found: one row a shape, the winner or the tie, and what follows from the data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from nsysprof.analysis.bench import SHAPE
from nsysprof.analysis.halving import by_median, unsettled
from nsysprof.analysis.latency import Floats, block_medians
from nsysprof.analysis.significance import LEAST_BLOCKS, Verdict, compare_medians, decide, halves, noise_floor
from nsysprof.block import OK, Block
from nsysprof.case import Case

WINNER, TIE, ALONE, UNKNOWN = "winner", "tie", "alone", "unknown"
AUTO = "auto"


def cells_to_measure(cells: Sequence[Case], blocks: Sequence[Block], most: int) -> list[int]:
    """The cells that need more blocks; those that ever failed are out of the race."""
    own: list[list[Block]] = [[] for _ in cells]
    for block in blocks:
        own[block.cell].append(block)
    medians = [block_medians(each) for each in own]
    failed = {block.cell for block in blocks if block.status != OK}
    groups: dict[tuple[Any, ...], dict[str, int]] = {}
    for cell, case in enumerate(cells):
        if cell not in failed:
            groups.setdefault(_work(case), {})[case.backend] = cell
    named = [{name: medians[cell] for name, cell in group.items()} for group in groups.values()]
    floor = noise_floor([halves(values) for values in medians if len(values) >= LEAST_BLOCKS]) or 0.0
    chosen = []
    for group, own_medians, slower in zip(groups.values(), named, _slower(named, floor), strict=True):
        chosen += [group[name] for name in unsettled(own_medians, slower, most)]
    return sorted(chosen)


def _slower(shapes: Sequence[dict[str, Floats]], floor_pct: float) -> list[set[str]]:
    """Of each shape the backends that are slower than its best, corrected for all comparisons of all shapes."""
    pairs = [
        (index, order[0], other)
        for index, shape in enumerate(shapes)
        if (order := by_median(shape))
        for other in order[1:]
    ]
    found = decide([compare_medians(shapes[i][best], shapes[i][other]) for i, best, other in pairs], floor_pct)
    slower: list[set[str]] = [set() for _ in shapes]
    for (index, _, other), comparison in zip(pairs, found, strict=True):
        if comparison is not None and comparison.verdict is Verdict.SLOWER:
            slower[index].add(other)
    return slower


def _work(case: Case) -> tuple[Any, ...]:
    data = case.to_json()
    return tuple(value for key, value in data.items() if key != "backend")


def find_winners(table: pd.DataFrame) -> pd.DataFrame:
    """One row a shape, from the table of summarize_bench.

    Columns: the shape; backend, the one of the least median; verdict: winner, tie, alone, or unknown (nothing ran);
    tied, the others that cannot be told from it; median_ns, low_ns, high_ns; runner_up and margin, the next backend
    that is slower, outside the tie, and its median over the best; over_auto, torch's own choice over the best, None
    where that was not measured.
    """
    columns = [column for column in SHAPE if column in table]
    rows = []
    for key, members in table.groupby(columns, sort=False, dropna=False):
        shape = dict(zip(columns, key, strict=True))
        ranked = members[members["rank"].notna()].sort_values("rank")
        rows.append({**shape, **_winner(ranked)})
    return pd.DataFrame(rows)


def _winner(ranked: pd.DataFrame) -> dict[str, Any]:
    if len(ranked) == 0:
        return {"backend": "", "verdict": UNKNOWN, "tied": "", "median_ns": None, "low_ns": None, "high_ns": None,
                "runner_up": "", "margin": None, "over_auto": None}  # fmt: skip
    best, rest = ranked.iloc[0], ranked.iloc[1:]
    same = rest[~rest["verdict"].isin(("slower", "far behind"))]
    behind = rest[rest["verdict"].isin(("slower", "far behind"))]
    auto = ranked[ranked["backend"] == AUTO]
    return {
        "backend": best["backend"],
        "verdict": ALONE if len(rest) == 0 else TIE if len(same) else WINNER,
        "tied": ", ".join(same["backend"]),
        "median_ns": best["median_ns"],
        "low_ns": best["low_ns"],
        "high_ns": best["high_ns"],
        "runner_up": behind.iloc[0]["backend"] if len(behind) else "",
        "margin": behind.iloc[0]["median_ns"] / best["median_ns"] if len(behind) else None,
        "over_auto": auto.iloc[0]["median_ns"] / best["median_ns"] if len(auto) else None,
    }


@dataclass(frozen=True)
class Choice:
    """What a policy does for one shape. backend: `auto` leaves it to torch. why: winner, tie or alone."""

    shape: dict[str, Any]
    backend: str
    why: str
    median_ns: float
    over_auto: float | None


def choose_backends(winners: pd.DataFrame) -> list[Choice]:
    """The choice for each shape that has one: torch's own wherever nothing was shown to be faster than it."""
    choices = []
    columns = [column for column in SHAPE if column in winners]
    for row in winners[winners["verdict"] != UNKNOWN].to_dict("records"):
        candidates = [row["backend"], *filter(None, str(row["tied"]).split(", "))]
        backend = AUTO if AUTO in candidates else row["backend"]
        over = row["over_auto"]
        over_auto = None if over is None or over != over else float(over)  # noqa: PLR0124 - NaN
        shape = {column: row[column] for column in columns}
        choices.append(Choice(shape, backend, row["verdict"], row["median_ns"], over_auto))
    return choices


def insights(table: pd.DataFrame, winners: pd.DataFrame, floor_pct: float | None) -> list[str]:
    """What follows from the data, a sentence each. Shapes are compared per operation, never by their latency."""
    known = winners[winners["verdict"] != UNKNOWN]
    if len(known) == 0:
        return ["Nothing could be measured."]
    lines = []
    won = known[known["verdict"] == WINNER]["backend"].value_counts()
    tied = known[known["verdict"] == TIE]
    sets = pd.Series([_tie_names(row) for row in tied.to_dict("records")], dtype=object).value_counts()
    parts = [f"{name} wins {count}" for name, count in won.items()]
    parts += [f"{count} are ties of {names}" for names, count in sets.items()]
    lines.append(f"Of {len(known)} shapes: {', '.join(parts) or 'one backend alone ran each'}.")
    lines += _against_auto(known)
    lines += _along(table, "seq", "sequence length")
    lines += _along(table, "batch", "batch")
    lines += _along(table, "heads", "heads")
    if floor_pct is not None:
        lines.append(f"Nothing below the noise floor of {floor_pct:.2f} % counts as a difference.")
    return lines


def _tie_names(row: dict[Any, Any]) -> str:
    return " and ".join(sorted([str(row["backend"]), *str(row["tied"]).split(", ")]))


def _shape(table: pd.DataFrame) -> list[str]:
    """The columns of a shape; heads of k and v only where they are not those of q."""
    grouped = "kv_heads" in table and bool((table["kv_heads"] != table["heads"]).any())
    return [column for column in SHAPE if column in table and (column != "kv_heads" or grouped)]


def _against_auto(known: pd.DataFrame) -> list[str]:
    measured = known[known["over_auto"].notna()]
    if len(measured) == 0:
        return []
    tied = [AUTO in (row["backend"], *str(row["tied"]).split(", ")) for row in measured.to_dict("records")]
    beaten = measured[[not is_tied for is_tied in tied]].sort_values("over_auto", ascending=False)
    if len(beaten) == 0:
        return [f"Torch's own choice is beaten nowhere on these {len(measured)} shapes: no policy is needed for them."]
    worst = beaten.iloc[0]
    return [
        f"Torch's own choice is beaten on {len(beaten)} of {len(measured)} shapes, most by {worst['backend']} at "
        f"{_label(worst, known)}: {worst['over_auto']:.3g} times as long."
    ]


def _label(row: pd.Series, table: pd.DataFrame) -> str:
    varied = [column for column in _shape(table) if column == "seq" or table[column].nunique() > 1]
    return ", ".join(f"{column}={row[column]}" for column in varied)


def _along(table: pd.DataFrame, column: str, name: str) -> list[str]:
    """How the best backend's work a second changes along one dimension, the others at their first value."""
    best = table[table["rank"] == 1]
    others = [other for other in _shape(best) if other != column]
    if len(best) == 0 or best[column].nunique() < 2:
        return []
    first = best.iloc[0]
    line = best
    for other in others:
        if best[other].nunique(dropna=False) > 1:
            line = line[line[other] == first[other]]
    line = line.sort_values(column)
    if len(line) < 2:
        return []
    small, large = line.iloc[0], line.iloc[-1]
    time, work = large["median_ns"] / small["median_ns"], large["flops"] / small["flops"]
    verb = "faster" if work > time else "slower"
    fixed = ", ".join(f"{other}={first[other]}" for other in others if best[other].nunique(dropna=False) > 1)
    where = f" ({fixed})" if fixed else ""
    return [
        f"From {name} {small[column]} to {large[column]}{where} the best takes {time:.3g} times as long for {work:.3g} "
        f"times the operations: {max(work / time, time / work):.3g} times {verb} per operation."
    ]
