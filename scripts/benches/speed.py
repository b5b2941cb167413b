"""Measure the time of commands relative to a bare scan of the trace, and compare it with earlier measurements.

    scripts/bench.py speed            exit code 1 where a command costs half as much again as before, or findings as
                                      much as all else that analyze does
    scripts/bench.py speed --write    measure, and make that what is compared with

A scan reads the two large tables with SQLite and nothing else. Processor times are compared as ratios to it, because
they change little from machine to machine. The trace is a training of a million kernels whose ranges nest four deep;
scripts/bench.py analyze makes it and runs the commands. analysis/speed/measured.json holds what was measured, and
scripts/generate_docs.py makes the table in docs/analyze.md of it.
"""

from __future__ import annotations

import argparse
import json
from typing import Any

from scripts.benches.machine import SPEED, bench_analyze, write_measured
from scripts.benches.phases import findings_ratio

MEASURED = SPEED / "measured.json"
KERNELS = 1_000_000
# A machine that others use too shifts a ratio by a third.
TOLERANCE = 1.5
# Analyze may take twice its time without findings.
MOST_FOR_FINDINGS = 2.0


def main() -> int:
    """Parse, measure, compare or write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write what is measured, and compare with nothing")
    parser.add_argument("--kernels", type=int, default=KERNELS, help="least number of kernels (default a million)")
    arguments = parser.parse_args()
    if not arguments.write and not MEASURED.is_file():
        raise SystemExit(f"bench speed: {MEASURED} is not there: measure with --write first")
    found = measure(arguments.kernels)
    if arguments.write:
        write_measured(MEASURED, found)
        return 0
    slower = compare(json.loads(MEASURED.read_text(encoding="utf-8")), found)
    slower += judge_findings(found)
    for line in slower:
        print(line)
    return 1 if slower else 0


def measure(kernels: int) -> dict[str, Any]:
    """Return what commands cost, and what they were measured on."""
    found = bench_analyze(kernels, "--commands", "--phases", "--no-nsys")
    return {key: found[key] for key in ("machine", "load", "shapes")}


def ratios(measured: dict[str, Any]) -> dict[str, float]:
    """Return the processor time of each command as a multiple of the scan's."""
    (shape,) = measured["shapes"]
    scan, *commands = shape["timings"]
    return {timing["name"]: timing["cpu_s"] / scan["cpu_s"] for timing in commands}


def compare(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """Return a line for each command whose ratio is larger than before by more than the tolerance."""
    old, new = ratios(before), ratios(now)
    return [
        f"{name}: {new[name]:.1f} times the scan, {old[name]:.1f} before"
        for name in old
        if name in new and new[name] > TOLERANCE * old[name]
    ]


def judge_findings(now: dict[str, Any]) -> list[str]:
    """Return a line if findings cost analyze as much as everything else that it does, or more."""
    (shape,) = now["shapes"]
    ratio = findings_ratio(shape["phases"])
    return [f"analyze takes {ratio:.2f} times as long as without findings"] if ratio >= MOST_FOR_FINDINGS else []
