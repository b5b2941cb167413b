"""Classify what each API call did to its thread: waited, copied from pageable memory, or was slow."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from nsysprof.trace.schema import COPY, Bools, Calls, Int64s, Ints, Tables

WAIT, MEMORY, MODULE, COPIES, LAUNCH, OTHER = range(6)
_CLASSES = (
    (WAIT, r"(cuda|cu)(Device|Stream|Event|Ctx|Thread)Synchronize"),
    (MEMORY, r"cuda(Malloc|Free|HostAlloc|HostRegister|HostUnregister)|cuMem(Alloc|Free|HostAlloc|HostRegister|Create|"
     r"Map\b|Unmap|Release|SetAccess|AddressReserve|AddressFree)|cudaMemPool(Create|Destroy|TrimTo)|cuMemPool"),
    (MODULE, r"(cuda|cu)Library(Load|Unload)|cuModule(Load|Unload)|cuLink|cudaFuncGetAttributes"),
    (COPIES, r"(cuda|cu)Memcpy"),
    (LAUNCH, r"(cuda|cu)Launch(?!HostFunc)|(cuda|cu)GraphLaunch"),
)  # fmt: skip
_PATTERNS = tuple((number, re.compile(pattern)) for number, pattern in _CLASSES)
_ASYNCHRONOUS = re.compile(r"Async(_|$)|(Malloc|Free)(FromPool)?Async")
# Calls that wait for all work of the device before they give memory back.
FREES_AND_WAITS = re.compile(r"cudaFree(Array|Host)?(_|$)|cuMemFree(Host)?(_|$)")
# A call that neither waits nor allocates is slow from this duration on (ns); an ordinary launch takes a tenth of it.
SLOW_NS = 50_000
# A pageable copy to the host that is smaller than this (bytes) is made for its value. The program waits for that value
# anyway, so pinning gains nothing.
LEAST_COPY_BYTES = 1 << 20
# A wait that follows a pageable copy on its thread within this time (ns) is part of the copy.
_AT_ONCE_NS = 20_000


@dataclass(frozen=True)
class CallClasses:
    """The class of each call, and which calls held up their thread."""

    # The class of each call.
    of: Ints
    # Copies that held up their thread because of pageable memory.
    is_blocking_copy: Bools
    # Calls that waited for the GPU: synchronisations, and copies whose value was waited for.
    is_wait: Bools


def classify_calls(tables: Tables, launch: Ints) -> CallClasses:
    """Return what each API call did to its thread.

    launch: the call of each row of work, or -1.
    """
    calls, work = tables.calls, tables.work
    if calls is None:
        none = np.zeros(0, dtype=np.bool_)
        return CallClasses(np.zeros(0, np.int8), none, none)
    names = call_texts(tables)
    class_of = np.array([_class_of(name) for name in names], dtype=np.int8)
    of = class_of[calls.variant]
    is_wait = of == WAIT
    blocking = np.zeros(len(calls), dtype=np.bool_)
    synchronous = np.array([_ASYNCHRONOUS.search(name) is None for name in names], dtype=np.bool_)
    rows = np.arange(work.kernels, len(work))[work.kinds(slice(work.kernels, None)) == COPY]
    rows = rows[launch[rows] >= 0]
    call, other = launch[rows], rows - work.kernels
    pageable, to_host = work.host_kind[other] == 0, work.copy_kind[other] == 2
    large = work.bytes[other] >= LEAST_COPY_BYTES
    blocking[call[pageable & (~to_host | large)]] = True
    is_wait[call[pageable & to_host & ~large]] = True
    # cudaMemcpy waits for its copy, whatever memory it uses, except for a copy within the device.
    host_side = (work.copy_kind[other] == 1) | to_host
    is_wait[call[~pageable & host_side & synchronous[calls.variant[call]]]] = True
    is_wait[blocking] = False
    after = _waits_after(calls, of, blocking)
    blocking[after] = True
    is_wait[after] = False
    return CallClasses(of, blocking, is_wait)


def call_texts(tables: Tables) -> list[str]:
    """Return the name of each variant of call."""
    if tables.calls is None:
        return []
    used = tables.strings[tables.strings.index.isin(tables.calls.name_of)]
    texts = dict(zip(used.index.tolist(), used.tolist(), strict=True))
    return [str(texts.get(number, "")) for number in tables.calls.name_of.tolist()]


def _class_of(name: str) -> int:
    found = next((number for number, pattern in _PATTERNS if pattern.match(name)), OTHER)
    # cudaMallocAsync takes memory from a pool and returns at once.
    return OTHER if found == MEMORY and _ASYNCHRONOUS.search(name) else found


def _waits_after(calls: Calls, of: Ints, blocking: Bools) -> Int64s:
    """Return the waits that follow a pageable copy on its thread at once.

    Copies to the device that torch makes are an example.
    """
    copies, waits = np.flatnonzero(blocking), np.flatnonzero(of == WAIT)
    if len(copies) == 0 or len(waits) == 0:
        return np.zeros(0, dtype=np.int64)
    of_copy, of_wait = (calls.tid_of[calls.variant[rows]] for rows in (copies, waits))
    found = []
    for thread in np.unique(of_copy):
        theirs = waits[of_wait == thread]
        ended = np.sort(calls.ends_ns(copies[of_copy == thread]))
        began = calls.start_ns[theirs]
        at = np.searchsorted(ended, began, "right") - 1
        near = (at >= 0) & (began - ended[np.maximum(at, 0)] <= _AT_ONCE_NS)
        found.append(theirs[near])
    return np.concatenate(found)
