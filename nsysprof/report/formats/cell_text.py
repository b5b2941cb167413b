"""Turn a table's cell into its text and its sort key, the same in every format, and shorten names that are alike."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from itertools import takewhile
from typing import Any

from nsysprof.report.document import Cell, Column, Item, Ranking, Unit, Value, ValueChange, clean
from nsysprof.units import (
    PROSE_DIGITS,
    TABLE_DIGITS,
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


def amount_text(item: Item, ranking: Ranking) -> str:
    """Return how much an item of a ranking has, in as few digits as a sentence."""
    return cell_text(item.amount, Column(ranking.amount_title, ranking.amount_unit), PROSE_DIGITS)


def cell_text(cell: Cell, column: Column, digits: int = TABLE_DIGITS) -> str:
    """Return the text of a cell. Trace text in it is not yet escaped."""
    unit = cell.unit or column.unit
    if cell.value is None and cell.before is None:
        return cell.reason or UNKNOWN
    text = _number_text(cell, unit, digits)
    if cell.before is not None:
        text = f"{value_text(cell.before, unit, digits)} → {text}"
    if cell.change is not None:
        remark = f" {cell.change.remark}" if cell.change.remark else ""
        text += f" ({_change_text(cell.change, digits)}{remark})"
    return f"{text} {cell.remark}" if cell.remark else text


def _number_text(cell: Cell, unit: Unit, digits: int) -> str:
    if cell.is_signed:
        return signed_text(cell.value, unit, digits)
    if cell.low is not None and cell.high is not None and not isinstance(cell.value, str) and cell.value is not None:
        if unit is Unit.NS:
            return format_interval_ns(cell.value, cell.low, cell.high, digits)
        value, low, high = (value_text(each, unit, digits) for each in (cell.value, cell.low, cell.high))
        return f"{value} [{low}, {high}]"
    text = value_text(cell.value, unit, digits)
    return text if cell.error is None else f"{text} ± {value_text(cell.error, unit, digits)}"


def _change_text(change: ValueChange, digits: int) -> str:
    """Return a change with its sign. A change of thousands of percent is shown as a factor."""
    if change.unit is Unit.CHANGE_PERCENT and change.value >= _LEAST_FACTOR_PCT:
        return format_factor(1 + change.value / 100)
    return signed_text(change.value, change.unit, digits)


def signed_text(value: Value, unit: Unit, digits: int = TABLE_DIGITS) -> str:
    """Return a number with its sign."""
    is_positive = isinstance(value, int | float) and value > 0
    return ("+" if is_positive else "") + value_text(value, unit, digits)


def value_text(value: Value, unit: Unit, digits: int = TABLE_DIGITS) -> str:
    """Return only the value, as text."""
    if value is None:
        return UNKNOWN
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str) or unit.is_text:
        return str(value)
    if unit in _MEASURED:
        return _MEASURED[unit](value, digits)
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


def _ratio(value: float, digits: int) -> str:
    return f"<{_LEAST_RATIO}x" if value < _LEAST_RATIO else format_ratio(value, digits)


def _change_percent(value: float) -> str:
    return f"{value:.{0 if abs(value) >= 100 else 1 if abs(value) >= 0.1 else 2}f} %"


def _probability(value: float) -> str:
    return f"< {_LEAST_P}" if value < _LEAST_P else f"{value:.3f}"


# Units whose numbers get fewer digits in a sentence than in a table, and those that have one form.
_MEASURED: dict[Unit, Callable[[float, int], str]] = {
    Unit.NS: format_ns,
    Unit.BYTES: format_bytes,
    Unit.PERCENT: format_percent,
    Unit.RATIO: _ratio,
    Unit.FLOPS: lambda value, digits: format_rate(value, "FLOP/s", digits),
    Unit.BYTES_PER_S: lambda value, digits: format_rate(value, "B/s", digits),
    Unit.TOKENS_PER_S: lambda value, digits: format_rate(value, "tokens/s", digits),
    Unit.JOULES: lambda value, digits: format_rate(value, "J", digits),
}
_FORMATS: dict[Unit, Callable[[float], str]] = {
    Unit.EXACT_NS: lambda value: f"{value:,} ns",
    Unit.COUNT: format_count,
    Unit.CHANGE_PERCENT: _change_percent,
    Unit.SHARE: lambda value: f"{value:.1f} %",
    Unit.WHOLE_PERCENT: lambda value: f"{value:.0f} %",
    Unit.FACTOR: format_factor,
    Unit.QUOTIENT: lambda value: f"{value:.3f}",
    Unit.NUMBER: lambda value: f"{value:.2f}",
    Unit.PRICE: lambda value: f"{value:.4f}",
    Unit.PROBABILITY: _probability,
    Unit.WATTS: lambda value: f"{value:.0f} W",
    Unit.PER_S: lambda value: f"{format_count(round(value))}/s",
}


_LONGEST = 4000  # the most characters to look at, because names may be hostile
_WORD = re.compile(r"[A-Za-z_]\w*(?!\w|\s*::)|(?<![\w.])\d+(?![\w.])")
_ANONYMOUS = re.compile(r"(?:\(anonymous namespace\)|<unnamed>)(?:::)?")
_BASE = re.compile(r"^(?:[A-Za-z_][\w ]*[ &*]+)?((?:[A-Za-z_]\w*::)*)([A-Za-z_]\w*)\s*(?=[<(])")
# Words that occur in most C++ names and carry no information.
_NOISE = frozenset({"void", "const", "operator", "lambda", "instance", "unnamed", "int", "bool", "unsigned", "long"})
_MOST_WORDS, _ROUNDS = 4, 6
_LEAST_BASE = 8


def shorten_names(names: Sequence[str], width: int) -> list[str]:
    """Return each name in at most `width` characters. Different names stay different.

    Names of C++ functions lose return types, namespaces and parameters first. Of their template arguments, the words
    stay in which functions of the same name differ. Other names keep their beginning and the part that differs.
    """
    texts = {name: clean(name[:_LONGEST]) for name in names}
    short = {name: text if len(text) <= width else _plain(text) for name, text in texts.items()}
    for alike in _same(short):
        short |= _add_words({name: texts[name] for name in alike})
    uncut = {name: texts[name] for alike in _same(short) for name in alike}
    texts = short | uncut
    short = {name: _fit(text, width) for name, text in texts.items()}
    for _ in range(_ROUNDS):
        groups = _same(short)
        if not groups:
            break
        for alike in groups:
            short |= _show_difference({name: texts[name] for name in alike}, width)
    for alike in _same(short):
        for number, name in enumerate(alike[1:], 2):
            ending = f" #{number}"
            short[name] = short[name][: width - len(ending)] + ending
    return [short[name] for name in names]


def _plain(text: str) -> str:
    """Return a C++ function's own name; any other text unchanged."""
    match = _BASE.match(_ANONYMOUS.sub("", text))
    return match.group(2) if match and text.endswith((")", ">", "]")) else text


