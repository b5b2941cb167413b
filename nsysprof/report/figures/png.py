"""Save figures as files that are byte-identical whenever the data is the same."""

from __future__ import annotations

import io
import warnings
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Fonts with the scripts that the font of matplotlib lacks. All that are installed are taken, in this order.
_OTHER_FONTS = (
    "Noto Sans CJK SC", "Noto Sans CJK JP", "Noto Sans CJK KR", "Source Han Sans SC", "WenQuanYi Zen Hei",
    "WenQuanYi Micro Hei", "Microsoft YaHei", "PingFang SC", "Hiragino Sans", "Droid Sans Fallback", "Arial Unicode MS",
    "Noto Sans", "Noto Emoji", "Symbola", "Unifont",
)  # fmt: skip


def can_draw() -> bool:
    """Return whether matplotlib is installed. It is in the extra [figures], because it is large."""
    return find_spec("matplotlib") is not None


def png_bytes(figure: Figure) -> bytes:
    """Return a figure as PNG, without the version of the program that wrote it."""
    return _saved(figure, "png", {"Software": None})


def svg_bytes(figure: Figure) -> bytes:
    """Return a figure as SVG, without the time at which it was written."""
    return _saved(figure, "svg", {"Date": None})


def _saved(figure: Figure, kind: str, metadata: dict[str, str | None]) -> bytes:
    data = io.BytesIO()
    _take_other_fonts(figure)
    with warnings.catch_warnings():
        # A name in a script without a font here is drawn as boxes; the tables have it.
        warnings.filterwarnings("ignore", message=r"Glyph .* missing from font", category=UserWarning)
        figure.savefig(data, format=kind, metadata=metadata)
    return data.getvalue()


def _take_other_fonts(figure: Figure) -> None:
    """Let names in other scripts than Latin, Greek and Cyrillic take the fonts that are installed for them."""
    from matplotlib.text import Text

    for text in figure.findobj(Text):
        if isinstance(text, Text) and any(ord(char) > 0x2FFF for char in text.get_text()) and _installed_fonts():
            text.set_fontfamily([*text.get_fontfamily(), *_installed_fonts()])


@cache
def _installed_fonts() -> tuple[str, ...]:
    """Return the other fonts that are installed. One that is missing would be complained of for each text."""
    from matplotlib.font_manager import get_font_names

    names = set(get_font_names())
    return tuple(font for font in _OTHER_FONTS if font in names)
