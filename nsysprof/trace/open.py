"""Open a trace read-only, after finding out what it is: no input is changed, and no bad one ends in a traceback."""

from __future__ import annotations

import hashlib
import os
import re
import sqlite3
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

from nsysprof.errors import TraceDamagedError, TraceEmptyError, TraceError, TraceForeignError
from nsysprof.notes import Note, Severity
from nsysprof.trace.at_once import AtOnce

_MAGIC = b"SQLite format 3\0"
_LFS = b"version https://git-lfs.github.com/spec"
_MARKS = ("StringIds", "META_DATA_CAPTURE", "META_DATA_EXPORT", "EXPORT_META_DATA", "NVTX_EVENTS", "ANALYSIS_DETAILS")


# Below this size SQLite reads a trace in the time that loading the compiled reader takes.
LARGE_BYTES = 96 << 20


@dataclass
class Trace:
    """An opened trace. `columns` holds the columns of every real table (views are not looked at).

    identity: the file (a folder of Parquet) that stands for the trace by its name, size and SHA-256: `path`, unless
    that was made from something else. digest: its SHA-256, computed beside the reading. large_bytes: from this size on
    compiled code reads the tables, None: from LARGE_BYTES on. one_thread: read nothing side by side.
    """

    path: Path
    bytes: int
    connection: sqlite3.Connection
    columns: dict[str, tuple[str, ...]]
    identity: Path
    digest: Future[str]
    large_bytes: int | None = None
    one_thread: bool = False
    notes: list[Note] = field(default_factory=list)
    lock: threading.RLock = field(default_factory=threading.RLock)

    @property
    def is_large(self) -> bool:
        """Whether tables are worth reading from the file's pages, by compiled code, and can be."""
        least = LARGE_BYTES if self.large_bytes is None else self.large_bytes
        return self.bytes >= least and hasattr(os, "preadv") and find_spec("numba") is not None

    @property
    def identity_bytes(self) -> int:
        """The size of the file that stands for the trace, or of all files of the folder that does."""
        if self.identity.is_dir():
            return sum(file.stat().st_size for file in self.identity.iterdir() if file.is_file())
        return self.identity.stat().st_size

    def find(self, table: str) -> str | None:
        """The table as the file spells it, or None. Some exports append _V2 or _V3 to a name."""
        present = {name.lower(): name for name in self.columns}
        wanted = (f"{table}{suffix}".lower() for suffix in ("", "_V3", "_V2"))
        return next((present[name] for name in wanted if name in present), None)

    def has(self, table: str) -> bool:
        return self.find(table) is not None


@contextmanager
def open_trace(
    path: Path, identity: Path | None = None, large_bytes: int | None = None, *, one_thread: bool = False
) -> Iterator[Trace]:
    """Open an nsys SQLite export. identity: what it was made from, where that and not `path` is what the user has.

    Raises TraceEmptyError, TraceDamagedError or TraceForeignError with the next step. Tables that turn out damaged
    later are left out with a note instead.
    """
    size = _check_file(path)
    # immutable: no lock, no journal beside the user's file, and it works on a read-only disk.
    # Several threads read different tables; Trace.lock lets one of them use the connection at a time.
    connection = sqlite3.connect(path.resolve().as_uri() + "?mode=ro&immutable=1", uri=True, check_same_thread=False)
    connection.text_factory = lambda raw: raw.decode("utf-8", errors="replace")
    with AtOnce() if one_thread else ThreadPoolExecutor(1, thread_name_prefix="sha256") as pool:
        try:
            columns = _probe(connection, path)
            identity = identity or path
            digest = pool.submit(_sha256, identity)
            trace = Trace(path, size, connection, columns, identity, digest, large_bytes, one_thread)
            trace.notes += _sidecar_notes(path) + _view_notes(connection)
            yield trace
        finally:
            connection.close()


