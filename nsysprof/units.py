"""The only place where nanoseconds, bytes and counts become text. Unknown is always `–`."""

from __future__ import annotations

import math
import re

UNKNOWN = "–"


def format_ns(value_ns: float | None) -> str:
    """Nanoseconds with three or four significant digits: `842 ns`, `23.41 us`, `1.234 ms`, `2.5 s`."""
    if value_ns is None or math.isnan(value_ns):
        return UNKNOWN
    if abs(value_ns) < 1e3:
        return f"{value_ns:g} ns"
    for limit, divisor, unit in ((1e6, 1e3, "us"), (1e9, 1e6, "ms"), (float("inf"), 1e9, "s")):
        if abs(value_ns) < limit:
            return f"{_significant(value_ns / divisor)} {unit}"
    return UNKNOWN


def format_bytes(value_bytes: float | None) -> str:
    """Bytes in binary units: `512 B`, `4 MiB`, `1.37 GiB`."""
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
    """An integer with thousands separators; fractions keep two decimals."""
    if value is None or math.isnan(value):
        return UNKNOWN
    return f"{int(value):,}" if float(value).is_integer() else f"{value:,.2f}"


def format_ratio(value: float | None) -> str:
    """A ratio as `12.3x`."""
    if value is None or math.isnan(value):
        return UNKNOWN
    return f"{_significant(value)}x"


def format_percent(value: float | None) -> str:
    """A percentage as `12.3 %`."""
    if value is None or math.isnan(value):
        return UNKNOWN
    return f"{_significant(value)} %"


def format_rate(value: float | None, unit: str) -> str:
    """A rate with a decimal prefix: `312.4 TFLOP/s`, `4.02 TB/s`."""
    if value is None or math.isnan(value):
        return UNKNOWN
    for prefix, size in (("P", 1e15), ("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if abs(value) >= size:
            return f"{_significant(value / size)} {prefix}{unit}"
    return f"{_significant(value)} {unit}"


def format_interval_ns(median_ns: float, low_ns: float, high_ns: float) -> str:
    """A median with its interval in one unit: `52.54 [50.30, 54.46] us`."""
    for limit, divisor, unit in ((1e3, 1.0, "ns"), (1e6, 1e3, "us"), (1e9, 1e6, "ms"), (float("inf"), 1e9, "s")):
        if abs(median_ns) < limit:
            median, low, high = (_significant(value / divisor) for value in (median_ns, low_ns, high_ns))
            return f"{median} [{low}, {high}] {unit}"
    return UNKNOWN


_SCALES = {
    "ns": 1.0, "us": 1e3, "ms": 1e6, "s": 1e9, "B": 1.0, "KiB": 1024.0, "MiB": 1024.0**2, "GiB": 1024.0**3,
    "%": 1.0, "x": 1.0, "": 1.0,
}  # fmt: skip
_LONGEST = 80  # no number of ours is longer, and a hostile name may be a megabyte of digits
_PREFIXES = {"k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}
_NUMBER = re.compile(r"^(-?[\d,]*\.?\d+(?:e[-+]?\d+)?)(?: \[[^\]]*\])? ?(?:([kMGTP])(?=\S+/s))?(\S*)(?: ± .*)?$")


def sort_value(text: str) -> float | None:
    """The number that one of the functions above wrote, in its smallest unit, to sort by; None for any other text."""
    found = _NUMBER.match(text) if len(text) <= _LONGEST else None
    if found is None:
        return None
    number, prefix, unit = found.groups()
    scale = _SCALES.get(unit, 1.0 if unit.endswith("/s") else None)
    return None if scale is None else float(number.replace(",", "")) * scale * _PREFIXES.get(prefix or "", 1.0)


def _significant(value: float) -> str:
    if value == 0:
        return "0"
    digits = 3 if abs(value) < 1 else max(0, 4 - len(str(int(abs(value)))))
    return f"{value:.{digits}f}"
