"""Whether a recording worked at all, from a quick look: what to say right after the program, before any analysis."""

from __future__ import annotations

from nsysprof.analysis.diagnostics import notes_of_messages
from nsysprof.notes import Note, Severity
from nsysprof.trace.schema import RecordedKinds

_UPDATE_NSYS = "nsys is probably older than the driver: use a newer nsys (nsys --version, nvidia-smi)."


def recording_notes(recorded: RecordedKinds) -> list[Note]:
    """What nsys reports as lost, and what is missing although the program must have done it."""
    notes = notes_of_messages(recorded.diagnostics, has_kernels=recorded.kernels)
    if recorded.launches and not recorded.kernels:
        text = "The trace has launches and not one kernel: the profiler lost them."
        notes.append(Note("no-kernels", Severity.ERROR, text, _UPDATE_NSYS))
    elif not (recorded.ranges or recorded.calls or recorded.gpu_work):
        text = "The trace holds neither calls of CUDA nor NVTX ranges: the program made none where nsys could see them."
        step = (
            "A forked process is seen with --nsys-option=--trace-fork-before-exec=true only; the Python package nvtx "
            "0.2.12 and newer records nothing under some versions of nsys."
        )
        notes.append(Note("nothing-recorded", Severity.WARNING, text, step))
    return notes
