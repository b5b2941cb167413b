"""Let the process keep memory that it has freed, and use it again."""

from __future__ import annotations

# As <malloc.h> numbers them.
_TRIM_THRESHOLD, _MMAP_MAX, _ARENA_MAX = -1, -4, -8


def reuse_freed_memory() -> bool:
    """Make C's allocator keep what is freed; return whether it understood. Only for a process of our own.

    Each array of an analysis is as long as a table of the trace. glibc would give its memory back to the system and
    take fresh memory for the next array, which the system clears: a third of all time in large traces, and most of it
    in virtual machines.
    """
    import ctypes

    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):  # not glibc
        return False
    return all(mallopt(*option) == 1 for option in ((_ARENA_MAX, 1), (_MMAP_MAX, 0), (_TRIM_THRESHOLD, 2**31 - 1)))
