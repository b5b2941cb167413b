"""Draw heatmap.png (ranks by ranges) and ranks.png (a timeline of all ranks on one clock)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from nsysprof.report.figures.drawing_style import CATEGORY_COLORS, INK, NS_PER_S, label_seconds, new_figure
from nsysprof.report.figures.occupancy import resample_shares
from nsysprof.report.formats.escape import clean, escape_mathtext
from nsysprof.report.wording import sentence_of
from nsysprof.results.rank_results import RanksAnalysis
from nsysprof.units import format_ns

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MOST_RANGES = 24
_MOST_LABELS = 48
_SPAN_PCT = 30.0
# A range with less time than this share of the largest is too short for anybody to wait for it.
_LEAST_SHARE = 0.002
_SLICES = 1200
_IDLE, _COMPUTE, _COMM = "#eef1f5", CATEGORY_COLORS["attention"], CATEGORY_COLORS["copy"]


def draw_heatmap(job: RanksAnalysis) -> Figure | None:
    """Draw how each rank's own time in each range differs from the usual one.

    Return None where there are not at least two ranks and one range.
    """
    table, titles = _deviations(job.rank_ranges)
    if table is None or table.shape[0] < 2 or table.shape[1] == 0:
        return None
    ranks = [int(rank) for rank in table.index]
    figure = new_figure(2.2 + min(9.0, 0.22 * len(ranks)))
    axes = figure.subplots()
    limit = max(5.0, min(_SPAN_PCT, float(np.nanmax(np.abs(table.to_numpy())))))
    image = axes.imshow(table.to_numpy(), aspect="auto", cmap="PuOr_r", vmin=-limit, vmax=limit)
    axes.set_xticks(range(len(titles)), titles, rotation=40, ha="right", rotation_mode="anchor", fontsize=8)
    _label_ranks(axes, ranks, job)
    if len(ranks) * len(titles) <= 160:
        for (row, column), percent in np.ndenumerate(table.to_numpy()):
            if np.isfinite(percent):
                axes.text(column, row, f"{percent:+.0f}", ha="center", va="center", fontsize=7,
                          color="white" if abs(percent) > 0.7 * limit else INK)  # fmt: skip
    bar = figure.colorbar(image, ax=axes, shrink=0.8, pad=0.02, extend="both")
    bar.set_label("own time, % from usual", fontsize=8)
    bar.ax.tick_params(labelsize=8)
    axes.set_ylabel("rank", fontsize=10)
    return figure


def _deviations(rank_ranges: pd.DataFrame) -> tuple[pd.DataFrame | None, list[str]]:
    """Return deviations in percent by rank and range, and their labels.

    They compare GPU computation where a range has it, else the host's time without nested ranges. The ranges with the
    most time are chosen, and those in which ranks differ most come first.
    """
    if rank_ranges.empty:
        return None, []
    keys = ["range", "style", "domain"]
    on_gpu = rank_ranges.groupby(keys)["compute_ns"].transform("sum") > 0
    own = rank_ranges.assign(own_ns=rank_ranges["compute_ns"].where(on_gpu, rank_ranges["host_ns"]), on_gpu=on_gpu)
    wide = own.pivot_table(index="rank", columns=[*keys, "on_gpu"], values="own_ns", aggfunc="sum", sort=False)
    usual = np.sort(wide.fillna(0).to_numpy(dtype=float), axis=0)[(len(wide) - 1) // 2]
    wide = wide.loc[:, usual > 0]
    usual = usual[usual > 0]
    if wide.shape[1] == 0:
        return None, []
    percent = 100 * (wide / usual - 1)
    gpu = np.array([bool(column[-1]) for column in percent.columns])
    # A rank's difference counts by what it costs, not by its percentage of a tiny time.
    cost = (wide - usual).abs().max().to_numpy(dtype=float)
    largest = max(cost.max(), usual[gpu].max(initial=0))
    # A host range that takes equally long on all ranks shows nothing new; every GPU range that takes time matters.
    weighty = np.where(gpu, np.maximum(cost, usual), cost) >= _LEAST_SHARE * largest
    order = np.argsort(-cost, kind="stable")
    chosen = order[weighty[order]][:_MOST_RANGES]
    percent = percent.iloc[:, chosen]
    titles = [escape_mathtext(clean(str(name), 26)) + ("" if gpu else " (host)") for name, _, _, gpu in percent.columns]
    return percent, titles


def draw_timeline(job: RanksAnalysis) -> Figure | None:
    """Draw when each rank computed and communicated, on the reference's clock. Return None without such ranks."""
    from matplotlib.colors import to_rgb
    from matplotlib.patches import Patch

    offsets = {fit.rank: fit.offset_ns for fit in job.clocks if fit.offset_ns is not None}
    ranks = [rank for rank in sorted(offsets) if rank in job.lanes]
    if not ranks:
        return None
    begins = [job.lanes[rank].start_ns + offsets[rank] for rank in ranks]
    ends = [start + job.lanes[rank].slice_ns * len(job.lanes[rank].compute)
            for rank, start in zip(ranks, begins, strict=True)]  # fmt: skip
    edges = np.linspace(min(begins), max(ends), _SLICES + 1)
    colors = {name: np.array(to_rgb(color)) for name, color in
              (("idle", _IDLE), ("compute", _COMPUTE), ("comm", _COMM))}  # fmt: skip
    pixels = np.empty((len(ranks) * 2, _SLICES, 3))
    for row, rank in enumerate(ranks):
        lane = job.lanes[rank]
        for half, name in enumerate(("compute", "comm")):
            share = resample_shares(getattr(lane, name), lane.start_ns, lane.slice_ns, edges - offsets[rank])[:, None]
            pixels[2 * row + half] = share * colors[name] + (1 - share) * colors["idle"]
    figure = new_figure(1.6 + min(9.0, 0.3 * len(ranks)))
    axes = figure.subplots()
    span = max(ends) - min(begins)
    axes.imshow(pixels, aspect="auto", interpolation="nearest", extent=(0, span / NS_PER_S, len(ranks) - 0.5, -0.5))
    for line in range(1, len(ranks) if len(ranks) <= _MOST_LABELS else 0):
        axes.axhline(line - 0.5, color="white", linewidth=1.5)
    label_seconds(axes.xaxis)
    _label_ranks(axes, ranks, job)
    axes.set_ylabel("rank", fontsize=10)
    left_out = len(job.read) - len(ranks)
    more = f"; {left_out} ranks without a common clock left out" if left_out else ""
    axes.set_xlabel(
        f"time on the clock of rank {_reference(job)}; a slice is {format_ns(span / _SLICES)}{more}", fontsize=9
    )
    handles = [Patch(color=_COMPUTE, label="computes (upper half)"), Patch(color=_COMM, label="NCCL (lower half)"),
               Patch(color=_IDLE, label="neither")]  # fmt: skip
    figure.legend(handles=handles, loc="outside upper center", ncols=3, fontsize=8, frameon=False)
    return figure


