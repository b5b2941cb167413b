"""Find or make the SQLite file of any input: a folder, a bundle, a compressed trace, an nsys report, Kineto's JSON."""

from __future__ import annotations

import gzip
import lzma
import shutil
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from nsysprof.errors import MissingToolError, OutputError, TraceDamagedError, TraceError, TraceForeignError
from nsysprof.files.folder_state import require_whole
from nsysprof.nsight.nsys import run_export
from nsysprof.nsight.run_tool import GET_NSYS, NSYS, find_tool
from nsysprof.trace.inputs.bundle_file import CONTENTS, MAX_FREE_BYTES, is_bundle, unpack_bundle
from nsysprof.trace.inputs.kineto_json import convert_kineto_json
from nsysprof.trace.inputs.parquet_folder import convert_parquet_folder
from nsysprof.trace.open import refuse_lfs_pointer

# Traces in a capture folder, in order of preference: nsys saw the whole driver, torch only its own work.
TRACES = ("nsys.sqlite", "torch.sqlite")
PACKED = (".xz", ".gz", ".zst")
FILES = (".sqlite", *(f".sqlite{suffix}" for suffix in PACKED))
_RANKS = "ranks"  # the folder in a capture of several ranks
_KINETO = ".json"
_PARQUET = ".parquet"
REPORTS = (".nsys-rep", ".qdrep")
_CHUNK = 1 << 20
# The memory that a decoder may use; the strongest usual settings (xz -9e, zstd --ultra -22) need half of it.
_MOST_WINDOW_LOG = 27  # 128 MiB
_XZ_MEMORY_BYTES = 256 << 20
# Programs that pack in several streams or frames at once give each a megabyte or more. Each takes some microseconds to
# begin, however empty it is.
_FREE_PARTS, _LEAST_PART_BYTES = 1_000, 64 << 10
# How many times its size a packed file may unpack to, once it is larger than MAX_FREE_BYTES. Traces do so about ten
# times, a million launches of one kernel in a loop seven times. A file of 1.6 MB that unpacked to 390 MB took a minute.
_MOST_TIMES = 40
# The fraction of the disk's free space that may be used.
_SHARE_OF_DISK = 0.9


def resolve_input(source: Path, nsys: Path | None, work_dir: Path) -> Path:
    """Return the SQLite file behind `source`. New files are only made in `work_dir`.

    Raises TraceError for a path that does not exist, TraceDamagedError for a broken archive, MissingToolError or
    ToolFailedError when a report cannot be exported, and whatever unpack_bundle, convert_parquet_folder and
    convert_kineto_json raise.

    nsys: the nsys that the user named for a report; it is searched for when None.
    """
    archive = source if is_bundle(source) else None
    if archive is not None:
        source = unpack_bundle(archive, work_dir)
    if source.is_dir():
        require_whole(source)
        source = _trace_in(source, archive)
    if source.is_dir():
        return convert_parquet_folder(source, work_dir / "parquet.sqlite")
    if not source.exists():
        raise TraceError(f"{source} does not exist.", "Check the path.")
    if not source.is_file():  # a pipe would block, and a device might never end
        raise TraceError(f"{source} is not a plain file.", "Give the file itself; a pipe cannot be read twice.")
    if source.suffix in PACKED:
        plain = unpack(source, work_dir)
        if plain.suffix != _KINETO:
            return plain
        trace = _convert_kineto(plain, source, work_dir)
        plain.unlink()  # it is many times larger than what was made from it
        return trace
    if source.suffix == _KINETO:
        return _convert_kineto(source, source, work_dir)
    if source.suffix in REPORTS:
        return _export(source, nsys, work_dir)
    return source


def _convert_kineto(plain: Path, named: Path, work_dir: Path) -> Path:

    return convert_kineto_json(plain, work_dir / "kineto.sqlite", named=named)


def identity_of(source: Path, trace: Path) -> Path:
    """Return the file whose name and SHA-256 identify the trace: the user's file, unless it was merely compressed.

    A SQLite file made from a report depends on the nsys that exported it, so the report identifies the trace.

    source: what the user named.
    trace: what resolve_input returned for it.
    """
    settled = _trace_in(source) if source.is_dir() else source
    unpacked = is_bundle(settled) or (settled.suffix in PACKED and settled.with_suffix("").suffix != _KINETO)
    return trace if unpacked else settled


def own_trace(folder: Path) -> Path | None:
    """Return the trace in a capture's folder, the preferred one of several; None without one."""
    paths = (folder / f"{name}{suffix}" for name in TRACES for suffix in ("", *PACKED))
    return next((path for path in paths if path.is_file()), None)


def _trace_in(folder: Path, archive: Path | None = None) -> Path:
    """Return the trace in a folder, or the folder itself where it holds Parquet files.

    archive: the bundle that was unpacked into the folder; None for a folder of the user's.
    """
    own = own_trace(folder)
    if own is not None:
        return own
    try:
        paths = sorted(folder.iterdir())
    except OSError as error:
        raise TraceError(f"{folder} cannot be read: {error.strerror}.", "Check the path.") from error
    if any(path.suffix == _PARQUET for path in paths):
        return folder
    inside = [path for path in (*paths, *sorted((folder / _RANKS).glob("*"))) if path.name.endswith(FILES)]
    if len(inside) > 1:
        what = str(folder) if archive is None else f"The bundle {archive.name}"
        one = f"give one, such as {inside[0]}" if archive is None else "unzip it and give one"
        raise TraceError(
            f"{what} contains {len(inside)} traces.", f"nsysprof analyze accepts all of them; here, {one}."
        )
    reports = [path for path in paths if path.suffix in REPORTS]
    if inside or reports:
        return (inside or reports)[0]
    if (folder / CONTENTS).is_file():
        raise TraceError(
            f"The bundle {folder.name} contains no trace.", "Unzip it: its numbers are in results.csv, or in analysis/."
        )
    raise TraceError(
        f"{folder} contains no trace.",
        "Give a capture folder with a trace (--profiler none makes none), the folder of nsys export --type parquetdir, "
        "or a file.",
    )


def _export(source: Path, nsys: Path | None, work_dir: Path) -> Path:
    try:
        with source.open("rb") as stream:
            refuse_lfs_pointer(source, stream.read(100))
    except OSError as error:
        raise TraceError(f"{source} cannot be read: {error.strerror}.", "Check the path.") from error
    program = find_tool(NSYS, nsys)
    if program is None:
        raise MissingToolError(
            f"{source} is an nsys report, and reading one needs nsys, which was not found.",
            f"{GET_NSYS}; or give the .sqlite export.",
        )
    target = work_dir / f"{source.stem}.sqlite"
    _, failure = run_export(program, source, target)
    if failure is not None:
        raise failure
    return target


if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd


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
    most = max(MAX_FREE_BYTES, _MOST_TIMES * packed_bytes)
    try:
        room = int(_SHARE_OF_DISK * shutil.disk_usage(work_dir).free)
        with source.open("rb") as packed, target.open("wb") as plain:
            written = 0
            for chunk in _READERS[source.suffix](packed, packed_bytes):
                written += len(chunk)
                if written > most:
                    text = (
                        f"{source} unpacks to more than {most >> 20:,} MiB, {_MOST_TIMES} times its size; traces "
                        "do so by about ten times."
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
