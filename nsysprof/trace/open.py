"""Open a trace read-only after checking what kind of file it is. Inputs are never changed."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import sqlite3
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import ParamSpec, TypeVar

from nsysprof.errors import TraceDamagedError, TraceEmptyError, TraceError, TraceForeignError
from nsysprof.native.load import loop
from nsysprof.notes import Loss, Note, make_loss
from nsysprof.trace.confine import ConfinedConnections, Confinement

_MAGIC = b"SQLite format 3\0"
_LFS = b"version https://git-lfs.github.com/spec"
_MARKS = ("StringIds", "META_DATA_CAPTURE", "META_DATA_EXPORT", "EXPORT_META_DATA", "NVTX_EVENTS", "ANALYSIS_DETAILS")


# How many bytes of a file are hashed at a time: a processor's cache holds them. Between two chunks, the thread waits
# for Python's lock, which others may hold for as long as some megabytes take.
_CHUNK = 1 << 22
# A larger file of which less than this share was ever written is an interrupted copy.
_SPARSE_BYTES, _SPARSE_SHARE = 16 << 20, 4
# A file of this size (bytes) is worth a second thread, and what it took is worth returning to the system.
LARGE_BYTES = 16 << 20
P = ParamSpec("P")
T = TypeVar("T")


@dataclass
class Trace:
    """An opened trace.

    columns: the columns of every real table; views are left out.
    identity: the file (or folder of Parquet files) whose name, size and SHA-256 identify the trace. It is `path`,
        unless that was made from something else.
    background: computes what is needed only at the end, while the tables are read.
    limits: the limits on what reading may take. They start again with each `begin`.
    one_thread: whether to read the tables one after another, without threads.
    connections: one connection to the file for each thread.
    shared: for each table that SQLite reads, whether its pages are shared.
    """

    path: Path
    bytes: int
    connections: ConfinedConnections
    columns: dict[str, tuple[str, ...]]
    identity: Path
    background: Executor
    limits: Confinement
    one_thread: bool = False
    notes: list[Note] = field(default_factory=list)
    # The parts of the trace that could not be read, or are not there yet. `notes` describes them, too.
    losses: list[Loss] = field(default_factory=list)
    lock: threading.RLock = field(default_factory=threading.RLock)
    shared: dict[str, bool] = field(default_factory=dict)

    def add_loss(self, loss: Loss) -> None:
        """Add a loss and its note."""
        self.losses.append(loss)
        self.notes.append(loss.note)

    @cached_property
    def digest(self) -> Future[str]:
        """Return the SHA-256 of `identity`, which is computed in the background from the first use on."""
        return self.background.submit(_sha256, self.identity, self.limits.cancelled)

    def begin(self) -> None:
        """Begin in the background what takes long and needs no table: the SHA-256."""
        self.digest  # noqa: B018 - computed from the first use on

    @property
    def connection(self) -> sqlite3.Connection:
        """Return the connection of this thread."""
        return self.connections.own()

    def explain(self, error: Exception) -> str:
        """Return what an error of SQLite means, and continue with a new connection.

        SQLite checks a page only when it first reads it. A connection that goes on finds the page in its cache,
        unchecked, so a second read of a damaged table would succeed. Raises KeyboardInterrupt where that was the hidden
        cause.
        """
        self.connections.renew()
        return self.limits.explain(error)

    @property
    def is_large(self) -> bool:
        """Return whether the tables are worth a second thread, and the memory they took is worth returning."""
        return self.bytes >= LARGE_BYTES

    @property
    def reads_pages(self) -> bool:
        """Return whether compiled code reads the tables from the file's pages. Otherwise SQLite does."""
        return loop("decode") is not None

    @property
    def identity_bytes(self) -> int:
        """Return the size of the file, or of all files in the folder, that identifies the trace."""
        if self.identity.is_dir():
            return sum(file.stat().st_size for file in self.identity.iterdir() if file.is_file())
        return self.identity.stat().st_size

    def find(self, table: str) -> str | None:
        """Return the table's name as the file spells it, or None. Some exports append _V2 or _V3 to a name."""
        present = {name.lower(): name for name in self.columns}
        wanted = (f"{table}{suffix}".lower() for suffix in ("", "_V3", "_V2"))
        return next((present[name] for name in wanted if name in present), None)

    def has(self, table: str) -> bool:
        return self.find(table) is not None


@contextmanager
def open_trace(path: Path, identity: Path | None = None, *, one_thread: bool = False) -> Iterator[Trace]:
    """Open an nsys SQLite export.

    Raises TraceEmptyError, TraceDamagedError or TraceForeignError, with the next step. A table that turns out to be
    damaged later is left out, with a note.

    identity: the user's file, where `path` was made from it.
    one_thread: see Trace.
    """
    size = _check_file(path)
    # Several threads read different tables, each by its own connection. Trace.lock lets them take turns.
    connections = _connect(path, size)
    connection, limits = connections.own(), connections.limits
    with InlineExecutor() if one_thread else ThreadPoolExecutor(2, thread_name_prefix="background") as pool:
        try:
            columns = _probe(connection, path, limits)
            identity = identity or path
            trace = Trace(path, size, connections, columns, identity, pool, limits, one_thread)
            for loss in (*_sidecar_losses(path), *_view_losses(connection)):
                trace.add_loss(loss)
            yield trace
        except (sqlite3.DatabaseError, TraceDamagedError) as error:
            limits.cancelled.set()
            text = limits.explain(error.__cause__ or error)  # or the user's interrupt
            if str(error) != "interrupted":
                raise
            raise _damaged(path, text) from error
        except BaseException:
            limits.cancelled.set()
            raise
        finally:
            connections.close()


