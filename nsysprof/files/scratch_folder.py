"""Make a temporary folder for traces, and remove those that killed processes of this machine and user left behind.

A trace of gigabytes may be unpacked in such a folder, and it holds the environment and the output of its program.
"""

from __future__ import annotations

import contextlib
import os
import platform
import shutil
import sys
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """Yield a new folder in TMPDIR that only this user can read, and remove it afterwards.

    The folder is locked until then. A killed process holds no lock, so the next call removes its folder. A folder
    whose lock cannot be asked for (on Windows, on some network file systems) stays.
    """
    prefix = f"nsysprof-work-{zlib.crc32(platform.node().encode()):08x}-"  # others may share TMPDIR over a network
    _remove_leftovers(Path(tempfile.gettempdir()), prefix)
    while True:
        folder = Path(tempfile.mkdtemp(prefix=prefix))
        descriptor = _lock(folder, wait=True)
        if folder.is_dir():  # another process may have taken it for a leftover before it was locked
            break
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if descriptor is not None:
            os.close(descriptor)


def _remove_leftovers(parent: Path, prefix: str) -> None:
    for folder in parent.glob(f"{prefix}*"):
        descriptor = _lock(folder, wait=False)
        if descriptor is not None:
            shutil.rmtree(folder, ignore_errors=True)
            os.close(descriptor)


def _lock(folder: Path, *, wait: bool) -> int | None:
    """Return a descriptor that holds the lock of a folder of this user, or None where it cannot be had."""
    if sys.platform == "win32":
        return None
    import fcntl

    descriptor = None
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        if os.fstat(descriptor).st_uid == os.getuid():
            fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            return descriptor
    if descriptor is not None:
        os.close(descriptor)
    return None
