"""Define colours, axes and scales of all figures. Colour-blind people can tell the colours (Okabe and Ito, 2008)."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

CATEGORY_COLORS = {
    "attention": "#0072B2",
    "gemm": "#D55E00",
    "convolution": "#A63603",
    "fft": "#8C6D31",
    "normalization": "#1B9E9E",
    "softmax": "#CC79A7",
    "reduction": "#56B4E9",
    "elementwise": "#009E73",
    "index": "#7FB069",
    "optimizer": "#4C72B0",
    "random": "#B5A642",
    "layout": "#C44E52",
    "copy": "#E69F00",
    "fill": "#F0E442",
    "communication": "#7B3294",
    "graph": "#4B5563",
    "wait": "#C9CDD3",
    "other": "#999999",
}
# Causes of idle time, in grey, so that work stands out.
IDLE_COLORS = {
    "host-outside-cuda": "#b9c1cb",
    "slow-call": "#93a0ae",
    "sync-then-late-launch": "#a9968a",
    "pageable-copy": "#c4a77d",
    "dependency": "#9db4a5",
    "collective": "#a58fb3",
    "profiler": "#d8cfe0",
    "python-gc": "#8f9fbf",
    "jit-compile": "#b59aa6",
    "waiting-for-work": "#dfe3d6",
    "unknown": "#d5dae1",
    "outside": "#e6e9ed",
}
BACKEND_COLORS = {
    "math": "#D55E00",
    "flash": "#0072B2",
    "efficient": "#009E73",
    "cudnn": "#CC79A7",
    "auto": "#E69F00",
    "naive": "#56B4E9",
}
INK, SOFT, RANGE, API = "#1b1f24", "#c8ced6", "#dbe4ee", "#6b7683"
WIDTH_IN = 9.0


def new_figure(height_in: float) -> Figure:
    """Return a white figure with the width of a GitHub comment."""
    # On the first run it would say that it looks for fonts.
    logging.getLogger("matplotlib.font_manager").setLevel(logging.ERROR)
    from matplotlib.figure import Figure as MatplotlibFigure

    return MatplotlibFigure(figsize=(WIDTH_IN, height_in), dpi=150, layout="constrained", facecolor="white")


def quieten(axes: Axes) -> None:
    """Remove the parts of the axes that carry no data."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=9, length=3)
    axes.grid(axis="x", color="#eceff3", linewidth=0.8)
    axes.set_axisbelow(True)


def legend_of_categories(figure: Figure, categories: set[str]) -> None:
    """Add a legend of the categories that were drawn, below the figure."""
    from matplotlib.patches import Patch

    shown = [category for category in CATEGORY_COLORS if category in categories]
    patches = [Patch(color=CATEGORY_COLORS[category], label=category) for category in shown]
    if patches:
        figure.legend(
            handles=patches, loc="outside lower center", ncols=min(9, len(patches)), fontsize=9, frameon=False
        )


# Times are drawn in seconds, and their labels are in ms, us or ns.
NS_PER_S = 1e9


def label_seconds(axis: Axis) -> None:
    """Label the ticks of an axis that is in seconds as the tables write times: 0 s, 200 us, 400 us."""
    from matplotlib.ticker import EngFormatter, FuncFormatter

    written = EngFormatter(unit="s")
    axis.set_major_formatter(FuncFormatter(lambda value, _position: written(value).replace("\N{MICRO SIGN}", "u")))


def byte_scale(largest_bytes: float) -> tuple[float, str]:
    """Return the divisor and the binary unit in which `largest_bytes` reads best."""
    for power, unit in ((3, "GiB"), (2, "MiB"), (1, "KiB")):
        if largest_bytes >= 1024**power:
            return float(1024**power), unit
    return 1.0, "B"


def byte_ticks(low_bytes: float, high_bytes: float) -> tuple[list[float], list[str]]:
    """Return powers of 1024, and of 32 between them, within a logarithmic axis, with their names."""
    ticks, names = [], []
    for exponent in range(0, 60, 5):
        value = 2.0**exponent
        if low_bytes <= value <= high_bytes:
            divisor, unit = byte_scale(value)
            ticks.append(value)
            names.append(f"{value / divisor:g} {unit}")
    return ticks, names
