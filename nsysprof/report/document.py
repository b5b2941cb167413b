"""Define a report as values, without formatting. `report/pages` composes it, `report/formats` renders it.

Cells hold numbers in a unit, and texts are as recorded. Every format makes its own text and does its own escaping.

Choose the words and format the phrases that several reports use.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from nsysprof.notes import Note
from nsysprof.plain_text import plain_line
from nsysprof.results.checks import GateResult
from nsysprof.units import format_factor, format_interval_ns, format_ns

if TYPE_CHECKING:
    from nsysprof.results.analysis import TraceInfo

Value = int | float | str | bool | None


class Unit(StrEnum):
    """The unit of a column's values."""

    TEXT = "text"
    NAME = "name"  # a name from the trace; a narrow format may shorten it to the part that differs from its neighbours
    PROSE = "prose"  # sentences; a narrow format may break them into lines
    NS = "ns"
    EXACT_NS = "exact ns"  # an integer with every digit
    BYTES = "bytes"
    COUNT = "count"
    PERCENT = "percent"  # rounded to three or four digits
    CHANGE_PERCENT = "change in percent"
    SHARE = "share"  # a share in percent, with one decimal
    WHOLE_PERCENT = "whole percent"
    RATIO = "ratio"  # 12.34x
    FACTOR = "factor"  # 12x
    QUOTIENT = "quotient"  # 1.052, to be compared with 1
    NUMBER = "number"  # a number without a unit
    PRICE = "price"  # money, in the currency of the user's price
    PROBABILITY = "probability"
    FLOPS = "FLOP/s"
    BYTES_PER_S = "bytes/s"
    TOKENS_PER_S = "tokens/s"
    PER_S = "1/s"
    JOULES = "J"
    WATTS = "W"

    @property
    def is_text(self) -> bool:
        """Return whether values are texts, which are aligned on the left of their column."""
        return self in (Unit.TEXT, Unit.NAME, Unit.PROSE)


@dataclass(frozen=True)
class ValueChange:
    """The difference between a value and the baseline's, in its own unit."""

    value: float
    unit: Unit
    remark: str = ""


@dataclass(frozen=True)
class Cell:
    """One value of a table, with what is known about it.

    value: a number in the unit, or a text; None is unknown.
    unit: the unit, where it is not the column's.
    low, high: the bounds of its interval, in the same unit.
    error: how far the value may be off, in the same unit.
    before: the baseline's value, where no difference can be given.
    change: the difference from the baseline.
    is_signed: whether a positive number is written with its sign.
    remark: words that follow the value, such as "as long".
    reason: why the value is unknown; shown in its place.
    full: the whole text, where the value is a shortened one.
    """

    value: Value = None
    unit: Unit | None = None
    low: float | None = None
    high: float | None = None
    error: float | None = None
    before: Value = None
    change: ValueChange | None = None
    is_signed: bool = False
    remark: str = ""
    reason: str = ""
    full: str = ""


@dataclass(frozen=True)
class Column:
    """A column of a table.

    title: unique in its table; JSON uses it as the key.
    drop: when the terminal is too narrow, columns with the highest number are left out first; 0 is never left out.
    """

    title: str
    unit: Unit = Unit.TEXT
    drop: int = 0


