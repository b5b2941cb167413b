"""Read plain files, JSON among them, and write files completely or not at all. Errors say what to do.

The types are frozen dataclasses and msgspec structs. Each of our files begins with `format_version`. A file with a
newer version than this nsysprof knows is refused before anything else is read from it.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import platform
import re
import secrets
import shutil
import sys
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, TypeVar

import msgspec

from nsysprof import __version__
from nsysprof.errors import NsysprofError, OutputError, TraceError, UsageError
from nsysprof.plain_text import CONTROL_IN_LINES, plain_line


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


T = TypeVar("T")
# The field with which each file names the version that wrote it.
VERSION = __version__
_LARGEST_BYTES = 1 << 30
_LONGEST_FIELD = 120


class FileHeader(msgspec.Struct):
    """The fields with which each of our files begins."""

    format_version: int
    nsysprof_version: str = "of unknown version"


def encode_json(value: object) -> bytes:
    """Return dataclasses, structs and plain values, also those of numpy, as JSON that ends with a newline.

    A number that is not finite becomes null. Bytes of a path that are not UTF-8 survive as lone surrogates.
    """
    try:
        text = msgspec.json.format(msgspec.json.encode(value, enc_hook=_plain), indent=1).decode()
        return _escape_controls(text).encode() + b"\n"
    except UnicodeEncodeError:
        return (json.dumps(msgspec.to_builtins(value, enc_hook=_plain), indent=1) + "\n").encode()


def plain_json(data: Any, indent: int | None = 1) -> str:
    """Return JSON with readable letters and escaped control characters, and with a newline at its end."""
    text = json.dumps(data, ensure_ascii=False)
    if indent is not None:
        try:
            text = msgspec.json.format(text, indent=indent)  # several times faster than the encoder of Python
        except (msgspec.DecodeError, UnicodeEncodeError):  # NaN, or half of a character
            text = json.dumps(data, indent=indent, ensure_ascii=False)
    return _escape_controls(text) + "\n"


def _escape_controls(text: str) -> str:
    """Return equivalent JSON without any control character in it."""
    return CONTROL_IN_LINES.sub(lambda found: f"\\u{ord(found.group()):04x}", text)


def json_value(value: object) -> Any:
    """Return dataclasses and structs as the dicts, lists and plain values that JSON knows."""
    return msgspec.to_builtins(value, enc_hook=_plain)


def _plain(value: Any) -> Any:
    """Return a number of numpy as one of Python."""
    if hasattr(value, "item"):
        return value.item()
    raise TypeError(f"{type(value).__name__} has no form in JSON")


def read_json(
    path: Path,
    type_: type[T],
    *,
    kind: str,
    advice: str,
    error: type[NsysprofError] = TraceError,
    newest: int | None = None,
    largest_bytes: int = _LARGEST_BYTES,
) -> T:
    """Return the content of a JSON file as `type_`. Raises `error` with the field that is wrong.

    kind: what the file should be, e.g. "a capture's manifest".
    advice: what the user can do when the file is something else.
    newest: the newest format_version that is understood; None for a file without versions.
    largest_bytes: the size above which the file is refused (bytes).
    """
    try:
        is_file, size = path.is_file(), path.stat().st_size
        data = path.read_bytes() if is_file and size <= largest_bytes else b""
    except OSError as failed:
        raise error(f"{path} cannot be read: {failed.strerror}.", advice) from failed
    if not is_file:  # a pipe would block, and a device might never end
        raise error(f"{path} is not a plain file.", advice)
    if size > largest_bytes:
        raise error(f"{path} is too large for {kind} ({size:,} bytes).", advice)
    try:
        if newest is not None:
            header = _decode(data, FileHeader)
            if header.format_version > newest:
                raise error(f"{path} was written by a newer nsysprof ({header.nsysprof_version[:40]}).", "Update it.")
        return _decode(data, type_)
    except (ValueError, RecursionError) as failed:
        raise error(f"{path} is not {kind}: {explain_decoding(failed)}.", advice) from failed


def decode_json(data: bytes | str, type_: type[T]) -> T:
    """Return JSON text as `type_`. Raises ValueError that names the wrong field."""
    try:
        return _decode(data, type_)
    except (ValueError, RecursionError) as failed:
        raise ValueError(explain_decoding(failed)) from failed


def _decode(data: bytes | str, type_: type[T]) -> T:
    try:
        return msgspec.json.decode(data, type=type_)
    except msgspec.ValidationError:
        raise
    except msgspec.DecodeError as failed:
        if "surrogate" not in str(failed):
            raise
        return msgspec.convert(json.loads(data), type_)


def explain_decoding(failed: Exception) -> str:
    """Return what msgspec found wrong as text for a user: `cases[0].seq: expected int, got str`."""
    if isinstance(failed, RecursionError):
        return "it is nested too deeply"
    if isinstance(failed, UnicodeDecodeError):
        return "it is not UTF-8 text"
    text, _, where = str(failed).partition(" - at `")
    text = text.replace("`", "").replace("JSON is malformed", "it is not JSON")
    text = text.replace("Input data was truncated", "it is empty or ends too early")
    text = re.sub(r"Object missing required field (\S+)", r"the field \1 is missing", text)
    text = text[:1].lower() + text[1:] if text.startswith(("Expected", "Number", "Invalid")) else text
    field = where.removesuffix("`").removeprefix("$").removeprefix(".")[:_LONGEST_FIELD]
    return f"{field}: {text}" if field else text


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
