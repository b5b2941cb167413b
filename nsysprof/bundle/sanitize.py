"""Rebuild an nsys export so that it can be shared: copy only what the allow-list names, into a new file."""

from __future__ import annotations

import itertools
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from operator import ne
from pathlib import Path
from typing import Any

from nsysprof.bundle.allow_list import (
    ENUM_MAX_ROWS,
    ENUM_NAME,
    ERROR_SEVERITY,
    LEFT_OUT_ERROR,
    METADATA_TABLES,
    PRIVATE_COLUMNS,
    STRINGS,
    Kind,
    allowed_columns,
    base_name,
    column_kind,
    condense_import_failure,
    keeps_diagnostic,
    keeps_label,
    keeps_metadata,
    sample_of,
)
from nsysprof.bundle.copied_rows import (
    CopiedColumn,
    Crop,
    Keep,
    Renumbering,
    collect_ids,
    copy_inside,
    detach_source,
    different_sets,
    open_target,
    plan_crop,
    replace_ids,
)
from nsysprof.bundle.name_tokens import REDACTED, NameTokens, Redactor
from nsysprof.bundle.public_names import is_public_kernel
from nsysprof.bundle.secret_values import collect_secrets, machine_secrets
from nsysprof.bundle.verify import SecretLeakError, find_leaks
from nsysprof.errors import OutputError, TraceDamagedError
from nsysprof.trace.columns import refuse_shared_pages
from nsysprof.trace.inputs.bundle_file import LEFT_OUT
from nsysprof.trace.open import Trace, open_trace, quote
from nsysprof.trace.table_readers.collective_payloads import ENTRY_COLUMNS, FIELDS, Schemas, fields_of, keep_known

_ROWS_AT_ONCE, _MOST_KNOWN = 10_000, 1 << 16
# The kinds of columns that SQLite can copy, and columns of names that are not those of kernels.
_NUMBERS = frozenset({Kind.INT, Kind.GLOBAL_ID, Kind.PROCESS_ID, Kind.STRING_ID})
_NAME_COLUMNS = frozenset({"textId", "nameId"})
_SQL_TYPES = {Kind.TEXT: "TEXT", Kind.SAMPLE: "TEXT", Kind.PAYLOAD: "BLOB"}


@dataclass(frozen=True)
class SanitizeOptions:
    """How much of the trace to share."""

    # Replaces the user's names.
    names: NameTokens = field(default_factory=NameTokens)
    # Patterns of range names; only what belongs to such ranges is kept. Empty: everything.
    ranges: tuple[str, ...] = ()
    # Tables to leave out.
    without: frozenset[str] = frozenset()
    # Values that are shared on purpose, even where they look private.
    public: frozenset[str] = frozenset()
    # Values to remove in addition to those that the trace contains.
    secrets: frozenset[str] = frozenset()


@dataclass
class SanitizeReport:
    """What was kept and what was not."""

    source: str
    target: str
    rows: dict[str, int] = field(default_factory=dict)  # kept, by table
    dropped_tables: list[str] = field(default_factory=list)
    dropped_columns: dict[str, list[str]] = field(default_factory=dict)
    dropped_rows: dict[str, int] = field(default_factory=dict)  # metadata and diagnostics
    cropped_rows: dict[str, int] = field(default_factory=dict)  # outside the ranges asked for
    dropped_strings: int = 0
    redacted_texts: int = 0
    secrets_searched: int = 0
    # The new number of each process and thread, by the old one.
    numbers: dict[int, int] = field(default_factory=dict)


def join_reports(reports: Sequence[SanitizeReport]) -> SanitizeReport:
    """Return one report for several traces."""
    whole = SanitizeReport(reports[0].source, reports[0].target)
    tables: dict[str, None] = {}
    for report in reports:
        for name in ("rows", "dropped_rows", "cropped_rows"):
            sums = getattr(whole, name)
            for table, count in getattr(report, name).items():
                sums[table] = sums.get(table, 0) + count
        tables |= dict.fromkeys(report.dropped_tables)
        for table, columns in report.dropped_columns.items():
            known = whole.dropped_columns.setdefault(table, [])
            known += [column for column in columns if column not in known]
        whole.dropped_strings += report.dropped_strings
        whole.redacted_texts += report.redacted_texts
        whole.secrets_searched = max(whole.secrets_searched, report.secrets_searched)
    whole.dropped_tables = list(tables)
    return whole


