"""Where benchmarks are kept, and what they ran on."""

from __future__ import annotations

import os
import platform
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SPEED = ROOT / "analysis" / "speed"
BENCH = str(ROOT / "scripts" / "bench.py")


def machine() -> str:
    """Return the processor, the cores and the Python."""
    path = Path("/proc/cpuinfo")
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    model = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")
    return f"{model or platform.processor()}, {len(os.sched_getaffinity(0))} cores, Python {platform.python_version()}"
