"""Check a trace right after it was recorded: compare it with what the program did."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from nsysprof.analysis.overview.self_check import check_recording
from nsysprof.notes import make_loss, split_losses
from nsysprof.ranks.identity import read_session
from nsysprof.results.checks import NOT_WATCHED, Lost, RecordingCheck, WatchedGpu
from nsysprof.trace.open import open_trace
from nsysprof.trace.recorded import read_recorded
from nsysprof.trace.tables import read_tables

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
