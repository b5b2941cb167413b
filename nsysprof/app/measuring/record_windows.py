"""Run the use case `record --keep`: record one part of a held program after another, and keep the latest ones."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from nsysprof.app.inputs.options import MOST_KEPT_PARTS
from nsysprof.app.measuring.program_request import RecordRequest
from nsysprof.app.measuring.record import record
from nsysprof.app.progress import SILENT, Progress
from nsysprof.errors import DataLossError, InterruptedCaptureError, NsysprofError, UsageError
from nsysprof.files.output import output_error
from nsysprof.files.result_folder import remove_path
from nsysprof.results.recorded_part import RecordResult


def record_windows(
    request: RecordRequest,
    keep: int,
    show: Callable[[RecordResult], None],
    progress: Progress = SILENT,
    *,
    is_held: Callable[[], bool] | None = None,
) -> NsysprofError | None:
    """Record until the program or the user (Ctrl-C) ends it, and return what went wrong, or None.

    keep: how many of the parts are kept; older parts of this call are deleted.
    show: called with each part once it is recorded.
    is_held: says whether the program still runs; None: as long as its holder does.
    """
    if not 1 <= keep <= MOST_KEPT_PARTS:
        raise UsageError(f"--keep {keep} is out of range.", f"Give 1 to {MOST_KEPT_PARTS}.")
    if request.watch_s:
        # the parts follow each other without a pause, so there are no unrecorded steps to compare with
        request = replace(request, watch_s=0.0)
    kept: deque[Path] = deque()
    lost: NsysprofError | None = None
    while True:
        try:
            result = record(request, progress, is_held=is_held)
        except KeyboardInterrupt:  # between two parts
            return lost
        kept.append(result.folder)
        if len(kept) > keep:
            _delete(kept.popleft())
        show(result)
        if isinstance(result.failure, DataLossError):
            lost = lost or result.failure
        elif isinstance(result.failure, InterruptedCaptureError) or not result.survived:
            return lost
        elif result.failure is not None:
            return result.failure


def _delete(folder: Path) -> None:
    try:
        remove_path(folder)
    except OSError as error:
        raise output_error(folder, error) from error
