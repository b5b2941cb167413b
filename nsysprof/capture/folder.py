"""Prepare the capture folder, and remove from it what a finished capture does not need."""

from __future__ import annotations

import shutil
from datetime import datetime
from pathlib import Path

from nsysprof.capture.measured_process import LOGS, WORK
from nsysprof.files.plain_file import output_error
from nsysprof.files.result_folder import remove_path

NSYS_REPORT = "nsys.nsys-rep"
RANKS = "ranks"


def dated_folder() -> Path:
    """Return a dated name for a capture for which the user named no folder."""
    return Path("traces") / datetime.now().strftime("%Y%m%d-%H%M%S")


def prepare_folder(folder: Path) -> None:
    """Create what a capture needs in a claimed folder. Raises OutputError where it cannot be written."""
    try:
        remove_path(folder / WORK)
        (folder / LOGS).mkdir(parents=True, exist_ok=True)
        (folder / WORK).mkdir()
        probe = folder / WORK / "probe"
        probe.write_bytes(b"\0" * 65536)  # shows a full disk now, and not after an hour of measuring
        probe.unlink()
    except OSError as error:
        raise output_error(folder, error) from error


def remove_work(folder: Path) -> None:
    """Remove what is needed only while the capture runs."""
    shutil.rmtree(folder / WORK, ignore_errors=True)