def sanitize_trace(source: Path, target: Path, options: SanitizeOptions | None = None) -> SanitizeReport:
    """Write the shareable part of `source` to the new file `target`, search it for private values, and report.

    The source is opened read-only and never changed. The same source gives the same bytes. Raises TraceError for an
    unreadable source, OutputError when the target exists or cannot be written, and SecretLeakError (leaving no target)
    when a private value of the source is found in the result.
    """
    if target.exists():
        raise OutputError(f"{target} exists.", "Choose another name, or remove it first.")
    chosen = options or SanitizeOptions()
    part = target.with_name(f".{target.name}.part")
    part.unlink(missing_ok=True)
    try:
        with open_trace(source) as trace:
            refuse_shared_pages(trace)
            _confine(trace)
            secrets = (collect_secrets(trace.connection) | machine_secrets() | chosen.secrets) - chosen.public
            report = SanitizeReport(source.name, target.name, secrets_searched=len(secrets))
            _Rebuild(trace, part, Redactor(secrets), report, chosen).run()
        leaks = find_leaks(part, secrets)
        if leaks:
            raise SecretLeakError(
                f"{source.name} cannot be sanitised: {len(leaks)} private values would remain: {'; '.join(leaks[:5])}.",
                "Nothing was written. Please report which kind of text holds them.",
            )
        part.replace(target)
    except sqlite3.DatabaseError as error:
        if "disk is full" in str(error):
            raise OutputError(f"No space left for {target}.", "Free some space, or set TMPDIR.") from error
        raise TraceDamagedError(f"{source} cannot be read completely: {error}.", "Export the report again.") from error
    except OSError as error:
        raise OutputError(f"{target} cannot be written: {error.strerror}.", "Choose another folder.") from error
    finally:
        part.unlink(missing_ok=True)
    return report


def _confine(trace: Trace) -> None:
    """Allow only plain reading, whatever the source's schema contains."""
    trace.connection.execute("PRAGMA trusted_schema = OFF")
    reading = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ}

    def is_allowed(action: int, first: str | None, second: str | None, *_: str | None) -> bool:
        return (
            action in reading
            or (action == sqlite3.SQLITE_FUNCTION and second == "typeof")
            or (action == sqlite3.SQLITE_PRAGMA and first == "table_xinfo")
        )

    trace.connection.set_authorizer(trace.limits.authorizer(is_allowed))


