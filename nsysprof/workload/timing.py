"""Timing single calls: a warm-up that ends when the times are stable, a cold L2, CUDA events, CUDA graphs."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch

from nsysprof.block import TOLERANCE, WINDOW_S, WINDOWS

Call = Callable[[], object]

_LARGEST_WINDOW = 50
_CPU_CACHE_BYTES = 64 << 20
_GRAPH_WARMUP = 3


class WarmUp(NamedTuple):
    """How a warm-up ended. call_s: seconds a call, back to back; launch_s: the CPU's part of that."""

    calls: int
    stable: bool
    call_s: float
    launch_s: float


class Timed(NamedTuple):
    """Durations of single calls, and when each began since the first, in ns."""

    values_ns: tuple[int, ...]
    offsets_ns: tuple[int, ...]


def synchronize(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def warm_up(call: Call, device: str, seconds: float) -> WarmUp:
    """Call until the times are stable by WARMUP_RULE, or for `seconds`."""
    begin, calls, size = time.perf_counter(), 0, 1
    recent: list[float] = []
    while True:
        start = time.perf_counter()
        for _ in range(size):
            call()
        launched = time.perf_counter()
        synchronize(device)
        end = time.perf_counter()
        calls += size
        each, launch = (end - start) / size, (launched - start) / size
        if end - start >= WINDOW_S or size >= _LARGEST_WINDOW:
            recent = [*recent[1 - WINDOWS :], each]
        stable = len(recent) == WINDOWS and _spread(recent) < TOLERANCE
        if stable or end - begin >= seconds:
            return WarmUp(calls, stable, each, launch)
        size = min(_LARGEST_WINDOW, max(size, int(WINDOW_S / max(each, 1e-9)) + 1))


def _spread(values: Sequence[float]) -> float:
    """The largest distance from the median, as a part of it."""
    middle = sorted(values)[len(values) // 2]
    return max(abs(value - middle) for value in values) / middle if middle else 0.0


def make_flush(device: str) -> Call:
    """What evicts the caches: writing four times the size of the L2, or on a CPU a buffer of 64 MiB."""
    if device == "cuda":
        size = 4 * torch.cuda.get_device_properties(0).L2_cache_size
        buffer = torch.empty(size, dtype=torch.int8, device="cuda")
    else:
        buffer = torch.empty(_CPU_CACHE_BYTES, dtype=torch.int8)

    def flush() -> object:
        return buffer.zero_()

    return flush


def time_calls(call: Call, device: str, count: int, flush: Call | None) -> Timed:
    """`count` single calls, each after `flush` (None: with warm caches), which is outside the measured time."""
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
    values = [round(start.elapsed_time(end) * 1e6) for start, end in zip(starts, ends, strict=True)]
    return Timed(tuple(values), tuple(round(starts[0].elapsed_time(start) * 1e6) for start in starts))


def _time_cpu(call: Call, count: int, flush: Call | None) -> Timed:
    values, offsets = [], []
    first = time.perf_counter_ns()
    for _ in range(count):
        if flush is not None:
            flush()
        start = time.perf_counter_ns()
        call()
        values.append(time.perf_counter_ns() - start)
        offsets.append(start - first)
    return Timed(tuple(values), tuple(offsets))


def capture_graph(call: Call) -> Call:
    """`call` as a CUDA graph, whose replay the CPU launches at once. Raises RuntimeError where it cannot be captured.

    To be called on the stream on which `call` was prepared: autograd runs backward on its forward's stream.
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
