"""Give the names of matplotlib that figures use, loaded on first use: a run without figures does not pay for it."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__all__ = [
    "Axes",
    "Axis",
    "EngFormatter",
    "Figure",
    "FixedLocator",
    "FuncFormatter",
    "Line2D",
    "LinearSegmentedColormap",
    "LogLocator",
    "MaxNLocator",
    "NullFormatter",
    "NullLocator",
    "Patch",
    "Rectangle",
    "StrMethodFormatter",
    "Text",
    "get_font_names",
]

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.colors import LinearSegmentedColormap
    from matplotlib.figure import Figure
    from matplotlib.font_manager import get_font_names
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch, Rectangle
    from matplotlib.text import Text
    from matplotlib.ticker import (
        EngFormatter,
        FixedLocator,
        FuncFormatter,
        LogLocator,
        MaxNLocator,
        NullFormatter,
        NullLocator,
        StrMethodFormatter,
    )
else:
    _MODULES = "axes", "axis", "colors", "figure", "font_manager", "lines", "patches", "text", "ticker"

    def __getattr__(name: str) -> Any:
        modules = [] if name.startswith("__") else [import_module(f"matplotlib.{module}") for module in _MODULES]
        for module in modules:
            if hasattr(module, name):
                globals()[name] = getattr(module, name)  # found at once from now on
                return globals()[name]
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
