"""Evaluate a tuning: one row per shape with its winner or tie, the choices of a policy, and sentences on the result."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from nsysprof.analysis.sampling.bench import is_allowed, is_approximate, refused, unsettled
from nsysprof.analysis.sampling.latency import block_medians
from nsysprof.analysis.sampling.significance import (
    INTERIM_ALPHA,
    POWER,
    CaseVerdict,
    Turns,
    compare_shape,
    fit_differences,
    turns_of,
)
from nsysprof.attention.shape import SHAPE_COLUMNS, Case, Shape, named_columns, shape_of_row, varied_columns
from nsysprof.results.column_registry.case_columns import WINNERS
from nsysprof.results.samples import OK, Block

# With fewer processes, a pair that was measured again could not be tested.
LEAST_AGAIN = 2
WINNER, TIE, OPEN, ALONE, UNKNOWN = "winner", "tie", "inconclusive", "alone", "unknown"
AUTO = "auto"
# Why a shape is left to torch although another backend has less work on the GPU.
LAUNCHING = "launching"
# The status of a case that the search did not come to.
NOT_RUN = "not_run"


def cells_to_measure(cells: Sequence[Case], blocks: Sequence[Block], most: int, allow_error: float = 0.0) -> list[int]:
    """Return the cells that need more blocks. Cells that ever failed are not measured again.

    Approximate cells whose error is not allowed compete with none.
    """
    own: list[list[Block]] = [[] for _ in cells]
    for block in blocks:
        own[block.cell].append(block)
    medians = [block_medians(cell_blocks) for cell_blocks in own]
    failed = {block.cell for block in blocks if block.status != OK}
    groups: dict[tuple[Shape, str], dict[str, int]] = {}
    for cell, case in enumerate(cells):
        if cell not in failed:
            apart = is_approximate(case, own[cell]) and not is_allowed(own[cell], allow_error)
            groups.setdefault((case.shape, case.backend if apart else ""), {})[case.backend] = cell
    turns: list[dict[str, Turns]] = [
        {name: turns_of(own[cell]) for name, cell in group.items()} for group in groups.values()
    ]
    chosen = []
    for group, slower in zip(groups.values(), _slower(turns), strict=True):
        chosen += [group[name] for name in unsettled({n: medians[c] for n, c in group.items()}, slower, most)]
    return sorted(chosen)


def _slower(shapes: Sequence[Mapping[str, Turns]]) -> list[set[str]]:
    """Return for each shape the backends that are certainly slower than another, at the level of an interim test."""
    prior = fit_differences(shapes)
    return [
        {
            candidate
            for (_, candidate), pair in compare_shape(shape, prior).items()
            if pair.verdict(INTERIM_ALPHA) is CaseVerdict.SLOWER
        }
        for shape in shapes
    ]


def cells_to_confirm(cells: Sequence[Case], table: pd.DataFrame) -> list[int]:
    """Return the cells to measure again: of each shape with a claim, the best two and torch's own choice.

    A shape has a claim if it has a winner, or if a policy would replace torch's own choice, which was measured.

    table: the table of summarize_bench, one row per cell, from what the search measured.
    """
    ranks: dict[Shape, list[tuple[int, int]]] = {}
    for cell, rank in enumerate(table["rank"]):
        if pd.notna(rank):
            ranks.setdefault(cells[cell].shape, []).append((int(rank), cell))
    cells_again = []
    for choice in choose_backends(find_winners(table)):
        ranked = [cell for _, cell in sorted(ranks[choice.shape])]
        auto = [cell for cell in ranked if cells[cell].backend == AUTO]
        if len(ranked) > 1 and (choice.why == WINNER or (auto and choice.backend != AUTO)):
            cells_again += [*ranked[:2], *(cell for cell in auto if cell not in ranked[:2])]
    return sorted(cells_again)


def replace_by_again(table: pd.DataFrame, again: pd.DataFrame) -> tuple[pd.DataFrame, frozenset[Shape]]:
    """Return the table in which the cells that were measured again have only those results, and their shapes.

    The best backend of a search is partly the luckiest, so its gain is computed from processes that the search has not
    seen.

    table, again: tables of summarize_bench, one row per cell; `again` is from the processes that measured winners
        again.
    """
    rows = table.to_dict("records")
    shapes: dict[Shape, list[int]] = {}
    for number, row in enumerate(again.to_dict("records")):
        if row["status"] == OK and (row["processes"] or 0) >= LEAST_AGAIN:
            rows[number] = row
            shapes.setdefault(shape_of_row(row), []).append(number)
    for shape, confirmed in shapes.items():
        others = [
            number
            for number, row in enumerate(rows)
            if number not in confirmed and pd.notna(row["rank"]) and shape_of_row(row) == shape
        ]
        best = min(rows[number]["median_ns"] for number in confirmed)
        for place, number in enumerate(sorted(others, key=lambda index: int(rows[index]["rank"])), len(confirmed) + 1):
            rows[number] |= {"rank": place, "against_best": rows[number]["median_ns"] / best,
                             "against_best_low": None, "against_best_high": None}  # fmt: skip
    return pd.DataFrame(rows, columns=list(table.columns)), frozenset(shapes)


def find_winners(table: pd.DataFrame, again: Collection[Shape] = ()) -> pd.DataFrame:
    """Return one row per shape, from the table of summarize_bench.

    The columns are those of the shape, and:
    backend: the backend with the lowest median.
    verdict: winner, tie (the backends in `tied` are shown to be within the margin), inconclusive, alone, or unknown
        (nothing ran).
    tied: the other backends that are not shown to be slower.
    median_ns, low_ns, high_ns: the median of the best backend and its interval.
    runner_up: the fastest backend that is slower and not in the tie.
    margin: the median of the runner-up divided by the best median.
    over_auto: the median of torch's own choice divided by the best median; None where torch's choice was not measured.
    measured_again: whether the best backends were measured again, so that these numbers come from fresh processes.

    again: the shapes whose best backends were measured again.
    """
    columns = [column for column in SHAPE_COLUMNS if column in table]
    rows = []
    for key, members in table.groupby(columns, sort=False, dropna=False):
        shape = dict(zip(columns, key, strict=True))
        ranked = members[members["rank"].notna()].sort_values("rank")
        rows.append({**shape, **_winner(ranked), "measured_again": shape_of_row(shape) in again})
    found = pd.DataFrame(rows)
    return found[[name for name in WINNERS.names if name in found]]


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
        "verdict": _outcome(rest, same),
        "tied": ", ".join(same["backend"]),
        "median_ns": best["median_ns"],
        "low_ns": best["low_ns"],
        "high_ns": best["high_ns"],
        "runner_up": behind.iloc[0]["backend"] if len(behind) else "",
        "margin": behind.iloc[0]["median_ns"] / best["median_ns"] if len(behind) else None,
        "over_auto": auto.iloc[0]["median_ns"] / best["median_ns"] if len(auto) else None,
    }


def failed_shapes(table: pd.DataFrame) -> dict[Shape, str]:
    """Return the shapes for which every backend failed, each with the reason: the one that torch's own choice gave.

    Without torch's own choice among the backends, it is the reason of the first one.

    table: of summarize_bench, a row a cell.
    """
    groups: dict[Shape, list[dict[Any, Any]]] = {}
    for row in table.to_dict("records"):
        groups.setdefault(shape_of_row(row), []).append(row)
    reasons = {}
    for shape, rows in groups.items():
        if all(pd.isna(row["rank"]) and row["status"] not in (OK, NOT_RUN) for row in rows):
            first = next((row for row in rows if row["backend"] == AUTO), rows[0])
            words, reason = str(first["status"]).replace("_", " "), str(first["reason"] or "")
            reasons[shape] = f"{words}: {reason}" if reason else words
    return reasons


def launch_shares(table: pd.DataFrame) -> dict[Shape, float]:
    """Return the part of the time of torch's own choice that is launching (0 to 1), for each shape where it is known.

    table: of summarize_bench, a row a cell.
    """
    known = table[(table["backend"] == AUTO) & table["launch_share"].notna()]
    return {shape_of_row(row).key_without_layout(): float(row["launch_share"]) for row in known.to_dict("records")}


def _outcome(rest: pd.DataFrame, same: pd.DataFrame) -> str:
    if len(rest) == 0:
        return ALONE
    if len(same) == 0:
        return WINNER
    return TIE if (same["verdict"] == CaseVerdict.SAME.value).all() else OPEN


@dataclass(frozen=True)
class Choice:
    """What a policy chooses for one shape."""

    shape: Shape
    # `auto` leaves the shape to torch.
    backend: str
    # "winner", "tie", "inconclusive", "alone", "between" or "launching".
    why: str
    median_ns: float | None
    over_auto: float | None


def choose_backends(winners: pd.DataFrame) -> list[Choice]:
    """Return the choice for each shape that has one: torch's own, unless another backend is shown to be faster."""
    choices = []
    for row in winners[winners["verdict"] != UNKNOWN].to_dict("records"):
        candidates = [row["backend"], *filter(None, str(row["tied"]).split(", "))]
        backend = AUTO if AUTO in candidates or row["verdict"] == OPEN else row["backend"]
        over = row["over_auto"]
        over_auto = None if over is None or over != over else float(over)  # noqa: PLR0124 - NaN
        choices.append(Choice(shape_of_row(row), backend, row["verdict"], row["median_ns"], over_auto))
    return choices


