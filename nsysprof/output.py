"""Writing files: whole or not at all, and a failure that says what to do."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from nsysprof.errors import OutputError


def write_whole(path: Path, data: bytes) -> Path:
    """Replace a file in one step: a kill or a full disk leaves the old one as it was. Raises OutputError."""
    scratch = path.with_name(f".{path.name}.part")
    try:
        scratch.write_bytes(data)
        scratch.replace(path)
    except OSError as error:
        scratch.unlink(missing_ok=True)
        raise output_error(path, error) from error
    return path


def output_error(path: Path, error: OSError) -> OutputError:
    """The OutputError for a failed write, with the next step for the usual causes."""
    if error.errno == errno.ENOSPC:
        return OutputError(f"No space left for {path}.", "Free some space or choose another disk with --out.")
    return OutputError(f"{path} cannot be written: {error.strerror or error}.", "Choose another folder with --out.")


@contextmanager
def open_whole(path: Path) -> Iterator[IO[bytes]]:
    """A file to write piece by piece: it takes the place of `path` at the end, or never. Raises OutputError."""
    scratch = path.with_name(f".{path.name}.part")
    try:
        with scratch.open("wb") as stream:
            yield stream
        scratch.replace(path)
    except OSError as error:
        scratch.unlink(missing_ok=True)
        raise output_error(path, error) from error
    except BaseException:  # an interrupt too: half a file would look like a whole one
        scratch.unlink(missing_ok=True)
        raise
