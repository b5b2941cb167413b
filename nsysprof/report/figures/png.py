"""Save figures as files that are identical whenever the data is."""

from __future__ import annotations

import io
from importlib.util import find_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def can_draw() -> bool:
    """Return whether matplotlib is there: it is in the extra [figures], because it is a third of an installation."""
    return find_spec("matplotlib") is not None


def png_bytes(figure: Figure) -> bytes:
    """Return a figure as PNG, without the version of the program that wrote it."""
    return _saved(figure, "png", {"Software": None})


def svg_bytes(figure: Figure) -> bytes:
    """Return a figure as SVG, without the time at which it was written."""
    return _saved(figure, "svg", {"Date": None})


def _saved(figure: Figure, kind: str, metadata: dict[str, str | None]) -> bytes:
    data = io.BytesIO()
    figure.savefig(data, format=kind, metadata=metadata)
    return data.getvalue()