def decides_something(choices: Sequence[Choice]) -> bool:
    """Return whether a policy of these choices says anything: not where all are torch's own and any is undecided."""
    return any(choice.backend != AUTO for choice in choices) or all(choice.why != OPEN for choice in choices)


def insights(table: pd.DataFrame, winners: pd.DataFrame, floor_pct: float | None) -> list[str]:
    """Return what follows from the data, one sentence each. Shapes are compared by time per operation."""
    known = winners[winners["verdict"] != UNKNOWN]
    if len(known) == 0:
        return ["Nothing could be measured."]
    lines = []
    stalled = {shape_of_row(row) for row in refused(table).to_dict("records")}
    is_refused = pd.Series([shape_of_row(row) in stalled for row in known.to_dict("records")], index=known.index)
    told = known[~is_refused]
    won = known[known["verdict"] == WINNER]["backend"].value_counts()
    parts = [f"{name} wins {count}" for name, count in won.items()]
    for verdict, text in ((TIE, "{} {} tied between {}"), (OPEN, "{} {} undecided between {}")):
        rows = told[told["verdict"] == verdict].to_dict("records")
        sets = pd.Series([_tie_names(row) for row in rows], dtype=object).value_counts()
        parts += [text.format(count, "is" if count == 1 else "are", names) for names, count in sets.items()]
    count = int(is_refused.sum())
    parts += [f"{count} {'is' if count == 1 else 'are'} refused, as samples stall"] if count else []
    lines.append(f"Of {len(known)} shapes: {', '.join(parts) or 'only one backend ran each'}.")
    lines += _measured_again(known)
    lines += _against_auto(known, is_refused)
    table = table[[shape_of_row(row) not in stalled for row in table.to_dict("records")]]
    lines += _along(table, "seq", "sequence length")
    lines += _along(table, "kv_seq", "length of k and v") if table["seq"].nunique() == 1 else []
    lines += _along(table, "batch", "batch")
    lines += _along(table, "heads", "heads")
    if floor_pct is not None:
        share = f"would be told in {100 * POWER:g} % of such runs."
        lines.append(f"A difference of {floor_pct:.2g} % between two backends {share}")
    return lines