@dataclass(frozen=True)
class Table:
    """A titled table.

    rows: all rows that any format shows.
    terminal_rows, document_rows: how many rows the terminal and Markdown show (0: the table is left out).
    total_rows: how many rows are in `source`, the file that contains all of them.
    depths: how deep each row is nested, for tables that show a tree; empty for flat ones.
    marks: a word for rows that a reader should look at first, by row number.
    marks_are_bad: whether a mark means that something is wrong.
    is_kept_empty: whether the table is shown even without rows, to say that there was nothing.
    """

    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    total_rows: int = 0
    source: str = ""
    terminal_rows: int = 20
    document_rows: int = 40
    depths: tuple[int, ...] = ()
    marks: Mapping[int, str] = field(default_factory=dict)
    marks_are_bad: bool = False
    is_kept_empty: bool = False

    @property
    def mark_sign(self) -> str:
        """Return the sign beside a mark."""
        return "\N{WARNING SIGN}" if self.marks_are_bad else "\N{BLACK STAR}"

    def is_unknown(self, column: int) -> bool:
        """Return whether a column that may be left out says nothing in any row, not even why."""
        cells = [row[column] for row in self.rows]
        return self.columns[column].drop > 0 and all(cell == Cell(unit=cell.unit) for cell in cells)

    def known(self) -> Table:
        """Return the table without its unknown columns."""
        kept = [number for number in range(len(self.columns)) if not self.is_unknown(number)]
        rows = tuple(tuple(row[number] for number in kept) for row in self.rows)
        return replace(self, columns=tuple(self.columns[number] for number in kept), rows=rows)

    @property
    def unknown_titles(self) -> list[str]:
        """Return the titles of the unknown columns."""
        return [column.title for number, column in enumerate(self.columns) if self.is_unknown(number)]

    @property
    def row_count(self) -> int:
        """Return how many rows there are in all, shown or not."""
        return max(self.total_rows, len(self.rows))

    def first_rows(self, count: int) -> Table:
        """Return the table with at most `count` rows."""
        return replace(self, rows=self.rows[:count], depths=self.depths[:count], total_rows=self.row_count)


@dataclass(frozen=True)
class Lines:
    """A list of sentences.

    is_verdict: whether they are the answer of the report, which is emphasised.
    terminal_lines, document_lines: how many of them the terminal and Markdown show.
    """

    texts: tuple[str, ...]
    is_verdict: bool = False
    terminal_lines: int = 30
    document_lines: int = 200


@dataclass(frozen=True)
class Paragraph:
    """A paragraph of text.

    is_warning: whether the reader must not miss it.
    """

    text: str
    is_warning: bool = False


@dataclass(frozen=True)
class Code:
    """Lines to copy, such as a command."""

    text: str
    language: str = ""


@dataclass(frozen=True)
class Figure:
    """A picture that is stored beside the report as `file`.

    alt: what it shows, for readers who cannot see it.
    in_page: whether a page shows it; it does not where a bar of its own says the same.
    """

    file: str
    alt: str
    png: bytes = b""
    in_page: bool = True


@dataclass(frozen=True)
class Chart:
    """The interactive timeline of a page.

    data: what its script draws.
    alt: what it shows, for readers who cannot see it.
    hint: what a reader can do with it, apart from moving and zooming.
    """

    data: Mapping[str, Any]
    alt: str = "Timeline of ranges, calls, streams and memory."
    hint: str = "A click on a range lights what it and its helper threads launched, and what it captured."


@dataclass(frozen=True)
class Notes:
    """What the reader must know about the numbers. The terminal shows only warnings and errors."""

    notes: tuple[Note, ...]


@dataclass(frozen=True)
class Item:
    """One entry of a ranked list.

    code: a stable code that can be searched for, such as launch-bound.
    where: the range or place in the trace.
    amount: what it costs or would save, with its unit.
    text: what was found.
    next_step: what to do about it.
    """

    code: str
    where: str
    amount: Cell
    text: str
    next_step: str = ""

    @property
    def gist(self) -> str:
        """Return what was found, up to the first semicolon or colon, or the end of the first sentence."""
        return re.split(r"[;:] |\. (?=[A-Z])", self.text, maxsplit=1)[0].rstrip(".") + "."


@dataclass(frozen=True)
class Ranking:
    """Items, the most important one first.

    amount_title: what the items' amounts are, such as "saving per step".
    """

    items: tuple[Item, ...]
    amount_title: str
    amount_unit: Unit = Unit.NS
    source: str = ""
    whole_items: int = 3
    terminal_items: int = 12

    @property
    def whole_count(self) -> int:
        """Return how many items are shown whole. A single one more is, too."""
        return len(self.items) if len(self.items) <= self.whole_items + 1 else self.whole_items


@dataclass(frozen=True)
class Segment:
    """A part of a stacked bar.

    color: the name of its colour, such as a category of work or a cause of idle time.
    floor: the least that it could be; None where that is unknown.
    """

    label: str
    value: float
    color: str
    floor: float | None = None


