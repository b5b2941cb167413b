"""Store the results of probes on this machine, by the versions of nsys and the driver, and by GPUs."""

from __future__ import annotations

import contextlib
import hashlib
import os
from pathlib import Path

from nsysprof.errors import NsysprofError
from nsysprof.files.json_file import FileHeader, encode_json, read_json
from nsysprof.files.output import write_whole
from nsysprof.files.written_by import VERSION
from nsysprof.results.checks import ProbeResult

_FORMAT = 1


class _Cached(FileHeader, kw_only=True):
    """The content of a file of the cache."""

    key: str
    results: tuple[ProbeResult, ...]


def cache_folder() -> Path | None:
    """Return the folder for stored results; None where the user has no home folder."""
    named = os.environ.get("XDG_CACHE_HOME", "")
    if named and Path(named).is_absolute():
        return Path(named) / "nsysprof" / "probes"
    try:
        return Path.home() / ".cache" / "nsysprof" / "probes"
    except RuntimeError:  # neither HOME nor an entry for this user
        return None


def probe_key(nsys: str | None, driver: str | None, gpus: tuple[str, ...]) -> str:
    """Return the key of the results: what they are valid for.

    gpus: the names of the GPUs.
    """
    return "\n".join([nsys or "?", driver or "?", *sorted(set(gpus))])


def read_probes(key: str) -> tuple[ProbeResult, ...]:
    """Return the results for this machine; none where none can be read, or another version of nsysprof wrote them."""
    path = _path(key)
    if path is None:
        return ()
    try:
        cached = read_json(path, _Cached, kind="a cached probe", advice="Remove it.", newest=_FORMAT)
    except (NsysprofError, OSError):
        return ()
    return cached.results if (cached.nsysprof_version, cached.key) == (VERSION, key) else ()


def write_probes(key: str, results: tuple[ProbeResult, ...]) -> bool:
    """Store the results beside those of other options, and return whether that was possible."""
    path = _path(key)
    if path is None:
        return False
    merged = {each.name: each for each in (*read_probes(key), *results)}
    content = _Cached(format_version=_FORMAT, nsysprof_version=VERSION, key=key, results=tuple(merged.values()))
    with contextlib.suppress(OSError, NsysprofError):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, encode_json(content))
        return True
    return False


def _path(key: str) -> Path | None:
    folder = cache_folder()
    return None if folder is None else folder / f"{hashlib.sha256(key.encode()).hexdigest()[:16]}.json"
