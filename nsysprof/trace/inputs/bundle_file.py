"""Unpack an archive that `nsysprof bundle` wrote, or that claims to be one. It may come from a stranger.

Nothing is written outside the given folder, and no more than the limits here allow. An archive
with something that a bundle never holds is refused: a link, a nested folder, an encrypted member, or two names
that differ only in case.

Define the names and limits of a bundle, for the code that writes bundles and the code that reads them.
"""

from __future__ import annotations

import hashlib
import json
import lzma
import re
import shutil
import stat
import zipfile
import zlib
from collections.abc import Iterator
from concurrent.futures import CancelledError
from pathlib import Path
from threading import Event
from typing import IO, Any

from nsysprof.errors import OutputError, TraceDamagedError, TraceEmptyError, TraceError, TraceForeignError
from nsysprof.trace.open import refuse_lfs_pointer

# The version of bundle.json. 1: the first.
FORMAT_VERSION = 1
# Not MANIFEST.json: a capture has a manifest.json, and some file systems do not distinguish the two.
CONTENTS = "bundle.json"
SUFFIX = ".zip"
# The row of META_DATA_CAPTURE in which a shared trace says what was left out on purpose.
LEFT_OUT = "NSYSPROF:LEFT_OUT"
REPORT_FOLDER = "analysis"
# Flat names and one folder: no name can leave the folder, be absolute, or name a device. Anything else is not a bundle.
MEMBER_NAME = re.compile(rf"(?:{REPORT_FOLDER}/)?[a-z][a-z0-9_]{{0,40}}(?:\.[a-z][a-z0-9_-]{{0,20}}){{1,2}}")

MAX_MEMBERS = 700  # this allows nearly as many ranks
MAX_UNPACKED_BYTES = 8 << 30
# How many times its compressed size a member, or a table of Parquet, may have, once it is larger than MAX_FREE_BYTES.
# Traces are compressed about ten times, and a trace that repeats itself for ten million kernels a few hundred times.
# An archive bomb is compressed a thousand times.
MAX_RATIO = 400
MAX_FREE_BYTES = 32 << 20
MAX_DIRECTORY_BYTES = 64 << 10


def plain_title(name: str) -> str:
    """Return a bundle's name in a form that can name a folder: one part, and no character that is special on disk."""
    plain = "".join(c if c.isalnum() or c in "-_.+ " else "_" for c in name[:100]).strip(". ")
    return plain or "bundle"


_CHUNK = 1 << 20
_XZ_MEMORY = 256 << 20  # the memory for unpacking (bytes); xz's preset 9 needs a quarter of it
_ASK = "Ask the sender for the archive again, or for the trace itself."
_UNSAFE = "nsysprof bundle does not write such archives: do not unpack it by other means."


def is_bundle(path: Path) -> bool:
    """Return whether the name is the name of a bundle's archive. Its content is not checked."""
    return path.suffix.lower() == SUFFIX and path.is_file()


def unpack_bundle(source: Path, work_dir: Path, cancelled: Event | None = None) -> Path:
    """Unpack the archive below `work_dir` with its traces decompressed, and return its folder.

    The folder has the bundle's own name, whatever the archive is called. Raises TraceForeignError for content that no
    bundle has, TraceDamagedError for a broken archive or a wrong checksum, TraceEmptyError for an empty file, and
    OutputError when the disk is too small.

    cancelled: set by a caller that does not want the folder any more. CancelledError is raised then.
    """
    _check_head(source)
    try:
        with zipfile.ZipFile(source) as archive:
            members = _check_members(source, archive)
            contents = _read_contents(source, archive)
            _check_listed(source, members, contents)
            folder = work_dir / "bundle" / plain_title(contents["name"])
            budget = _Budget(source, work_dir, cancelled)
            for member in members:
                _unpack(source, archive, member, folder, budget, contents)
    except (zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError) as error:
        raise TraceDamagedError(f"{source} is damaged or truncated: {error}.", _ASK) from error
    except (NotImplementedError, RuntimeError) as error:  # what zipfile raises for an unknown method
        raise TraceForeignError(
            f"{source} is compressed by a method that bundles do not use: {error}.", _ASK
        ) from error
    except OSError as error:
        raise OutputError(f"{source} cannot be unpacked: {error.strerror}.", "Free space, or set TMPDIR.") from error
    return folder


def _check_head(source: Path) -> None:
    """Check the size of the directory of members before zipfile reads it, because it could claim gigabytes."""
    try:
        size = source.stat().st_size
        with source.open("rb") as stream:
            head = stream.read(100)
            stream.seek(max(0, size - (1 << 16) - 22))
            tail = stream.read()
    except OSError as error:
        raise TraceError(f"{source} cannot be read: {error.strerror}.", "Check the path.") from error
    if not head:
        raise TraceEmptyError(f"{source} is empty (0 bytes).", _ASK)
    refuse_lfs_pointer(source, head)
    if not head.startswith(b"PK"):
        raise TraceForeignError(f"{source} is not a zip archive.", "Give the file that nsysprof bundle wrote.")
    end = tail.rfind(b"PK\5\6")
    if end < 0 or len(tail) < end + 22:
        raise TraceDamagedError(f"{source} is truncated: its directory is missing.", _ASK)
    if tail[max(0, end - 20) : end].startswith(b"PK\6\7"):
        raise TraceForeignError(f"{source} is a zip64 archive.", _UNSAFE)
    if int.from_bytes(tail[end + 12 : end + 16], "little") > MAX_DIRECTORY_BYTES:
        raise TraceForeignError(f"{source} has more members than a bundle.", _UNSAFE)