def _reference(job: RanksAnalysis) -> int:
    return next((fit.rank for fit in job.clocks if fit.how == "reference"), 0)


def _label_ranks(axes: Axes, ranks: list[int], job: RanksAnalysis) -> None:
    """Label the ranks: all of them or, of many, some and all that stand out."""
    slow = set(job.stragglers["rank"].tolist())
    step = max(1, -(-len(ranks) // _MOST_LABELS))
    shown, labels = [], []
    for row, rank in enumerate(ranks):
        mark = " straggler ▸" if rank in slow else " outlier ▸" if rank in job.outliers else ""
        if mark or row % step == 0:
            shown.append(row)
            labels.append(f"{rank}{mark}")
    axes.set_yticks(shown, labels, fontsize=8 if step == 1 else 7)
    axes.tick_params(length=2)
    axes.spines[:].set_visible(False)


def describe_heatmap(job: RanksAnalysis) -> str:
    """Return whether ranks differ, and which one delays the others."""
    text = f"How far the time of each of {len(job.read)} ranks in each range lies from the usual rank's."
    if job.imbalance_pct is not None:
        text += f" The imbalance is {job.imbalance_pct:.1f} %."
    slow = [f"rank {rank}" for rank in dict.fromkeys(job.stragglers["rank"].tolist())]
    return f"{text} {sentence_of(slow, 'The others wait for ')}".rstrip()


def describe_ranks_timeline(job: RanksAnalysis) -> str:
    """Return how many ranks are shown, and which one delays the others."""
    slow = [f"rank {rank}" for rank in dict.fromkeys(job.stragglers["rank"].tolist())]
    text = f"Timeline of {len(job.lanes)} ranks on one clock, with computation and communication."
    return f"{text} {sentence_of(slow, 'The others wait for ')}".rstrip()
