"""Read from the database of `--db` how latencies changed over the runs.

The file may come from somebody else, so its content is not trusted.
"""

from __future__ import annotations

import math
import sqlite3
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import sqlite_utils

from nsysprof.analysis.sampling.significance import judge_history
from nsysprof.app.inputs.reading_requests import HistoryRequest
from nsysprof.app.progress import SILENT, Progress
from nsysprof.attention.shape import LIKE, SHAPE_COLUMNS
from nsysprof.capture.sampling.bench_run import BenchRun
from nsysprof.errors import NsysprofError, OutputError, TraceError, UsageError
from nsysprof.files.plain_file import decode_json, json_value, refuse_url
from nsysprof.report.document import shape_label
from nsysprof.results.column_registry.csv_table import to_records
from nsysprof.results.latency_history import CaseHistory, HistoryPoint
from nsysprof.trace.confine import ConfinedConnections

_HEADER = b"SQLite format 3\x00"
_TABLES = {"runs", "results"}
_OF_RUN = ("run", "created_utc", "comparable_hash", "gpu_name", "torch_version", "plan")
_OF_RESULT = ("run", "backend", *SHAPE_COLUMNS, "status", "median_ns", "low_ns", "high_ns", "samples")
_MOST_ROWS = 200_000
_LONGEST = 200
# The default of each dimension. It is left out of a case's name if no other case differs in it.
_ALWAYS_NAMED = ("seq",)
# The version of the schema, kept in PRAGMA user_version. 1: the first.
SCHEMA_VERSION = 1


def is_results_database(path: Path) -> bool:
    """Return whether a file is a database of `--db`, judged by its tables."""
    try:
        if not path.is_file():
            return False
        with path.open("rb") as stream:
            if stream.read(len(_HEADER)) != _HEADER:
                return False
        connections = ConfinedConnections(path, path.stat().st_size)
        try:
            return all(_columns(connections.own(), table) for table in sorted(_TABLES))
        finally:
            connections.close()
    except (OSError, sqlite3.Error):
        return False


def read_history(path: Path) -> tuple[CaseHistory, ...]:
    """Return every case of the database with its runs, the oldest first. Raises TraceError."""
    try:
        connections = ConfinedConnections(path, path.stat().st_size)
        try:
            runs = _rows(connections, "runs", _OF_RUN)
            results = _rows(connections, "results", _OF_RESULT)
        finally:
            connections.close()
    except (OSError, sqlite3.Error) as error:
        raise TraceError(f"{path} cannot be read as a results database: {error}.", "Name the file of --db.") from error
    return _by_case({str(row["run"]): row for row in runs}, results)


def _by_case(runs: Mapping[str, Mapping[str, Any]], results: list[dict[str, Any]]) -> tuple[CaseHistory, ...]:
    keys = ("backend", *SHAPE_COLUMNS)
    cases: dict[tuple[str, ...], list[HistoryPoint]] = {}
    for row in results:
        run = runs.get(str(row["run"]))
        if run is not None:
            cases.setdefault(tuple(_text(row[key]) for key in keys), []).append(_point(run, row))
    varied = [
        name
        for place, name in enumerate(keys[1:], 1)
        if name in _ALWAYS_NAMED
        or (
            len({key[place] for key in cases}) > 1
            and (name not in LIKE or any(key[place] != key[keys.index(LIKE[name])] for key in cases))
        )
    ]
    found = []
    for key, points in sorted(cases.items()):
        values = dict(zip(keys, key, strict=True))
        shape = shape_label(varied, [values[name] == "1" if name == "causal" else values[name] for name in varied])
        points.sort(key=lambda point: point.created_utc)
        found.append(judge_history(CaseHistory(f"{values['backend']} {shape}".strip(), tuple(points))))
    return tuple(found)


def _point(run: Mapping[str, Any], row: Mapping[str, Any]) -> HistoryPoint:
    samples = _number(row["samples"])
    flush = _flush(run["plan"])
    caches = "" if flush is None else ", caches emptied" if flush else ", caches warm"
    gpu, torch = _text(run["gpu_name"]) or "no GPU", _text(run["torch_version"])
    return HistoryPoint(
        created_utc=_text(run["created_utc"]),
        status=_text(row["status"]),
        median_ns=_number(row["median_ns"]),
        low_ns=_number(row["low_ns"]),
        high_ns=_number(row["high_ns"]),
        samples=None if samples is None else int(samples),
        conditions=f"{_text(run['comparable_hash'])}{caches}",
        setup=f"{gpu}, torch {torch or 'unknown'}{caches}",
    )


