"""Measure what `capture -- PROGRAM` costs beyond a bare `nsys profile`, on a program that is bound by its launches.

    scripts/bench.py capture [--turns 12] [--steps 4000] [--write]      needs a GPU and nsys

Each turn records the same program in a fresh process of each side, the sides in changing order: `nsys profile
--trace=cuda,nvtx` with an export to SQLite, and `nsysprof capture` with its defaults. Two times are compared: the
median step of the program while it is recorded, by its own clock, and the whole command until the SQLite file is there.
--write keeps the times for the documentation.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from scripts.benches.capture_cost import SIDES, describe_cost
from scripts.benches.machine import ROOT, SPEED, write_measured

MEASURED = SPEED / "capture.json"
# 120 kernels a step that each take some 2 us: the GPU waits for the CPU. A step ends when the GPU is done.
PROGRAM = """
import statistics, sys, time
import nvtx, torch
values = torch.zeros(1 << 10, device="cuda")
times = []
for _ in range(int(sys.argv[1])):
    begin = time.perf_counter_ns()
    with nvtx.annotate("step"):
        for _ in range(120):
            values.add_(1)
        torch.cuda.synchronize()
    times.append(time.perf_counter_ns() - begin)
print("STEP", statistics.median(times[len(times) // 5:]))
print("GPU", torch.cuda.get_device_name(), "torch", torch.__version__)
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=12)
    parser.add_argument("--steps", type=int, default=4000, help="steps of the program, of which a fifth is left out")
    parser.add_argument("--write", action="store_true", help="write what was measured, for the documentation")
    options = parser.parse_args()
    if options.turns < 2:
        parser.error("--turns: at least 2")
    turns: list[dict[str, dict[str, float]]] = []
    gpu = ""
    with tempfile.TemporaryDirectory() as work:
        program = Path(work) / "launches.py"
        program.write_text(PROGRAM, encoding="utf-8")
        _record(SIDES[1], program, 20, Path(work) / "first")  # what a first capture tries out is not part of the cost
        for turn in range(options.turns):
            found = {}
            for side in SIDES if turn % 2 else SIDES[::-1]:
                found[side], gpu = _record(side, program, options.steps, Path(work) / f"{turn}-{SIDES.index(side)}")
            turns.append(found)
            print(f"turn {turn + 1}: {json.dumps(found)}", file=sys.stderr, flush=True)
    for what in ("step_ns", "command_s"):
        plain = statistics.median(each[SIDES[0]][what] for each in turns)
        print(f"{what}: {plain:.6g} with {SIDES[0]}, {describe_cost(turns, what)} with {SIDES[1]}")
    if options.write:
        write_measured(MEASURED, {"gpu": gpu, "steps": options.steps, "turns": turns})
    return 0


def _record(side: str, program: Path, steps: int, out: Path) -> tuple[dict[str, float], str]:
    """Record the program once, and return its times and the GPU."""
    own = [sys.executable, str(program), str(steps)]
    if side == SIDES[0]:
        command = ["nsys", "profile", "--trace=cuda,nvtx", "--export=sqlite", f"--output={out}", *own]
    else:
        command = [sys.executable, "-m", "nsysprof", "capture", "--out", str(out), "--", *own]
    begin = time.perf_counter()
    done = subprocess.run(command, cwd=ROOT, env={**os.environ}, capture_output=True, text=True, check=False)
    seconds = time.perf_counter() - begin
    lines = [line for line in (done.stdout + done.stderr).splitlines() if line.startswith(("STEP ", "GPU "))]
    if done.returncode or len(lines) != 2:
        sys.exit(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
    for path in out.parent.glob(f"{out.name}*"):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    return {"step_ns": float(lines[0].split()[1]), "command_s": seconds}, lines[1].removeprefix("GPU ")
