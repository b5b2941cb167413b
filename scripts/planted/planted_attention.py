"""An attention with one change planted, named by NSYSPROF_PLANT: what scripts/prove_compare.py measures against none.

none: torch's flash kernel. launch: one tiny kernel more. slower: 5 % more time, asleep on the GPU. backend: cuDNN
instead. memory: a tenth more memory than q, k, v and the result take.
"""

from __future__ import annotations

import os
import time
from functools import cache
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

PLANT = os.environ.get("NSYSPROF_PLANT", "none")
_MORE = 0.05


def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, is_causal: bool) -> torch.Tensor:
    """Return attention with the planted change; capture and bench call it as `planted_attention:attention`."""
    backend = SDPBackend.CUDNN_ATTENTION if PLANT == "backend" else SDPBackend.FLASH_ATTENTION
    on_gpu = q.is_cuda
    if PLANT == "memory":
        # A hundredth more than a tenth, since the allocator also holds the softmax's sums.
        held = torch.empty(int(0.11 * 4 * q.numel() * q.element_size()), dtype=torch.uint8, device=q.device)
    with sdpa_kernel(backend if on_gpu else [SDPBackend.FLASH_ATTENTION, SDPBackend.MATH]):
        out: torch.Tensor = scaled_dot_product_attention(q, k, v, is_causal=is_causal)
    if PLANT == "launch":
        torch.full((1,), 1.0, device=q.device)
    if PLANT == "memory":
        del held
    if PLANT == "slower":
        _wait(tuple(q.shape), q.dtype, is_causal, q.device.type)
    return out


def _wait(shape: tuple[int, ...], dtype: torch.dtype, is_causal: bool, device: str) -> None:
    share_s = _MORE * _seconds(shape, dtype, is_causal, device)
    if device == "cuda":
        torch.cuda._sleep(int(share_s * _cycles_per_s()))
        return
    end = time.perf_counter() + share_s
    while time.perf_counter() < end:
        pass


@cache
def _seconds(shape: tuple[int, ...], dtype: torch.dtype, is_causal: bool, device: str) -> float:
    """Of one call: the median of some."""
    q: Any = torch.randn(shape, dtype=dtype, device=device)
    with sdpa_kernel([SDPBackend.FLASH_ATTENTION, SDPBackend.MATH]):
        return _time(lambda: scaled_dot_product_attention(q, q, q, is_causal=is_causal), device, 30)


@cache
def _cycles_per_s() -> float:
    return 1e6 / _time(lambda: torch.cuda._sleep(1_000_000), "cuda", 5)


def _time(call: Any, device: str, count: int) -> float:
    times = []
    for _ in range(count):
        if device == "cuda":
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            call()
            end.record()
            torch.cuda.synchronize()
            times.append(begin.elapsed_time(end) / 1e3)
        else:
            start = time.perf_counter()
            call()
            times.append(time.perf_counter() - start)
    return sorted(times)[count // 2]
