"""Classify what each API call did to its thread: waited, copied from pageable memory, or was slow."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from nsysprof.arrays import find_rows
from nsysprof.trace.schema import COPY, Bools, Calls, Int64s, Ints, Tables

WAIT, MEMORY, MODULE, COPIES, LAUNCH, OTHER = range(6)
# What held up the thread of a call: nothing, waiting for the GPU, or a copy from pageable memory.
HELD_NOTHING, WAITED, COPIED = range(3)
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
    """The class of each call, and which calls held up their thread. It takes one byte for each call."""

    # The class of each variant of call, and the variant of each call.
    of_variant: npt.NDArray[np.int8]
    variant: Ints
    # HELD_NOTHING, WAITED or COPIED for each call.
    held: npt.NDArray[np.uint8]

    def of(self, rows: Any = slice(None)) -> npt.NDArray[np.int8]:
        """Return the class of each of the calls."""
        found: npt.NDArray[np.int8] = self.of_variant[self.variant[rows]]
        return found

    def is_wait(self, rows: Any = slice(None)) -> Bools:
        """Return which of the calls waited for the GPU: synchronisations, and copies whose value was waited for."""
        found: Bools = self.held[rows] == WAITED
        return found

    def is_blocking_copy(self, rows: Any = slice(None)) -> Bools:
        """Return which of the calls are copies that held up their thread because of pageable memory."""
        found: Bools = self.held[rows] == COPIED
        return found


def classify_calls(tables: Tables, launch: Ints) -> CallClasses:
    """Return what each API call did to its thread.

    launch: the call of each row of work, or -1.
    """
    calls, work = tables.calls, tables.work
    if calls is None:
        none = np.zeros(0, dtype=np.uint8)
        return CallClasses(none.astype(np.int8), none.astype(np.int8), none)
    names = call_texts(tables)
    class_of = np.array([_class_of(name) for name in names], dtype=np.int8)
    held = np.where(class_of == WAIT, WAITED, HELD_NOTHING).astype(np.uint8)[calls.variant]
    synchronous = np.array([_ASYNCHRONOUS.search(name) is None for name in names], dtype=np.bool_)
    rows = np.arange(work.kernels, len(work))[work.kinds(slice(work.kernels, None)) == COPY]
    rows = rows[launch[rows] >= 0]
    call, other = launch[rows], rows - work.kernels
    pageable, to_host = work.host_kind[other] == 0, work.copy_kind[other] == 2
    large = work.bytes[other] >= LEAST_COPY_BYTES
    held[call[pageable & to_host & ~large]] = WAITED
    # cudaMemcpy waits for its copy, whatever memory it uses, except for a copy within the device.
    host_side = (work.copy_kind[other] == 1) | to_host
    held[call[~pageable & host_side & synchronous[calls.variant[call]]]] = WAITED
    held[call[pageable & (~to_host | large)]] = COPIED
    held[_waits_after(calls, class_of == WAIT, held == COPIED)] = COPIED
    return CallClasses(class_of, calls.variant, held)


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


def _waits_after(calls: Calls, waits_of: Bools, blocking: Bools) -> Int64s:
    """Return the waits that follow a pageable copy on its thread at once.

    Copies to the device that torch makes are an example.

    waits_of: which variants of call wait.
    """
    copies = np.flatnonzero(blocking)
    if len(copies) == 0 or not waits_of.any():
        return np.zeros(0, dtype=np.int64)
    waits = find_rows(waits_of, calls.variant)
    if len(waits) == 0:
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