def _measured_again(known: pd.DataFrame) -> list[str]:
    again = known[known["measured_again"].astype(bool)] if "measured_again" in known else known.iloc[:0]
    if len(again) == 0:
        return []
    kept = int((again["verdict"] == WINNER).sum())
    return [
        f"The best backends of {len(again)} shapes were measured again in fresh processes, and their numbers are from "
        f"these processes: {kept} of them have a winner there too."
    ]


def _tie_names(row: dict[Any, Any]) -> str:
    return " and ".join(sorted([str(row["backend"]), *str(row["tied"]).split(", ")]))


def _shape(table: pd.DataFrame) -> list[str]:
    """Return the columns of a shape. Heads of k and v are among them only where they differ from those of q."""
    return varied_columns(table)


def _against_auto(known: pd.DataFrame, is_refused: pd.Series) -> list[str]:
    """Return what follows for torch's own choice.

    is_refused: which shapes stalled, so that more processes tell nothing before the machine is quiet.
    """
    measured = known[known["over_auto"].notna() & ~is_refused]
    stalled = int((known["over_auto"].notna() & is_refused).sum())
    count = len(measured) + stalled
    unknown = [
        f"Whether torch's own choice is beaten is unknown on {stalled} of {count} shapes, whose samples stall: measure "
        "them again where nothing else runs."
    ]
    if len(measured) == 0:
        return unknown if stalled else []
    tied = pd.Series(
        [AUTO in (row["backend"], *str(row["tied"]).split(", ")) for row in measured.to_dict("records")],
        index=measured.index,
    )
    beaten = measured[~tied].sort_values("over_auto", ascending=False)
    undecided = measured[tied & (measured["verdict"] == OPEN)]
    lines = []
    if len(beaten):
        worst = beaten.iloc[0]
        lines.append(
            f"Torch's own choice is beaten on {len(beaten)} of {count} shapes, most by {worst['backend']} at "
            f"{_label(worst, known)}: {worst['over_auto']:.3g} times as long."
        )
    if len(undecided):
        lines.append(
            f"Whether torch's own choice is beaten is undecided on {len(undecided)} of {count} shapes. It took "
            f"up to {undecided['over_auto'].max():.3g} times as long as the fastest there; more processes decide it."
        )
    lines += unknown if stalled else []
    if not lines:
        lines = [f"Torch's own choice is beaten nowhere on these {len(measured)} shapes: no policy is needed for them."]
    return lines


def _label(row: pd.Series, table: pd.DataFrame) -> str:
    return ", ".join(f"{column}={row[column]}" for column in named_columns(table))


def _along(table: pd.DataFrame, column: str, name: str) -> list[str]:
    """Return a sentence on how the best backend's time per operation changes along one dimension.

    The other dimensions have their first value.
    """
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
