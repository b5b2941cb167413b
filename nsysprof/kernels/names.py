"""Look up what is known of kernels by their names, in the data file beside this module and in a user's own file."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from importlib.resources import files
from pathlib import Path

from ahocorasick_rs import AhoCorasick

from nsysprof.errors import UsageError

# What a kernel does.
CATEGORIES = (
    "gemm", "convolution", "attention", "normalization", "softmax", "elementwise", "reduction", "index", "layout",
    "copy", "fill", "optimizer", "random", "communication", "fft", "wait", "graph", "other",
)  # fmt: skip
# What limits it: tensor cores, the other cores, or memory. "other" where the name does not tell.
TENSOR, PLAIN, MEMORY, OTHER = UNITS = ("tensor", "plain", "memory", "other")
# The environment variable that names a file of the user's own kernels.
OWN_NAMES = "NSYSPROF_KERNEL_NAMES"
_COLUMNS = ("category", "unit", "backend", "pattern", "example")
# What a bundle writes for a name of the user's: <kernel-3 gemm>.
_TOKEN = re.compile(r"<kernel-\d+ ([a-z]+)>")
_OF_MEMORY = frozenset(CATEGORIES) - {
    "gemm", "convolution", "attention", "communication", "fft", "wait", "graph", "other"
}  # fmt: skip
# The most characters to look at in a name, and what a user's file may hold.
_MOST_READ, _MOST_BYTES = 4_096, 1 << 20
# What only regular expressions have: names of kernels have neither these letters nor these classes and repeats.
_OF_EXPRESSIONS = re.compile(r"\\.|\.[*+]|\(\?|\||\?|\$$|(?<=.)\^|\[\^?\w-\w\]?|\{\d+(,\d*)?\}|[)\]]\+")
# The names whose kinds are kept.
_MOST_KEPT = 1 << 17


@dataclass(frozen=True)
class KernelKind:
    """What a kernel's name says about it."""

    category: str
    unit: str
    # The attention backend that it belongs to; "" for all other kernels.
    backend: str = ""


@dataclass(frozen=True)
class KernelRule:
    """One line of a file: the names that match a pattern belong to kernels of one kind.

    The text between the stars of the pattern occurs in the name in this order, whatever the case of its letters. After
    ^ it begins the name.
    """

    kind: KernelKind
    pattern: str
    example: str

    @cached_property
    def _parts(self) -> tuple[bool, str, list[str]]:
        """Return whether the pattern begins the name, its first text, and the others."""
        first, *others = self.pattern.split("*")
        return first.startswith("^"), first.removeprefix("^"), others

    def matches(self, name: str) -> bool:
        """Return whether the pattern matches a name in lower case, in time that grows with the name's length."""
        begins, first, others = self._parts
        at = name.find(first)
        if at < 0 or (begins and at):
            return False
        end = at + len(first)
        for part in others:
            at = name.find(part, end)
            if at < 0:
                return False
            end = at + len(part)
        return True


_UNKNOWN = KernelKind("other", OTHER)


def kind_of(name: str) -> KernelKind:
    """Return what the demangled name of a kernel, or the name of a torch operator, says about it."""
    return _kind_of(name[:_MOST_READ], os.environ.get(OWN_NAMES, ""))


# The ranks of a job have the same kernels. A name is asked for several times, so that the names of a whole trace must
# fit: a file of 8 MB can have 60,000.
@lru_cache(_MOST_KEPT)
def _kind_of(name: str, own_file: str) -> KernelKind:
    token = _TOKEN.fullmatch(name)
    if token is not None and token[1] in CATEGORIES:
        return KernelKind(token[1], MEMORY if token[1] in _OF_MEMORY else OTHER)
    text = name.lower().removeprefix("void ")
    rules, finder, rules_by_text = _find_rules(own_file)
    found = finder.find_matches_as_indexes(text, overlapping=True)
    numbers = sorted({number for place, _, _ in found for number in rules_by_text[place]})
    return next((rules[number].kind for number in numbers if rules[number].matches(text)), _UNKNOWN)


