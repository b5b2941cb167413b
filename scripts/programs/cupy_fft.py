#!/usr/bin/env python3
"""Filter signals with CuPy: FFT, multiplication, inverse FFT and a reduction per block, in ranges `block#`.

scripts/programs/cupy_fft.py --blocks 16
"""

from __future__ import annotations

import argparse

import cupy
import numpy as np
from cupy.cuda import nvtx


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--blocks", type=int, default=16)
    options = parser.parse_args()
    signal = np.random.default_rng(0).standard_normal((64, 16384)).astype(np.float32)
    window = cupy.asarray(np.hanning(16384).astype(np.complex64))
    total = 0.0
    for block in range(options.blocks):
        nvtx.RangePush(f"block{block}")
        spectrum = cupy.fft.fft(cupy.asarray(signal)) * window
        total += float(cupy.abs(cupy.fft.ifft(spectrum)).sum())
        nvtx.RangePop()
    print(total)


if __name__ == "__main__":
    main()
