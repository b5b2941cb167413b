"""Define samples of the stacks of a captured program's threads."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True)
class StackSamples:
    """Samples in order of time."""

    # The times of the samples (ns since the start of the session).
    time_ns: npt.NDArray[np.int64]
    # Process and thread in the bits of nsys' globalTid, without those of the machine.
    thread: npt.NDArray[np.int64]
    # Position in `lines`; -1 where no line of the program is in the stack.
    line: npt.NDArray[np.int64]
    # The innermost line outside torch and Python's library: FILE:LINE; of native stacks FUNCTION (FILE).
    lines: tuple[str, ...]
    # Native stacks, used where the other samples name no line: one in the middle of each call that has one.
    native: StackSamples | None = None
    # Stacks taken where Python made a stream wait, which takes the host no time.
    waits: StackSamples | None = None
