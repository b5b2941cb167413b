"""Measure the ceilings of the device: bytes/s of copies, FLOP/s of matrix products, and the clock they run at.

Run as `python -m nsysprof.workload.measuring.ceilings` it prints those of the first GPU, with its name, and what the
slowest link between two GPUs carries, as one line.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from typing import Any

import torch

from nsysprof.environment import read_clocks
from nsysprof.workload.link_probe import measure_links
from nsysprof.workload.loaded_libraries import collect_torch
from nsysprof.workload.measuring.case_tensors import DTYPES
from nsysprof.workload.measuring.measure import own_stream
from nsysprof.workload.measuring.memory import release_memory
from nsysprof.workload.measuring.timing import Call, capture_graph, time_calls, warm_up

_COPY_BYTES = {"cuda": 1 << 30, "cpu": 1 << 28}
_MATMUL_SIZES = {("cuda", "fp16"): 8192, ("cuda", "bf16"): 8192, ("cuda", "tf32"): 8192, ("cuda", "fp32"): 4096}
_CPU_MATMUL_SIZE = 1024
# A CPU needs no long warm-up, and its ceilings are only a scale for what else is measured on it.
_CEILING_SAMPLES, _WARMUP_S = {"cuda": 20, "cpu": 5}, {"cuda": 1.0, "cpu": 0.1}
_L2_PART = 6  # two buffers of a sixth of the L2 fit easily, and each half of a split L2 still holds its share
_L2_COPIES = 50
_CLOCK_CALLS = 200
_CLOCK_SAMPLES, _CLOCK_EVERY_S = 7, 0.02


def measure_ceilings(device: str, dtypes: list[str]) -> dict[str, Any]:
    """Return the highest rates that this device reaches; None for what cannot be measured.

    bytes_per_s, l2_bytes_per_s: copies from DRAM and within the L2 cache, with read and written bytes added. The L2 is
        unknown where its copies are no faster than those from DRAM: they are so short there that starting them counts.
    flops: the FLOP/s of a matrix product, by dtype; tf32 is fp32 as tensor cores multiply it.
    sm_clock_mhz: the SM clock while these products ran (MHz).
    """
    flops = {dtype: _multiplication_rate(device, dtype) for dtype in dtypes}
    clocks = {dtype: _clock_of_products(device, dtype) for dtype in dtypes}
    release_memory()
    dram, l2 = _copy_rate(device), _l2_rate(device)
    return {
        "bytes_per_s": dram,
        "l2_bytes_per_s": l2 if l2 is not None and l2 > dram else None,
        "flops": flops,
        "sm_clock_mhz": clocks,
    }


def _l2_rate(device: str) -> float | None:
    """Return the rate of copies between two buffers in the L2 (bytes/s). They are short, so one graph runs many."""
    if device != "cuda":
        return None
    size = torch.cuda.get_device_properties(0).L2_cache_size // _L2_PART
    source = torch.empty(size, dtype=torch.int8, device=device)
    target = torch.empty_like(source)

    def copies() -> None:
        for _ in range(_L2_COPIES):
            target.copy_(source)

    with own_stream(device):
        return _rate(capture_graph(copies), device, 2 * size * _L2_COPIES)


def _clock_of_products(device: str, dtype: str) -> int | None:
    """Return the SM clock while products of this dtype run (MHz)."""
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
    a, b, out = (torch.randn(n, n, device=device).to(DTYPES["fp32" if dtype == "tf32" else dtype]) for _ in range(3))

    def multiply() -> None:
        before = torch.backends.cuda.matmul.allow_tf32
        torch.backends.cuda.matmul.allow_tf32 = dtype == "tf32"
        torch.mm(a, b, out=out)
        torch.backends.cuda.matmul.allow_tf32 = before

    return multiply if dtype in ("tf32", "fp32") else lambda: torch.mm(a, b, out=out)


def _matmul_size(device: str, dtype: str) -> int:
    return _MATMUL_SIZES.get((device, dtype), _CPU_MATMUL_SIZE)


def _rate(call: Call, device: str, amount: int) -> float:
    """Return `amount` per second for the fastest of several calls, because a ceiling is the most that is possible."""
    warm_up(call, device, _WARMUP_S[device])
    return amount / (min(time_calls(call, device, _CEILING_SAMPLES[device], None).values_ns) * 1e-9)


def main() -> int:
    ceilings = measure_ceilings("cuda", ["bf16", "fp16", "tf32", "fp32"])
    links = [link["bytes_per_s"] for link in measure_links() if "cpu" not in (link["from"], link["to"])]
    found = {"gpu_name": torch.cuda.get_device_name(), "link_bytes_per_s": min(links, default=None)}
    sys.stdout.write(json.dumps(ceilings | found) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
