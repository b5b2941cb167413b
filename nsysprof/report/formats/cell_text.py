"""Turn a table's cell into its text and its sort key, which are the same in every format."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nsysprof.report.document import Cell, Column, Unit, Value, ValueChange
from nsysprof.units import (
    UNKNOWN,
    format_bytes,
    format_count,
    format_factor,
    format_interval_ns,
    format_ns,
    format_percent,
    format_rate,
    format_ratio,
)

# From this change on (percent), it is shown as a factor.
_LEAST_FACTOR_PCT = 900
_LEAST_RATIO, _LEAST_P = 0.01, 0.001


def cell_text(cell: Cell, column: Column) -> str:
    """Return the text of a cell. Trace text in it is not yet escaped."""
    unit = cell.unit or column.unit
    if cell.value is None and cell.before is None:
        return cell.reason or UNKNOWN
    text = _number_text(cell, unit)
    if cell.before is not None:
        text = f"{value_text(cell.before, unit)} → {text}"
    if cell.change is not None:
        remark = f" {cell.change.remark}" if cell.change.remark else ""
        text += f" ({_change_text(cell.change)}{remark})"
    return f"{text} {cell.remark}" if cell.remark else text


def _number_text(cell: Cell, unit: Unit) -> str:
    if cell.is_signed:
        return signed_text(cell.value, unit)
    if cell.low is not None and cell.high is not None and not isinstance(cell.value, str) and cell.value is not None:
        if unit is Unit.NS:
            return format_interval_ns(cell.value, cell.low, cell.high)
        return f"{value_text(cell.value, unit)} [{value_text(cell.low, unit)}, {value_text(cell.high, unit)}]"
    text = value_text(cell.value, unit)
    return text if cell.error is None else f"{text} ± {value_text(cell.error, unit)}"


def _change_text(change: ValueChange) -> str:
    """Return a change with its sign. A change of thousands of percent is shown as a factor."""
    if change.unit is Unit.CHANGE_PERCENT and change.value >= _LEAST_FACTOR_PCT:
        return format_factor(1 + change.value / 100)
    return signed_text(change.value, change.unit)


def signed_text(value: Value, unit: Unit) -> str:
    """Return a number with its sign."""
    is_positive = isinstance(value, int | float) and value > 0
    return ("+" if is_positive else "") + value_text(value, unit)


def value_text(value: Value, unit: Unit) -> str:
    """Return only the value, as text."""
    if value is None:
        return UNKNOWN
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str) or unit.is_text:
        return str(value)
    return _FORMATS[unit](value)


def sort_key(cell: Cell) -> str:
    """Return the key by which HTML sorts a cell: its number or text; "" where it is unknown."""
    if cell.value is None:
        return ""
    return cell.value if isinstance(cell.value, str) else f"{float(cell.value):.15g}"


def cell_json(cell: Cell) -> Any:
    """Return only the value, or an object where more is known."""
    more: dict[str, Any] = {
        name: getattr(cell, name)
        for name in ("unit", "low", "high", "error", "before", "remark", "reason", "full")
        if getattr(cell, name) not in (None, "")
    }
    if cell.change is not None:
        more["change"] = {"value": cell.change.value, "unit": cell.change.unit, "remark": cell.change.remark}
    return {"value": cell.value, **more} if more else cell.value


def _ratio(value: float) -> str:
    return f"<{_LEAST_RATIO}x" if value < _LEAST_RATIO else format_ratio(value)


def _change_percent(value: float) -> str:
    return f"{value:.{0 if abs(value) >= 100 else 1 if abs(value) >= 0.1 else 2}f} %"


def _probability(value: float) -> str:
    return f"< {_LEAST_P}" if value < _LEAST_P else f"{value:.3f}"


_FORMATS: dict[Unit, Callable[[float], str]] = {
    Unit.NS: format_ns,
    Unit.EXACT_NS: lambda value: f"{value:,} ns",
    Unit.BYTES: format_bytes,
    Unit.COUNT: format_count,
    Unit.PERCENT: format_percent,
    Unit.CHANGE_PERCENT: _change_percent,
    Unit.SHARE: lambda value: f"{value:.1f} %",
    Unit.WHOLE_PERCENT: lambda value: f"{value:.0f} %",
    Unit.RATIO: _ratio,
    Unit.FACTOR: format_factor,
    Unit.QUOTIENT: lambda value: f"{value:.3f}",
    Unit.NUMBER: lambda value: f"{value:.2f}",
    Unit.PRICE: lambda value: f"{value:.4f}",
    Unit.PROBABILITY: _probability,
    Unit.FLOPS: lambda value: format_rate(value, "FLOP/s"),
    Unit.BYTES_PER_S: lambda value: format_rate(value, "B/s"),
    Unit.TOKENS_PER_S: lambda value: format_rate(value, "tokens/s"),
    Unit.JOULES: lambda value: format_rate(value, "J"),
    Unit.WATTS: lambda value: f"{value:.0f} W",
    Unit.PER_S: lambda value: f"{format_count(round(value))}/s",
}
