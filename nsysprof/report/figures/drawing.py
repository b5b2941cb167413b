"""Define colours, axes and scales of all figures, and save figures as files that depend on nothing but the data."""

from __future__ import annotations

import io
import logging
import warnings
from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec

from nsysprof.report.figures import mpl

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
# The widths of a wide letter of 9 points, of what a legend has before each label, and of what is left free beside it.
_LETTER_IN, _LEGEND_HANDLE_IN, _LEGEND_MARGIN_IN = 0.085, 0.6, 1.0


def new_figure(height_in: float) -> mpl.Figure:
    """Return a white figure with the width of a GitHub comment."""
    # On the first run it would say that it looks for fonts.
    logging.getLogger("matplotlib.font_manager").setLevel(logging.ERROR)
    return mpl.Figure(figsize=(WIDTH_IN, height_in), dpi=150, layout="constrained", facecolor="white")


def quieten(axes: mpl.Axes) -> None:
    """Remove the parts of the axes that carry no data."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=9, length=3)
    axes.grid(axis="x", color="#eceff3", linewidth=0.8)
    axes.set_axisbelow(True)


def legend_columns(labels: Sequence[str], most: int = 6) -> int:
    """Return how many columns of a legend (9 points) fit side by side into a figure."""
    column_in = _LEGEND_HANDLE_IN + _LETTER_IN * max(map(len, labels), default=0)
    return max(1, min(most, len(labels), int((WIDTH_IN - _LEGEND_MARGIN_IN) / column_in)))


def legend_of_categories(figure: mpl.Figure, categories: set[str]) -> None:
    """Add a legend of the categories that were drawn, below the figure."""
    shown = [category for category in CATEGORY_COLORS if category in categories]
    patches = [mpl.Patch(color=CATEGORY_COLORS[category], label=category) for category in shown]
    if patches:
        figure.legend(
            handles=patches, loc="outside lower center", ncols=legend_columns(shown), fontsize=9, frameon=False
        )


# Times are drawn in seconds, and their labels are in ms, us or ns.
NS_PER_S = 1e9


def label_seconds(axis: mpl.Axis) -> None:
    """Label the ticks of an axis that is in seconds as the tables write times: 0 s, 200 us, 400 us."""
    written = mpl.EngFormatter(unit="s")
    axis.set_major_formatter(mpl.FuncFormatter(lambda value, _position: written(value).replace("\N{MICRO SIGN}", "u")))


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


# Fonts with the scripts that the font of matplotlib lacks. All that are installed are taken, in this order.
_OTHER_FONTS = (
    "Noto Sans CJK SC", "Noto Sans CJK JP", "Noto Sans CJK KR", "Source Han Sans SC", "WenQuanYi Zen Hei",
    "WenQuanYi Micro Hei", "Microsoft YaHei", "PingFang SC", "Hiragino Sans", "Droid Sans Fallback", "Arial Unicode MS",
    "Noto Sans", "Noto Emoji", "Symbola", "Unifont",
)  # fmt: skip


def can_draw() -> bool:
    """Return whether matplotlib is installed. It is in the extra [figures], because it is large."""
    return find_spec("matplotlib") is not None


def png_bytes(figure: mpl.Figure) -> bytes:
    """Return a figure as PNG, without the version of the program that wrote it."""
    return _saved(figure, "png", {"Software": None})


def svg_bytes(figure: mpl.Figure) -> bytes:
    """Return a figure as SVG, without the time at which it was written."""
    return _saved(figure, "svg", {"Date": None})


def _saved(figure: mpl.Figure, kind: str, metadata: dict[str, str | None]) -> bytes:
    data = io.BytesIO()
    _take_other_fonts(figure)
    with warnings.catch_warnings():
        # A name in a script without a font here is drawn as boxes; the tables have it.
        warnings.filterwarnings("ignore", message=r"Glyph .* missing from (current )?font", category=UserWarning)
        figure.savefig(data, format=kind, metadata=metadata)
    return data.getvalue()


def _take_other_fonts(figure: mpl.Figure) -> None:
    """Let names in other scripts than Latin, Greek and Cyrillic take the fonts that are installed for them."""
    for text in figure.findobj(mpl.Text):
        if isinstance(text, mpl.Text) and any(ord(char) > 0x2FFF for char in text.get_text()) and _installed_fonts():
            text.set_fontfamily([*text.get_fontfamily(), *_installed_fonts()])


@cache
def _installed_fonts() -> tuple[str, ...]:
    """Return the other fonts that are installed. One that is missing would be complained of for each text."""
    names = set(mpl.get_font_names())
    return tuple(font for font in _OTHER_FONTS if font in names)
