"""Keep memory that the process has freed, so that it is used again instead of being returned to the system."""

from __future__ import annotations

# The numbers of options in <malloc.h>.
_TRIM_THRESHOLD, _MMAP_MAX, _ARENA_MAX = -1, -4, -8


def reuse_freed_memory() -> bool:
    """Make C's allocator keep freed memory, and return whether it supports that. Only for our own processes.

    Each array of an analysis is as long as a table of the trace. glibc would return its memory to the system and
    request fresh memory for the next array, which the system clears: this takes a third of all time in large traces,
    and most of it in virtual machines.
    """
    import ctypes

    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):  # not glibc
        return False
    return all(mallopt(*option) == 1 for option in ((_ARENA_MAX, 1), (_MMAP_MAX, 0), (_TRIM_THRESHOLD, 2**31 - 1)))
