"""Peak memory of one case that does not depend on what ran before it in the process."""

from __future__ import annotations

import gc
from typing import Any

import torch


def release_memory() -> None:
    """Give back what earlier cases left: tensors, cuBLAS workspaces, the caching allocator's blocks.

    cuBLAS keeps one workspace a handle and stream (32 MiB on Hopper) in torch's allocator; a case that ran after
    `math` would carry it (seen: 40.1 MiB where the tensors are 8).
    """
    gc.collect()
    if not torch.cuda.is_available():
        return
    torch.cuda.synchronize()
    clear = getattr(torch._C, "_cuda_clearCublasWorkspaces", None)
    if clear is not None:
        clear()
    torch.cuda.empty_cache()


class PeakMemory:
    """Peaks of torch's CUDA allocator since construction, less what was there before. All None on the CPU."""

    def __init__(self, device: str) -> None:
        self._cuda = device == "cuda"
        release_memory()
        if self._cuda:
            torch.cuda.reset_peak_memory_stats()
            self._allocated = torch.cuda.memory_allocated()
            self._reserved = torch.cuda.memory_reserved()
        self._inputs: int | None = None

    def mark_inputs(self) -> None:
        """Call when the case's inputs exist and nothing else does."""
        if self._cuda:
            self._inputs = torch.cuda.memory_allocated() - self._allocated

    def read(self) -> dict[str, Any]:
        """Bytes: `input_bytes`, and the peaks `allocated`, `reserved` and `beyond_inputs` of the case so far."""
        if not self._cuda:
            return {
                "input_bytes": None,
                "peak_allocated_bytes": None,
                "peak_reserved_bytes": None,
                "peak_beyond_inputs_bytes": None,
            }
        torch.cuda.synchronize()
        allocated = torch.cuda.max_memory_allocated() - self._allocated
        return {
            "input_bytes": self._inputs,
            "peak_allocated_bytes": allocated,
            "peak_reserved_bytes": torch.cuda.max_memory_reserved() - self._reserved,
            "peak_beyond_inputs_bytes": None if self._inputs is None else allocated - self._inputs,
        }
