"""Check a trace right after it was recorded, and write a trace for each of several processes that share one."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from nsysprof.analysis.overview.self_check import check_recording
from nsysprof.app.progress import Progress
from nsysprof.capture.live.process_tree import process_name
from nsysprof.capture.user_program.program_run import CapturedProgram
from nsysprof.errors import OutputError, ToolFailedError
from nsysprof.files.plain_file import output_error
from nsysprof.notes import make_loss, split_losses
from nsysprof.results.checks import NOT_WATCHED, Lost, RecordingCheck, WatchedGpu
from nsysprof.trace.open import open_trace
from nsysprof.trace.recorded import count_by_process, read_recorded, read_session, write_process_trace
from nsysprof.trace.tables import read_tables

FOLDER = "processes"
# Each trace begins as a copy of the whole. More than this (bytes) is not copied after a capture, unasked.
_MOST_COPIED_BYTES = 4_000_000_000


def split_trace(trace: Path, folder: Path, names: Mapping[int, str]) -> dict[int, Path]:
    """Write the traces into `folder/processes`, and return their places in `folder` by process.

    Raises OutputError and ToolFailedError.

    names: the processes, with a name for each; empty where none is known.
    """
    written: dict[int, Path] = {}
    try:
        (folder / FOLDER).mkdir()
        for pid, name in names.items():
            target = Path(FOLDER) / f"{_file_name(name)}-{pid}.sqlite"
            write_process_trace(trace, pid, folder / target)
            written[pid] = target
    except OSError as error:
        raise output_error(folder, error) from error
    except sqlite3.Error as error:
        text = f"The recording could not be split by process: {error}."
        raise ToolFailedError(text, f"The whole recording is in {trace.name}.") from error
    return written


def split_capture(captured: CapturedProgram, folder: Path, progress: Progress) -> None:
    """Give each process with GPU work a trace of its own where a finished capture has several in one trace."""
    if len(captured.traces) != 1 or captured.failure is not None:
        return
    (trace,) = captured.traces
    with open_trace(trace) as opened:
        pids = [pid for pid, events in sorted(count_by_process(opened).items()) if events.has_gpu_work]
    if len(pids) < 2:
        return
    if len(pids) * trace.stat().st_size > _MOST_COPIED_BYTES:
        progress.tell(f"the trace of {len(pids)} processes is too large to be split; it is analyzed as a whole")
        return
    seen = {each.pid: process_name(list(each.command), each.name) for each in captured.processes}
    try:
        split_trace(trace, folder, {pid: seen.get(pid, "") for pid in pids})
    except (OutputError, ToolFailedError) as error:  # the capture itself is whole
        progress.tell(f"no trace for each process: {error.text}")
        return
    progress.tell(f"each of {len(pids)} processes has a trace of its own in {FOLDER}/")


def _file_name(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.")[:40] or "process"


_UPDATE_NSYS = "nsys is probably older than the driver: use a newer nsys (nsys --version, nvidia-smi)."


def check_trace(trace_path: Path, watched: WatchedGpu = NOT_WATCHED) -> RecordingCheck:
    """Return what a trace lacks compared with what was observed of the program."""
    with open_trace(trace_path) as trace:
        began_ns = read_session(trace).start_utc_ns
        return check_recording(read_tables(trace), read_recorded(trace), watched, began_ns=began_ns)


def check_grid(trace_path: Path, *, cases: int) -> RecordingCheck:
    """Return what the trace of a grid on a GPU lost.

    cases: how many cases were traced; each of them ran kernels.
    """
    check = check_trace(trace_path)
    if check.gpu_work or check.lost:
        return check
    remarks = split_losses((make_loss("no-kernels", "lost-in-ranges", ranges=cases, update_nsys=_UPDATE_NSYS),))
    return replace(check, remarks=remarks, lost=(Lost.KERNELS,))
