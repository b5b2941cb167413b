"""Check by a quick look, right after recording and before any analysis, whether the recording worked at all."""

from __future__ import annotations

from nsysprof.analysis.overview.diagnostics import explain_messages
from nsysprof.notes import Remarks, make_loss, make_note, split_losses
from nsysprof.trace.schema import RecordedKinds

_UPDATE_NSYS = "nsys is probably older than the driver: use a newer nsys (nsys --version, nvidia-smi)."


def inspect_recording(recorded: RecordedKinds) -> Remarks:
    """Return what nsys reports as lost, and which kinds of events are missing although the program made them."""
    remarks = explain_messages(
        recorded.diagnostics, recorded.helper_diagnostics, has_kernels=recorded.kernels, is_strict=True
    )
    if recorded.launches and not recorded.kernels:
        remarks.append(make_loss("no-kernels", "right-after-recording", update_nsys=_UPDATE_NSYS))
    elif not (recorded.ranges or recorded.calls or recorded.gpu_work):
        remarks.append(make_note("nothing-recorded"))
    return split_losses(remarks)
