"""Where benchmarks are kept, and what they ran on."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
SPEED = ROOT / "analysis" / "speed"
BENCH = str(ROOT / "scripts" / "bench.py")


def machine() -> str:
    """Return the processor, the cores and the Python."""
    path = Path("/proc/cpuinfo")
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    model = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")
    return f"{model or platform.processor()}, {len(os.sched_getaffinity(0))} cores, Python {platform.python_version()}"


def bench_analyze(kernels: int, *options: str) -> dict[str, Any]:
    """Return what `scripts/bench.py analyze --json` prints of a trace whose ranges nest."""
    command = [sys.executable, BENCH, "analyze", "--shape", "deep", "--json", "--kernels", str(kernels), *options]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit("bench: the measurement failed")
    measured: dict[str, Any] = json.loads(done.stdout)
    return measured
