"""Time single calls: a warm-up until times are stable, an emptied L2 cache, CUDA events and CUDA graphs."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch

from nsysprof.results.samples import TOLERANCE, WINDOW_S, WINDOWS

Call = Callable[[], object]

_LARGEST_WINDOW = 50
_CPU_CACHE_BYTES = 64 << 20
_GRAPH_WARMUP = 3
_EMPTY_SAMPLES = 21


class WarmUp(NamedTuple):
    """How a warm-up ended."""

    calls: int
    # Whether it ended because the times had become stable.
    stable: bool
    # The time per call (s), back to back, and the share of it that the CPU needs to launch.
    call_s: float
    launch_s: float


class Timed(NamedTuple):
    """The durations of single calls, and when each call began relative to the first (ns)."""

    values_ns: tuple[int, ...]
    offsets_ns: tuple[int, ...]


def synchronize(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def run_calls(call: Call, device: str, calls: int) -> WarmUp:
    """Run `calls` calls back to back, and return how long one call took."""
    start = time.perf_counter()
    for _ in range(calls):
        call()
    launched = time.perf_counter()
    synchronize(device)
    end = time.perf_counter()
    count = max(1, calls)
    return WarmUp(calls, True, (end - start) / count, (launched - start) / count)


def warm_up(call: Call, device: str, seconds: float) -> WarmUp:
    """Call until the times are stable by WARMUP_RULE, or for `seconds`, and return how it ended."""
    begin, calls, size = time.perf_counter(), 0, 1
    recent: list[float] = []
    while True:
        window = run_calls(call, device, size)
        calls += size
        if window.call_s * size >= WINDOW_S or size >= _LARGEST_WINDOW:
            recent = [*recent[1 - WINDOWS :], window.call_s]
        stable = len(recent) == WINDOWS and _spread(recent) < TOLERANCE
        if stable or time.perf_counter() - begin >= seconds:
            return window._replace(calls=calls, stable=stable)
        size = min(_LARGEST_WINDOW, max(size, int(WINDOW_S / max(window.call_s, 1e-9)) + 1))


def _spread(values: Sequence[float]) -> float:
    """Return the largest distance from the median, as a fraction of the median."""
    middle = sorted(values)[len(values) // 2]
    return max(abs(value - middle) for value in values) / middle if middle else 0.0


def time_nothing(device: str) -> int:
    """Return the median time that the sample clock measures without any call (ns)."""

    def nothing() -> None:
        return None

    values = time_calls(nothing, device, _EMPTY_SAMPLES, None).values_ns
    return int(statistics.median(values[1:]))


def make_flush(device: str) -> Call:
    """Return a call that evicts the caches by writing four times the size of the L2, or 64 MiB on a CPU."""
    if device == "cuda":
        size = 4 * torch.cuda.get_device_properties(0).L2_cache_size
        buffer = torch.empty(size, dtype=torch.int8, device="cuda")
    else:
        buffer = torch.empty(_CPU_CACHE_BYTES, dtype=torch.int8)

    def flush() -> object:
        return buffer.zero_()

    return flush


def time_calls(call: Call, device: str, count: int, flush: Call | None) -> Timed:
    """Time `count` single calls, each after an untimed `flush` (None: the caches stay warm)."""
    return _time_cuda(call, count, flush) if device == "cuda" else _time_cpu(call, count, flush)


def _time_cuda(call: Call, count: int, flush: Call | None) -> Timed:
    starts = [torch.cuda.Event(enable_timing=True) for _ in range(count)]
    ends = [torch.cuda.Event(enable_timing=True) for _ in range(count)]
    for start, end in zip(starts, ends, strict=True):
        if flush is not None:
            flush()
        start.record()
        call()
        end.record()
    torch.cuda.synchronize()
    values = [max(1, round(start.elapsed_time(end) * 1e6)) for start, end in zip(starts, ends, strict=True)]
    return Timed(tuple(values), tuple(round(starts[0].elapsed_time(start) * 1e6) for start in starts))


def _time_cpu(call: Call, count: int, flush: Call | None) -> Timed:
    values, offsets = [], []
    first = time.perf_counter_ns()
    for _ in range(count):
        if flush is not None:
            flush()
        start = time.perf_counter_ns()
        call()
        values.append(max(1, time.perf_counter_ns() - start))
        offsets.append(start - first)
    return Timed(tuple(values), tuple(offsets))


def capture_graph(call: Call) -> Call:
    """Return `call` as a CUDA graph, which the CPU launches at once. Raises RuntimeError where that is impossible.

    Use this on the stream on which `call` was prepared, because autograd runs backward on the stream of its forward.
    """
    stream = torch.cuda.current_stream()
    for _ in range(_GRAPH_WARMUP):
        call()
    stream.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        call()
    graph.replay()
    stream.synchronize()

    def replay() -> object:
        return graph.replay()

    return replay
