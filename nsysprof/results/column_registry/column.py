"""Read the registry of columns, columns.tsv: every file with rows that nsysprof writes, and what its columns mean."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path


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


def _read_registry() -> tuple[dict[str, tuple[FileColumn, ...]], dict[str, TableFile]]:
    """Return the columns of each section of columns.tsv, and the files among the sections by their paths."""
    columns_by_section: dict[str, list[FileColumn]] = {}
    rows: dict[str, str] = {}
    section: list[FileColumn] = []
    for line in Path(__file__).with_name("columns.tsv").read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            name, _, rows[name] = line[1:].partition("]")
            section = columns_by_section.setdefault(name, [])
        elif line.startswith("*"):
            section += columns_by_section[line[1:]]
        elif "\t" in line:
            name, dtype, unit, flags, only_with, doc = line.split("\t")
            section.append(
                FileColumn(name, Dtype[dtype.upper()], unit, doc, "empty" in flags, only_with, "work" in flags)
            )
        elif line and not line.startswith("#"):
            section.append(next(column for column in columns_by_section["columns"] if column.name == line))
    sections = {name: tuple(columns) for name, columns in columns_by_section.items()}
    paths = {name: name.partition("/") for name in sections if "/" in name}
    return sections, {
        name: TableFile(folder, file, rows[name].strip(), sections[name]) for name, (folder, _, file) in paths.items()
    }


# The columns of each section of columns.tsv, and every file with rows that nsysprof writes, by FOLDER/FILE. CSV
# writers, readers, joins and docs/files.md take names, types, units and sentences from here.
SECTIONS, FILES = _read_registry()


def files_of(folder: str) -> tuple[TableFile, ...]:
    """Return the files with rows in a kind of folder."""
    return tuple(file for file in FILES.values() if file.folder == folder)
