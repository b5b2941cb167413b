"""Define Option: what the command line says about one field of a request, which stands on the field itself."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import MISSING, Field, dataclass
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

from nsysprof.attention.shape import parse_window
from nsysprof.errors import UsageError

_MASKS = {"yes": (True,), "no": (False,), "both": (True, False)}
_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*(B|KB|MB|GB|KiB|MiB|GiB)")
_SIZES = {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}


@dataclass(frozen=True)
class TypedForm:
    """How the command line writes the value of a field."""

    # The type of what is typed.
    kind: Any
    # What is typed, and the option's name -> the value.
    read: Callable[[Any, str], Any]
    # The value -> what would be typed, which the help shows as the default.
    show: Callable[[Any], Any]


@dataclass(frozen=True)
class Option:
    """The option of a field, such as `out: Annotated[Path | None, Option("Folder.", ("--out", "-o"))] = None`."""

    help: str
    # Without names, the field's own name is the option's: --keep-names; of a flag also --no-keep-names.
    names: tuple[str, ...] = ()
    panel: str = ""
    metavar: str = ""
    min: float | None = None
    max: float | None = None
    # None where it is typed as the field holds it.
    form: TypedForm | None = None
    # Whether it is an argument, which has a place instead of a name.
    is_argument: bool = False
    shows_default: bool = True
    # Options that cannot be given beside it.
    excludes: tuple[str, ...] = ()
    # Names of earlier versions, which the command line still reads and the help does not show.
    old_names: tuple[str, ...] = ()
    # The value where only its name is typed, before another option or at the end; "" where it must have one.
    bare: str = ""

    def flag(self, field_name: str) -> str:
        """Return the option's first name."""
        return self.names[0].partition("/")[0] if self.names else f"--{field_name.replace('_', '-')}"


@dataclass(frozen=True)
class OptionField:
    """A field of a request that has an option."""

    name: str
    kind: Any
    option: Option
    # The default of the field, which is MISSING where there is none.
    default: Any

    @property
    def flag(self) -> str:
        return self.option.flag(self.name)

    @property
    def typed_kind(self) -> Any:
        """Return the type of what is typed."""
        return self.kind if self.option.form is None else self.option.form.kind

    @property
    def typed_default(self) -> Any:
        """Return what would have to be typed for the default; MISSING where there is none."""
        form = self.option.form
        return self.default if form is None or self.default is MISSING else form.show(self.default)

    def read(self, typed: Any) -> Any:
        """Return the value of what was typed. Raises UsageError."""
        return typed if self.option.form is None else self.option.form.read(typed, self.flag)


def option_field(name: str, hint: Any, default: Any) -> OptionField | None:
    """Return the field, or the parameter, if its type carries an option."""
    parts = get_args(hint) if get_origin(hint) is not None else ()
    option = next((part for part in parts if isinstance(part, Option)), None)
    return None if option is None else OptionField(name, parts[0], option, default)


def field_hints(request: type) -> dict[str, Any]:
    """Return the types of a request's fields, with their options."""
    return get_type_hints(request, include_extras=True)


def default_of(field: Field[Any]) -> Any:
    """Return the default of a field, or MISSING."""
    return field.default if field.default_factory is MISSING else field.default_factory()


def _read_sizes(text: str, flag: str) -> tuple[int, ...]:
    sizes = []
    for part in _split(text):
        try:
            sizes.append(int(part))
        except ValueError:
            raise UsageError(
                f"{flag} {part!r} is not an integer.", "Give positive integers, separated by commas."
            ) from None
    return tuple(sizes)


def _read_ranks(text: str, flag: str) -> tuple[int, ...]:
    ranks: set[int] = set()
    for part in _split(text):
        low, dash, high = part.partition("-")
        if not low.isdigit() or (dash and not high.isdigit()) or int(high or low) < int(low):
            raise UsageError(f"{flag} {part!r} is not a valid rank.", "Give ranks and spans of ranks, e.g. 0,8-11.")
        ranks.update(range(int(low), int(high or low) + 1))
    return tuple(sorted(ranks))


def _split(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _join(values: Sequence[object]) -> str:
    return ",".join(map(str, values))


# Lists that are separated by commas: `math, flash`, `1024,2048`, and ranks with spans: `0,8-11`.
NAMES = TypedForm(str, lambda text, _: _split(text), _join)
SIZES = TypedForm(str, _read_sizes, _join)
RANKS = TypedForm(str, _read_ranks, _join)
# Which masks to measure; True is a causal one.
CAUSAL = TypedForm(
    Literal["yes", "no", "both"],
    lambda text, _: _MASKS[text],
    lambda masks: next((text for text, known in _MASKS.items() if known == masks), "yes"),
)
WINDOW = TypedForm(str | None, lambda text, _: parse_window(text) if text is not None else None, lambda _: None)
ATTRIBUTION = TypedForm(
    Literal["all", "launched"], lambda text, _: text == "launched", lambda only: "launched" if only else "all"
)
# Bytes, typed as megabytes.
MEGABYTES = TypedForm(float, lambda size, _: int(size * 1e6), lambda size: size / 1e6)
# A number where 0 stands for an option that is left out.
OR_ZERO = TypedForm(int | None, lambda number, _: number or 0, lambda number: number or None)
# Options that may be repeated, and arguments of any number.
REPEATED = TypedForm(list[str] | None, lambda texts, _: tuple(texts or ()), lambda texts: list(texts) or None)
WORDS = TypedForm(list[str], lambda words, _: tuple(words or ()), list)
PATHS = TypedForm(list[Path], lambda paths, _: tuple(paths), list)


def parse_size(text: str) -> int:
    """Return the bytes of a text such as "64MiB". Raises UsageError for any other text."""
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise UsageError(f"'{text}' is not a valid size.", f"Give a number with one of {', '.join(_SIZES)}.")
    return int(float(match[1]) * _SIZES[match[2]])
