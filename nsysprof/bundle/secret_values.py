"""Collect the private values of a trace: the sanitiser must remove them, and the verifier must not find them."""

from __future__ import annotations

import contextlib
import getpass
import os
import re
import socket
import sqlite3
from collections.abc import Iterable, Iterator
from pathlib import Path

from nsysprof.bundle.allow_list import PUBLIC_TEXT
from nsysprof.bundle.public_names import PUBLIC_WORDS, is_program_word
from nsysprof.errors import TraceDamagedError

CREDENTIAL = re.compile(r"token|secret|passw|credential|api[-_]?key|private[-_]?key", re.IGNORECASE)
SHORTEST = 4  # characters; anything shorter is in every file by chance

# Words in environments that reveal nothing about their owner, and that are also part of kernel and range names.
_PUBLIC_WORDS = PUBLIC_WORDS["environment"]
# Variables that say how a program runs, and nothing about who runs it.
_PUBLIC_VARIABLE = re.compile(
    r"PYTHON(IOENCODING|UNBUFFERED|DONTWRITEBYTECODE|HASHSEED|UTF8|WARNINGS|FAULTHANDLER|OPTIMIZE)|LANG|LANGUAGE|LC_[A-Z]+"
    r"|TERM|COLORTERM|SHLVL|COLUMNS|LINES|NO_COLOR|DEBIAN_FRONTEND|(OMP|MKL|OPENBLAS|NUMEXPR|KMP)_[A-Z_]+"
    r"|CUDA_(VISIBLE_DEVICES|DEVICE_ORDER|MODULE_LOADING|VERSION|LAUNCH_BLOCKING|DEVICE_MAX_CONNECTIONS)"
    r"|NVIDIA_(DRIVER_CAPABILITIES|VISIBLE_DEVICES|REQUIRE_CUDA)|TOKENIZERS_PARALLELISM|TORCH_CUDA_ARCH_LIST"
    r"|PYTORCH_(CUDA_ALLOC_CONF|ALLOC_CONF)|(RANK|LOCAL_RANK|WORLD_SIZE|LOCAL_WORLD_SIZE|GROUP_RANK)"
)
_SHORTEST_NAME = 3  # characters of the name of a user or a host
_NUMBER = re.compile(r"[+-]?\d{1,7}(\.\d{1,7})?|v?\d{1,4}(\.\d{1,4}){1,2}|(\d{1,4}[,:x])+\d{1,4}")
_ENVIRONMENT_ROW = re.compile(r"^[A-Za-z_]\w*=", re.ASCII)


def is_public(value: str) -> bool:
    """Return whether finding the value reveals nothing: too short, a small number, or a common word."""
    return (
        len(value) < SHORTEST
        or bool(_NUMBER.fullmatch(value))
        or value.lower() in _PUBLIC_WORDS
        or value in PUBLIC_TEXT
        or is_program_word(value)
    )


def machine_secrets() -> frozenset[str]:
    """Return user, host and folders of this machine, where the capture was probably made, and its credentials."""
    values = {value for name, value in os.environ.items() if CREDENTIAL.search(name)}
    people = {socket.gethostname(), socket.gethostname().partition(".")[0]}
    with contextlib.suppress(KeyError, OSError, RuntimeError):  # the account has no name or no home
        people |= {getpass.getuser(), Path.home().name}
        values.add(str(Path.home()))
    return frozenset(value for value in values if not is_public(value)) | _names(people)


def _names(values: Iterable[str]) -> frozenset[str]:
    """Return the names of people and machines among values. They are private however short, unless they are common."""
    names = {value.strip() for value in values}
    return frozenset(
        name
        for name in names
        if len(name) >= _SHORTEST_NAME and not name.isdigit() and name.lower() not in _PUBLIC_WORDS
    )


