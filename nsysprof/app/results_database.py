"""Append results to the database of `--db`: one row per run in `runs`, one row per cell in `results`."""

from __future__ import annotations

import sqlite3
import uuid
from pathlib import Path
from typing import Any

import pandas as pd

from nsysprof.capture.sampling.bench_run import BenchRun
from nsysprof.errors import OutputError
from nsysprof.files.json_file import json_value
from nsysprof.results.column_registry.csv_table import to_records

# The version of the schema, kept in PRAGMA user_version. 1: the first.
SCHEMA_VERSION = 1


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
    import sqlite_utils

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
