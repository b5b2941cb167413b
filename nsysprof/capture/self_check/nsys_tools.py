"""Distinguish nsys' own programs, which run beside a recorded program, from the program's processes."""

from __future__ import annotations

import contextlib
from pathlib import Path

_NSYS = "nsys"
_NAMES = (f"{_NSYS}-", "CudaGpuInfoDump", "QdstrmImporter")


class NsysTools:
    """The programs of one nsys. Without an nsys they are recognised only by name."""

    def __init__(self, nsys: Path | None) -> None:
        self._folder = None if nsys is None else _tool_folder(nsys)

    def has(self, process: Path) -> bool:
        """Return whether a process is one of them.

        process: its folder in /proc.
        """
        name = name_of(process)
        if name == _NSYS or name.startswith(_NAMES):
            return True
        try:
            return self._folder is not None and self._folder in (process / "exe").readlink().parents
        except OSError:
            return False


def name_of(process: Path) -> str:
    with contextlib.suppress(OSError):
        return (process / "comm").read_text(encoding="utf-8", errors="replace").strip()
    return "?"


def _tool_folder(nsys: Path) -> Path | None:
    """Return the folder of nsys' own programs; None where the installation has an unknown layout."""
    for place in nsys.resolve().parents[:3]:
        if place.name.startswith("target-linux"):
            return place
        found = next(place.glob("target-linux*"), None)
        if found is not None:
            return found
    return None
