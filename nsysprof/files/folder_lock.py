"""Let one run at a time write a folder, with a lock that ends with the process, however it ends."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from nsysprof.errors import OutputError
from nsysprof.files.output import output_error

_BUSY = frozenset({errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES, errno.EDEADLK})


@contextmanager
def hold_lock(folder: Path) -> Iterator[None]:
    """Hold the lock of `folder` (by its real path), which need not exist. Raises OutputError when another holds it.

    The lock is a file beside the folder, or the folder itself where no file can be made there. A file system that
    knows no locks holds nobody back.
    """
    path = folder.with_name(f".{folder.name[:100]}.nsysprof-lock")
    try:
        descriptor = _open_and_lock(path, folder)
    except OSError as error:
        raise output_error(folder, error) from error
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            os.close(descriptor)


def _open_and_lock(path: Path, folder: Path) -> int:
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
            _lock(descriptor)
            # The former owner may have removed the file since it was opened; the lock would then exclude nobody.
            if not is_file or _is_at(descriptor, path):
                return descriptor
        except OSError as error:
            if error.errno in _BUSY:
                os.close(descriptor)
                raise OutputError(
                    f"Another run is writing {folder}.", "Wait for its end, or choose another output."
                ) from None
            return descriptor
        os.close(descriptor)


def _lock(descriptor: int) -> None:
    if sys.platform == "win32":
        import msvcrt

        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
    else:
        import fcntl

        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _is_at(descriptor: int, path: Path) -> bool:
    try:
        there, mine = path.stat(), os.fstat(descriptor)
    except OSError:
        return False
    return (there.st_dev, there.st_ino) == (mine.st_dev, mine.st_ino)
