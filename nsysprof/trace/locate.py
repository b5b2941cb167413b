"""From what the user names to one SQLite file: a capture folder, a compressed trace, or an nsys report."""

from __future__ import annotations

import gzip
import lzma
import re
import shutil
import subprocess
import zlib
from pathlib import Path
from typing import IO

from nsysprof.errors import MissingToolError, OutputError, ToolFailedError, TraceDamagedError, TraceError
from nsysprof.trace.open import refuse_lfs_pointer

# In order of preference: nsys saw the driver, torch only its own work.
_TRACES = ("nsys.sqlite", "torch.sqlite")
_PACKED = (".xz", ".gz", ".zst")
REPORTS = (".nsys-rep", ".qdrep")
_CHUNK = 1 << 20


def resolve_input(source: Path, nsys: Path | None, work_dir: Path) -> Path:
    """The SQLite file behind `source`; decompressed or exported ones are made in `work_dir`, nothing else is written.

    Raises TraceError for what does not exist, TraceDamagedError for a broken archive, MissingToolError or
    ToolFailedError when a report cannot be exported.
    """
    if source.is_dir():
        source = _trace_in(source)
    if not source.exists():
        raise TraceError(f"{source} does not exist.", "Check the path.")
    if source.suffix in _PACKED:
        return _decompress(source, work_dir)
    if source.suffix in REPORTS:
        return _export(source, nsys, work_dir)
    return source


def _trace_in(folder: Path) -> Path:
    for name in _TRACES:
        for suffix in ("", *_PACKED):
            if (folder / f"{name}{suffix}").is_file():
                return folder / f"{name}{suffix}"
    reports = sorted(path for path in folder.iterdir() if path.suffix in REPORTS)
    if reports:
        return reports[0]
    raise TraceError(
        f"{folder} holds no trace.", "Give a capture folder with a trace (--profiler none makes none), or a file."
    )


def _decompress(source: Path, work_dir: Path) -> Path:
    import zstandard

    try:
        with source.open("rb") as stream:
            refuse_lfs_pointer(source, stream.read(100))
    except OSError as error:
        raise TraceError(f"{source} cannot be read: {error.strerror}.", "Check the path.") from error
    target = work_dir / source.stem
    try:
        with target.open("wb") as plain:
            if source.suffix == ".zst":
                _unpack_zst(source, plain)
            else:
                with lzma.open(source) if source.suffix == ".xz" else gzip.open(source) as packed:
                    shutil.copyfileobj(packed, plain, _CHUNK)
    except (EOFError, lzma.LZMAError, gzip.BadGzipFile, zlib.error, zstandard.ZstdError) as error:
        raise TraceDamagedError(f"{source} is damaged or truncated: {error}.", "Fetch it again.") from error
    except OSError as error:
        raise OutputError(f"{source} cannot be unpacked: {error.strerror}.", "Free space, or set TMPDIR.") from error
    return target


def _unpack_zst(source: Path, plain: IO[bytes]) -> None:
    """zstandard's readers take a truncated file for its end; a decompression object knows better."""
    import zstandard

    frame = zstandard.ZstdDecompressor().decompressobj()
    with source.open("rb") as packed:
        while chunk := packed.read(_CHUNK):
            plain.write(frame.decompress(chunk))
            while frame.eof and frame.unused_data:
                rest = frame.unused_data
                frame = zstandard.ZstdDecompressor().decompressobj()
                plain.write(frame.decompress(rest))
    if not frame.eof:
        raise EOFError("the file ends before its data does")


def _export(source: Path, nsys: Path | None, work_dir: Path) -> Path:
    if nsys is None:
        raise MissingToolError(
            f"{source} is an nsys report, and reading one takes nsys, which was not found.",
            "Name it with --nsys, install one (scripts/install_nsys), or give the .sqlite export.",
        )
    target = work_dir / f"{source.stem}.sqlite"
    argv = [str(nsys), "export", "--type=sqlite", f"--output={target}", "--force-overwrite=true", str(source)]
    try:
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    except OSError as error:
        raise ToolFailedError(f"{nsys} cannot be run: {error.strerror}.", "Name another with --nsys.") from error
    said = (done.stdout + done.stderr).decode("utf-8", errors="replace")
    if done.returncode != 0 or not target.exists() or target.stat().st_size == 0:
        raise _export_failure(source, nsys, said)
    return target


def _export_failure(source: Path, nsys: Path, said: str) -> ToolFailedError:
    if re.search(r"newer|unsupported version|incompatible|Unknown (report|file) version", said, re.IGNORECASE):
        return ToolFailedError(
            f"{source} was written by a newer nsys than {nsys}.", "Name the nsys that wrote it with --nsys."
        )
    if re.search(r"importer version|libdw", said):
        return ToolFailedError("nsys lacks a library it needs for importing (libdw).", "apt-get install libdw1")
    lines = [line.strip() for line in said.splitlines() if line.strip() and "%" not in line]
    last = next((line for line in reversed(lines) if re.search(r"rror|ailed|annot", line)), lines[-1] if lines else "")
    return ToolFailedError(
        f"nsys could not export {source}: {last[:300] or 'it said nothing'}", "See that the report is whole."
    )
