"""Backends whose traffic on a GPU is known, named as tests.capture.gpu_kernels:NAME."""

import torch

COPIED_BYTES = 1 << 30
_BUFFERS = {}


def copies(q, k, v, is_causal):
    """One kernel that reads a GiB of DRAM and writes another, beside one of q; copies would be no kernels."""
    if not _BUFFERS:
        _BUFFERS["from"], _BUFFERS["to"] = (torch.zeros(COPIED_BYTES, dtype=torch.int8, device="cuda") for _ in "ab")
    torch.add(_BUFFERS["from"], 1, out=_BUFFERS["to"])
    return q.mul(1.0)


def many(q, k, v, is_causal):
    """Thirty kernels."""
    for _ in range(29):
        q.mul(1.0)
    return q.mul(1.0)
