"""List the codes of findings; docs/causes.md defines each."""

from __future__ import annotations

CODES = (
    "pageable-copy", "sync", "alloc-in-loop", "launch-bound", "host-bound", "stream-dependency", "collective-wait",
    "unfused-attention", "attention-backend", "unfused-optimizer", "module-load", "small-copies", "python-gc",
    "jit-in-loop",
    "no-tensor-cores", "misaligned-gemm", "unfused-elementwise", "layout-conversion", "redundant-copy", "large-logits",
    "small-work",
)  # fmt: skip
# Findings about the memory of torch's allocator, which save bytes and not time.
FRAGMENTATION = "memory-fragmentation"
OUT_OF_MEMORY = "out-of-memory"
MEMORY_CODES = (FRAGMENTATION, OUT_OF_MEMORY)
