"""The zip file: the same files give the same bytes, so that its SHA-256 says something."""

from __future__ import annotations

import hashlib
import json
import lzma
import shutil
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nsysprof import __version__
from nsysprof.bundle_format import CONTENTS, FORMAT_VERSION, MEMBER_NAME

_EPOCH = (1980, 1, 1, 0, 0, 0)  # the first that a zip can name; when a bundle was made is nobody's business
# A trace of 87 MB took 67 s with preset 6 and 5 s with 1, for 15 and 17 MB.
_PRESET, _PRESET_OF_LARGE, _LARGE_BYTES = 6, 1, 32 << 20
_STORED = (".xz", ".png")  # packed already


def pack_trace(trace: Path, target: Path) -> Path:
    """The trace as .xz, a third of what a zip would make of it; a large one packed with less effort."""
    preset = _PRESET if trace.stat().st_size < _LARGE_BYTES else _PRESET_OF_LARGE
    with trace.open("rb") as source, lzma.open(target, "wb", preset=preset) as packed:
        shutil.copyfileobj(source, packed, 1 << 20)
    return target


def write_archive(target: Path, files: Mapping[str, Path], name: str, facts: Mapping[str, Any]) -> int:
    """Write `files`, by their names inside, and the list of contents with `facts`; returns its size in bytes."""
    wrong = [member for member in (*files, CONTENTS) if MEMBER_NAME.fullmatch(member) is None]
    if wrong:
        raise ValueError(f"no member may be called {wrong[0]}")
    contents = {
        "format_version": FORMAT_VERSION,
        "nsysprof_version": __version__,
        "name": name,
        **facts,
        "files": [
            {"name": member, "bytes": path.stat().st_size, "sha256": _sha256(path)}
            for member, path in sorted(files.items())
        ],
    }
    text = json.dumps(contents, indent=1, ensure_ascii=False) + "\n"
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
