"""Read what a trace says about its origin, and check which kinds of events it contains, without reading it."""

from __future__ import annotations

import contextlib
import hashlib
import re
import shutil
import sqlite3
from dataclasses import dataclass
from pathlib import Path

from nsysprof.trace.columns import read_different, read_rows, table_sql
from nsysprof.trace.open import Trace, quote
from nsysprof.trace.schema import PID_MASK, RecordedKinds
from nsysprof.trace.tables import read_diagnostics, split_diagnostics

_GPU_WORK = (
    "CUPTI_ACTIVITY_KIND_KERNEL",
    "CUPTI_ACTIVITY_KIND_GRAPH_TRACE",
    "CUPTI_ACTIVITY_KIND_MEMCPY",
    "CUPTI_ACTIVITY_KIND_MEMSET",
)
_LAUNCHES = "%LaunchKernel%"
# ENUM_DIAGNOSTIC_SEVERITY_LEVEL: 1 is information.
_WARNING = 2
_TABLES = {
    "kernels": ("CUPTI_ACTIVITY_KIND_KERNEL", "globalPid"),
    "graphs": ("CUPTI_ACTIVITY_KIND_GRAPH_TRACE", "globalPid"),
    "copies": ("CUPTI_ACTIVITY_KIND_MEMCPY", "globalPid"),
    "fills": ("CUPTI_ACTIVITY_KIND_MEMSET", "globalPid"),
    "calls": ("CUPTI_ACTIVITY_KIND_RUNTIME", "globalTid"),
    "ranges": ("NVTX_EVENTS", "globalTid"),
}
# <HW:8><VM:8><PID:24><TID:24>
_PID = "(({column} >> 24) & 16777215)"
_GLOBAL = ("globaltid", "globalpid")
# This table describes processes; the trace of each process keeps the whole table.
_KEPT = ("processes", "target_info_session_start_time")


def read_recorded(trace: Trace) -> RecordedKinds:
    """Return which kinds of events there are, by looking for one row of each. A damaged table counts as empty."""
    diagnostics, of_helpers = split_diagnostics(trace, _users_of_cuda(trace))
    return RecordedKinds(
        kernels=any(_has_row(trace, table) for table in _GPU_WORK[:2]),
        gpu_work=any(_has_row(trace, table) for table in _GPU_WORK),
        launches=_has_launch(trace),
        ranges=_has_row(trace, "NVTX_EVENTS", "eventType IN (59, 60, 70, 71)"),
        calls=_has_row(trace, "CUPTI_ACTIVITY_KIND_RUNTIME"),
        diagnostics=diagnostics,
        helper_diagnostics=of_helpers,
    )


def _users_of_cuda(trace: Trace) -> set[int]:
    """Return the global ids of processes that made calls.

    This needs a scan, so it returns none where nsys has no warnings.
    """
    calls_table = trace.find("CUPTI_ACTIVITY_KIND_RUNTIME")
    warns = any(severity >= _WARNING for severity, _ in read_diagnostics(trace))
    if calls_table is None or not warns or "globaltid" not in {name.lower() for name in trace.columns[calls_table]}:
        return set()
    try:
        with trace.lock:
            query = f"SELECT DISTINCT globalTid & {PID_MASK} FROM {table_sql(trace, calls_table)}"
            return {pid for (pid,) in trace.connection.execute(query) if isinstance(pid, int)}
    except sqlite3.DatabaseError as error:
        trace.explain(error)
        return set()


def _has_row(trace: Trace, table: str, condition: str = "1") -> bool:
    stored_table = trace.find(table)
    if stored_table is None:
        return False
    try:
        with trace.lock:
            return (
                trace.connection.execute(
                    f"SELECT 1 FROM {table_sql(trace, stored_table)} WHERE {condition} LIMIT 1"
                ).fetchone()
                is not None
            )
    except sqlite3.DatabaseError as error:
        trace.explain(error)
        return False


def _has_launch(trace: Trace) -> bool:
    calls, strings = trace.find("CUPTI_ACTIVITY_KIND_RUNTIME"), trace.find("StringIds")
    if calls is None or strings is None:
        return False
    named = f"nameId IN (SELECT id FROM {quote(strings)} NOT INDEXED WHERE value LIKE '{_LAUNCHES}')"
    return _has_row(trace, "CUPTI_ACTIVITY_KIND_RUNTIME", named)


@dataclass(frozen=True)
class ProcessEvents:
    """How many events of each kind a process has in a trace."""

    kernels: int = 0
    # Replays of CUDA graphs that were recorded as a whole.
    graphs: int = 0
    copies: int = 0
    fills: int = 0
    calls: int = 0
    ranges: int = 0

    @property
    def has_gpu_work(self) -> bool:
        return bool(self.kernels or self.graphs or self.copies or self.fills)


