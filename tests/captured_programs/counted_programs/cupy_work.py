#!/usr/bin/env python3
"""Launch a kernel of our own with CuPy a known number of times, on two streams, and print how many."""

from __future__ import annotations

import json

import cupy


def main() -> None:
    print("EXPECT " + json.dumps({"nsysprof_step": 64}), flush=True)
    step = cupy.ElementwiseKernel("float32 x", "float32 y", "y = x * 2 + 1", "nsysprof_step")
    values, result = cupy.ones(1 << 16, dtype=cupy.float32), cupy.empty(1 << 16, dtype=cupy.float32)
    for _ in range(2):
        with cupy.cuda.Stream(non_blocking=True) as stream:
            for _ in range(32):
                step(values, result)
            stream.synchronize()


if __name__ == "__main__":
    main()
