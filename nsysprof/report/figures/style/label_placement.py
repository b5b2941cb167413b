"""Place labels beside points so that they cover neither each other nor a point.

We have our own code for this because libraries move labels by random steps, and the same data must give the same file.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_AROUND = (
    (5, 3),
    (5, -9),
    (-5, 3),
    (-5, -9),
    (0, 7),
    (0, -13),
    (12, 8),
    (-12, 8),
    (12, -14),
    (-12, -14),
    (22, 0),
    (-22, 0),
)
_POINT_PX = 5.0

Box = tuple[float, float, float, float]


def place_labels(axes: Axes, points: Sequence[tuple[float, float]], labels: Sequence[str], **style: Any) -> None:
    """Write each label at the first free place around its point. A label without a free place is left out.

    axes: the axes, with their final limits.
    points: the points in data coordinates.
    """
    figure = axes.figure
    figure.canvas.draw()
    scale = figure.dpi / 72
    pixels = [tuple(axes.transData.transform(point)) for point in points]
    taken: list[Box] = [
        (x - _POINT_PX * scale, y - _POINT_PX * scale, x + _POINT_PX * scale, y + _POINT_PX * scale) for x, y in pixels
    ]
    frame = axes.get_window_extent()
    for point, own, label in zip(points, list(taken), labels, strict=True):
        for dx, dy in _AROUND:
            side = "left" if dx > 0 else "right" if dx < 0 else "center"
            text = axes.annotate(label, point, (dx, dy), textcoords="offset points", ha=side, **style)
            extent = text.get_window_extent()
            box = (extent.x0, extent.y0, extent.x1, extent.y1)
            inside = box[0] >= frame.x0 and box[2] <= frame.x1 and box[1] >= frame.y0 and box[3] <= frame.y1
            if inside and not any(_meet(box, other) for other in taken if other is not own):
                taken.append(box)
                break
            text.remove()


def _meet(a: Box, b: Box) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]
