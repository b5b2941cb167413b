"""Keep an answer to an agent below a maximum size, and say what was left out of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

# An answer has at most this many characters as it is sent, about a third of what agents commonly accept.
MOST_CHARACTERS = 30_000
MOST_ROWS = 200
# The longest name that is shown whole, and the longest sentence.
MOST_NAME, _MOST_SENTENCE = 300, 1_500
# Sentences of our own. All other texts are names of the program's.
_SENTENCES = ("text", "next_step", "said", "unknown_because", "reason", "how_to_see_more")
# How many rows of each list are kept, until the answer is small enough.
_FEWER = (MOST_ROWS, 150, 100, 70, 50, 40, 30, 20, 15, 10, 7, 5, 3, 2, 1)
_ELLIPSIS = "\N{HORIZONTAL ELLIPSIS}"


def bound(answer: dict[str, Any], how_to_see_more: str = "") -> dict[str, Any]:
    """Return the answer, in which every list keeps as many of its first entries as fit.

    `left_out` then says how many entries of each list are missing, by its name.

    how_to_see_more: what an agent does to get the rest.
    """
    shown: dict[str, Any] = {}
    for most in _FEWER:
        missing: dict[str, int] = {}
        shown = _cut(answer, most, "", missing)
        if missing:
            shown |= {"left_out": dict(list(missing.items())[:MOST_ROWS]), "how_to_see_more": how_to_see_more}
        if _size(shown) <= MOST_CHARACTERS:
            break
    return shown


def page(name: str, rows: Callable[[int, int], Sequence[Any]], total: int, offset: int, limit: int) -> dict[str, Any]:
    """Return the rows from an offset on, how many there are in all, and where the next ones begin (None: nowhere).

    rows: returns the rows from a number to before another.
    """
    first = min(max(0, offset), total)
    wanted = min(max(1, limit), MOST_ROWS)
    found = [_cut_value(row, MOST_ROWS, "", {}) for row in rows(first, min(first + wanted, total))]
    while True:
        following = first + len(found)
        answer = {name: found, "total": total, "next_offset": following if following < total else None}
        if len(found) <= 1 or _size(answer) <= MOST_CHARACTERS:
            return answer
        found = found[: max(1, len(found) * 4 // 5)]


def shorten(text: str, most: int = MOST_NAME) -> str:
    """Return a text, cut where it is longer than `most` characters."""
    return text if len(text) <= most else f"{text[: most - 1]}{_ELLIPSIS}"


def _size(answer: dict[str, Any]) -> int:
    return len(json.dumps(answer, indent=2, default=str))


def _cut(answer: dict[Any, Any], most: int, path: str, missing: dict[str, int]) -> dict[str, Any]:
    kept = list(answer.items())[: max(most, 20)]
    if len(kept) < len(answer):
        missing[path or "answer"] = missing.get(path or "answer", 0) + len(answer) - len(kept)
    return {shorten(str(key)): _cut_value(value, most, _join(path, str(key)), missing) for key, value in kept}


def _cut_value(value: Any, most: int, path: str, missing: dict[str, int]) -> Any:
    if isinstance(value, dict):
        return _cut(value, most, path, missing)
    if isinstance(value, list | tuple):
        if len(value) > most:
            missing[path] = missing.get(path, 0) + len(value) - most
        return [_cut_value(each, most, path, missing) for each in value[:most]]
    if isinstance(value, str):
        is_sentence = path.rpartition(".")[2] in _SENTENCES
        return shorten(value, _MOST_SENTENCE if is_sentence else MOST_NAME)
    return value


def _join(path: str, key: str) -> str:
    return shorten(f"{path}.{key}" if path else key)
