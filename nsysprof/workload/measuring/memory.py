"""Measure the peak memory of one case, independent of what ran before it in the process."""

from __future__ import annotations

import gc
from typing import Any

import torch


def release_memory() -> None:
    """Free what earlier cases left: tensors, cuBLAS workspaces, and the blocks of the caching allocator.

    cuBLAS keeps one workspace per handle and stream (32 MiB on Hopper) in torch's allocator. A case that ran after
    `math` would include it (seen: 40.1 MiB where the tensors take 8).
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
    """The peaks of torch's CUDA allocator since construction, without what was there before; None on the CPU."""

    def __init__(self, device: str) -> None:
        self._cuda = device == "cuda"
        release_memory()
        if self._cuda:
            torch.cuda.reset_peak_memory_stats()
            self._allocated = torch.cuda.memory_allocated()
            self._reserved = torch.cuda.memory_reserved()
        self._inputs: int | None = None

    def mark_inputs(self) -> None:
        """Note the bytes of the inputs. Call this when the case's inputs exist and nothing else does."""
        if self._cuda:
            self._inputs = torch.cuda.memory_allocated() - self._allocated

    def read(self) -> dict[str, Any]:
        """Return the bytes of the inputs and the peaks of the case so far, by the names of a Block's fields."""
        if not self._cuda:
            return {
                "input_bytes": None,
                "peak_bytes": None,
                "peak_reserved_bytes": None,
                "peak_beyond_inputs_bytes": None,
            }
        torch.cuda.synchronize()
        allocated = torch.cuda.max_memory_allocated() - self._allocated
        return {
            "input_bytes": self._inputs,
            "peak_bytes": allocated,
            "peak_reserved_bytes": torch.cuda.max_memory_reserved() - self._reserved,
            "peak_beyond_inputs_bytes": None if self._inputs is None else allocated - self._inputs,
        }
