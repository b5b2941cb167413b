"""One unit for a whole axis."""

from __future__ import annotations


def time_scale(largest_ns: float) -> tuple[float, str]:
    """The divisor and the unit in which `largest_ns` reads best."""
    for divisor, unit in ((1e9, "s"), (1e6, "ms"), (1e3, "us")):
        if largest_ns >= 2 * divisor:
            return divisor, unit
    return (1e3, "us") if largest_ns >= 1e3 else (1.0, "ns")


def byte_scale(largest_bytes: float) -> tuple[float, str]:
    """The divisor and the binary unit in which `largest_bytes` reads best."""
    for power, unit in ((3, "GiB"), (2, "MiB"), (1, "KiB")):
        if largest_bytes >= 1024**power:
            return float(1024**power), unit
    return 1.0, "B"


def byte_ticks(low_bytes: float, high_bytes: float) -> tuple[list[float], list[str]]:
    """Powers of 1024, and of 32 between them, that lie in a logarithmic axis, with their names."""
    ticks, names = [], []
    for exponent in range(0, 60, 5):
        value = 2.0**exponent
        if low_bytes <= value <= high_bytes:
            divisor, unit = byte_scale(value)
            ticks.append(value)
            names.append(f"{value / divisor:g} {unit}")
    return ticks, names
