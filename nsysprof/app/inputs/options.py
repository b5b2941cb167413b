"""Define Option, what the command line says about a field of a request, and the options that several requests have."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import MISSING, Field, dataclass, fields, replace
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

from nsysprof.attention.mask import parse_window
from nsysprof.errors import UsageError
from nsysprof.results.samples import LEAST_BLOCKS

_MASKS = {"yes": (True,), "no": (False,), "both": (True, False)}
_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*(B|KB|MB|GB|KiB|MiB|GiB)")
_SIZES = {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}

# With fewer blocks of its best backends, a tuning has barely begun to measure them.
LEAST_TUNING_BLOCKS = LEAST_BLOCKS
# The limits of recording a held program: the length of a recording (s), how long steps before and after it are watched
# (s), and how many parts are kept.
LONGEST_RECORDING_S = 24 * 3600.0
MOST_WATCHED_S = 3600.0
MOST_KEPT_PARTS = 10_000
# The smallest value of time options where zero would measure nothing (s).
LEAST_SECONDS = 0.001


GRID, MEASUREMENT, VERDICT, OUTPUT, TOOLS = "Grid", "Measurement", "Verdict", "Output", "NVIDIA's tools"
COUNTERS, PROGRAM, SIDES = "Hardware counters", "A program instead of the grid", "Two sides"


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
    # Without names, the field's own name is the option's: --figures, and of a flag that is not off also --no-figures.
    names: tuple[str, ...] = ()
    # Without a panel, that of the request.
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
    def names(self) -> tuple[str, ...]:
        """Return the names that the command line reads; none where they are those of the field."""
        return self.option.names or ((self.flag,) if self.default is False else ())

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


def given_options(request: Any, *names: str) -> list[str]:
    """Return the options of those fields of a request that are set, and not to their defaults.

    names: the fields.
    """
    hints, by_name = field_hints(type(request)), {field.name: field for field in fields(request)}
    options = [option_field(name, hints[name], default_of(by_name[name])) for name in names]
    values = {option.flag: (getattr(request, option.name), option.default) for option in options if option is not None}
    return [flag for flag, (value, default) in values.items() if value and value != default]


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


# The verdict on two sides.
FailOn = Annotated[
    str,
    Option(
        "Gate, such as slower:3%,step:3%,launches:+1,vram:+5%. Exit code 0 pass, 1 regression, 3 inconclusive.",
        panel=VERDICT,
    ),
]
Margin = Annotated[
    float | None,
    Option(
        "Smallest difference that matters (percent). Default: the limit of `slower` or `step` in --fail-on, or 3.",
        ("--margin",),
        VERDICT,
    ),
]
Attribution = Annotated[
    bool,
    Option(
        "Kernels that count for a range: all (also those that helper threads launched for it, and of CUDA graphs that "
        "it captured), or launched (NVIDIA's numbers).",
        ("--attribution",),
        form=ATTRIBUTION,
    ),
]
KernelNames = Annotated[
    Path | None,
    Option(
        "A file of your own kernels: category, unit, backend and pattern, with tabs between them. It goes before what "
        "is known.",
    ),
]
Policy = Annotated[
    Path | None, Option("A policy.json of tune: the attention backends that were measured to be faster.")
]

BASELINE = Option(
    "Measure two sides in turn: settings NAME=VALUE and a Python, as after `env`; with a program, settings and a "
    "policy.json. Default: this Python in this environment.",
    panel=SIDES,
)
CANDIDATE = Option("The candidate side, written like --baseline.", panel=SIDES)

# The measurement.
Device = Annotated[Literal["auto", "cuda", "cpu"], Option("Where to measure.", panel=MEASUREMENT)]
BlockSamples = Annotated[
    int,
    Option(
        "Maximum number of samples in a block of a case.", ("--block-samples",), MEASUREMENT, min=1,
        old_names=("--samples",),
    ),
]  # fmt: skip
SampleSeconds = Annotated[
    float, Option("Take fewer samples if they take longer than this (s).", panel=MEASUREMENT, min=LEAST_SECONDS)
]
WarmupSeconds = Annotated[float, Option("Longest warm-up before each block (s).", panel=MEASUREMENT, min=0)]
Seed = Annotated[
    int | None, Option("Seed for the order of the blocks. Default: random; it is printed.", panel=MEASUREMENT)
]
Flush = Annotated[bool, Option("Empty the caches before each sample.", ("--flush/--warm-l2",), MEASUREMENT)]
Check = Annotated[bool, Option("Compare results with a float64 reference before timing.", panel=MEASUREMENT)]
AllowError = Annotated[
    float,
    Option(
        "Error against the float64 reference with which a backend that is approximate may still win, such as 1e-2.",
        panel=MEASUREMENT,
        min=0,
        max=1,
    ),
]
CaseTimeout = Annotated[
    float, Option("Seconds after which a case is stopped.", ("--case-timeout",), MEASUREMENT, min=LEAST_SECONDS)
]
Budget = Annotated[float, Option("Time limit in seconds.", ("--budget",), MEASUREMENT, min=LEAST_SECONDS)]
Processes = Annotated[int, Option("Number of fresh processes.", panel=MEASUREMENT, min=1)]

# How a program is recorded.
PROFILER = Option(
    "auto, nsys, torch or none; ',ncu' adds a pass that counts. auto: nsys if there is one and a GPU, else torch's own "
    "profiler.",
    ("--profiler",),
    MEASUREMENT,
)
Profilers = Annotated[tuple[str, ...], replace(PROFILER, form=NAMES)]
GpuMetrics = Annotated[bool, Option("Sample DRAM traffic under nsys.", panel=COUNTERS)]
GpuMetricsFrequency = Annotated[int, Option("Samples a second.", panel=COUNTERS, min=10, max=200_000)]
STEP_PATTERN = Option(
    "A printed line that matches this regular expression ends a step; a group named s, ms, us or ns is its time."
)
KEEP = Option(
    "Record part after part, and keep this many of the last.", min=1, max=MOST_KEPT_PARTS, shows_default=False
)
MAX_RECORDING = Option(
    "Stop recording when nsys has written this many megabytes. 0: no limit.",
    ("--max-recording",),
    min=0,
    form=MEGABYTES,
    old_names=("--max-size",),
)
KEEP_REPORT = Option("Keep nsys' own reports.")

# NVIDIA's tools.
Nsys = Annotated[Path | None, Option("The nsys to use. Default: NSYSPROF_NSYS, else the one found.", panel=TOOLS)]
Ncu = Annotated[Path | None, Option("The ncu to use. Default: NSYSPROF_NCU, else the one found.", panel=TOOLS)]

# The output.
Resume = Annotated[bool, Option("Continue with the results in --out.", panel=OUTPUT)]
Force = Annotated[bool, Option("Replace an older result.", panel=OUTPUT)]
Figures = Annotated[bool, Option("Draw the figures.", panel=OUTPUT)]
Database = Annotated[Path | None, Option("Append the results to this SQLite database.", panel=OUTPUT)]


def out_option(what: str) -> Option:
    """Return the option --out, -o of a command.

    what: its help: what is written there, and the default.
    """
    return Option(what, ("--out", "-o"), OUTPUT)


def program_argument(what: str) -> Option:
    """Return the argument that is a program with its own arguments."""
    return Option(what, metavar="-- PROGRAM [ARGUMENTS]", form=WORDS, is_argument=True, shows_default=False)


def repeated_option(what: str, name: str, *, panel: str = "", metavar: str = "", bare: str = "") -> Option:
    """Return an option that may be given several times. bare: see Option."""
    return Option(what, (name,), panel, metavar, form=REPEATED, bare=bare)
