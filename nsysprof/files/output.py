"""Write files completely or not at all, name them, and read only plain files, with errors that say what to do."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from nsysprof.errors import OutputError, UsageError
from nsysprof.plain_text import plain_line


def write_whole(path: Path, data: bytes) -> Path:
    """Replace a file in one step: a kill or a full disk leaves the old one as it was. Raises OutputError."""
    with open_whole(path) as stream:
        stream.write(data)
    return path


def output_error(path: Path, error: OSError) -> OutputError:
    """Return the OutputError for a failed write, with the next step for the usual causes."""
    if error.errno == errno.ENOSPC:
        return OutputError(f"No space left for {path}.", "Free some space or choose another disk with --out.")
    return OutputError(f"{path} cannot be written: {error.strerror or error}.", "Choose another folder with --out.")


@contextmanager
def open_whole(path: Path) -> Iterator[IO[bytes]]:
    """Yield a file to write piece by piece. It replaces `path` at the end, or never. Raises OutputError."""
    scratch = None
    try:
        descriptor, scratch = open_scratch(path)
        with os.fdopen(descriptor, "wb") as stream:
            yield stream
        scratch.replace(path)
    except OSError as error:
        raise output_error(path, error) from error
    finally:  # after an interrupt too, because half a file would look like a complete one
        if scratch is not None:
            with contextlib.suppress(OSError):
                scratch.unlink(missing_ok=True)


def open_scratch(path: Path) -> tuple[int, Path]:
    """Open a new file beside `path` under an unpredictable name, and return its descriptor and path."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
    while True:
        scratch = path.with_name(f".{path.name[:100]}.{secrets.token_hex(8)}.part")
        with contextlib.suppress(FileExistsError):
            return os.open(scratch, flags, 0o666), scratch


_LARGEST_BYTES = 1 << 30


def read_plain_text(path: Path) -> str:
    """Return the text of a plain file. Raises OSError for anything else and for more than 1 GiB, else ValueError."""
    size = path.stat().st_size
    if not path.is_file() or size > _LARGEST_BYTES:
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), str(path))
    return path.read_text(encoding="utf-8")


_SUFFIXES = (
    ".zip", ".xz", ".gz", ".zst", ".sqlite", ".nsys-rep", ".qdrep", ".json", ".pt.trace", ".pickle", ".pkl",
)  # fmt: skip


def name_after(source: Path, otherwise: str = "trace") -> str:
    """Return a folder's name, or a file's without its suffixes, in characters that a terminal shows.

    otherwise: what to return where nothing is left.
    """
    name = source.resolve().name
    if not source.is_dir():
        for suffix in _SUFFIXES:
            name = name.removesuffix(suffix)
    return plain_line(name) or otherwise


# At least two letters, so that a Windows drive is not a URL. pathlib has turned two slashes into one.
_URL = re.compile(r"([a-z][a-z0-9+.-]+):/+(?=[^/])", re.IGNORECASE)


def refuse_url(source: Path) -> None:
    """Raise UsageError for a URL."""
    found = _URL.match(str(source))
    if found is None or source.exists():
        return
    address = f"{found[1]}://{str(source)[found.end() :]}"
    raise UsageError(
        f"{address} is a URL, and nsysprof reads only files.", "Download it first, and give the file or folder."
    )
