"""Hold the resident memory of this process below a bound, in compiled code that needs no turn from Python.

Much of numpy and pandas keeps Python's lock while it writes gigabytes, so that a thread of Python would look too late.
This module needs numba and a folder for its cache; nsysprof.files.memory_limit looks by itself where that is missing.
"""

from __future__ import annotations

import mmap
from typing import Any

import numpy as np
from numba import njit, types

# Functions of the C library, by name.
_pread: Any = types.ExternalFunction("pread", types.intp(types.int32, types.intp, types.intp, types.int64))
_madvise: Any = types.ExternalFunction("madvise", types.int32(types.intp, types.intp, types.int32))
_usleep: Any = types.ExternalFunction("usleep", types.int32(types.uint32))
_DONTNEED = int(mmap.MADV_DONTNEED)
_PAGE_BYTES = mmap.PAGESIZE
_TEXT_BYTES = 128
_ZERO, _SPACE = ord("0"), ord(" ")


@njit(cache=True, nogil=True)
def _pages(descriptor, text):  # type: ignore[no-untyped-def]
    """Return the second and third number of /proc/self/statm: how many pages are resident, and those of files."""
    length = _pread(descriptor, text.ctypes.data, len(text), 0)
    number, resident, value = 0, 0, 0
    for at in range(length):
        if text[at] != _SPACE:
            value = 10 * value + (text[at] - _ZERO)
            continue
        number += 1
        if number == 2:
            resident = value
        elif number == 3:
            return resident, value
        value = 0
    return resident, 0


@njit(cache=True, nogil=True)
def keep_below(descriptor, begins, lengths, limit, margin, library_bytes, pause_us, times):  # type: ignore[no-untyped-def]
    """Let go of the pages of the areas whenever memory comes near the limit; return once that is no longer enough.

    The result is how much of the memory belongs to no file (bytes).

    descriptor: of /proc/self/statm. begins, lengths: the areas. limit, margin, library_bytes: bytes, as in
    nsysprof.files.memory_limit. times: its first item counts how often pages were let go.
    """
    text = np.zeros(_TEXT_BYTES, dtype=np.uint8)
    while True:
        resident, _ = _pages(descriptor, text)
        reached = resident * _PAGE_BYTES
        if reached > limit - margin:
            # On a busy machine, memory grows further until this thread gets its turn.
            margin = min(max(margin, 2 * (reached - limit + margin)), limit // 2)
            for area in range(len(begins)):
                _madvise(begins[area], lengths[area], _DONTNEED)
            times[0] += 1
            resident, of_files = _pages(descriptor, text)
            outside = (resident - of_files) * _PAGE_BYTES
            if outside + library_bytes > limit:
                return outside
        _usleep(pause_us)
