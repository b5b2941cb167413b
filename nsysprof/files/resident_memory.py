"""Hold the resident memory of this process below a bound, in compiled code that needs no turn from Python.

Much of numpy and pandas keeps Python's lock while it writes gigabytes, so that a thread of Python would look too late.
This module needs llvmlite; nsysprof.files.memory_limit looks by itself where that is missing.
"""

from __future__ import annotations

import mmap

import numpy as np
import numpy.typing as npt

from nsysprof.arrays import machine_code

_TEXT_BYTES = 128
_keep_below = machine_code("keep_below")


def keep_below(
    descriptor: int,
    begins: npt.NDArray[np.int64],
    lengths: npt.NDArray[np.int64],
    limit: int,
    margin: int,
    library_bytes: int,
    pause_us: int,
    times: npt.NDArray[np.int64],
) -> int:
    """Let go of the pages of the areas whenever memory comes near the limit; return once that is no longer enough.

    The result is how much of the memory belongs to no file (bytes).

    descriptor: of /proc/self/statm. begins, lengths: the areas. limit, margin, library_bytes: bytes, as in
    nsysprof.files.memory_limit. times: its first item counts how often pages were let go.
    """
    text = np.zeros(_TEXT_BYTES, dtype=np.uint8)
    bounds = limit, margin, library_bytes, mmap.PAGESIZE, pause_us
    return int(_keep_below(descriptor, text, len(begins), begins, lengths, *bounds, times))