@dataclass(frozen=True)
class StackedBar:
    """A whole and its parts, in the order in which they are drawn."""

    title: str
    segments: tuple[Segment, ...]
    unit: Unit = Unit.NS

    @property
    def total(self) -> float:
        """Return the sum of the parts."""
        return sum(segment.value for segment in self.segments)

    @property
    def has_floors(self) -> bool:
        """Return whether the least value of any part is known."""
        return any(segment.floor is not None for segment in self.segments)


@dataclass(frozen=True)
class Bars:
    """Values in order of time, such as the times of steps.

    title: what the values are.
    usual: the value to compare them with.
    labels: the name of each value.
    spans: when each began and ended (ns), for a page with a timeline.
    marks: a word for unusual values, by position.
    faint: positions that do not count.
    """

    title: str
    labels: tuple[str, ...]
    values: tuple[float, ...]
    spans: tuple[tuple[int, int], ...]
    usual: float
    marks: Mapping[int, str] = field(default_factory=dict)
    faint: frozenset[int] = frozenset()
    unit: Unit = Unit.NS


@dataclass(frozen=True)
class Gate:
    """The results of a gate's rules."""

    results: tuple[GateResult, ...]


Part = Table | Lines | Paragraph | Code | Figure | Chart | Notes | Ranking | StackedBar | Bars | Gate


@dataclass(frozen=True)
class Section:
    """Parts under a title. Without a title they continue what is before them.

    in_terminal: whether the terminal shows the section.
    is_conclusion: whether it comes last in the terminal.
    is_folded: whether formats that can fold it away do so.
    """

    title: str
    parts: tuple[Part, ...]
    in_terminal: bool = True
    is_conclusion: bool = False
    is_folded: bool = False


@dataclass(frozen=True)
class Report:
    """Everything that a command says, in the order in which a reader needs it."""

    title: str
    sections: tuple[Section, ...]


def list_parts(report: Report) -> Iterable[Part]:
    """Yield every part of the report, in order."""
    for section in report.sections:
        yield from section.parts


def make_table(title: str, columns: Iterable[Column], rows: Iterable[Iterable[Cell | Value]], **fields: Any) -> Table:
    """Return a Table. Plain values among the cells become Cells.

    fields: other fields of Table.
    """
    cells = tuple(tuple(cell if isinstance(cell, Cell) else Cell(cell) for cell in row) for row in rows)
    return Table(title, tuple(columns), cells, **fields)


def table_of(
    title: str,
    items: Iterable[Any],
    columns: Iterable[tuple[Column, Any]],
    **fields: Any,
) -> Table:
    """Return a Table with a row for each item.

    columns: each with what it shows of an item: the name of an attribute, or of a cell where items are mappings, or a
        function.
    fields: other fields of Table.
    """
    shown = [(column, _getter(show) if isinstance(show, str) else show) for column, show in columns]
    rows = ([show(item) for _, show in shown] for item in items)
    return make_table(title, [column for column, _ in shown], rows, **fields)


def _getter(name: str) -> Callable[[Any], Any]:
    from nsysprof.results.roof import known

    return lambda item: known(item[name]) if isinstance(item, Mapping) else getattr(item, name)


# What a table calls kernels that belong to a range which did not launch them, by the prefix of their columns.
CAUSED_WORDS = {"adopted": "by helper threads", "captured": "captured"}
# How a label writes the columns of a shape.
_SHAPE_KEYS = {
    "seq": "S", "batch": "B", "heads": "H", "kv_heads": "KV", "head_dim": "D", "kv_seq": "K", "mask": "mask",
    "head_dim_v": "DV", "softcap": "cap", "kv_dtype": "cache", "page_size": "page",
}  # fmt: skip
# The most values that a text names; the tables beside it have all of them.
MOST_NAMED = 4
# The ends of an interval that is shown differ by this factor at most.
_MOST_APART = 30


def times_as_long(cases: Sequence[tuple[str, float]]) -> str:
    """Return `efficient takes 1.4x and math 12x as long`.

    cases: backends and their factors.
    """
    factors = [f"{backend} {format_factor(factor)}" for backend, factor in cases]
    factors[0] = f"{cases[0][0]} takes {format_factor(cases[0][1])}"
    return f"{join_names(factors)} as long"


