"""Scale axes: matplotlib's prefixes for times, and our own powers of 1024 for bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axis import Axis

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
