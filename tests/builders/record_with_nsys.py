"""Record a small program with a real nsys, which itself fails now and then on a busy machine."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

TRIES = 3


def record_nvtx(
    nsys: Path,
    folder: Path,
    command: Sequence[str | Path],
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] = os.environ,
) -> tuple[Path, str]:
    """Run the command under nsys, which records its NVTX ranges.

    nsys 2024.2 sometimes exits with 0 and leaves a .qdstrm file that it could not import. That is not what these
    tests are about, so the recording is tried again.

    Returns: the .nsys-rep file, and what the program and nsys wrote to standard output.
    Raises AssertionError if no try left a report or if the last one failed.
    """
    said = ""
    for attempt in range(TRIES):
        stem = folder / f"recording-{attempt}"
        options = ["--trace=nvtx", "--sample=none", "--cpuctxsw=none", f"--output={stem}"]
        argv = [nsys, "profile", *options, *command]
        done = subprocess.run(argv, cwd=cwd, env=env, capture_output=True, text=True, timeout=300, check=False)
        said = done.stdout + done.stderr
        report = stem.with_suffix(".nsys-rep")
        if done.returncode == 0 and report.exists():
            return report, done.stdout
    raise AssertionError(f"nsys left no report in {TRIES} tries:\n{said}")
