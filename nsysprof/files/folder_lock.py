"""Lock a folder or a file for one run, or a folder for the processes of one job. The lock ends with its process."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from nsysprof.errors import OutputError
from nsysprof.files.plain_file import output_error

_BUSY = frozenset({errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES, errno.EDEADLK})
# How long a process waits for another one of its job, which holds the lock exclusively only for a short check (s).
_PATIENCE_S, _POLL_S = 10.0, 0.02


@contextmanager
def hold_lock(folder: Path) -> Iterator[None]:
    """Hold the lock of `folder` (by its real path), which need not exist. Raises OutputError when another holds it.

    The lock is a file beside the folder, or the folder itself where no file can be made there. A file system that
    knows no locks holds nobody back.
    """
    path = _path(folder)
    try:
        descriptor, _ = _open_and_lock(path, folder, shared=False)
    except OSError as error:
        raise output_error(folder, error) from error
    try:
        yield
    finally:
        _release(descriptor, path)


class JointLock:
    """The lock of a folder, held by several processes of one job together.

    is_alone: whether no other process holds it; None on a file system that knows no locks.
    """

    def __init__(self, descriptor: int, path: Path, *, is_alone: bool | None) -> None:
        self._descriptor, self._path, self.is_alone = descriptor, path, is_alone

    def share(self) -> None:
        """Let the other processes of the job join. Raises OSError where the lock was lost to another run."""
        if not self.is_alone:
            return
        deadline = time.monotonic() + _PATIENCE_S
        while self.is_alone:  # a system may give up the one lock before it takes the other
            try:
                _lock(self._descriptor, shared=True)
                self.is_alone = False
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(_POLL_S)

    def try_alone(self) -> bool:
        """Return whether all others have ended. Without support for locks this is unknown, and the result True."""
        if self.is_alone is False:
            with contextlib.suppress(OSError):
                _lock(self._descriptor, shared=False)
                self.is_alone = True
        return self.is_alone is not False

    def release(self) -> None:
        if self.try_alone():
            _release(self._descriptor, self._path)
        else:
            os.close(self._descriptor)


@contextmanager
def join_lock(folder: Path) -> Iterator[JointLock]:
    """Lock `folder` exclusively if nobody holds it, else together with those that share it. Raises OutputError.

    A process with the exclusive lock calls `share` once the others may join.
    """
    path, deadline = _path(folder), time.monotonic() + _PATIENCE_S
    shared = False
    while True:
        try:
            descriptor, is_locked = _open_and_lock(path, folder, shared=shared)
            break
        except OutputError:
            if time.monotonic() > deadline:
                raise
            shared = not shared
            time.sleep(_POLL_S)
        except OSError as error:
            raise output_error(folder, error) from error
    lock = JointLock(descriptor, path, is_alone=not shared if is_locked else None)
    try:
        yield lock
    finally:
        lock.release()


def _path(folder: Path) -> Path:
    return folder.with_name(f".{folder.name[:100]}.nsysprof-lock")


def _release(descriptor: int, path: Path) -> None:
    with contextlib.suppress(OSError):
        path.unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        os.close(descriptor)


def _open_and_lock(path: Path, folder: Path, *, shared: bool) -> tuple[int, bool]:
    """Return the descriptor, and whether it is locked: not every file system can. Raises OSError and OutputError."""
    flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
    while True:
        is_file = True
        try:
            descriptor = os.open(path, flags, 0o666)
        except OSError:
            if not folder.is_dir() or sys.platform == "win32":
                raise
            descriptor, is_file = os.open(folder, os.O_RDONLY), False
        try:
            _lock(descriptor, shared=shared)
            # The former owner may have removed the file since it was opened; the lock would then exclude nobody.
            if not is_file or _is_at(descriptor, path):
                return descriptor, True
        except OSError as error:
            if error.errno in _BUSY:
                os.close(descriptor)
                raise OutputError(
                    f"Another run is writing {folder}.", "Wait until it ends, or choose another output."
                ) from None
            return descriptor, False
        os.close(descriptor)


def _lock(descriptor: int, *, shared: bool) -> None:
    if sys.platform == "win32":
        import msvcrt

        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
    else:
        import fcntl

        fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)


def _is_at(descriptor: int, path: Path) -> bool:
    try:
        there, mine = path.stat(), os.fstat(descriptor)
    except OSError:
        return False
    return (there.st_dev, there.st_ino) == (mine.st_dev, mine.st_ino)


@contextmanager
def claim_file(path: Path) -> Iterator[None]:
    """Prevent other runs from writing `path`, and remove what killed runs left beside it.

    Raises OutputError when one does.

    The file itself is written with nsysprof.files.plain_file's `write_whole` or `open_whole`.
    """
    whole = path.absolute()
    with hold_lock(whole):
        leftover = re.compile(rf"\.{re.escape(whole.name[:100])}\.[0-9a-f]{{16}}\.part")
        with contextlib.suppress(OSError):
            for other in whole.parent.iterdir():
                if leftover.fullmatch(other.name):
                    other.unlink(missing_ok=True)
        yield
