"""Draw the heat map of a tuning: the best backend of each shape, and by how much it is better."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pandas as pd

from nsysprof.attention.shape import varied_columns
from nsysprof.report.figures.style.palette import BACKEND_COLORS, INK, new_figure
from nsysprof.report.formats.escape import clean, escape_mathtext
from nsysprof.report.wording import shape_label
from nsysprof.results.roof import known
from nsysprof.units import format_factor

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_OTHERS = ("#7B3294", "#6b7683", "#8c510a", "#01665e")
_UNDECIDED = ("tie", "inconclusive")
_TIE = "#e3e7ec"
_UNKNOWN = "#ffffff"
_MOST_PANELS = 12


def draw_winners(winners: pd.DataFrame) -> Figure | None:
    """Draw a heat map: the best backend's colour, and how much longer the next one takes. Ties are grey.

    Return None where no shape has a winner.
    """
    if len(winners) == 0:
        return None
    across = "seq"
    down = next((column for column in ("batch", "heads", "head_dim") if winners[column].nunique() > 1), "batch")
    rest = [c for c in varied_columns(winners) if c not in (across, down) and winners[c].nunique(dropna=False) > 1]
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

    won = set(winners[~winners["verdict"].isin(_UNDECIDED)]["backend"])
    handles = [Patch(color=c, label=escape_mathtext(clean(n, 30))) for n, c in colors.items() if n in won]
    handles.append(Patch(color=_TIE, label="tie or undecided"))
    figure.legend(handles=handles, loc="outside upper left", ncols=min(7, len(handles)), fontsize=9, frameon=False)
    more = f"; {len(shown)} of {len(panels)} panels, all rows are in winners.csv" if len(panels) > len(shown) else ""
    figure.supxlabel(
        f"by how much or how many times the next slower backend takes longer; grey: a tie{more}", fontsize=9, color=INK
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
        tie = row["verdict"] in _UNDECIDED
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
    margin = known(row["margin"])
    if row["verdict"] in _UNDECIDED:
        names = sorted([str(row["backend"]), *str(row["tied"]).split(", ")])
        lines = [clean(name, 14) for name in names[:3]] + (["…"] if len(names) > 3 else [])
    else:
        lines = []
    if margin is None:
        return "\n".join(lines)
    # Nobody reads a surplus of thousands of percent.
    return "\n".join([*lines, f"{100 * (margin - 1):+.0f} %" if margin < 2 else format_factor(margin)])
