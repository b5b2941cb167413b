"""Where Nsight Compute's ncu may be."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from nsysprof.errors import MissingToolError

ENVIRONMENT_VARIABLE = "NSYSPROF_NCU"


def find_ncu(wanted: Path | None = None) -> Path | None:
    """`wanted` (--ncu), NSYSPROF_NCU, the ncu on PATH, of CUDA_HOME, or the newest of Nsight Compute's own folders.

    None where there is none. Raises MissingToolError for a named one that is not there.
    """
    for source, named in (("--ncu", wanted), (ENVIRONMENT_VARIABLE, os.environ.get(ENVIRONMENT_VARIABLE))):
        if named:
            return _check_named(source, Path(named))
    return next((path for path in _candidates() if path.is_file() and os.access(path, os.X_OK)), None)


def _check_named(source: str, path: Path) -> Path:
    program = path / "ncu" if path.is_dir() else path
    if not (program.is_file() and os.access(program, os.X_OK)):
        raise MissingToolError(f"{source} names {path}, which is not an ncu program.", "Install Nsight Compute.")
    return program


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