class _Rebuild:
    """One source, one new file."""

    def __init__(
        self,
        trace: Trace,
        path: Path,
        redactor: Redactor,
        report: SanitizeReport,
        options: SanitizeOptions,
    ) -> None:
        self.trace = trace
        self.source = trace.connection
        self.path = path
        self.redactor = redactor
        self.report = report
        self.names = options.names
        self.options = options
        self.crop: Crop | None = None
        # By id: the first column that used the string, which tells what kind of name it is.
        self.kept_strings: dict[int, str] = {}
        self.schemas: Schemas = {}
        self.communicators: dict[int, int] = {}

    def run(self) -> None:
        tables = self._kept_tables()
        if self.options.ranges:
            self.crop = plan_crop(self.source, self.options.ranges)
        self.renumbering = Renumbering(
            collect_ids(self.source, _of_kind(tables, Kind.GLOBAL_ID), _of_kind(tables, Kind.PROCESS_ID))
        )
        self.report.numbers = self.renumbering.numbers
        if set(ENTRY_COLUMNS) <= set(tables.get("NVTX_PAYLOAD_SCHEMA_ENTRIES", ())):
            self.schemas = fields_of(
                self.source.execute(f"SELECT {', '.join(ENTRY_COLUMNS)} FROM NVTX_PAYLOAD_SCHEMA_ENTRIES")
            )
        target = open_target(self.path, self.trace.path)
        try:
            for table, columns in tables.items():
                self._copy(target, table, columns)
            self._copy_strings(target)
            self._write_what_was_left_out(target)
            target.commit()
            detach_source(target)
        finally:
            target.close()

    def _kept_tables(self) -> dict[str, tuple[str, ...]]:
        """Return the tables to copy with their columns; record everything that is left out."""
        kept: dict[str, tuple[str, ...]] = {}
        listed = self.source.execute("SELECT name, type, sql FROM sqlite_master ORDER BY rowid").fetchall()
        self.source_tables = {str(name) for name, kind, sql in listed if kind == "table" and _is_plain(sql)}
        for name, kind, sql in listed:
            if kind not in ("table", "view") or name == STRINGS:
                continue
            allowed = ("name", "value") if name in METADATA_TABLES else allowed_columns(name)
            if kind == "view" or allowed is None or not _is_plain(sql):
                self.report.dropped_tables.append(self.redactor.redact(name))
                continue
            # Hidden and generated columns (last field not 0) are computed by the source's schema and are not read.
            present = [row[1] for row in self.source.execute(f"PRAGMA table_xinfo({quote(name)})") if row[6] == 0]
            if base_name(name) in self.options.without:
                continue
            hidden = () if self.names.keep else PRIVATE_COLUMNS.get(base_name(name), ())
            columns = tuple(column for column in allowed if column in present and column not in hidden)
            others = [self.redactor.redact(column) for column in present if column not in columns]
            if others:
                self.report.dropped_columns[name] = others
            if columns and (base_name(name) != "DIAGNOSTIC_EVENT" or "text" in columns):
                kept[name] = columns
        return dict(sorted(kept.items()))

    def _copy(self, target: sqlite3.Connection, table: str, columns: tuple[str, ...]) -> None:
        definitions = ", ".join(f"{quote(c)} {_SQL_TYPES.get(_kind(table, c), 'INTEGER')}" for c in columns)
        target.execute(f"CREATE TABLE {quote(table)} ({definitions})")
        if self.crop is None and (numbers := self._columns_of_numbers(table, columns)) is not None:
            self.report.rows[table] = copy_inside(target, self.trace.limits, table, numbers)
            return
        kinds = [_kind(table, column) for column in columns]
        convert = [
            converter if converter is None or kind is Kind.SAMPLE else _Known(converter).__getitem__
            for kind, converter in zip(kinds, (self._converter(table, column) for column in columns), strict=True)
        ]
        is_metadata = table in METADATA_TABLES
        text_decides = base_name(table) in ("DIAGNOSTIC_EVENT", "GENERIC_EVENTS", "NVTX_PAYLOAD_SCHEMA_ENTRIES")
        limit = f" LIMIT {ENUM_MAX_ROWS}" if ENUM_NAME.fullmatch(table) else ""
        watched, keeps = self._cropping(table)
        selected = ", ".join(_typed(column, _kind(table, column)) for column in (*columns, *watched))
        rows = self.source.execute(f"SELECT {selected} FROM {quote(table)}{limit}")
        insert = f"INSERT INTO {quote(table)} VALUES ({', '.join('?' * len(columns))})"
        texts = [i for i, kind in enumerate(kinds) if kind is Kind.TEXT]
        if keeps is None and not (is_metadata or text_decides or Kind.SAMPLE in kinds):
            self.report.rows[table] = self._copy_columns(target, insert, rows, convert, texts)
            return
        kept = dropped = cropped = 0

        def converted() -> Iterator[tuple[Any, ...]]:
            nonlocal kept, dropped, cropped
            for whole in itertools.chain.from_iterable(self._batches(rows)):
                row = whole[: len(columns)]
                if keeps is not None and not keeps(whole[len(columns) :]):
                    cropped += 1
                    continue
                if is_metadata and not keeps_metadata(*_name_and_value(columns, row)):
                    dropped += 1
                    continue
                new = tuple([f(cell) if f else cell for f, cell in zip(convert, row, strict=True)])
                if text_decides:
                    new = _keep_errors(table, columns, new)
                if text_decides and not _is_worth_a_row(table, columns, new):
                    dropped += 1
                    continue
                kept += 1
                if texts:
                    self.report.redacted_texts += sum(row[i] != new[i] for i in texts)
                yield new

        target.executemany(insert, converted())
        self.report.rows[table] = kept
        if dropped:
            self.report.dropped_rows[table] = dropped
        if cropped:
            self.report.cropped_rows[table] = cropped

    def _copy_columns(
        self,
        target: sqlite3.Connection,
        insert: str,
        rows: sqlite3.Cursor,
        convert: Sequence[Callable[[Any], Any] | None],
        texts: Sequence[int],
    ) -> int:
        """Copy all rows, with the cells of some columns converted, and return how many there are.

        A column has few different ids and texts, and millions of rows.
        """
        count = 0
        for batch in self._batches(rows):
            old = list(zip(*batch, strict=True))
            columns = [
                column if new is None else list(map(new, column)) for column, new in zip(old, convert, strict=True)
            ]
            self.report.redacted_texts += sum(sum(map(ne, old[i], columns[i])) for i in texts)
            target.executemany(insert, zip(*columns, strict=True))
            count += len(batch)
        return count

    def _batches(self, rows: sqlite3.Cursor) -> Iterator[list[Any]]:
        """Yield the rows. What is done with them meanwhile is not part of reading them."""
        while batch := rows.fetchmany(_ROWS_AT_ONCE):
            yield batch
            self.trace.limits.begin()

    def _columns_of_numbers(self, table: str, columns: tuple[str, ...]) -> list[CopiedColumn] | None:
        """Return how SQLite copies the columns, and keep their strings; None for columns that need Python."""
        kinds = [_kind(table, column) for column in columns]
        # What kind of name a string is depends on the row that uses it first, unless all columns agree.
        names = [column for column, kind in zip(columns, kinds, strict=True) if kind is Kind.STRING_ID]
        uses = {column if column in _NAME_COLUMNS else "" for column in names}
        if len(uses) > 1 or not _NUMBERS.issuperset(kinds):
            return None
        asked = [column for column, kind in zip(columns, kinds, strict=True) if kind is not Kind.INT]
        values_by_column = different_sets(self.source, table, asked)
        if values_by_column is None:
            return None
        copied, ids = [], dict(zip(asked, values_by_column, strict=True))
        for column, kind in zip(columns, kinds, strict=True):
            new = None
            if kind in (Kind.GLOBAL_ID, Kind.PROCESS_ID):
                convert = self.renumbering.process if kind is Kind.PROCESS_ID else self.renumbering.global_id
                if (new := replace_ids(ids[column], convert)) is None:
                    return None
            copied.append(CopiedColumn(column, new))
        for column in names:
            for identifier in ids[column]:
                self.kept_strings.setdefault(identifier, column)
        return copied

    def _cropping(self, table: str) -> tuple[tuple[str, ...], Keep | None]:
        """Return the columns that decide whether a row is inside the chosen ranges, and the test."""
        if self.crop is None:
            return (), None
        present = [row[1] for row in self.source.execute(f"PRAGMA table_xinfo({quote(table)})") if row[6] == 0]
        return self.crop.filter(base_name(table), present) or ((), None)

    def _write_what_was_left_out(self, target: sqlite3.Connection) -> None:
        """Write into the trace what was left out, so that every reader of its numbers is told."""
        gone = []
        if self.crop is not None:
            gone.append("everything outside the requested ranges")
        gone += sorted(self.options.without & {base_name(name) for name in self.source_tables})
        if gone:
            target.execute('CREATE TABLE IF NOT EXISTS META_DATA_CAPTURE ("name" TEXT, "value" TEXT)')
            target.execute("INSERT INTO META_DATA_CAPTURE VALUES (?, ?)", (LEFT_OUT, ", ".join(gone)))

    def _converter(self, table: str, column: str) -> Callable[[Any], Any] | None:
        """Return what to do with a cell, or None to copy it."""
        text = self._redact_range if base_name(table) == "NVTX_EVENTS" else self._redact
        if base_name(table) == "DIAGNOSTIC_EVENT":
            text = self._redact_diagnostic
        converters: dict[Kind, Callable[[Any], Any]] = {
            Kind.GLOBAL_ID: self.renumbering.global_id,
            Kind.PROCESS_ID: self.renumbering.process,
            Kind.STRING_ID: lambda identifier: self._keep_string(identifier, column),
            Kind.SAMPLE: sample_of,
            Kind.PAYLOAD: lambda payload: payload and keep_known(payload, self.schemas, self.communicators),
            Kind.TEXT: lambda cell: text(cell) if cell is None or keeps_label(table, column, cell) else REDACTED,
        }
        return converters.get(_kind(table, column))

    def _keep_string(self, identifier: int | None, column: str) -> int | None:
        if identifier is not None:
            self.kept_strings.setdefault(identifier, column)
        return identifier

    def _redact(self, text: str | None) -> str | None:
        return None if text is None else self.redactor.redact(text)

    def _redact_range(self, text: str | None) -> str | None:
        return None if text is None else self.redactor.redact(self.names.range(text))

    def _name(self, identifier: int, value: str) -> str:
        """Return a kept string, redacted as its kind of name requires."""
        column = self.kept_strings.pop(identifier)
        if column == "textId":
            return self.names.range(value)
        if column == "nameId":
            return self.names.call(value)
        return value if identifier in self.public_short_names else self.names.kernel(value)

    def _redact_diagnostic(self, text: str | None) -> str | None:
        return None if text is None else self.redactor.redact_diagnostic(condense_import_failure(text))

    def _copy_strings(self, target: sqlite3.Connection) -> None:
        """Copy only the strings that kept rows use. The others are the environment of every process of the host."""
        listed = self.source.execute("SELECT type, sql FROM sqlite_master WHERE name = 'StringIds'").fetchone()
        if listed is None or listed[0] != "table" or not _is_plain(listed[1]):
            return
        target.execute(f"CREATE TABLE {quote(STRINGS)} (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL)")
        written = 0
        self.public_short_names = self._find_public_short_names()
        rows = self.source.execute(f"SELECT {_typed('id', Kind.INT)}, {_typed('value', Kind.TEXT)} FROM StringIds")
        for identifier, value in rows:
            if identifier not in self.kept_strings or value is None:
                self.report.dropped_strings += 1
                continue
            redacted = self.redactor.redact(self._name(identifier, value))
            target.execute("INSERT INTO StringIds VALUES (?, ?)", (identifier, redacted))
            written += 1
            self.report.redacted_texts += redacted != value
        self.report.rows[STRINGS] = written

    def _find_public_short_names(self) -> set[int]:
        """Return short names of kernels whose whole name is a library's; alone (`Kernel2`) they would look private."""
        short_names: set[int] = set()
        for table in self.source_tables:
            present = {row[1] for row in self.source.execute(f"PRAGMA table_xinfo({quote(table)})") if row[6] == 0}
            if base_name(table) != "CUPTI_ACTIVITY_KIND_KERNEL" or not present >= {"demangledName", "shortName"}:
                continue
            pairs = self.source.execute(
                f"SELECT DISTINCT k.shortName, s.value FROM {quote(table)} k JOIN StringIds s ON s.id = k.demangledName"
            )
            short_names |= {short for short, whole in pairs if isinstance(whole, str) and is_public_kernel(whole)}
        return short_names


