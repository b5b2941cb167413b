"""Load the GPU by one call until its clock is the one that it can hold. Boost clocks last only while it is cool."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from functools import cache

from nsysprof.environment import read_clocks
from nsysprof.workload.loaded_libraries import collect_torch
from nsysprof.workload.measuring.timing import Call, WarmUp, run_calls

# How many readings of the SM clock must agree, and how closely: a step of a GPU's clock is about 15 MHz.
_EVERY_S, _READINGS, _TOLERANCE = 0.1, 10, 0.01
_LEAST_S, _MOST_S = 2.0, 20.0
_CALLS_S = 0.02

ReadClock = Callable[[], int | None]


def sustain(call: Call, device: str, read: ReadClock | None = None) -> tuple[WarmUp, int | None]:
    """Call back to back until the SM clock has settled, for 2 to 20 s; return how it ended and the clock (MHz).

    Without readings of the clock it takes 2 s, and the clock is None.

    read: returns the SM clock (MHz); None asks NVML.
    """
    read = read or _reader(device)
    begin = last = time.perf_counter()
    window = run_calls(call, device, 1)
    calls, seen = 1, [read()]
    while True:
        window = run_calls(call, device, max(1, int(_CALLS_S / max(window.call_s, 1e-9))))
        calls += window.calls
        now = time.perf_counter()
        if now - last >= _EVERY_S:
            last = now
            seen.append(read())
        settled = has_settled(seen)
        if now - begin >= _MOST_S or (now - begin >= _LEAST_S and (settled or seen[-1] is None)):
            known = [clock for clock in seen[-_READINGS:] if clock is not None]
            return window._replace(calls=calls, stable=settled), round(statistics.median(known)) if known else None


def has_settled(clocks: Sequence[int | None]) -> bool:
    """Return whether the last ten readings are known and within 1 % of their median."""
    last = [clock for clock in clocks[-_READINGS:] if clock is not None]
    if len(last) < _READINGS:
        return False
    middle = statistics.median(last)
    return max(abs(clock - middle) for clock in last) <= _TOLERANCE * middle


def _reader(device: str) -> ReadClock:
    uuid = _uuid(device)

    def read() -> int | None:
        clocks = read_clocks(uuid) if uuid else None
        return None if clocks is None else int(clocks["sm_clock_mhz"])

    return read


@cache
def _uuid(device: str) -> str:
    return str(collect_torch(device)["gpu_uuid"] or "")