def _flush(plan: Any) -> bool | None:
    """Return whether a plan empties the caches before each call; None where it does not say."""
    try:
        flush = decode_json(str(plan), dict[str, Any]).get("flush")
    except (ValueError, NsysprofError):
        return None
    return flush if isinstance(flush, bool) else None


def _rows(connections: ConfinedConnections, table: str, names: tuple[str, ...]) -> list[dict[str, Any]]:
    """Return the rows of a table. A column that the table lacks is None in each row."""
    connection = connections.own()
    there = _columns(connection, table)
    if not there:
        raise sqlite3.DatabaseError(f"it has no table {table}")
    wanted = [name for name in names if name in there]
    connections.limits.begin()
    quoted = ", ".join(f'"{name}"' for name in wanted)
    rows = connection.execute(f'SELECT {quoted} FROM "{table}" LIMIT {_MOST_ROWS}').fetchall()
    return [dict.fromkeys(names) | dict(zip(wanted, row, strict=True)) for row in rows]


def _columns(connection: sqlite3.Connection, table: str) -> set[str]:
    return {str(row[1]) for row in connection.execute(f'PRAGMA table_info("{table}")')}


def _text(value: Any) -> str:
    return "" if value is None else str(value)[:_LONGEST]


def _number(value: Any) -> float | None:
    """Return the value as a number that a time can have; None for anything else."""
    is_number = isinstance(value, int | float) and math.isfinite(value) and value >= 0
    return float(value) if is_number else None


def history(request: HistoryRequest, progress: Progress = SILENT) -> HistoryResult:
    """Return the cases of a results database whose names contain a text.

    Raises TraceError for a file that is not a results database, and UsageError where no case matches.
    """
    refuse_url(request.database)
    if not request.database.exists():
        raise TraceError(f"{request.database} does not exist.", "bench --db FILE and tune --db FILE make one.")
    if not is_results_database(request.database):
        raise TraceError(f"{request.database} is not a results database.", "Name the file of bench --db or tune --db.")
    progress.say("read the database")
    cases = read_history(request.database)
    chosen = tuple(case for case in cases if request.case.lower() in case.name.lower())
    if cases and not chosen:
        known = ", ".join(case.name for case in cases[:5])
        raise UsageError(f"No case has {request.case!r} in its name.", f"There are {len(cases)}: {known}.")
    return HistoryResult(request.database.name, chosen)


@dataclass(frozen=True)
class HistoryResult:
    """The cases of a database.

    name: the name of its file.
    """

    name: str
    cases: tuple[CaseHistory, ...]


def check_database(path: Path) -> None:
    """Raise OutputError for a database that is not ours or has a newer schema, before anything is measured."""
    _close(_open(path))


def append_results(path: Path, run: BenchRun, table: pd.DataFrame) -> None:
    """Append a run and its results completely, or not at all. Raises OutputError."""
    key = uuid.uuid4().hex
    rows = [{"run": key, **row} for row in to_records(table)]
    database = _open(path)
    try:
        with database.conn:
            database["runs"].insert(
                {
                    "run": key,
                    "created_utc": run.created_utc,
                    "kind": run.kind,
                    "complete": run.complete,
                    "seed": run.plan.seed,
                    "comparable_hash": run.environment.get("comparable_hash"),
                    "gpu_name": run.environment.get("gpu_name"),
                    "torch_version": run.environment.get("torch_version"),
                    "environment": run.environment,
                    "plan": json_value(run.plan),
                },
                pk="run",
                alter=True,
            )
            database["results"].insert_all(rows, foreign_keys=[("run", "runs", "run")], alter=True)
            database.conn.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
    except sqlite3.Error as error:
        raise _error(path, error) from error
    finally:
        _close(database)


def _open(path: Path) -> Any:
    try:
        database = sqlite_utils.Database(path)
        (version,) = database.conn.execute("PRAGMA user_version").fetchone()
        tables = set(database.table_names())
    except sqlite3.Error as error:
        raise _error(path, error) from error
    if version > SCHEMA_VERSION:
        _close(database)
        raise OutputError(f"{path} was written by a newer nsysprof.", "Update nsysprof, or name another --db.")
    if tables and not {"runs", "results"} <= tables:
        _close(database)
        raise OutputError(f"{path} is a database of another program: it has no table of results.", "Name another --db.")
    return database


def _close(database: Any) -> None:
    database.conn.close()


def _error(path: Path, error: sqlite3.Error) -> OutputError:
    return OutputError(f"{path} cannot be used as a database: {error}.", "Name another --db.")
