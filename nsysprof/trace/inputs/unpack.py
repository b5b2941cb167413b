"""Decompress one file in bounded pieces, because a few kilobytes can unpack to terabytes."""

from __future__ import annotations

import gzip
import lzma
import shutil
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from nsysprof.errors import OutputError, TraceDamagedError, TraceError, TraceForeignError
from nsysprof.trace.inputs.bundle_format import MAX_FREE_BYTES, MAX_RATIO
from nsysprof.trace.open import refuse_lfs_pointer

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

_CHUNK = 1 << 20
# The memory that a decoder may use; the strongest usual settings (xz -9e, zstd --ultra -22) need half of it.
_MOST_WINDOW_LOG = 27  # 128 MiB
_XZ_MEMORY_BYTES = 256 << 20
# Programs that pack in several streams or frames at once give each a megabyte or more. Each takes some microseconds to
# begin, however empty it is.
_FREE_PARTS, _LEAST_PART_BYTES = 1_000, 64 << 10
# The fraction of the disk's free space that may be used.
_SHARE_OF_DISK = 0.9


def unpack(source: Path, work_dir: Path) -> Path:
    """Write the content of `source` (.xz, .gz or .zst) to `work_dir` and return its path, which has no such suffix.

    Raises TraceForeignError for what unpacks to more than any trace does, TraceDamagedError for a broken archive,
    OutputError when the disk is too small, and TraceError for what cannot be read.
    """
    try:
        packed_bytes = source.stat().st_size
        with source.open("rb") as stream:
            refuse_lfs_pointer(source, stream.read(100))
    except OSError as error:
        raise TraceError(f"{source} cannot be read: {error.strerror}.", "Check the path.") from error
    target = work_dir / source.stem
    most = max(MAX_FREE_BYTES, MAX_RATIO * packed_bytes)
    try:
        room = int(_SHARE_OF_DISK * shutil.disk_usage(work_dir).free)
        with source.open("rb") as packed, target.open("wb") as plain:
            written = 0
            for chunk in _READERS[source.suffix](packed, packed_bytes):
                written += len(chunk)
                if written > most:
                    text = (
                        f"{source} unpacks to more than {most >> 20:,} MiB, {MAX_RATIO} times its size; no trace does "
                        "that."
                    )
                    raise TraceForeignError(text, "If it really is a trace, unpack it with another tool.")
                if written > room:
                    raise OutputError(f"{source} unpacks to more than the disk has room for.", "Set TMPDIR.")
                plain.write(chunk)
    except (EOFError, lzma.LZMAError, gzip.BadGzipFile, zlib.error, zstd.ZstdError) as error:
        raise TraceDamagedError(f"{source} is damaged or truncated: {error}.", "Fetch it again.") from error
    except OSError as error:
        raise OutputError(f"{source} cannot be unpacked: {error.strerror}.", "Free space, or set TMPDIR.") from error
    except (TraceForeignError, OutputError):
        target.unlink(missing_ok=True)
        raise
    return target


def _read_gz(packed: IO[bytes], _packed_bytes: int) -> Iterator[bytes]:
    with gzip.GzipFile(fileobj=packed) as stream:
        while chunk := stream.read(_CHUNK):
            yield chunk


def _read_xz(packed: IO[bytes], packed_bytes: int) -> Iterator[bytes]:
    """Yield one or several streams, with zeros between and after them. lzma's own reader has no memory limit."""
    decoder, parts = lzma.LZMADecompressor(memlimit=_XZ_MEMORY_BYTES), _Parts(packed_bytes)
    while chunk := packed.read(_CHUNK):
        while chunk or not (decoder.eof or decoder.needs_input):
            if decoder.eof:
                chunk = chunk.lstrip(b"\0")
                if chunk:
                    parts.count()
                    decoder = lzma.LZMADecompressor(memlimit=_XZ_MEMORY_BYTES)
                continue
            yield decoder.decompress(chunk, _CHUNK)
            chunk = decoder.unused_data if decoder.eof else b""
    if not decoder.eof:
        raise EOFError("it ends before its end-of-stream mark")


def _read_zst(packed: IO[bytes], packed_bytes: int) -> Iterator[bytes]:
    """Yield one or several frames. zstd's own readers take a truncated file for a complete one."""
    frame, parts = _new_frame(), _Parts(packed_bytes)
    while chunk := packed.read(_CHUNK):
        while chunk or not (frame.eof or frame.needs_input):
            if frame.eof:
                parts.count()
                frame = _new_frame()
            yield frame.decompress(chunk, _CHUNK)
            chunk = frame.unused_data if frame.eof else b""
    if not frame.eof:
        raise zstd.ZstdError("it ends before its last frame does")


class _Parts:
    """Counts the streams or frames of a file. Raises TraceForeignError where they are more than any program writes."""

    def __init__(self, packed_bytes: int) -> None:
        self._left = _FREE_PARTS + packed_bytes // _LEAST_PART_BYTES

    def count(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise TraceForeignError(
                "The file consists of thousands of tiny streams; no program packs a trace so.",
                "If it really is a trace, unpack it with another tool.",
            )


def _new_frame() -> zstd.ZstdDecompressor:
    return zstd.ZstdDecompressor(options={zstd.DecompressionParameter.window_log_max: _MOST_WINDOW_LOG})


_READERS = {".gz": _read_gz, ".xz": _read_xz, ".zst": _read_zst}
