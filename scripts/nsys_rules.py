#!/usr/bin/env python3
"""Count what the rules of `nsys analyze` name in the traces of the studies of faults.

    scripts/nsys_rules.py --nsys .nsys/bin/nsys --write analysis/h200-busy/nsys_rules.json

Each rule runs on its own, with its own defaults, on the same traces that the studies read. scripts/prove_busy.py and
scripts/prove_findings.py show the counts beside the findings.
"""

from __future__ import annotations

import argparse
import csv
import json
import lzma
import subprocess
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
STUDIES = ("h200-busy", "h200-faults")
RULES = ("cuda_memcpy_async", "cuda_memcpy_sync", "cuda_memset_sync", "cuda_api_sync", "gpu_gaps", "gpu_time_util")
_LIMIT_S = 120


def count_rows(nsys: str, trace: Path, rule: str) -> int:
    """Return how many places a rule names in a trace; a call with two names counts once."""
    command = [nsys, "analyze", "-q", "-r", rule, "--format", "csv", str(trace)]
    said = subprocess.run(command, capture_output=True, text=True, timeout=_LIMIT_S, check=True)
    rows = list(csv.reader(said.stdout.splitlines()))
    header = next((number for number, row in enumerate(rows) if len(row) > 2), None)
    if header is None:
        return 0
    columns = rows[header]
    names = columns.index("API Name") if "API Name" in columns else None
    places = (row for row in rows[header + 1 :] if len(row) == len(columns))
    return len({tuple(value for place, value in enumerate(row) if place != names) for row in places})


def main() -> int:
    """Print the counts by trace and rule, or write them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nsys", default="nsys", help="the nsys to use")
    parser.add_argument("--write", type=Path, help="the file to write")
    arguments = parser.parse_args()
    counts: dict[str, dict[str, int]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for packed in (path for study in STUDIES for path in sorted((ROOT / "traces" / study).glob("*.sqlite.xz"))):
            trace = Path(folder) / "trace.sqlite"
            trace.write_bytes(lzma.decompress(packed.read_bytes()))
            name = f"{packed.parent.name}/{packed.name.removesuffix('.sqlite.xz')}"
            found = {rule: count_rows(arguments.nsys, trace, rule) for rule in RULES}
            counts[name] = {rule: count for rule, count in found.items() if count}
            print(name, counts[name], flush=True)
    if arguments.write:
        arguments.write.write_text(json.dumps(counts, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
