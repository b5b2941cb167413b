"""Where Nsight Compute's ncu may be."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path


def find_ncu() -> Path | None:
    """The ncu on PATH, of CUDA_HOME, or the newest of Nsight Compute's own folders; None where there is none."""
    return next((path for path in _candidates() if path.is_file() and os.access(path, os.X_OK)), None)


def ncu_version(ncu: Path) -> str | None:
    """What ncu prints of itself, e.g. `2025.3.1.0`; None when it cannot run."""
    try:
        done = subprocess.run([str(ncu), "--version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r"Version\s+(\S+)", done.stdout)
    return found.group(1) if found else None


def _candidates() -> Iterator[Path]:
    on_path = shutil.which("ncu")
    if on_path:
        yield Path(on_path)
    home = os.environ.get("CUDA_HOME")
    if home:
        yield Path(home) / "bin" / "ncu"
    yield Path("/usr/local/cuda/bin/ncu")
    folders = Path("/opt/nvidia/nsight-compute")
    try:
        found = sorted(folders.glob("*/ncu"), key=lambda path: [int(n) for n in re.findall(r"\d+", path.parent.name)])
    except OSError:
        return
    yield from reversed(found)
