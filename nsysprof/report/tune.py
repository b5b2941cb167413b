"""What a tuner adds to the report of a bench: winners, insights, cost, and how to use the policy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pandas as pd

from nsysprof.report.bench_tables import format_median, shape_columns, shape_label
from nsysprof.report.escape import clean, escape_markdown, escape_mathtext
from nsysprof.report.markdown import render_table
from nsysprof.report.palette import BACKEND_COLORS, INK, new_figure
from nsysprof.report.tables import Table, value
from nsysprof.units import UNKNOWN, format_ratio

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_OTHERS = ("#7B3294", "#6b7683", "#8c510a", "#01665e")
_TIE = "#e3e7ec"
_UNKNOWN = "#ffffff"
_MOST_PANELS = 12
_HOUR_NS = 3600e9


def winner_table(winners: pd.DataFrame) -> Table:
    """The best backend of each shape, and by how much."""
    columns = _varied(winners)
    rows = [
        (
            *(str(row[column]) for column in columns),
            str(row["backend"]) or UNKNOWN,
            _verdict(row),
            format_median(row),
            f"{format_ratio(value(row['margin']))} {row['runner_up']}".strip(),
            format_ratio(value(row["over_auto"])),
        )
        for row in winners.to_dict("records")
    ]
    headers = (*columns, "best", "verdict", "median [95 %]", "next slower", "auto over best")
    text = frozenset({len(columns), len(columns) + 1})
    return Table("Best backend by shape", headers, tuple(rows), text, len(rows), "winners.csv")


def cost_table(winners: pd.DataFrame, price: float) -> Table:
    """What a million calls cost with the best backend and with torch's own choice, at a price for an hour of GPU."""
    columns = _varied(winners)
    rows = []
    for row in winners[winners["median_ns"].notna()].to_dict("records"):
        best = price * row["median_ns"] * 1e6 / _HOUR_NS
        over = value(row["over_auto"])
        auto = UNKNOWN if over is None else f"{best * over:.4f}"
        rows.append((*(str(row[column]) for column in columns), str(row["backend"]), f"{best:.4f}", auto))
    headers = (*columns, "best", "a million calls", "with auto")
    title = f"Cost at {price:g} an hour of GPU, the GPU kept busy"
    return Table(title, headers, tuple(rows), frozenset({len(columns)}), len(rows), "winners.csv")


def render_tuning(
    winners: pd.DataFrame, insights: Sequence[str], *, price: float | None, policy: str | None, budget_note: str
) -> list[str]:
    """Markdown lines for the part of the report after the verdicts."""
    parts = ["## What follows", "", *(f"- {escape_markdown(line)}" for line in insights)]
    parts += [f"- {escape_markdown(budget_note)}"] if budget_note else []
    parts += ["", "![winners](winners.png)", "", *render_table(_cut(winner_table(winners), 64))]
    if price is not None:
        parts += render_table(_cut(cost_table(winners, price), 30))
    if policy is not None:
        parts += [
            "## How to use it",
            "",
            "```python",
            "import nsysprof",
            "import torch.nn.functional as F",
            "",
            f'with nsysprof.policy("{clean(policy)}"):',
            "    out = F.scaled_dot_product_attention(q, k, v, is_causal=True)",
            "```",
            "",
            "It holds for these shapes on this GPU with these versions; anything else is left to torch. A shorter",
            "sequence is other work and no speedup: see docs/tune.md.",
            "",
        ]
    return parts


def _cut(table: Table, rows: int) -> Table:
    return replace(table, rows=table.rows[:rows])


