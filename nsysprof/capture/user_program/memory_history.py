"""Have a captured program record what torch's CUDA allocator does, and collect the snapshots of its processes."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path

from nsysprof.notes import Note, make_note

# As in nsysprof.workload.program_start.sitecustomize, which is not imported: it acts when it is.
FOLDER = "NSYSPROF_MEMORY_FOLDER"
_HOOK = Path(__file__).parents[2] / "workload" / "program_start"
_SNAPSHOT = re.compile(r".*\.memory-(\d{1,10})\.pickle")


def memory_environment(report: Path, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables with which Python programs record their allocator, and make the folder for it.

    report: where nsys writes its report; the snapshots will lie beside it.
    """
    folder = _work(report)
    folder.mkdir(parents=True, exist_ok=True)
    path = [str(_HOOK), *filter(None, [environment.get("PYTHONPATH", "")])]
    return {FOLDER: str(folder.resolve()), "PYTHONPATH": os.pathsep.join(path)}


def collect_snapshots(report: Path) -> tuple[Note, ...]:
    """Move the snapshots beside the report, and return a note where there are none."""
    work = _work(report)
    found = sorted(work.glob("*.pickle")) if work.is_dir() else []
    for path in found:
        path.replace(report.with_name(f"{report.stem}.memory-{path.stem}.pickle"))
    with contextlib.suppress(OSError):
        shutil.rmtree(work)
    return () if found else (make_note("no-memory-snapshot"),)


def find_snapshots(folder: Path) -> dict[int, Path]:
    """Return the snapshots of a capture folder that holds one trace, by the id of their process."""
    paths = sorted(folder.glob("nsys.memory-*.pickle"))
    matches = ((path, _SNAPSHOT.fullmatch(path.name)) for path in paths if path.is_file())
    return {int(match[1]): path for path, match in matches if match is not None}


def _work(report: Path) -> Path:
    return report.with_name(f".{report.stem}.memory")
