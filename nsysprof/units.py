"""Turn nanoseconds, bytes and counts into text; only this module does it. Unknown is always `–`."""

from __future__ import annotations

import math

UNKNOWN = "–"


def format_ns(value_ns: float | None) -> str:
    """Return nanoseconds with three or four significant digits: `842 ns`, `23.41 us`, `1.234 ms`, `2.5 s`."""
    if value_ns is None or math.isnan(value_ns):
        return UNKNOWN
    if abs(value_ns) < 1e3:
        return f"{value_ns:.4g} ns"
    for limit, divisor, unit in ((1e6, 1e3, "us"), (1e9, 1e6, "ms"), (float("inf"), 1e9, "s")):
        if abs(value_ns) < limit:
            return f"{_significant(value_ns / divisor)} {unit}"
    return UNKNOWN


def format_bytes(value_bytes: float | None) -> str:
    """Return bytes in binary units: `512 B`, `4 MiB`, `1.37 GiB`."""
    if value_bytes is None or math.isnan(value_bytes):
        return UNKNOWN
    value = float(value_bytes)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(value) < 1024 or unit == "GiB":
            whole = value.is_integer()
            return f"{int(value)} {unit}" if whole else f"{_significant(value)} {unit}"
        value /= 1024
    return UNKNOWN


def format_count(value: float | None) -> str:
    """Return an integer with thousands separators; fractions keep two decimals."""
    if value is None or math.isnan(value):
        return UNKNOWN
    return f"{int(value):,}" if float(value).is_integer() else f"{value:,.2f}"


def format_ratio(value: float | None) -> str:
    """Return a ratio as `12.3x`."""
    if value is None or math.isnan(value):
        return UNKNOWN
    return f"{_significant(value)}x"


def format_percent(value: float | None) -> str:
    """Return a percentage as `12.3 %`."""
    if value is None or math.isnan(value):
        return UNKNOWN
    return f"{_significant(value)} %"


def format_rate(value: float | None, unit: str) -> str:
    """Return a rate with a decimal prefix: `312.4 TFLOP/s`, `4.02 TB/s`."""
    if value is None or math.isnan(value):
        return UNKNOWN
    for prefix, size in (("P", 1e15), ("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if abs(value) >= size:
            return f"{_significant(value / size)} {prefix}{unit}"
    return f"{_significant(value)} {unit}"


def format_interval_ns(median_ns: float, low_ns: float, high_ns: float) -> str:
    """Return a median with its interval in one unit: `52.54 [50.30, 54.46] us`."""
    for limit, divisor, unit in ((1e3, 1.0, "ns"), (1e6, 1e3, "us"), (1e9, 1e6, "ms"), (float("inf"), 1e9, "s")):
        if abs(median_ns) < limit:
            median, low, high = (_significant(value / divisor) for value in (median_ns, low_ns, high_ns))
            return f"{median} [{low}, {high}] {unit}"
    return UNKNOWN


def format_factor(value: float | None) -> str:
    """Return how many times as long something takes: `12x`, `8.7x`, `1.04x`."""
    if value is None or math.isnan(value):
        return UNKNOWN
    digits = 0 if value >= 9.95 else 1 if value >= 1.995 else 2
    return f"{value:.{digits}f}x"


def _significant(value: float) -> str:
    if value == 0:
        return "0"
    digits = 3 if abs(value) < 1 else max(0, 4 - len(str(int(abs(value)))))
    return f"{value:.{digits}f}"
