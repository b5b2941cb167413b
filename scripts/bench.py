#!/usr/bin/env python3
"""Measure what nsysprof costs: scripts/bench.py WHAT [--help] ...

analyze    analyze and other commands on a large trace, against nsys stats and a bare scan
phases     the phases of one analyze, in one process
sizes      analyze over sizes of the trace, and the plot of it
speed      commands against what they cost before; exit code 1 where one costs half as much again
start      commands that have little to do, and a first run
ranks      many traces, against the recipes of nsys
capture    recording, against a bare nsys profile
hook       the hook of capture --attention
policy     what a policy adds to a call
"""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

WHAT = re.findall(r"^ *(\w+)  +\w", __doc__, re.MULTILINE)


def main() -> int:
    what = sys.argv[1] if len(sys.argv) > 1 else ""
    if what not in WHAT:
        print(__doc__)
        return 0 if what in ("-h", "--help") else 2
    sys.argv[:2] = [f"{Path(__file__).name} {what}"]
    exit_code: int = importlib.import_module(f"scripts.benches.{what}").main()
    return exit_code


if __name__ == "__main__":
    sys.exit(main())