def draw_winners(winners: pd.DataFrame) -> Figure | None:
    """A heat map: the best backend's colour, and in the cell how much longer the next one takes; ties are grey."""
    if len(winners) == 0:
        return None
    across = "seq"
    down = next((column for column in ("batch", "heads", "head_dim") if winners[column].nunique() > 1), "batch")
    rest = [c for c in shape_columns(winners) if c not in (across, down) and winners[c].nunique(dropna=False) > 1]
    panels = list(winners.groupby(rest, sort=True, dropna=False)) if rest else [((), winners)]
    shown = panels[:_MOST_PANELS]
    columns = min(2 if winners[across].nunique() > 3 else 3, len(shown))
    lines = -(-len(shown) // columns)
    rows = winners[down].nunique()
    figure = new_figure(0.9 + lines * (0.55 + 0.56 * max(2, rows)))
    grid = figure.subplots(lines, columns, squeeze=False)
    colors = _colors(winners)
    for axes, (key, cells) in zip(grid.flat, shown, strict=False):
        _draw_panel(axes, cells, across, down, colors)
        if rest:
            values = key if isinstance(key, tuple) else (key,)
            axes.set_title(escape_mathtext(shape_label(rest, values)), fontsize=9, loc="left", color=INK)
    for axes in list(grid.flat)[len(shown) :]:
        axes.set_visible(False)
    from matplotlib.patches import Patch

    won = set(winners[winners["verdict"] != "tie"]["backend"])
    handles = [Patch(color=c, label=escape_mathtext(clean(n, 30))) for n, c in colors.items() if n in won]
    handles.append(Patch(color=_TIE, label="tie"))
    figure.legend(handles=handles, loc="outside upper left", ncols=min(7, len(handles)), fontsize=9, frameon=False)
    more = f"; {len(shown)} of {len(panels)} panels, all rows are in winners.csv" if len(panels) > len(shown) else ""
    figure.supxlabel(
        f"how much longer the next slower backend takes; in grey, the names of a tie{more}", fontsize=9, color=INK
    )
    return figure


def _colors(winners: pd.DataFrame) -> dict[str, str]:
    names = [name for name in dict.fromkeys(winners["backend"]) if name]
    others = iter(_OTHERS * len(names))
    return {name: BACKEND_COLORS[name] if name in BACKEND_COLORS else next(others) for name in names}


def _draw_panel(axes: Axes, cells: pd.DataFrame, across: str, down: str, colors: dict[str, str]) -> None:
    from matplotlib.patches import Rectangle

    xs, ys = sorted(cells[across].unique()), sorted(cells[down].unique())
    for row in cells.to_dict("records"):
        x, y = xs.index(row[across]), ys.index(row[down])
        tie = row["verdict"] == "tie"
        color = _UNKNOWN if not row["backend"] else _TIE if tie else colors[row["backend"]]
        axes.add_patch(Rectangle((x - 0.48, y - 0.46), 0.96, 0.92, facecolor=color, linewidth=0))
        axes.annotate(_cell_text(row), (x, y), ha="center", va="center", fontsize=7.5, color=INK if tie else "white")
    axes.set_xlim(-0.5, len(xs) - 0.5)
    axes.set_ylim(len(ys) - 0.5, -0.5)
    axes.set_xticks(range(len(xs)), [f"S={x}" if across == "seq" else str(x) for x in xs], fontsize=8)
    axes.set_yticks(range(len(ys)), [f"{down}={y}" for y in ys], fontsize=8)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)


def _cell_text(row: dict[Any, Any]) -> str:
    margin = value(row["margin"])
    if row["verdict"] == "tie":
        names = sorted([str(row["backend"]), *str(row["tied"]).split(", ")])
        lines = [clean(name, 14) for name in names[:3]] + (["…"] if len(names) > 3 else [])
    else:
        lines = []
    return "\n".join(lines if margin is None else [*lines, f"{100 * (margin - 1):+.0f} %"])


def _verdict(row: dict[Any, Any]) -> str:
    return f"tie with {row['tied']}" if row["verdict"] == "tie" else str(row["verdict"])


def _varied(winners: pd.DataFrame) -> list[str]:
    columns = shape_columns(winners)
    return [column for column in columns if column == "seq" or winners[column].nunique(dropna=False) > 1]
