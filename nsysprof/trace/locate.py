"""From what the user names to one SQLite file: a folder, a bundle, a packed trace, an nsys report, Kineto's JSON."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import IO

from nsysprof.bundle_format import CONTENTS
from nsysprof.errors import MissingToolError, OutputError, ToolFailedError, TraceDamagedError, TraceError
from nsysprof.trace.bundle_file import is_bundle, unpack_bundle
from nsysprof.trace.open import refuse_lfs_pointer

# In order of preference: nsys saw the driver, torch only its own work.
TRACES = ("nsys.sqlite", "torch.sqlite")
PACKED = (".xz", ".gz", ".zst")
FILES = (".sqlite", *(f".sqlite{suffix}" for suffix in PACKED))
_RANKS = "ranks"  # of a capture of several ranks
_KINETO = ".json"
_PARQUET = ".parquet"
REPORTS = (".nsys-rep", ".qdrep")
_CHUNK = 1 << 20


def resolve_input(source: Path, nsys: Path | None, work_dir: Path) -> Path:
    """The SQLite file behind `source`; what must be made for that is made in `work_dir`, nothing else is written.

    Raises TraceError for what does not exist, TraceDamagedError for a broken archive, MissingToolError or
    ToolFailedError when a report cannot be exported; and as unpack_bundle, convert_parquet_folder and
    convert_kineto_json do.
    """
    if is_bundle(source):
        source = unpack_bundle(source, work_dir)
    if source.is_dir():
        source = _trace_in(source)
    if source.is_dir():
        from nsysprof.trace.parquet_folder import convert_parquet_folder

        return convert_parquet_folder(source, work_dir / "parquet.sqlite")
    if not source.exists():
        raise TraceError(f"{source} does not exist.", "Check the path.")
    if source.suffix in PACKED:
        plain = _decompress(source, work_dir)
        if plain.suffix != _KINETO:
            return plain
        trace = _convert_kineto(plain, source, work_dir)
        plain.unlink()  # many times the size of what it became
        return trace
    if source.suffix == _KINETO:
        return _convert_kineto(source, source, work_dir)
    if source.suffix in REPORTS:
        return _export(source, nsys, work_dir)
    return source


def _convert_kineto(plain: Path, named: Path, work_dir: Path) -> Path:
    from nsysprof.trace.kineto_json import convert_kineto_json

    return convert_kineto_json(plain, work_dir / "kineto.sqlite", named=named)


def identity_of(source: Path, trace: Path) -> Path:
    """The file that stands for the trace by name and SHA-256: what the user has, unless that was merely compressed.

    source: what the user named; trace: what resolve_input made of it. A SQLite file made from a report depends on the
    nsys that exported it, so it is the report that proves something.
    """
    settled = _trace_in(source) if source.is_dir() else source
    unpacked = is_bundle(settled) or (settled.suffix in PACKED and settled.with_suffix("").suffix != _KINETO)
    return trace if unpacked else settled


def own_trace(folder: Path) -> Path | None:
    """The trace of a capture's folder, the preferred one of several; None without one."""
    paths = (folder / f"{name}{suffix}" for name in TRACES for suffix in ("", *PACKED))
    return next((path for path in paths if path.is_file()), None)


def _trace_in(folder: Path) -> Path:
    """The trace in a folder, which is the folder itself when that is of Parquet files."""
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
    is_unpacked = (folder / CONTENTS).is_file()
    if len(inside) > 1:
        what = f"The bundle {folder.name}" if is_unpacked else str(folder)
        one = "unzip it and give one" if is_unpacked else f"give one, such as {inside[0]}"
        raise TraceError(f"{what} holds {len(inside)} traces.", f"nsysprof analyze takes them all; here, {one}.")
    reports = [path for path in paths if path.suffix in REPORTS]
    if inside or reports:
        return (inside or reports)[0]
    if is_unpacked:
        raise TraceError(
            f"The bundle {folder.name} holds no trace.", "unzip it: its numbers are in results.csv, or in analysis/."
        )
    raise TraceError(
        f"{folder} holds no trace.",
        "Give a capture folder with a trace (--profiler none makes none), the folder of nsys export --type parquetdir, "
        "or a file.",
    )


def _decompress(source: Path, work_dir: Path) -> Path:
    import gzip  # here, since most traces are not compressed
    import lzma
    import shutil
    import zlib

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