def _same(short: dict[str, str]) -> list[list[str]]:
    """Return the groups of different names whose short forms are equal."""
    groups: dict[str, list[str]] = {}
    for name, text in short.items():
        groups.setdefault(text, []).append(name)
    return [alike for alike in groups.values() if len(alike) > 1]


def _add_words(texts: dict[str, str]) -> dict[str, str]:
    """Return the name that functions share, each with the words that distinguish it from the others."""
    base = _plain(next(iter(texts.values())))
    words = {name: list(dict.fromkeys(_WORD.findall(text.partition(base)[2]))) for name, text in texts.items()}
    common = set.intersection(*map(set, words.values())) | _NOISE
    telling = {name: _longest_first(word for word in mine if word not in common) for name, mine in words.items()}
    for count in range(1, _MOST_WORDS + 1):
        labels = {name: ", ".join(mine[:count]) for name, mine in telling.items()}
        if len(set(labels.values())) == len(labels):
            break
    return {name: f"{base}<{label}>" if label else base for name, label in labels.items()}


def _longest_first(words: Iterable[str]) -> list[str]:
    """Return words that name something, then types and numbers, in their original order."""
    return sorted(words, key=lambda word: len(word) < 6)


def _fit(text: str, width: int) -> str:
    """Return a text cut to the width. In a function with words, its name is cut before the words are."""
    base, _, label = text.partition("<")
    if len(text) <= width or not label.endswith(">"):
        return clean(text, width)
    room = max(_LEAST_BASE, width - len(label) - 1)
    return f"{clean(base, room)}<{clean(label[:-1], max(1, width - min(room, len(base)) - 2))}>"


def _show_difference(texts: dict[str, str], width: int) -> dict[str, str]:
    """Return names that begin alike as their beginning and what follows their common part."""
    columns = zip(*texts.values(), strict=False)
    shared = sum(1 for _ in takewhile(lambda letters: len(set(letters)) == 1, columns))
    head = max(1, min(shared, width // 3))
    return {
        name: text if len(text) <= width else _cut_end(f"{text[:head]}…{text[max(head, shared - 1) :]}", width)
        for name, text in texts.items()
    }


def _cut_end(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 1]}…"