@cache
def _find_rules(own_file: str) -> tuple[tuple[KernelRule, ...], AhoCorasick, list[list[int]]]:
    """Return all rules in order, what finds their longest texts in a name at once, and the rules of each text."""
    rules = (*_own_rules(own_file), *known_rules()) if own_file else known_rules()
    rules_by_text: dict[str, list[int]] = {}
    for number, rule in enumerate(rules):
        longest = max(rule.pattern.removeprefix("^").split("*"), key=len)
        rules_by_text.setdefault(longest, []).append(number)
    return rules, AhoCorasick(list(rules_by_text)), list(rules_by_text.values())


def categorize(name: str) -> str:
    """Return the category of a demangled kernel name or an operator."""
    return kind_of(name).category


@cache
def known_rules() -> tuple[KernelRule, ...]:
    """Return the rules of the package, in the order in which they are tried."""
    text = files(__package__).joinpath("kernels.tsv").read_text(encoding="utf-8")
    return tuple(_parse(text.splitlines(), "kernels.tsv"))


@cache
def _own_rules(path: str) -> tuple[KernelRule, ...]:
    return read_rules(Path(path))


@contextmanager
def use_names(path: Path | None) -> Iterator[None]:
    """Let the rules of a user's file go before those of the package, in this process and in those that it starts.

    path: None to leave everything as it is.

    Raises UsageError as read_rules does.
    """
    if path is None:
        yield
        return
    read_rules(path)
    before = os.environ.get(OWN_NAMES)
    os.environ[OWN_NAMES] = str(path.absolute())
    try:
        yield
    finally:
        del os.environ[OWN_NAMES]
        if before is not None:
            os.environ[OWN_NAMES] = before


def read_rules(path: Path) -> tuple[KernelRule, ...]:
    """Return the rules of a user's file, which has the form of the package's own.

    Raises UsageError if the file cannot be read or a line is wrong.
    """
    try:
        with path.open("rb") as file:
            content = file.read(_MOST_BYTES + 1)
        text = content.decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"The kernel names {path} cannot be read: {error}") from None
    if len(content) > _MOST_BYTES:
        raise UsageError(f"The kernel names {path} are larger than 1 MiB.")
    return tuple(_parse(text.splitlines(), str(path)))


def _parse(lines: Iterable[str], source: str) -> Iterator[KernelRule]:
    for number, line in enumerate(lines, 1):
        fields = line.split("\t")
        if not line.strip() or line.startswith("#") or tuple(fields) == _COLUMNS[: len(fields)]:
            continue
        category, unit, backend, pattern, example = (*fields, "", "", "", "")[:5]
        problem = _problem(category, unit, pattern, len(fields))
        if problem:
            raise UsageError(
                f"{source}, line {number}: {problem} A line has, with tabs between them: {', '.join(_COLUMNS[:4])}."
            )
        yield KernelRule(KernelKind(category, unit, backend), pattern.lower(), example)


def _problem(category: str, unit: str, pattern: str, count: int) -> str:
    """Return what is wrong with a line; "" where nothing is."""
    if not 4 <= count <= len(_COLUMNS):
        return f"It has {count} fields."
    if category not in CATEGORIES:
        return f"There is no category {category!r}; there are {', '.join(CATEGORIES)}."
    if unit not in UNITS:
        return f"There is no unit {unit!r}; there are {', '.join(UNITS)}."
    if not pattern.strip("^* "):
        return "The pattern matches every name."
    expression = _OF_EXPRESSIONS.search(pattern)
    if expression is not None:
        return (
            f"The pattern has {expression[0]!r}, as regular expressions do; it is a part of the name, in which * "
            "stands for any text and ^ for the beginning."
        )
    return ""
