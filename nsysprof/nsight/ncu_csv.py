"""Read what `ncu --csv` prints, of any version and locale: one row per launch (`--page raw`) or per metric.

Numbers are returned in base units: bytes, nanoseconds, hertz, percent. ncu scales units to the value (Mbyte, usecond),
and writes numbers with the separators of the locale, where "27.595" may mean 27595 or 27.595. Values that can be read
in only one way show which of the two a file uses. Where there are none, a doubtful value of a counted quantity (bytes,
sectors, instructions) is read as a whole number, and any other is refused.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass

from nsysprof.errors import TraceError

_HEADER = '"ID"'
_NOTHING = {"", "n/a", "(!) n/a", "no data", "-"}
# Each unit that ncu uses, with its size in base units. K is 1000 for bytes too.
_UNITS = {
    **dict.fromkeys(("byte", "B"), ("byte", 1.0)),
    **{f"{p}byte": ("byte", f) for p, f in (("K", 1e3), ("M", 1e6), ("G", 1e9), ("T", 1e12))},
    **dict.fromkeys(("ns", "nsecond"), ("ns", 1.0)),
    **dict.fromkeys(("us", "usecond"), ("ns", 1e3)),
    **dict.fromkeys(("ms", "msecond"), ("ns", 1e6)),
    **dict.fromkeys(("s", "second"), ("ns", 1e9)),
    **{f"{p}hz": ("hz", f) for p, f in (("", 1.0), ("K", 1e3), ("M", 1e6), ("G", 1e9))},
    **{f"cycle/{p}second": ("hz", f) for p, f in (("", 1.0), ("u", 1e6), ("n", 1e9))},
}
_WHOLE = {"byte", "cycle", "sector", "inst", "warp", "block", "thread", "pass", "register/thread", "byte/block"}
_POINT = re.compile(r"-?\d{1,3}(,\d{3})+\.\d+|-?\d{1,3}(,\d{3}){2,}|-?\d+\.(\d{1,2}|\d{4,})|-?0\.\d+")
_COMMA = re.compile(r"-?\d{1,3}(\.\d{3})+,\d+|-?\d{1,3}(\.\d{3}){2,}|-?\d+,(\d{1,2}|\d{4,})|-?0,\d+")
_PLAIN = re.compile(r"-?[0-9]+")
# The number of a launch. Python refuses to convert thousands of digits.
_ID = re.compile(r"[0-9]{1,18}")
# How many characters of a cell of ranges are read.
_MOST_RANGE_TEXT = 8_000
_DOUBTFUL = re.compile(r"-?\d{1,3}[.,]\d{3}")
_SCIENTIFIC = re.compile(r"-?\d+(\.\d+)?[eE][+-]?\d+")
_MESSAGE = re.compile(r":(?:REGISTERED|ASCII|UNICODE):(.*)$", re.DOTALL)
_CLOSING = re.compile(r'"(?=\s|$)')


@dataclass(frozen=True)
class NcuKernel:
    """One launch that ncu measured."""

    number: int
    # The kernel's name, demangled or mangled as ncu was asked to print it.
    name: str
    # The messages of the NVTX ranges around the launch.
    ranges: tuple[str, ...]
    grid: str
    block: str
    # The metrics that have a value, in base units.
    metrics: dict[str, float]
    # Cells that are not numbers, such as the device's name.
    texts: dict[str, str]


@dataclass(frozen=True)
class NcuPage:
    """The launches of a table."""

    kernels: tuple[NcuKernel, ...]
    # Metrics with values that could be read as two different numbers, and how many such values each has.
    refused: dict[str, int]


def parse_ncu_csv(text: str) -> NcuPage:
    """Return the launches of a table that ncu printed.

    Lines before the header (the program's own output, ==PROF== lines) and after the table are ignored. Raises
    TraceError, with what ncu said, when there is no table.
    """
    rows = list(_rows(text))
    if not rows:
        said = next((line.partition("==ERROR==")[2].strip() for line in text.splitlines() if "==ERROR==" in line), "")
        why = f"ncu said: {said[:200]}" if said else 'no line begins with "ID"'
        raise TraceError(
            f"This is not a table of Nsight Compute: {why}.", "Print it with ncu --import FILE --csv --page raw."
        )
    header, body = rows[0], [row for row in rows[1:] if len(row) == len(rows[0])]
    if not {"ID", "Kernel Name"} <= set(header):
        raise TraceError("This table of Nsight Compute has no column Kernel Name.", "Print it with --page raw.")
    return _long(header, body) if "Metric Name" in header else _wide(header, body)


def _rows(text: str) -> Iterator[list[str]]:
    lines = text.lstrip("\ufeff").splitlines(keepends=True)
    start = next((i for i, line in enumerate(lines) if line.startswith((_HEADER, "ID,"))), None)
    if start is None:
        return
    kept = (line for line in lines[start:] if not line.startswith("=="))
    try:
        yield from csv.reader(kept)
    except csv.Error as error:
        raise TraceError(f"This table of Nsight Compute is damaged: {error}.", "Print it again.") from error


class _Numbers:
    """Reads the numbers of one file by one convention."""

    def __init__(self, cells: Iterator[str]) -> None:
        point = comma = False
        for cell in cells:
            point = point or _POINT.fullmatch(cell) is not None
            comma = comma or _COMMA.fullmatch(cell) is not None
        self._decimal = None if point == comma else ("." if point else ",")
        self.refused: dict[str, int] = {}

    def read(self, cell: str, unit: str, metric: str) -> float | None:
        base, factor = _UNITS.get(unit, (unit, 1.0))
        head, slash, tail = unit.partition("/")
        if slash and unit not in _UNITS and head in _UNITS:
            base, factor = f"{_UNITS[head][0]}/{tail}", _UNITS[head][1]
        try:
            value = self._value(cell, whole=base in _WHOLE and factor == 1.0)
        except ValueError:  # several decimal points, or digits that do not form a number
            value = None
        if value is None or not math.isfinite(value * factor):
            self.refused[metric] = self.refused.get(metric, 0) + 1
            return None
        return value * factor

    def _value(self, cell: str, *, whole: bool) -> float | None:
        if _PLAIN.fullmatch(cell) or _SCIENTIFIC.fullmatch(cell):
            return float(cell)
        decimal = self._decimal
        if decimal is None and _POINT.fullmatch(cell):
            decimal = "."
        elif decimal is None and _COMMA.fullmatch(cell):
            decimal = ","
        if decimal is None:
            return float(re.sub(r"[.,]", "", cell)) if whole and _DOUBTFUL.fullmatch(cell) else None
        group = "," if decimal == "." else "."
        return float(cell.replace(group, "").replace(decimal, "."))


def _is_number(cell: str) -> bool:
    return re.fullmatch(r"-?\d[\d.,]*([eE][+-]?\d+)?", cell) is not None


def _wide(header: list[str], body: list[list[str]]) -> NcuPage:
    column = {name: index for index, name in enumerate(header)}
    units = body[0] if body and not body[0][column["ID"]] else [""] * len(header)
    launches = [row for row in body if _ID.fullmatch(row[column["ID"]])]
    fixed = {index for name, index in column.items() if "__" not in name}
    values = [index for index in range(len(header)) if index not in fixed]
    numbers = _Numbers(row[i] for row in launches for i in values)
    kernels = []
    for row in launches:
        metrics, texts = {}, {}
        for i in values:
            cell = row[i].strip()
            if cell in _NOTHING:
                continue
            if not _is_number(cell):
                texts[header[i]] = cell
                continue
            value = numbers.read(cell, units[i], header[i])
            if value is not None:
                metrics[header[i]] = value
        kernels.append(_kernel(row, column, metrics, texts))
    return NcuPage(tuple(kernels), numbers.refused)


def _long(header: list[str], body: list[list[str]]) -> NcuPage:
    column = {name: index for index, name in enumerate(header)}
    missing = [f"Metric {what}" for what in ("Unit", "Value") if f"Metric {what}" not in column]
    if missing:
        raise TraceError(f"This table of Nsight Compute has no column {missing[0]}.", "Print it with --page raw.")
    name_at, unit_at, value_at = (column[f"Metric {what}"] for what in ("Name", "Unit", "Value"))
    numbers = _Numbers(row[value_at] for row in body)
    kernels: dict[str, NcuKernel] = {}
    for row in body:
        key, cell, metric = row[column["ID"]], row[value_at].strip(), row[name_at]
        if not _ID.fullmatch(key):
            continue
        if key not in kernels:
            kernels[key] = _kernel(row, column, {}, {})
        if cell in _NOTHING or not metric:
            continue
        if not _is_number(cell):
            kernels[key].texts[metric] = cell
            continue
        value = numbers.read(cell, row[unit_at], metric)
        if value is not None:
            kernels[key].metrics[metric] = value
    return NcuPage(tuple(kernels.values()), numbers.refused)


def _quoted(text: str) -> Iterator[str]:
    """Yield the texts between a quote and the next one that ends a word, in linear time."""
    at = text.find('"')
    while at >= 0:
        closing = _CLOSING.search(text, at + 1)
        if closing is None:
            return
        yield text[at + 1 : closing.start()]
        at = text.find('"', closing.end())


def _kernel(row: list[str], column: dict[str, int], metrics: dict[str, float], texts: dict[str, str]) -> NcuKernel:
    def cell(name: str) -> str:
        return row[column[name]] if name in column else ""

    ranges = [row[i] for name, i in column.items() if "_Range:" in name]
    messages = [_MESSAGE.search(part) for text in ranges for part in _quoted(text[:_MOST_RANGE_TEXT])]
    return NcuKernel(
        number=int(row[column["ID"]]),
        name=cell("Kernel Name"),
        ranges=tuple(dict.fromkeys(match.group(1) for match in messages if match)),
        grid=cell("Grid Size"),
        block=cell("Block Size"),
        metrics=metrics,
        texts=texts,
    )