def collect_secrets(connection: sqlite3.Connection) -> frozenset[str]:
    """Return environment values, user, host, home and working directory that the trace itself records."""
    values: set[str] = set()
    people: set[str] = set()
    for name, value in _rows(connection, "META_DATA_CAPTURE", "name", "value"):
        if name.rpartition(":")[2] in ("USER_NAME", "DEVICE_DISPLAY_NAME"):
            people.add(value)
        values |= _from_capture(name.rpartition(":")[2], value)
    for table in ("META_DATA_EXPORT", "EXPORT_META_DATA"):
        for name, value in _rows(connection, table, "name", "value"):
            if name in ("EXPORT_HOST", "EXPORT_USER"):
                people.add(value)
            if name in ("EXPORT_HOST", "EXPORT_USER") or (name.endswith(("_PATH", "_PATH_ABS")) and "/" in value):
                values.add(value)
    for name, value in _rows(connection, "TARGET_INFO_SYSTEM_ENV", "name", "value"):
        if name == "DeviceEnvironment":
            values |= _environment_values(*value.split(";"))
        elif name.lower() in ("hostname", "username"):
            people.add(value)
            values.add(value)
    for _, value in _rows(connection, "StringIds", "id", "value"):
        if "\0" in value:  # the /proc/PID/environ of a process that ran at the same time
            values |= _environment_values(*value.split("\0"))
    return frozenset(value for value in _with_parts(values) if not is_public(value)) | _names(people)


def _from_capture(name: str, value: str) -> set[str]:
    if name == "ENVIRONMENT_VARIABLE":
        return _environment_values(value)
    if name in ("USER_NAME", "WORKING_DIR", "DEVICE_DISPLAY_NAME", "PACKAGE_NAME"):
        return {value}
    is_argument = name == "COMMAND" or name.startswith("ARGUMENT_")
    return {value} if is_argument and ("/" in value or "\\" in value) else set()


def _rows(connection: sqlite3.Connection, table: str, *columns: str) -> Iterator[tuple[str, ...]]:
    """Yield the rows as text; nothing when the table does not exist or lacks a column.

    Raises TraceDamagedError for a table that cannot be read completely, because its private values would be unknown.
    """
    names = ", ".join(f'"{column}"' for column in columns)
    try:
        listed = connection.execute("SELECT type, sql FROM sqlite_master WHERE name = ?", (table,)).fetchall()
        if not any(kind == "table" and str(sql).lstrip().upper().startswith("CREATE TABLE") for kind, sql in listed):
            return  # a view or a virtual table is never read, and nothing of it is shared
        present = {row[1] for row in connection.execute(f'PRAGMA table_xinfo("{table}")')}
        if present.issuperset(columns):
            for row in connection.execute(f'SELECT {names} FROM "{table}"'):
                yield tuple(_as_text(cell) for cell in row)
    except sqlite3.DatabaseError as error:
        if str(error) == "interrupted":  # open_trace knows whether by the user or by the limit of time
            raise
        raise TraceDamagedError(
            f"{table} cannot be read completely ({error}), so its private values are not known.",
            "Export the report again.",
        ) from error


def _as_text(cell: object) -> str:
    if cell is None:
        return ""
    return cell.decode("utf-8", "replace") if isinstance(cell, bytes) else str(cell)


def _environment_values(*variables: str) -> set[str]:
    """Return the values of `NAME=value` or `NAME="value"`, unquoted and unescaped; ignore anything else."""
    values: set[str] = set()
    for variable in variables:
        value = variable.partition("=")[2]
        if not _ENVIRONMENT_ROW.match(variable) or _PUBLIC_VARIABLE.fullmatch(variable.partition("=")[0]):
            continue
        if len(value) >= 2 and value[0] == value[-1] == '"':
            value = value[1:-1]
            values.add(re.sub(r"\\(.)", r"\1", value).strip())
        values.add(value.strip())
    return values


def _with_parts(values: Iterable[str]) -> Iterator[str]:
    """Yield the values, the entries of search paths and lists, and the account name at the end of a home directory."""
    for value in values:
        yield value.strip()
        if "/" in value and os.pathsep in value and "://" not in value:
            yield from (part for part in value.split(os.pathsep) if part.count("/") > 1)
        yield from (line.strip() for line in value.splitlines() if len(line.strip()) >= 8)
        home = re.fullmatch(r"(?:/home|/Users|[A-Za-z]:\\Users)[/\\]([^/\\]+)([/\\].*)?", value)
        if home:
            yield home.group(1)
