#!/usr/bin/env python3
"""Compare the cost of a straggler that a replay predicts with the same job recorded without the straggler.

    scripts/prove_stragglers.py            print the study
    scripts/prove_stragglers.py --write    write analysis/h200-ddp: the study, and what analyze says of its first job

Reads pairs of jobs in traces/: DistributedDataParallel with a double forward pass on one rank (scripts/train_ddp.py),
and FSDP with a loader that sleeps 30 ms on one rank (scripts/programs/train_fsdp.py), each also without.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from nsysprof.app.whatif import read_arrivals
from nsysprof.ranks.collective_waits.collectives import Arrivals
from nsysprof.ranks.collective_waits.stragglers import COLLECTIVES, Late, find_late, judged_collectives
from nsysprof.ranks.identity import find_sources
from scripts.studies.tables import template

ROOT = Path(__file__).resolve().parents[1]
FOLDER, FIRST = ROOT / "analysis/h200-ddp", ROOT / "traces/h200-ddp"
PROGRAMS = ROOT / "traces/h200-programs"
JOBS = {
    "DDP, rank 1 computes forward twice": ([ROOT / "traces/h200-ddp"], [ROOT / "traces/h200-ddp-even"]),
    "FSDP, rank 0 sleeps 30 ms in each step": (
        sorted(PROGRAMS.glob("fsdp-slow0_rank*.sqlite.xz")),
        sorted(PROGRAMS.glob("fsdp-even_rank*.sqlite.xz")),
    ),
}


@dataclass(frozen=True)
class Job:
    arrived: Arrivals
    late: list[Late]

    def judged_ns(self, edges: tuple[int, int]) -> int:
        """Return how long the job took between the ends of two collectives."""
        end = np.sort((self.arrived.begin_ns + self.arrived.duration_ns).max(axis=0))
        return int(end[edges[1]] - end[edges[0]])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write the study and the files of its folder")
    options = parser.parse_args()
    text = study()
    print(text)
    if options.write:
        (FOLDER / "README.md").write_text(text, encoding="utf-8")
        with tempfile.TemporaryDirectory() as folder:
            for path in analysis(Path(folder) / "out").iterdir():
                if path.suffix == ".csv" or (path.name != "report.json" and (FOLDER / path.name).is_file()):
                    shutil.copyfile(path, FOLDER / path.name)
    return 0


def analysis(out: Path, *options: str) -> Path:
    """Write what analyze says of the first job, and return the folder."""
    command = [sys.executable, "-m", "nsysprof", "analyze", str(FIRST), "--out", str(out), *options]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env={**os.environ, "COLUMNS": "100"}, cwd=ROOT)
    return out


def tables(folder: Path) -> dict[str, str]:
    """Return what must not differ: the tables in a folder, the stragglers and the clocks, by names of files."""
    found = {path.name: path.read_text(encoding="utf-8") for path in folder.glob("*.csv")}
    whole = json.loads((folder / "ranks.json").read_text(encoding="utf-8"))
    return found | {"ranks.json": json.dumps([whole[key] for key in ("imbalance_pct", "stragglers", "clocks")])}


def study() -> str:
    """Return the page."""
    lines = []
    for name, (slow, even) in JOBS.items():
        with_one, without = read(slow), read(even)
        edges = judged_collectives(with_one.arrived)
        assert edges is not None
        truth = with_one.judged_ns(edges) - without.judged_ns(edges)
        (late,) = with_one.late
        assert late.cost_ns is not None
        low, high = late.cost_low_ns or 0, late.cost_high_ns or 0
        nobody = ", ".join(f"rank {each.rank}" for each in without.late) or "nobody"
        lines.append(
            f"| {name} | rank {late.rank} | {ms(late.late_ns)} | {ms(late.cost_ns)} | {ms(low)} to {ms(high)} "
            f"| {ms(truth)} | {100 * (late.cost_ns / truth - 1):+.0f} % | {nobody} |"
        )
    return template("h200-ddp").format(rows="\n".join(lines))


def read(inputs: list[Path]) -> Job:
    """Return the collectives of a job and its stragglers."""
    with tempfile.TemporaryDirectory() as folder:
        arrived, rows = read_arrivals(find_sources(inputs, None), Path(folder))
    assert arrived is not None
    return Job(arrived, find_late(COLLECTIVES, arrived, rows)[1])


def ms(ns: float) -> str:
    return f"{ns / 1e6:,.0f} ms"


if __name__ == "__main__":
    raise SystemExit(main())
