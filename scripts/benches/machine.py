"""Where benchmarks are kept, what they ran on, and what a command costs."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
SPEED = ROOT / "analysis" / "speed"
BENCH = str(ROOT / "scripts" / "bench.py")


@dataclass
class Timing:
    """One command: seconds of wall and processor time, and the peak of its resident memory."""

    name: str
    wall_s: float
    cpu_s: float
    peak_bytes: int


def time_command(name: str, argv: list[str], **options: Any) -> Timing:
    """Run a command that must succeed, in a process of its own. options: of Popen."""
    begin = time.perf_counter()
    process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, **options)
    assert process.stderr is not None
    said = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    wall_s = time.perf_counter() - begin
    if os.waitstatus_to_exitcode(status) != 0:
        raise SystemExit(f"bench: {name} failed:\n{said[-1500:]}")
    print(f"{name}: {wall_s:.2f} s", file=sys.stderr)
    return Timing(name, wall_s, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024)


def write_measured(path: Path, measured: dict[str, Any]) -> None:
    """Keep what was measured for scripts/generate_docs.py."""
    path.write_text(json.dumps(measured, indent=1) + "\n", encoding="utf-8")
    print(f"wrote {path}; now run scripts/generate_docs.py")


def machine() -> str:
    """Return the processor, the cores and the Python."""
    path = Path("/proc/cpuinfo")
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    model = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")
    return f"{model or platform.processor()}, {len(os.sched_getaffinity(0))} cores, Python {platform.python_version()}"


def load_now() -> float:
    """Return how busy other programs keep this machine."""
    return round(os.getloadavg()[0], 1)


def bench_analyze(kernels: int, *options: str) -> dict[str, Any]:
    """Return what `scripts/bench.py analyze --json` prints of a trace whose ranges nest."""
    command = [sys.executable, BENCH, "analyze", "--shape", "deep", "--json", "--kernels", str(kernels), *options]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit("bench: the measurement failed")
    measured: dict[str, Any] = json.loads(done.stdout)
    return measured
