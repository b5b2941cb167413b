"""The only place where nanoseconds, bytes and counts become text. Unknown is always `–`."""

from __future__ import annotations

import math

UNKNOWN = "–"


def format_ns(value_ns: float | None) -> str:
    """Nanoseconds with three or four significant digits: `842 ns`, `23.41 us`, `1.234 ms`, `2.5 s`."""
    if value_ns is None or math.isnan(value_ns):
        return UNKNOWN
    for limit, divisor, unit in ((1e3, 1.0, "ns"), (1e6, 1e3, "us"), (1e9, 1e6, "ms")):
        if abs(value_ns) < limit:
            return f"{_significant(value_ns / divisor)} {unit}"
    return f"{_significant(value_ns / 1e9)} s"


def format_bytes(value_bytes: float | None) -> str:
    """Bytes in binary units: `512 B`, `4 MiB`, `1.37 GiB`."""
    if value_bytes is None or math.isnan(value_bytes):
        return UNKNOWN
    value = float(value_bytes)
    for unit in ("B", "KiB", "MiB"):
        if abs(value) < 1024:
            return f"{_significant(value)} {unit}"
        value /= 1024
    return f"{_significant(value)} GiB"


def format_count(value: float | None) -> str:
    """An integer with thousands separators; fractions keep two decimals."""
    if value is None or math.isnan(value):
        return UNKNOWN
    return f"{int(value):,}" if float(value).is_integer() else f"{value:,.2f}"


def format_ratio(value: float | None) -> str:
    """A ratio as `12.3x`."""
    if value is None or math.isnan(value):
        return UNKNOWN
    return f"{_significant(value)}x"


def _significant(value: float) -> str:
    if float(value).is_integer() and abs(value) < 1e6:
        return str(int(value))
    digits = 3 if abs(value) < 1 else max(0, 4 - len(str(int(abs(value)))))
    return f"{value:.{digits}f}"