def _check_members(source: Path, archive: zipfile.ZipFile) -> list[zipfile.ZipInfo]:
    members = archive.infolist()
    if len(members) > MAX_MEMBERS:
        raise TraceForeignError(f"{source} has {len(members)} members; a bundle has {MAX_MEMBERS} at most.", _UNSAFE)
    names = [member.filename for member in members]
    for member in members:
        if MEMBER_NAME.fullmatch(member.orig_filename) is None or member.filename != member.orig_filename:
            raise TraceForeignError(f"{source} has a member that no bundle has: {_shown(member)}.", _UNSAFE)
        if member.flag_bits & 0x1:
            raise TraceForeignError(f"{source} is encrypted.", _ASK)
        kind = stat.S_IFMT(member.external_attr >> 16)
        if kind not in (0, stat.S_IFREG):
            raise TraceForeignError(f"{source} has a member that is not a plain file: {_shown(member)}.", _UNSAFE)
    if len({name.casefold() for name in names}) < len(names):
        raise TraceForeignError(f"{source} has two members with one name, or names that differ only in case.", _UNSAFE)
    if CONTENTS not in names:
        raise TraceForeignError(
            f"{source} is a zip archive but not a bundle: it has no {CONTENTS}.", "Unpack it and give the trace inside."
        )
    return members


def _shown(member: zipfile.ZipInfo) -> str:
    return ascii(member.orig_filename[:80])


def _read_contents(source: Path, archive: zipfile.ZipFile) -> dict[str, Any]:
    with archive.open(CONTENTS) as stream:
        text = stream.read(_CHUNK + 1)
    try:
        if len(text) > _CHUNK:
            raise ValueError("it is too long")
        contents = json.loads(text)
        if contents["format_version"] > FORMAT_VERSION:
            raise TraceForeignError(f"{source} was written by a newer nsysprof.", "Update nsysprof.")
        files = {str(file["name"]): str(file["sha256"]) for file in contents["files"]}
        title = str(contents["name"])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise TraceDamagedError(f"{source} has a {CONTENTS} that is damaged: {error}.", _ASK) from error
    return {"files": files, "name": title}


def _check_listed(source: Path, members: list[zipfile.ZipInfo], contents: dict[str, Any]) -> None:
    """Check that the list of contents and the archive's directory name the same files."""
    present = {member.filename for member in members} - {CONTENTS}
    unlisted, missing = sorted(present - set(contents["files"])), sorted(set(contents["files"]) - present)
    if unlisted:
        raise TraceForeignError(f"{source} contains a file that its {CONTENTS} does not list: {unlisted[0]}.", _UNSAFE)
    if missing:
        raise TraceDamagedError(f"{source} lacks {missing[0][:80]!a}, which its {CONTENTS} lists.", _ASK)


class _Budget:
    """The number of bytes that may still be written, as long as nobody cancels."""

    def __init__(self, source: Path, work_dir: Path, cancelled: Event | None) -> None:
        self._source = source
        self._cancelled = cancelled
        self._left = MAX_UNPACKED_BYTES
        self._disk = shutil.disk_usage(work_dir).free

    def take(self, count: int) -> None:
        if self._cancelled is not None and self._cancelled.is_set():
            raise CancelledError
        self._left -= count
        self._disk -= count
        if self._left < 0:
            raise TraceForeignError(f"{self._source} unpacks to more than {MAX_UNPACKED_BYTES >> 30} GiB.", _UNSAFE)
        if self._disk < 0:
            raise OutputError(f"{self._source} unpacks to more than the disk has room for.", "Set TMPDIR.")


def _unpack(
    source: Path,
    archive: zipfile.ZipFile,
    member: zipfile.ZipInfo,
    folder: Path,
    budget: _Budget,
    contents: dict[str, Any],
) -> None:
    packed = member.filename.endswith(".xz")
    target = folder / member.filename.removesuffix(".xz")
    target.parent.mkdir(parents=True, exist_ok=True)
    digest = hashlib.sha256()
    limit = max(MAX_FREE_BYTES, MAX_RATIO * member.compress_size)
    written = 0
    with archive.open(member) as stream, target.open("xb") as plain:
        chunks = _hashed(stream, digest)
        for chunk in _decompress(chunks) if packed else chunks:
            written += len(chunk)
            budget.take(len(chunk))
            if written > limit:
                raise TraceForeignError(
                    f"{source} unpacks {member.filename} to more than {MAX_RATIO} times its size.", _UNSAFE
                )
            plain.write(chunk)
    if member.filename != CONTENTS and digest.hexdigest() != contents["files"][member.filename]:
        raise TraceDamagedError(f"{source}: the SHA-256 of {member.filename} differs from the one in {CONTENTS}.", _ASK)


def _hashed(stream: IO[bytes], digest: Any) -> Iterator[bytes]:
    while chunk := stream.read(_CHUNK):
        digest.update(chunk)
        yield chunk


def _decompress(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """Decompress one xz stream in bounded pieces. A chunk of a malicious archive would otherwise become gigabytes."""
    decoder = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_XZ_MEMORY)
    for chunk in chunks:
        if decoder.eof:
            raise lzma.LZMAError("data after the end of the trace")
        yield decoder.decompress(chunk, _CHUNK)
        while not decoder.eof and not decoder.needs_input:
            yield decoder.decompress(b"", _CHUNK)
    if not decoder.eof or decoder.unused_data:
        raise EOFError("the packed trace does not end where it should")