def _check_file(path: Path) -> int:
    try:
        size = path.stat().st_size
        if not (path.is_file() or path.is_dir()):
            raise TraceError(f"{path} is not a plain file.", "Give the file itself; a pipe cannot be read twice.")
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
    stored = _stored_bytes(path, size) if size > _SPARSE_BYTES else size
    if stored < size // _SPARSE_SHARE:
        text = f"{path} is mostly holes: {stored:,} of its {size:,} bytes were ever written."
        raise TraceDamagedError(text, "Its download or copy was interrupted: fetch it again.")
    return size


def _stored_bytes(path: Path, size: int) -> int:
    """Return how many bytes of a file are stored. A sparse file has holes; in most files every byte is stored."""
    if not hasattr(os, "SEEK_DATA"):
        return size
    stored = at = 0
    with path.open("rb") as stream:
        while at < size and stored < size // _SPARSE_SHARE:
            try:
                begin = os.lseek(stream.fileno(), at, os.SEEK_DATA)
                at = os.lseek(stream.fileno(), begin, os.SEEK_HOLE)
            except OSError as error:  # only a hole is left, or the file system does not report holes
                return stored if error.errno == errno.ENXIO else size
            stored += at - begin
    return stored


def _connect(path: Path, size: int) -> ConfinedConnections:
    try:
        connections = ConfinedConnections(path, size)
        connections.own()
        return connections
    except (sqlite3.DatabaseError, UnicodeDecodeError, MemoryError) as error:  # damage may claim gigabytes
        raise _damaged(path, error) from error


def _damaged(path: Path, error: Exception | str) -> TraceDamagedError:
    return TraceDamagedError(
        f"{path} is damaged: {str(error) or 'its schema claims more memory than there is'}.",
        "Export it again: nsys export --type sqlite REPORT.nsys-rep",
    )


def _probe(connection: sqlite3.Connection, path: Path, limits: Confinement) -> dict[str, tuple[str, ...]]:
    # A table without a page is virtual: a program computes its rows. In a damaged file a name may be no text.
    real = "SELECT name FROM sqlite_master WHERE type = 'table' AND rootpage > 0 AND typeof(name) = 'text'"
    try:
        names = [name for (name,) in connection.execute(real)]
        columns = {
            name: tuple(row[1] for row in connection.execute(f"PRAGMA table_info({quote(name)})")) for name in names
        }
    except (sqlite3.DatabaseError, UnicodeDecodeError, MemoryError) as error:
        raise _damaged(path, limits.explain(error)) from error
    if not names:
        raise TraceEmptyError(f"{path} is a SQLite file without tables.", "Export the report again.")
    if not any(name in _MARKS or name.startswith("CUPTI_ACTIVITY_KIND_") for name in names):
        raise TraceForeignError(
            f"{path} is a SQLite file but not an nsys export: none of its {len(names)} tables is one of nsys.",
            "Give the file that nsys export --type sqlite wrote.",
        )
    return columns


def refuse_lfs_pointer(path: Path, head: bytes) -> None:
    """Raise TraceForeignError when a file's first bytes are a git-lfs pointer."""
    if head.startswith(_LFS):
        raise TraceForeignError(f"{path} is a git-lfs pointer, not the trace itself.", "Run: git lfs pull")


def quote(identifier: str) -> str:
    """Return an identifier quoted for SQL, whatever characters it has."""
    return '"' + identifier.replace('"', '""') + '"'


def _sha256(path: Path, cancelled: threading.Event) -> str:
    """Return a file's SHA-256; for a folder, the SHA-256 of the lines `sha256sum *` prints for it, in byte order.

    Raises CancelledError once nobody waits for it any more.
    """
    try:
        if path.is_dir():
            files = sorted(path.iterdir(), key=lambda file: os.fsencode(file.name))
            lines = (f"{_sha256(file, cancelled)}  {file.name}\n" for file in files if file.is_file())
            return hashlib.sha256("".join(lines).encode(errors="surrogateescape")).hexdigest()
        digest, chunk = hashlib.sha256(), memoryview(bytearray(_CHUNK))
        with path.open("rb", buffering=0) as stream:
            while count := stream.readinto(chunk):
                if cancelled.is_set():
                    raise CancelledError
                digest.update(chunk[:count])
        return digest.hexdigest()
    except OSError as error:
        raise TraceError(f"{path} cannot be read: {error.strerror}.", "Check the disk.") from error


def _view_losses(connection: sqlite3.Connection) -> list[Loss]:
    """Return the tables of nsys that are views here. A view could compute anything, so it is not read."""
    unreal = "SELECT name FROM sqlite_master WHERE type = 'view' OR (type = 'table' AND coalesce(rootpage, 0) = 0)"
    names = [name for (name,) in connection.execute(unreal)]
    known = re.compile(
        "|".join((*_MARKS, "CUPTI_ACTIVITY_KIND_.*", "CUDA_GPU_MEMORY_.*", "GPU_METRICS")), re.IGNORECASE
    )
    return [make_loss("table-unreadable", "view", table=name) for name in names if known.fullmatch(name)]


def _sidecar_losses(path: Path) -> list[Loss]:
    beside = [suffix for suffix in ("-wal", "-journal") if path.with_name(path.name + suffix).exists()]
    if not beside:
        return []
    return [make_loss("being-written", file=f"{path.name}{beside[0]}")]


class InlineExecutor(Executor):
    """Runs each task within `submit`."""

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        future: Future[T] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:  # noqa: BLE001 - it is raised where the result is asked for
            future.set_exception(error)
        return future