def _check_file(path: Path) -> int:
    try:
        size = path.stat().st_size
        with path.open("rb") as stream:
            head = stream.read(100)
    except OSError as error:
        raise TraceError(f"{path} cannot be read: {error.strerror}.", "Check the path.") from error
    export_again = "Export it again: nsys export --type sqlite REPORT.nsys-rep"
    if size == 0:
        raise TraceEmptyError(f"{path} is empty (0 bytes).", export_again)
    refuse_lfs_pointer(path, head)
    if head[:16] == b"\0" * min(16, len(head)):
        raise TraceDamagedError(f"{path} has no header: its export was interrupted.", export_again)
    if not head.startswith(_MAGIC):
        raise TraceForeignError(
            f"{path} is not a SQLite file.", "Give an nsys .sqlite export, a .nsys-rep, or a capture folder."
        )
    if len(head) < 100:
        raise TraceDamagedError(f"{path} is truncated to {size} bytes.", export_again)
    page = int.from_bytes(head[16:18], "big")
    pages = int.from_bytes(head[28:32], "big")
    expected = pages * (65536 if page == 1 else page)
    if size < expected:
        raise TraceDamagedError(f"{path} is truncated: {size} of {expected} bytes.", export_again)
    return size


def _probe(connection: sqlite3.Connection, path: Path) -> dict[str, tuple[str, ...]]:
    try:
        names = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        columns = {
            name: tuple(row[1] for row in connection.execute(f"PRAGMA table_info({quote(name)})")) for name in names
        }
    except (sqlite3.DatabaseError, UnicodeDecodeError) as error:  # SQLite's own message may quote damage
        raise TraceDamagedError(
            f"{path} is damaged: {error}.", "Export it again: nsys export --type sqlite REPORT.nsys-rep"
        ) from error
    if not names:
        raise TraceEmptyError(f"{path} is a SQLite file without tables.", "Export the report again.")
    if not any(name in _MARKS or name.startswith("CUPTI_ACTIVITY_KIND_") for name in names):
        raise TraceForeignError(
            f"{path} is a SQLite file, but no nsys export: none of its {len(names)} tables is of nsys.",
            "Give the file that nsys export --type sqlite wrote.",
        )
    return columns


def refuse_lfs_pointer(path: Path, head: bytes) -> None:
    """Raises TraceForeignError when a file's first bytes are those of a git-lfs pointer."""
    if head.startswith(_LFS):
        raise TraceForeignError(f"{path} is a git-lfs pointer, not the trace itself.", "Run: git lfs pull")


def quote(identifier: str) -> str:
    """An identifier as SQL, whatever it holds."""
    return '"' + identifier.replace('"', '""') + '"'


def _sha256(path: Path) -> str:
    """Of a file its SHA-256; of a folder that of the lines `sha256sum *` prints for it, in the order of bytes."""
    try:
        if path.is_dir():
            files = sorted(path.iterdir(), key=lambda file: os.fsencode(file.name))
            lines = (f"{_sha256(file)}  {file.name}\n" for file in files if file.is_file())
            return hashlib.sha256("".join(lines).encode(errors="surrogateescape")).hexdigest()
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise TraceError(f"{path} cannot be read: {error.strerror}.", "Check the disk.") from error


def _view_notes(connection: sqlite3.Connection) -> list[Note]:
    """What was a table in every export and is a view here: it could compute anything, so it is not read."""
    names = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'view'")]
    known = re.compile(
        "|".join((*_MARKS, "CUPTI_ACTIVITY_KIND_.*", "CUDA_GPU_MEMORY_.*", "GPU_METRICS")), re.IGNORECASE
    )
    return [
        Note(
            "table-unreadable",
            Severity.ERROR,
            f"{name} is a view here and a table in every export; it was not read, and what it holds is unknown.",
            "Export the report again.",
        )
        for name in names
        if known.fullmatch(name)
    ]


def _sidecar_notes(path: Path) -> list[Note]:
    beside = [suffix for suffix in ("-wal", "-journal") if path.with_name(path.name + suffix).exists()]
    if not beside:
        return []
    return [
        Note(
            "being-written",
            Severity.ERROR,
            f"A {path.name}{beside[0]} lies beside the trace: it is still being written, or its writer died.",
            "Wait for the export to end, or export again.",
        )
    ]