def count_by_process(trace: Trace) -> dict[int, ProcessEvents]:
    """Return the events of each process, by its id. A damaged table counts as empty."""
    counts: dict[int, dict[str, int]] = {}
    for kind, (table, column) in _TABLES.items():
        stored_table = trace.find(table)
        if stored_table is None or column.lower() not in {name.lower() for name in trace.columns[stored_table]}:
            continue
        pid = _PID.format(column=column)
        condition = "WHERE eventType IN (59, 60, 70, 71)" if kind == "ranges" else ""
        query = f"SELECT {pid}, count(*) FROM {table_sql(trace, stored_table)} {condition} GROUP BY 1"
        try:
            with trace.lock:
                rows = trace.connection.execute(query).fetchall()
        except sqlite3.DatabaseError as error:
            trace.explain(error)
            continue
        for number, count in rows:
            if isinstance(number, int) and number:
                counts.setdefault(number, {})[kind] = count
    return {pid: ProcessEvents(**kinds) for pid, kinds in counts.items()}


def write_process_trace(source: Path, pid: int, target: Path) -> None:
    """Write a copy of an nsys export that contains the events of only one process. Raises OSError and sqlite3.Error.

    Everything that belongs to no process (GPUs, samples of counters, names) stays.
    """
    shutil.copyfile(source, target)
    try:
        with contextlib.closing(sqlite3.connect(target, isolation_level=None)) as connection:
            connection.execute("PRAGMA journal_mode = OFF")
            tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
            for (table,) in tables:
                if table.lower() in _KEPT:
                    continue
                columns = [name for _, name, *_ in connection.execute(f"PRAGMA table_info({quote(table)})")]
                column = next((name for name in columns if name.lower() in _GLOBAL), None)
                if column is not None:
                    own = _PID.format(column=quote(column))
                    connection.execute(f"DELETE FROM {quote(table)} WHERE {own} != ?", (pid,))
            connection.execute("VACUUM")
    except sqlite3.Error:
        target.unlink(missing_ok=True)
        raise


# The variables in which launchers store the rank and the number of ranks over all hosts; the first one that is set
# counts.
_RANK_VARIABLES = ("RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID", "MV2_COMM_WORLD_RANK")
_WORLD_VARIABLES = ("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS", "MV2_COMM_WORLD_SIZE")
_NVTX_RANK = re.compile(r"^(?:global[ _-]?)?rank[ _:=-]*(\d{1,7})$", re.IGNORECASE)
_LONGEST_RANK_NAME = 31


@dataclass(frozen=True)
class Session:
    """What a trace records about its origin; None for what it does not record."""

    # When the session began (ns since 1970, UTC).
    start_utc_ns: int | None
    host: str | None
    rank: int | None
    # Where the rank comes from: environment or NVTX.
    rank_from: str
    world_size: int | None


def read_session(trace: Trace) -> Session:
    """Return the origin of an opened trace."""
    variables = _environment(trace)
    rank, rank_from = _number(variables, _RANK_VARIABLES), "environment"
    if rank is None:
        rank, rank_from = _rank_in_nvtx(trace), "NVTX"
    starts = {value for (value,) in read_rows(trace, "TARGET_INFO_SESSION_START_TIME", ("utcEpochNs",))}
    (start,) = starts if len(starts) == 1 else (None,)
    return Session(
        start_utc_ns=start if isinstance(start, int) and 0 < start < 2**62 else None,
        host=_host(trace),
        rank=rank,
        rank_from="" if rank is None else rank_from,
        world_size=_number(variables, _WORLD_VARIABLES),
    )


def _environment(trace: Trace) -> dict[str, str]:
    """Return the environment variables on which all traced processes agree, where nsys recorded them."""
    variables: dict[str, str | None] = {}
    for name, value in read_rows(trace, "META_DATA_CAPTURE", ("name", "value")):
        if isinstance(name, str) and isinstance(value, str) and name.rpartition(":")[2] == "ENVIRONMENT_VARIABLE":
            variable, _, text = value.partition("=")
            variables[variable] = text if variables.get(variable, text) == text else None
    return {variable: text for variable, text in variables.items() if text is not None}


def _number(variables: dict[str, str], names: tuple[str, ...]) -> int | None:
    texts = (variables.get(name, "") for name in names)
    return next((int(text) for text in texts if re.fullmatch(r"\d{1,7}", text, re.ASCII)), None)


def _rank_in_nvtx(trace: Trace) -> int | None:
    """Return the rank of a range, mark or thread named like `rank 3`, if all such names agree."""
    texts = read_different(trace, "NVTX_EVENTS", "text", longest=_LONGEST_RANK_NAME)
    ranks = {int(match[1]) for text in texts if (match := _NVTX_RANK.match(text))}
    return ranks.pop() if len(ranks) == 1 else None


def _host(trace: Trace) -> str | None:
    """Return a token for the host that does not reveal its name."""
    for name, value in read_rows(trace, "TARGET_INFO_SYSTEM_ENV", ("name", "value")):
        if isinstance(name, str) and isinstance(value, str) and name.lower() == "hostname" and value:
            return hashlib.sha256(value.encode("utf-8", "replace")).hexdigest()[:12]
    return None
