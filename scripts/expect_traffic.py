#!/usr/bin/env python3
"""Compare the DRAM bytes that ncu counted for torch's attention with what its kernels must move by formula.

    scripts/expect_traffic.py CAPTURE [--l2 BYTES]

CAPTURE holds counters.csv of math, flash, efficient or cudnn, forward or backward, causal, with as many heads of k and
v as of q. Prints a Markdown table. Where what a kernel leaves for the next one is larger than the L2 (60 MiB unless
told), counted and expected must agree within 10 %; it ends with 1 where they do not. Smaller cases keep some of it in
the L2 and move less.

T is the size of q, and E the number of scores, B H S S. Terms are kernels, in order: what it reads, and what it writes.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from nsysprof.attention.range_name import format_range
from nsysprof.attention.shape import Case
from nsysprof.capture.collect import COUNTERS, read_counters
from nsysprof.capture.manifest import read_manifest
from nsysprof.results.kernel_counters import Run
from nsysprof.units import format_bytes

L2_BYTES = 60 << 20  # H100, H200
TOLERANCE = 0.10


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("capture", type=Path)
    parser.add_argument("--l2", type=int, default=L2_BYTES, help="bytes of the L2")
    arguments = parser.parse_args()
    manifest = read_manifest(arguments.capture)
    counted: dict[str, float] = {}
    for kernel in read_counters(arguments.capture / COUNTERS):
        if kernel.run is Run.TRAFFIC:
            moved = (kernel.values["dram_read_bytes"] or 0) + (kernel.values["dram_write_bytes"] or 0)
            counted[kernel.range] = counted.get(kernel.range, 0) + moved
    print("| case | expected | counted | counted / expected | between kernels | must agree | |")
    print("|:---|---:|---:|---:|---:|:---|:---|")
    wrong = 0
    for case in manifest.cases:
        name = format_range(case, manifest.range_keys)
        if name not in counted:
            continue
        expected, between = expected_bytes(case, arguments.l2)
        ratio = counted[name] / expected
        held = between > arguments.l2
        fine = abs(ratio - 1) <= TOLERANCE
        wrong += held and not fine
        word = ("agrees" if fine else "WRONG") if held else "in part in the L2"
        cells = (name.removeprefix("RUN::"), format_bytes(expected), format_bytes(counted[name]), f"{ratio:.3f}")
        print(f"| {' | '.join(cells)} | {format_bytes(between)} | {'yes' if held else 'no'} | {word} |")
    return 1 if wrong else 0


def expected_bytes(case: Case, l2: int) -> tuple[int, int]:
    """Return what the kernels of a case read and write, and the largest that passes between two of them."""
    t, e = case.output_bytes, case.batch * case.heads * case.seq**2
    mask = case.seq**2
    if case.backend == "math" and case.pass_ == "fwd":
        # Kernels in fp32: three casts, two scalings, ones, tril, mask to fp32, q k^T, + mask, softmax, isneginf, any,
        # where, a cast of the weights, (weights) v, a cast. A mask larger than the L2 is read again by each head.
        masks = 4 * e if 4 * mask > l2 else 4 * mask
        reads = 3 * t + 4 * t + 2 * mask + 4 * t + (4 * e + masks) + 4 * e + 4 * e + e + 4 * e + 4 * e
        reads += (4 * e + 2 * t) + 2 * t
        writes = 6 * t + 4 * t + 6 * mask + 4 * e + 4 * e + 4 * e + e + 4 * e + 2 * e + 2 * t + t
        return reads + writes, 4 * e
    if case.backend == "math" and case.pass_ == "bwd":
        # A cast, dV, dP, a product, softmax backward, dQ, dK, two scalings, three casts.
        reads = t + (4 * e + 2 * t) + 4 * t + 8 * e + 8 * e + (4 * e + 2 * t) + (4 * e + 2 * t) + 4 * t + 6 * t
        writes = 2 * t + 2 * t + 4 * e + 4 * e + 4 * e + 2 * t + 2 * t + 4 * t + 3 * t
        return reads + writes, 4 * e
    if case.pass_ == "fwd":  # one kernel: q, k, v, and the result
        return 4 * t, 4 * t
    if case.backend == "flash":  # two copies; rows of dO O and zeros for dQ; the kernel, dQ added up in fp32; a cast
        reads, writes = 2 * t + 2 * t + (4 * t + 2 * t) + 2 * t, 2 * t + 2 * t + (2 * t + 2 * t) + t
    elif case.backend == "cudnn":  # the same without the copies
        reads, writes = 2 * t + (4 * t + 2 * t) + 2 * t, 2 * t + (2 * t + 2 * t) + t
    elif case.backend == "efficient":  # a copy; zeros; the kernel, which reads the result too and casts dQ itself
        reads, writes = t + (5 * t + 2 * t), t + 2 * t + (2 * t + 2 * t + t)
    else:
        sys.exit(f"There is no formula for {case.backend}.")
    return reads + writes, 7 * t


if __name__ == "__main__":
    sys.exit(main())
