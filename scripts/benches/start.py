"""Time starts: --help against a bare typer program, analyze of a small trace, and a first run against the next.

    scripts/bench.py start            exit code 1 where --help costs more than twice a bare typer program, or a first
                                      run a second more than the next
    scripts/bench.py start --write    also write analysis/speed/starts.json, of which generate_docs.py makes a table

Processor times, the least of several runs in turn. A first run has an empty home and empty folders for caches; Python's
own compiled files are there, as pip writes them. The large trace has a million kernels in ranges nested four deep.
"""

from __future__ import annotations

import argparse
import lzma
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from scripts.benches.large_traces import make_deep_trace
from scripts.benches.machine import ROOT, SPEED, Timing, load_now, machine, time_command, write_measured

STARTS = SPEED / "starts.json"
SMALL = ROOT / "traces" / "sdpa.sqlite.xz"
KERNELS, RUNS = 1_000_000, 7
BARE = """
import typer
app = typer.Typer()
@app.command()
def hello(name: str, count: int = 1) -> None:
    print(name * count)
app()
"""
BARE_NAME, HELP_NAME, SMALL_NAME = "a bare typer program --help", "nsysprof --help", "analyze of a small trace"
NEXT_NAME, FIRST_NAME = "analyze of a large trace", "the same, the first run on a machine"
# What the help may cost, as a multiple of a bare typer program's, and a first run more than the next (s).
MOST_HELP, MOST_FIRST_S = 2.0, 1.0


def main() -> int:
    """Parse, measure, print, write, judge."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write what is measured")
    parser.add_argument("--runs", type=int, default=RUNS, help=f"runs of each; the least counts (default {RUNS})")
    arguments = parser.parse_args()
    load = load_now()
    with tempfile.TemporaryDirectory(prefix="bench-start-") as scratch:
        timings = measure(Path(scratch), arguments.runs)
    for timing in timings:
        print(f"{timing['name']}: {timing['cpu_s']:.3f} s, {timing['peak_bytes'] / 1e6:.0f} MB")
    if arguments.write:
        write_measured(STARTS, {"machine": machine(), "load": load, "timings": timings})
    wrong = judge(timings)
    for line in wrong:
        print(line)
    return 1 if wrong else 0


def measure(scratch: Path, runs: int) -> list[dict[str, Any]]:
    """Return the name, the least wall and processor seconds, and the largest memory of each command."""
    bare, small, large = scratch / "bare.py", scratch / "small.sqlite", scratch / "large.sqlite"
    bare.write_text(BARE)
    small.write_bytes(lzma.decompress(SMALL.read_bytes()))
    make_deep_trace(large, KERNELS, 4, 300)
    ours = ["-m", "nsysprof"]
    analyze = [*ours, "analyze", "--no-figures", "--force", "--out", str(scratch / "out")]
    commands = {
        BARE_NAME: [str(bare), "--help"],
        HELP_NAME: [*ours, "--help"],
        SMALL_NAME: [*analyze, str(small)],
        NEXT_NAME: [*analyze, str(large)],
        FIRST_NAME: [*analyze, str(large)],
    }
    for argv in (commands[HELP_NAME], commands[SMALL_NAME]):  # writes Python's own compiled files
        subprocess.run([sys.executable, *argv], stdout=subprocess.DEVNULL, check=True, env=_environment())
    found: dict[str, list[Timing]] = {name: [] for name in commands}
    for run in range(runs):
        for name, argv in commands.items():
            home = scratch / f"home{run}" if name == FIRST_NAME else scratch / "home"
            home.mkdir(exist_ok=True)
            caches = dict.fromkeys(("XDG_CACHE_HOME", "NUMBA_CACHE_DIR", "MPLCONFIGDIR"), str(home / "cache"))
            environment = {**_environment(), **caches, "HOME": str(home)}
            found[name].append(time_command(name, [sys.executable, *argv], env=environment))
    return [
        {"name": name, "wall_s": min(turn.wall_s for turn in turns), "cpu_s": min(turn.cpu_s for turn in turns),
         "peak_bytes": max(turn.peak_bytes for turn in turns)}
        for name, turns in found.items()
    ]  # fmt: skip


def _environment() -> dict[str, str]:
    """Return the environment, in which Python keeps compiled files even where ours says otherwise."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def judge(timings: list[dict[str, Any]]) -> list[str]:
    """Return a line for each start that costs too much."""
    cpu_s = {timing["name"]: timing["cpu_s"] for timing in timings}
    wrong = []
    if (times := cpu_s[HELP_NAME] / cpu_s[BARE_NAME]) > MOST_HELP:
        wrong.append(f"--help takes {times:.1f} times as long as that of a bare typer program")
    if (more := cpu_s[FIRST_NAME] - cpu_s[NEXT_NAME]) > MOST_FIRST_S:
        wrong.append(f"a first run takes {more:.1f} s more than the next")
    return wrong