def join_names(names: Sequence[str]) -> str:
    """Return `a, b and c`."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def count_of(count: int, noun: str) -> str:
    """Return `1 case` or `1,200 cases`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def is_telling(low_ns: float, high_ns: float) -> bool:
    """Return whether an interval says anything. From two processes it may reach from nothing to minutes."""
    return high_ns <= _MOST_APART * low_ns


def latency_text(median_ns: float, low_ns: float | None, high_ns: float | None) -> str:
    """Return `52.54 [50.30, 54.46] us`, or only the median where its interval is unknown or says nothing."""
    if low_ns is None or high_ns is None or not is_telling(low_ns, high_ns):
        return format_ns(median_ns)
    return format_interval_ns(median_ns, low_ns, high_ns)


def shape_label(names: Sequence[str], values: Sequence[object]) -> str:
    """Return a shape in few characters: `KV=4 D=64 causal fwd`."""
    words = []
    for name, value in zip(names, values, strict=True):
        key = _SHAPE_KEYS.get(name, "")
        flags = {"causal": ("full", "causal"), "sinks": ("no sinks", "sinks")}
        words.append(flags[name][bool(value)] if name in flags else f"{key}={value}" if key else str(value))
    return " ".join(words)


@dataclass(frozen=True)
class Words:
    """The nouns that a report uses."""

    work: str
    works: str
    launches: str
    device: str
    memory: str


KERNELS = Words("kernel", "kernels", "launches", "GPU", "VRAM")
OPERATORS = Words("operator", "operators", "calls", "CPU", "memory")

# Causes of idle time as they follow a share: "38 % while the host is busy outside CUDA". docs/causes.md defines each.
IDLE_WORDS = {
    "sync-then-late-launch": "after the host has waited for the GPU (sync-then-late-launch)",
    "host-outside-cuda": "while the host is busy outside CUDA (host-outside-cuda)",
    "slow-call": "during slow CUDA calls (slow-call)",
    "pageable-copy": "around copies of pageable memory (pageable-copy)",
    "dependency": "until other work of the GPU is done (dependency)",
    "collective": "until other ranks take part (collective)",
    "profiler": "for the profiler (profiler)",
    "python-gc": "while Python collects garbage (python-gc)",
    "jit-compile": "while torch, Triton or CuTe DSL compile (jit-compile)",
    "waiting-for-work": "while the host sleeps or waits for work, such as a request (waiting-for-work)",
    "unknown": "for an unknown cause (unknown)",
    "outside": "before the first or after the last work of the trace",
}


def words_for(trace: TraceInfo) -> Words:
    """Return the nouns for a trace. Operators are never called kernels, and the CPU's memory is not VRAM."""
    return OPERATORS if trace.work_kind == "operator" else KERNELS


def sentence_of(words: Sequence[str], begin: str = "Furthest from 1: ") -> str:
    """Return a sentence with the first of the words; nothing without any."""
    return f"{begin}{join_names(list(words[:MOST_NAMED]))}." if words else ""


# GitHub makes links and mentions of these even after a backslash. An invisible space of zero width prevents that.
_ALIVE = re.compile(r"://|@|#(?=\d)|\bwww(?=\.)|\bGH(?=-\d)|\b(mailto|xmpp)(?=:)", re.IGNORECASE)


def clean(text: str, limit: int = 0) -> str:
    """Return one line without control characters. A text longer than `limit` is cut in the middle (0: no limit)."""
    line = plain_line(text if limit == 0 else text[: limit * 64])
    if limit and len(line) > limit:
        head = (limit - 1) * 2 // 3
        line = line[:head] + "…" + line[len(line) - (limit - 1 - head) :]
    return line


def escape_markdown(text: str) -> str:
    """Return a text that GitHub shows literally, inside a table cell too."""
    escaped = re.sub(r"([\\`*_{}\[\]<>|#~$!@&])", r"\\\1", clean(text))
    return _ALIVE.sub(lambda match: ":\u200b//" if match.group() == "://" else f"{match.group()}\u200b", escaped)


def escape_mathtext(text: str) -> str:
    """Return a text that matplotlib does not read as mathematics."""
    return clean(text).replace("$", r"\$")
