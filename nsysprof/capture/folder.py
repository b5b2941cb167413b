"""The capture folder: made new, or emptied of an older capture and of nothing else."""

from __future__ import annotations

import shutil
from datetime import datetime
from pathlib import Path

from nsysprof.capture.manifest import MANIFEST, NSYS_TRACE, RESULTS, SAMPLES, TORCH_TRACE
from nsysprof.counters import COUNTERS
from nsysprof.errors import OutputError
from nsysprof.output import output_error

NSYS_REPORT = "nsys.nsys-rep"
LOGS = "logs"
WORK = ".work"
RANKS = "ranks"
NCU_REPORTS = "ncu*.ncu-rep"
_FILES = (MANIFEST, SAMPLES, RESULTS, NSYS_TRACE, NSYS_REPORT, TORCH_TRACE, COUNTERS)
_OURS = (*_FILES, LOGS, WORK, RANKS)


def dated_folder() -> Path:
    """Where a capture goes that was given no place."""
    return Path("traces") / datetime.now().strftime("%Y%m%d-%H%M%S")


def prepare_folder(folder: Path, *, force: bool) -> None:
    """Make `folder` ready for a capture. Raises OutputError when it is taken or cannot be written.

    `force` replaces an older capture, file by file; a folder that is not a capture is never touched.
    """
    try:
        if folder.exists() and not folder.is_dir():
            raise OutputError(f"{folder} is a file.", "Choose another folder with --out.")
        if folder.is_dir() and any(folder.iterdir()):
            if not (folder / MANIFEST).exists():
                raise OutputError(f"{folder} exists and is not a capture of ours.", "Choose another folder with --out.")
            if not force:
                raise OutputError(f"{folder} already holds a capture.", "Give --force to replace it, or another --out.")
            for path in (*(folder / name for name in _OURS), *folder.glob(NCU_REPORTS)):
                remove_path(path)
        (folder / LOGS).mkdir(parents=True, exist_ok=True)
        (folder / WORK).mkdir(exist_ok=True)
        probe = folder / WORK / "probe"
        probe.write_bytes(b"\0" * 65536)  # a full disk shows here, before an hour of measuring
        probe.unlink()
    except OSError as error:
        raise output_error(folder, error) from error


def remove_single(folder: Path) -> None:
    """Remove the files of an older capture that had one trace; a folder's ranks and logs stay."""
    for name in _FILES:
        remove_path(folder / name)


def remove_work(folder: Path) -> None:
    """Remove what only the running capture needs."""
    shutil.rmtree(folder / WORK, ignore_errors=True)


def remove_path(path: Path) -> None:
    """A file or a folder; a link itself and not where it leads."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
