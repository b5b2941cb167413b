"""Write the zip file of a bundle, and say beforehand how many bytes the tables of its trace can take.

The same files give the same bytes, so that the SHA-256 of an archive identifies the content.
"""

from __future__ import annotations

import hashlib
import lzma
import shutil
import sqlite3
import zipfile
from collections.abc import Collection, Mapping
from pathlib import Path
from threading import Event
from typing import Any

from nsysprof.bundle.allow_list import STRINGS, base_name
from nsysprof.files.plain_file import VERSION, plain_json
from nsysprof.trace.inputs.bundle_file import CONTENTS, FORMAT_VERSION, MEMBER_NAME
from nsysprof.trace.open import open_trace, quote

_EPOCH = (1980, 1, 1, 0, 0, 0)  # the first date that a zip can store; when a bundle was made is private
# Packing a trace of 87 MB took 67 s with preset 6 (15 MB) and 5 s with preset 1 (17 MB).
# Preset 0 takes half the time of preset 1, and the file of a large trace is as small.
_PRESETS = ((64 << 20, 0), (32 << 20, 1), (0, 6))
_STORED = (".xz", ".png")  # already compressed


def pack_trace(trace: Path, target: Path, most_bytes: int, cancelled: Event | None = None) -> Path:
    """Pack the trace as .xz, a third of its size in a zip, and return the file. Large ones get a faster preset.

    most_bytes: the largest size that is of use. A larger file is left incomplete.
    cancelled: set by a caller that does not want the file any more, which is then left incomplete.
    """
    size = trace.stat().st_size
    preset = next(preset for least, preset in _PRESETS if size >= least)
    with trace.open("rb") as source, target.open("wb") as file, lzma.open(file, "wb", preset=preset) as packed:
        while (chunk := source.read(1 << 20)) and not (cancelled is not None and cancelled.is_set()):
            packed.write(chunk)
            if file.tell() > most_bytes:
                break
    return target


def write_archive(target: Path, files: Mapping[str, Path], name: str, facts: Mapping[str, Any]) -> int:
    """Write `files`, by their names inside, and a list of contents with `facts`; return the archive's size (bytes)."""
    wrong = [member for member in (*files, CONTENTS) if MEMBER_NAME.fullmatch(member) is None]
    if wrong:
        raise ValueError(f"no member may have the name {wrong[0]}")
    contents = {
        "format_version": FORMAT_VERSION,
        "nsysprof_version": VERSION,
        "name": name,
        **facts,
        "files": [
            {"name": member, "bytes": path.stat().st_size, "sha256": _sha256(path)}
            for member, path in sorted(files.items())
        ],
    }
    text = plain_json(contents)
    with zipfile.ZipFile(target, "w") as archive:
        archive.writestr(_entry(CONTENTS), text.encode("utf-8", "replace"), zipfile.ZIP_DEFLATED, 9)
        for member, path in sorted(files.items()):
            with path.open("rb") as stream, archive.open(_entry(member), "w", force_zip64=False) as packed:
                shutil.copyfileobj(stream, packed, 1 << 20)
    return target.stat().st_size


def _entry(member: str) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(member, _EPOCH)
    entry.compress_type = zipfile.ZIP_STORED if member.endswith(_STORED) else zipfile.ZIP_DEFLATED
    entry.external_attr = 0o100644 << 16
    entry.create_system = 3  # Unix, on every system
    return entry


def _sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


# What SQLite stores with each row and each cell at most, besides the cell's value (bytes).
_PER_ROW, _PER_CELL = 20, 9


def most_bytes_of(trace: Path, tables: Collection[str], limit: int) -> int | None:
    """Return at most how many bytes the rows of the tables take (bytes), with all strings that they may use.

    None where these are more than the limit.

    trace: a trace that sanitize_trace has written.
    limit: what is still of use (bytes).
    """
    total_bytes = 0
    with open_trace(trace) as opened:
        for table, columns in opened.columns.items():
            if base_name(table) in tables or table == STRINGS:
                total_bytes += _most_bytes(opened.connection, table, columns, limit // _PER_ROW + 1)
                if total_bytes > limit:
                    return None
    return total_bytes


def _most_bytes(connection: sqlite3.Connection, table: str, columns: Collection[str], rows: int) -> int:
    """Return at most how many bytes the first rows of a table take."""
    cells = " + ".join(f"ifnull(length(CAST({quote(column)} AS BLOB)), 0)" for column in columns) or "0"
    sql = f"SELECT count(*), total({cells}) FROM (SELECT * FROM {quote(table)} LIMIT {rows})"
    count, values = connection.execute(sql).fetchone()
    return int(count) * (_PER_ROW + _PER_CELL * len(columns)) + int(values)
