"""Freed memory is used again, so that the system need not clear fresh memory for each array."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

_COUNT = """
import resource, sys
from nsysprof.files.memory_reuse import return_large_memory, reuse_freed_memory
if sys.argv[1] != "no":
    assert reuse_freed_memory()
if sys.argv[1] == "returned":
    assert return_large_memory()
b"x" * (64 << 20)
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
b"x" * (64 << 20)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="mallopt belongs to glibc")
def test_the_second_array_of_a_size_takes_no_fresh_memory() -> None:
    faults = {}
    for wanted in ("yes", "no", "returned"):
        done = subprocess.run([sys.executable, "-c", _COUNT, wanted], capture_output=True, text=True, check=True)
        faults[wanted] = int(done.stdout)
    assert faults["yes"] < 100 < faults["no"]
    assert faults["returned"] > 100


_RETURNED = """
from nsysprof.files.memory_reuse import return_freed_memory, reuse_freed_memory
pages = lambda: int(open("/proc/self/statm").read().split()[1])
reuse_freed_memory()
b"x" * (64 << 20)
kept = pages()
return_freed_memory()
print(kept - pages())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="malloc_trim belongs to glibc")
def test_freed_memory_that_was_kept_is_returned_when_asked_for() -> None:
    done = subprocess.run([sys.executable, "-c", _RETURNED], capture_output=True, text=True, check=True)
    assert int(done.stdout) > 15_000


_POOLS = """
import sys
from nsysprof.files.memory_reuse import reuse_freed_memory, reuse_in_pyarrow
assert not reuse_in_pyarrow()  # not loaded
import pyarrow
own = pyarrow.default_memory_pool().backend_name
assert not reuse_in_pyarrow()  # not our own process
print(own == pyarrow.default_memory_pool().backend_name)
reuse_freed_memory()
print(reuse_in_pyarrow(), pyarrow.default_memory_pool().backend_name)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="mallopt belongs to glibc")
def test_pyarrow_allocates_like_our_own_process_and_as_ever_in_others() -> None:
    pytest.importorskip("pyarrow")
    done = subprocess.run([sys.executable, "-c", _POOLS], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "True", "system"]
