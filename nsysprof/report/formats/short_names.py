"""Cut names to a width so that the names of one column stay distinguishable."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import takewhile

from nsysprof.report.formats.escape import clean

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
    found = _BASE.match(_ANONYMOUS.sub("", text))
    return found.group(2) if found and text.endswith((")", ">", "]")) else text


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
