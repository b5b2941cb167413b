"""Which values of a trace are private: what the sanitiser must take out and the verifier must not find."""

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
from nsysprof.bundle.program_text import is_program_word

CREDENTIAL = re.compile(r"token|secret|passw|credential|api[-_]?key|private[-_]?key", re.IGNORECASE)
SHORTEST = 4  # characters; anything shorter is in every file by chance

# Words that environments hold and that say nothing about their owner, but that kernel and range names hold too.
_PUBLIC_WORDS = frozenset(
    [
        "math",
        "flash",
        "efficient",
        "cudnn",
        "default",
        "backend",
        "attention",
        "torch",
        "pytorch",
        "python",
        "python3",
        "cuda",
        "nvidia",
        "triton",
        "compute",
        "utility",
        "graphics",
        "display",
        "video",
        "true",
        "false",
        "none",
        "null",
        "void",
        "root",
        "user",
        "users",
        "nobody",
        "admin",
        "linux",
        "unix",
        "posix",
        "xterm",
        "bash",
        "float",
        "float16",
        "bfloat16",
        "float32",
        "half",
        "fp16",
        "bf16",
        "fp32",
        "causal",
        "forward",
        "backward",
        "expandable_segments",
        "native",
        "spawn",
        "fork",
        "fork-server",
        "info",
        "debug",
        "warning",
        "warn",
        "error",
        "main",
        "test",
        "tests",
        "auto",
        "local",
        "localhost",
        "work",
        "home",
        "train",
        "run",
    ]
)
_NUMBER = re.compile(r"[+-]?\d{1,7}(\.\d{1,7})?|v?\d{1,4}(\.\d{1,4}){1,2}|(\d{1,4}[,:x])+\d{1,4}")
_ENVIRONMENT_ROW = re.compile(r"^[A-Za-z_]\w*=", re.ASCII)


def is_public(value: str) -> bool:
    """Whether finding the value betrays nothing: too short, a small number, or a word that is common or of reports."""
    return (
        len(value) < SHORTEST
        or bool(_NUMBER.fullmatch(value))
        or value.lower() in _PUBLIC_WORDS
        or value in PUBLIC_TEXT
        or is_program_word(value)
    )


def machine_secrets() -> frozenset[str]:
    """Who and where we are now, and what variables named like a credential hold: the capture was probably made here."""
    found = {value for name, value in os.environ.items() if CREDENTIAL.search(name)}
    found |= {socket.gethostname(), socket.gethostname().partition(".")[0]}
    with contextlib.suppress(KeyError, OSError, RuntimeError):  # an account without a name or a home
        found |= {getpass.getuser(), str(Path.home())}
    return frozenset(value for value in found if not is_public(value))


def collect_secrets(connection: sqlite3.Connection) -> frozenset[str]:
    """Environment values, user, host, home and working directory that the trace itself records."""
    found: set[str] = set()
    for name, value in _rows(connection, "META_DATA_CAPTURE", "name", "value"):
        found |= _from_capture(name.rpartition(":")[2], value)
    for table in ("META_DATA_EXPORT", "EXPORT_META_DATA"):
        for name, value in _rows(connection, table, "name", "value"):
            if name in ("EXPORT_HOST", "EXPORT_USER") or (name.endswith(("_PATH", "_PATH_ABS")) and "/" in value):
                found.add(value)
    for name, value in _rows(connection, "TARGET_INFO_SYSTEM_ENV", "name", "value"):
        if name == "DeviceEnvironment":
            found |= _environment_values(*value.split(";"))
        elif name.lower() in ("hostname", "username"):
            found.add(value)
    for _, value in _rows(connection, "StringIds", "id", "value"):
        if "\0" in value:  # /proc/PID/environ of a process that ran beside the program
            found |= _environment_values(*value.split("\0"))
    return frozenset(value for value in _with_parts(found) if not is_public(value))


def _from_capture(name: str, value: str) -> set[str]:
    if name == "ENVIRONMENT_VARIABLE":
        return _environment_values(value)
    if name in ("USER_NAME", "WORKING_DIR", "DEVICE_DISPLAY_NAME", "PACKAGE_NAME"):
        return {value}
    is_argument = name == "COMMAND" or name.startswith("ARGUMENT_")
    return {value} if is_argument and ("/" in value or "\\" in value) else set()


def _rows(connection: sqlite3.Connection, table: str, *columns: str) -> Iterator[tuple[str, ...]]:
    """The rows as text; none when the table or a column is missing or unreadable."""
    names = ", ".join(f'"{column}"' for column in columns)
    try:
        present = {row[1] for row in connection.execute(f'PRAGMA table_xinfo("{table}")')}
        if not present.issuperset(columns):
            return
        for row in connection.execute(f'SELECT {names} FROM "{table}"'):
            yield tuple(_as_text(cell) for cell in row)
    except sqlite3.DatabaseError:
        return


def _as_text(cell: object) -> str:
    if cell is None:
        return ""
    return cell.decode("utf-8", "replace") if isinstance(cell, bytes) else str(cell)


def _environment_values(*variables: str) -> set[str]:
    """The values of `NAME=value` or `NAME="value"`, unquoted and unescaped; anything else is passed over."""
    found: set[str] = set()
    for variable in variables:
        value = variable.partition("=")[2]
        if not _ENVIRONMENT_ROW.match(variable):
            continue
        if len(value) >= 2 and value[0] == value[-1] == '"':
            value = value[1:-1]
            found.add(re.sub(r"\\(.)", r"\1", value).strip())
        found.add(value.strip())
    return found


def _with_parts(values: Iterable[str]) -> Iterator[str]:
    """The values, the entries of search paths and lists, and the account name at the end of a home directory."""
    for value in values:
        yield value.strip()
        if "/" in value and os.pathsep in value and "://" not in value:
            yield from (part for part in value.split(os.pathsep) if part.count("/") > 1)
        yield from (line.strip() for line in value.splitlines() if len(line.strip()) >= 8)
        home = re.fullmatch(r"(?:/home|/Users|[A-Za-z]:\\Users)[/\\]([^/\\]+)([/\\].*)?", value)
        if home:
            yield home.group(1)
