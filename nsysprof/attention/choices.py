"""List the choices of each dimension of a grid. It imports nothing heavy, because the command line lists them."""

from __future__ import annotations

BACKENDS = ("math", "flash", "efficient", "cudnn", "auto", "naive")
# What this package registers as an entry point, as any other may.
PLUGINS = ("flex", "flash_attn", "xformers")
DTYPES = ("fp16", "bf16", "fp32")
PASSES = ("fwd", "bwd", "fwdbwd")
