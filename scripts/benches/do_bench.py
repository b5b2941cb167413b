"""Measure the cases of a bench again with triton.testing.do_bench, and print both side by side as Markdown.

    scripts/bench.py do_bench traces/bench-NAME          needs the GPU that the bench ran on, and triton

do_bench empties the L2 before each call as bench does; its warm-up and its number of calls go by time (25 and 100 ms).
It is one process, once, and gives no interval.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from pathlib import Path

from nsysprof.capture.sampling.bench_run import BenchRun, read_run
from nsysprof.errors import NsysprofError
from nsysprof.units import format_ns, format_ratio


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="what bench wrote")
    arguments = parser.parse_args()
    try:
        run = read_run(arguments.folder / "samples.json")
    except NsysprofError as error:
        print(f"bench do_bench: {error.text}\n  -> {error.next_step}", file=sys.stderr)
        return error.exit_code
    print("| case | bench, median | do_bench, median | do_bench / bench |\n|---|---:|---:|---:|")
    ratios = []
    for cell in range(len(run.plan.cells)):
        ours = _median(run, cell)
        theirs = _do_bench(run, cell) if ours is not None else None
        if ours is None or theirs is None:
            continue
        ratios.append(theirs / ours)
        print(f"| {run.plan.name_of(cell)} | {format_ns(ours)} | {format_ns(theirs)} | {format_ratio(theirs / ours)} |")
    if ratios:
        print(f"\nMedian ratio {statistics.median(ratios):.3f}, from {min(ratios):.3f} to {max(ratios):.3f}.")
    return 0


def _median(run: BenchRun, cell: int) -> float | None:
    values = [value for block in run.blocks if block.cell == cell for value in block.values_ns]
    return statistics.median(values) if values else None


def _do_bench(run: BenchRun, cell: int) -> float | None:
    """Of one cell in ns; None where it fails."""
    from triton.testing import do_bench

    from nsysprof.workload.measuring.measure import prepared

    try:
        with prepared(run.plan.cells[cell], "cuda") as call:
            return 1e6 * float(do_bench(call, return_mode="median"))
    except Exception as error:  # noqa: BLE001 - whatever fails here is a row less
        print(f"{run.plan.name_of(cell)}: {str(error).splitlines()[0]}", file=sys.stderr)
        return None
