"""The database that `--db` names: one row a run in `runs`, one row a cell in `results`, growing over time."""

from __future__ import annotations

import json
import sqlite3
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nsysprof.errors import OutputError

if TYPE_CHECKING:
    import pandas as pd

    from nsysprof.capture.bench import BenchRun

# History of the schema, in PRAGMA user_version. 1: first.
SCHEMA_VERSION = 1


def check_database(path: Path) -> None:
    """Raises OutputError for what is no database of ours, or of a newer schema, before an hour of measuring."""
    _close(_open(path))


def append_results(path: Path, run: BenchRun, table: pd.DataFrame) -> None:
    """Append a run and its results, all or nothing. Raises OutputError."""
    key = uuid.uuid4().hex
    rows = [{"run": key, **row} for row in json.loads(table.to_json(orient="records"))]
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
                    "plan": run.plan.to_json(),
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
        raise OutputError(f"{path} is a database of something else.", "Name another --db.")
    return database


def _close(database: Any) -> None:
    database.conn.close()


def _error(path: Path, error: sqlite3.Error) -> OutputError:
    return OutputError(f"{path} cannot be used as a database: {error}.", "Name another --db.")
