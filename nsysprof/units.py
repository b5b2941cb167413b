"""Turn nanoseconds, bytes and counts into text; only this module does it. Unknown is always `–`.

A sentence gets PROSE_DIGITS significant digits, a cell of a table TABLE_DIGITS. Files keep all.
"""

from __future__ import annotations

import math
from collections.abc import Callable

UNKNOWN = "–"
PROSE_DIGITS, TABLE_DIGITS = 3, 4
# Three digits say nothing of how far two numbers are apart whose ratio is beyond this.
_NEAR = 0.98


def format_ns(value_ns: float | None, digits: int = PROSE_DIGITS) -> str:
    """Return nanoseconds: `842 ns`, `23.4 us`, `1.23 ms`, `2.50 s`; whole nanoseconds below one microsecond."""
    if value_ns is None or math.isnan(value_ns):
        return UNKNOWN
    divisor, unit = _time_unit(value_ns, digits)
    if unit == "ns":
        return f"{value_ns:.{digits}g} ns"
    return f"{_significant(value_ns / divisor, digits)} {unit}"


def format_bytes(value_bytes: float | None, digits: int = PROSE_DIGITS) -> str:
    """Return bytes in binary units: `512 B`, `4 MiB`, `1.37 GiB`; whole numbers of a unit as they are."""
    if value_bytes is None or math.isnan(value_bytes):
        return UNKNOWN
    value = float(value_bytes)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(value) < 1024 or unit == "GiB":
            whole = value.is_integer()
            return f"{int(value)} {unit}" if whole else f"{_significant(value, digits)} {unit}"
        value /= 1024
    return UNKNOWN


def format_count(value: float | None) -> str:
    """Return an integer with thousands separators; fractions keep two decimals."""
    if value is None or math.isnan(value):
        return UNKNOWN
    return f"{int(value):,}" if float(value).is_integer() else f"{value:,.2f}"


def format_ratio(value: float | None, digits: int = PROSE_DIGITS) -> str:
    """Return a ratio as `12.3x`."""
    if value is None or math.isnan(value):
        return UNKNOWN
    return f"{_significant(value, digits)}x"


def format_percent(value: float | None, digits: int = PROSE_DIGITS) -> str:
    """Return a percentage as `12.3 %`."""
    if value is None or math.isnan(value):
        return UNKNOWN
    return f"{_significant(value, digits)} %"


def format_rate(value: float | None, unit: str, digits: int = PROSE_DIGITS) -> str:
    """Return a rate with a decimal prefix: `312 TFLOP/s`, `4.02 TB/s`."""
    if value is None or math.isnan(value):
        return UNKNOWN
    for prefix, size in (("P", 1e15), ("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if abs(value) >= size:
            return f"{_significant(value / size, digits)} {prefix}{unit}"
    return f"{_significant(value, digits)} {unit}"


def format_interval_ns(median_ns: float, low_ns: float, high_ns: float, digits: int = PROSE_DIGITS) -> str:
    """Return a median with its interval in the unit of its largest number: `52.5 [50.3, 54.5] us`."""
    divisor, unit = _time_unit(max(map(abs, (median_ns, low_ns, high_ns))), digits)
    median, low, high = (_significant(value / divisor, digits) for value in (median_ns, low_ns, high_ns))
    return f"{median} [{low}, {high}] {unit}"


def format_apart(format_value: Callable[[float | None, int], str], *values: float | None) -> tuple[str, ...]:
    """Return the texts of values that a sentence compares.

    They have more digits where they would read the same, or where rounding would be most of their difference.
    """
    short, long = ([format_value(value, digits) for value in values] for digits in (PROSE_DIGITS, TABLE_DIGITS))
    known = [abs(value) for value in values if value is not None]
    are_near = bool(known) and min(known) > _NEAR * max(known)
    is_enough = len(set(long)) == 1 or (len(set(short)) == len(set(long)) and not are_near)
    return tuple(short if is_enough else long)


def format_factor(value: float | None) -> str:
    """Return how many times as long something takes: `12x`, `8.7x`, `1.04x`."""
    if value is None or math.isnan(value):
        return UNKNOWN
    digits = 0 if value >= 9.95 else 1 if value >= 1.995 else 2
    return f"{value:.{digits}f}x"


def _time_unit(value_ns: float, digits: int) -> tuple[float, str]:
    """Return how many nanoseconds the unit has that fits a time, and its name. No text says `1000 us`."""
    most = 1 - 0.5 * 10**-digits
    for limit, divisor, unit in ((1e3, 1.0, "ns"), (1e6, 1e3, "us"), (1e9, 1e6, "ms")):
        if abs(value_ns) < limit * most:
            return divisor, unit
    return 1e9, "s"


def _significant(value: float, digits: int) -> str:
    if value == 0:
        return "0"
    size = abs(round(value, 3))
    decimals = 3 if size < 1 else max(0, digits - len(str(int(size))))
    return f"{value:.{decimals}f}"