class _Known(dict[Any, Any]):
    """Keep the results of a converter, up to a bound."""

    def __init__(self, convert: Callable[[Any], Any]) -> None:
        super().__init__()
        self._convert = convert

    def __missing__(self, cell: Any) -> Any:
        if len(self) >= _MOST_KNOWN:
            self.clear()
        self[cell] = new = self._convert(cell)
        return new


def _keep_errors(table: str, columns: tuple[str, ...], row: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return a row with a fixed text instead of an error of nsys that may not be shared."""
    if base_name(table) != "DIAGNOSTIC_EVENT" or "severity" not in columns:
        return row
    cells = dict(zip(columns, row, strict=True))
    if cells["severity"] != ERROR_SEVERITY or keeps_diagnostic(str(cells["text"])):
        return row
    return tuple({**cells, "text": LEFT_OUT_ERROR}.values())


def _is_worth_a_row(table: str, columns: tuple[str, ...], row: tuple[Any, ...]) -> bool:
    """Return whether a row still contains information after its cells were cleaned."""
    if base_name(table) == "DIAGNOSTIC_EVENT":
        return keeps_diagnostic(str(row[columns.index("text")]))
    if base_name(table) == "NVTX_PAYLOAD_SCHEMA_ENTRIES":
        return "name" in columns and row[columns.index("name")] in FIELDS
    return base_name(table) != "GENERIC_EVENTS" or ("data" in columns and row[columns.index("data")] is not None)


def _name_and_value(columns: tuple[str, ...], row: tuple[Any, ...]) -> tuple[str, str]:
    cells = dict(zip(columns, row, strict=True))
    return str(cells.get("name")), str(cells.get("value"))


def _is_plain(sql: str | None) -> bool:
    """Return whether a table is plain. A virtual table runs its module's code when it is read."""
    return sql is not None and sql.lstrip().upper().startswith("CREATE TABLE")


def _kind(table: str, column: str) -> Kind:
    return Kind.TEXT if table in METADATA_TABLES else column_kind(column)


def _of_kind(tables: dict[str, tuple[str, ...]], kind: Kind) -> list[tuple[str, str]]:
    return [(table, c) for table, columns in tables.items() for c in columns if _kind(table, c) is kind]


def _typed(column: str, kind: Kind) -> str:
    """Return SQL for the column with NULL for cells of another kind: SQLite lets any column hold any text."""
    name = quote(column)
    if kind in (Kind.TEXT, Kind.SAMPLE):
        return f"CASE WHEN typeof({name}) = 'text' THEN {name} END"
    if kind is Kind.PAYLOAD:
        return f"CASE WHEN typeof({name}) = 'blob' THEN {name} END"
    return f"CASE WHEN typeof({name}) = 'integer' THEN {name} END"
