"""Define the types of the column registry: a column of a file, and a file with rows."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Dtype(StrEnum):
    """The type of a column's cells. The value is the word in the documentation."""

    TEXT = "text"
    INTEGER = "integer"
    NUMBER = "number"
    FLAG = "True or False"


@dataclass(frozen=True)
class FileColumn:
    """One column of a file."""

    # The name in the file's header.
    name: str
    dtype: Dtype
    # The unit: ns, B, %, ...; empty for a text, a count or a plain number.
    unit: str
    # The sentence that documents it.
    doc: str
    # Whether a cell may be empty, which means unknown or, for a text, that there is nothing to say.
    nullable: bool = False
    # The condition under which the file has the column; empty where it always has it.
    only_with: str = ""
    # Whether the value counts GPU work that API calls launched. It is unknown where the trace has no calls.
    of_work: bool = False


@dataclass(frozen=True)
class TableFile:
    """One file with rows."""

    # The kind of folder that has it (analysis, capture, bench, tune, ranks, export, memory).
    folder: str
    # The file's name.
    name: str
    # What one row stands for.
    row: str
    # The columns, in the order in which they are written.
    columns: tuple[FileColumn, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Return the columns that the file always has, in order."""
        return tuple(column.name for column in self.columns if not column.only_with)

    @property
    def by_name(self) -> dict[str, FileColumn]:
        """Return every column by its name, those included that are only sometimes there."""
        return {column.name: column for column in self.columns}

    def of_dtype(self, *dtypes: Dtype) -> tuple[str, ...]:
        """Return the names of the columns that have one of these types."""
        return tuple(column.name for column in self.columns if column.dtype in dtypes)


def text(name: str, doc: str, **more: Any) -> FileColumn:
    """Return a column of texts."""
    return FileColumn(name, Dtype.TEXT, "", doc, **more)


def integer(name: str, unit: str, doc: str, **more: Any) -> FileColumn:
    """Return a column of whole numbers."""
    return FileColumn(name, Dtype.INTEGER, unit, doc, **more)


def number(name: str, unit: str, doc: str, **more: Any) -> FileColumn:
    """Return a column of floating-point numbers."""
    return FileColumn(name, Dtype.NUMBER, unit, doc, **more)


def flag(name: str, doc: str, **more: Any) -> FileColumn:
    """Return a column of True and False."""
    return FileColumn(name, Dtype.FLAG, "", doc, **more)
