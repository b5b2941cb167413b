"""Keep memory that the process has freed, so that it is used again, or return it to the system."""

from __future__ import annotations

import ctypes
import sys

# The numbers of options in <malloc.h>.
_TRIM_THRESHOLD, _MMAP_THRESHOLD, _MMAP_MAX, _ARENA_MAX = -1, -3, -4, -8
# Memory of at least this many bytes is returned to the system by a command that works on some rows at a time.
_LARGE_BYTES = 1 << 20
# Whether this process keeps freed memory.
_keeps: list[bool] = []


def reuse_freed_memory() -> bool:
    """Make C's allocator keep freed memory, and return whether it supports that. Only for our own processes.

    Each array of an analysis is as long as a table of the trace. glibc would return its memory to the system and
    request fresh memory for the next array, which the system clears: this takes a third of all time in large traces,
    and most of it in virtual machines.
    """
    is_set = _set_options((_ARENA_MAX, 1), (_MMAP_MAX, 0), (_TRIM_THRESHOLD, 2**31 - 1))
    _keeps.append(is_set)
    return is_set


def reuse_in_pyarrow() -> bool:
    """Make pyarrow allocate where this process keeps freed memory, and return whether it does from now on.

    pandas holds texts in its memory, and tables on their way into Parquet files. Its own allocator would request fresh
    memory for them. Nothing is changed where pyarrow is not loaded, or where the process is not our own.
    """
    pyarrow = sys.modules.get("pyarrow")
    if pyarrow is None or not any(_keeps):
        return False
    pyarrow.set_memory_pool(pyarrow.system_memory_pool())
    return True


def return_freed_memory() -> None:
    """Return the memory to the system that this process has freed and kept. Only for the end of an analysis.

    Writing files takes some memory that C's allocator does not provide. It would come on top of the kept memory.
    """
    if any(_keeps):
        ctypes.CDLL(None).malloc_trim(0)


def return_large_memory() -> bool:
    """Make C's allocator return large memory again that is freed from now on, and return whether it supports that.

    A command that streams holds the tables of a trace once, and small arrays beside them. What large arrays left while
    the trace was read would stay for nothing.
    """
    return _set_options((_MMAP_MAX, 65536), (_MMAP_THRESHOLD, _LARGE_BYTES))


def _set_options(*options: tuple[int, int]) -> bool:
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):  # not glibc
        return False
    return all(mallopt(*option) == 1 for option in options)
