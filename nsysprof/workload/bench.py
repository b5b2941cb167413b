"""One block of `bench`: a case prepared, warmed up and timed; and the ceilings of the device."""

from __future__ import annotations

import statistics
import time
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch

from nsysprof.block import LAUNCH_BOUND
from nsysprof.case import Case
from nsysprof.environment import read_clocks
from nsysprof.job import Job
from nsysprof.workload.loaded_libraries import collect_torch
from nsysprof.workload.measure import DTYPES, prepared
from nsysprof.workload.memory import PeakMemory, release_memory
from nsysprof.workload.timing import Call, capture_graph, make_flush, synchronize, time_calls, warm_up

_COPY_BYTES = {"cuda": 1 << 30, "cpu": 1 << 28}
_MATMUL_SIZES = {("cuda", "fp16"): 8192, ("cuda", "bf16"): 8192, ("cuda", "fp32"): 4096}
_CPU_MATMUL_SIZE = 1024
_CEILING_SAMPLES = 20
_L2_PART = 6  # two buffers of a sixth each are well inside, and each half of a split L2 holds its share
_L2_COPIES = 50
_CLOCK_CALLS = 200
_CLOCK_SAMPLES, _CLOCK_EVERY_S = 7, 0.02


def measure_block(case: Case, job: Job) -> dict[str, Any]:
    """The fields of a Block that are measured, as JSON."""
    flush = make_flush(job.device) if job.flush else None  # before the peak begins, which is not to hold its buffer
    memory = PeakMemory(job.device)
    with _own_stream(job.device), prepared(case, job.device, memory) as call:
        warm = warm_up(call, job.device, job.warmup_seconds)
        count = max(1, min(job.samples, int(job.sample_seconds / max(warm.call_s, 1e-9))))
        if flush is not None:
            flush()
        synchronize(job.device)
        started_ns = time.time_ns()
        timed = time_calls(call, job.device, count, flush)
        peak = memory.read()["peak_allocated_bytes"]
        share = warm.launch_s / warm.call_s if job.device == "cuda" and warm.call_s else None
        graph_ns, graph_reason = _time_graph(call, job, count, flush, share)
    release_memory()
    return {
        "started_ns": started_ns,
        "values_ns": timed.values_ns,
        "offsets_ns": timed.offsets_ns,
        "graph_ns": graph_ns,
        "graph_reason": graph_reason,
        "launch_share": None if share is None else round(share, 3),
        "warmup_calls": warm.calls,
        "stable": warm.stable,
        "peak_bytes": peak,
    }


def _own_stream(device: str) -> AbstractContextManager[Any]:
    """A stream other than the default one, which cannot be captured into a graph."""
    return torch.cuda.stream(torch.cuda.Stream()) if device == "cuda" else nullcontext()


def _time_graph(
    call: Call, job: Job, count: int, flush: Call | None, share: float | None
) -> tuple[tuple[int, ...], str]:
    if job.graph == "never" or share is None:
        return (), "not asked for" if job.device == "cuda" else "there are no CUDA graphs on a CPU"
    if job.graph == "auto" and share < LAUNCH_BOUND:
        return (), f"launching takes {share:.0%} of a call, so that it does not bound it"
    try:
        replay = capture_graph(call)
        warm_up(replay, job.device, job.warmup_seconds)
        return time_calls(replay, job.device, count, flush).values_ns, ""
    except RuntimeError as error:
        first = (str(error).splitlines() or [""])[0]
        return (), f"it cannot be captured: {first[:200]}"


def measure_ceilings(device: str, dtypes: list[str]) -> dict[str, Any]:
    """What this device reaches: bytes/s of copies from DRAM and within the L2 (read and written), FLOP/s of a matrix
    product by dtype, and the SM clock (MHz) at which the products ran. None where it cannot be measured."""
    flops = {dtype: _multiplication_rate(device, dtype) for dtype in dtypes}
    clocks = {dtype: _clock_of_products(device, dtype) for dtype in dtypes}
    release_memory()
    return {
        "bytes_per_s": _copy_rate(device),
        "l2_bytes_per_s": _l2_rate(device),
        "flops": flops,
        "sm_clock_mhz": clocks,
    }


def _l2_rate(device: str) -> float | None:
    """Of copies between two buffers that stay in the L2, many in one graph, since one is shorter than its launch."""
    if device != "cuda":
        return None
    size = torch.cuda.get_device_properties(0).L2_cache_size // _L2_PART
    source = torch.empty(size, dtype=torch.int8, device=device)
    target = torch.empty_like(source)

    def copies() -> None:
        for _ in range(_L2_COPIES):
            target.copy_(source)

    with _own_stream(device):
        return _rate(capture_graph(copies), device, 2 * size * _L2_COPIES)


def _clock_of_products(device: str, dtype: str) -> int | None:
    """The SM clock while products of this dtype run; the driver answers from another thread than the GPU works in."""
    if device != "cuda":
        return None
    multiply, uuid = _product(device, dtype), str(collect_torch(device)["gpu_uuid"])
    for _ in range(_CLOCK_CALLS):
        multiply()
    seen = []
    for _ in range(_CLOCK_SAMPLES):
        time.sleep(_CLOCK_EVERY_S)
        seen.append(read_clocks(uuid))
    torch.cuda.synchronize()
    known = [int(clocks["sm_clock_mhz"]) for clocks in seen if clocks is not None]
    return round(statistics.median(known)) if known else None


def _copy_rate(device: str) -> float:
    source = torch.empty(_COPY_BYTES[device], dtype=torch.int8, device=device)
    target = torch.empty_like(source)
    return _rate(lambda: target.copy_(source), device, 2 * _COPY_BYTES[device])


def _multiplication_rate(device: str, dtype: str) -> float:
    return _rate(_product(device, dtype), device, 2 * _matmul_size(device, dtype) ** 3)


def _product(device: str, dtype: str) -> Call:
    n = _matmul_size(device, dtype)
    a, b, out = (torch.randn(n, n, device=device).to(DTYPES[dtype]) for _ in range(3))
    return lambda: torch.mm(a, b, out=out)


def _matmul_size(device: str, dtype: str) -> int:
    return _MATMUL_SIZES.get((device, dtype), _CPU_MATMUL_SIZE)


def _rate(call: Call, device: str, amount: int) -> float:
    """`amount` a second, by the fastest of some calls: a ceiling is what can be reached."""
    warm_up(call, device, 1.0)
    return amount / (min(time_calls(call, device, _CEILING_SAMPLES, None).values_ns) * 1e-9)
