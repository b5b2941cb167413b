"""Where nsys may be, in the order in which a user would expect it to be found."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from nsysprof.errors import MissingToolError

ENVIRONMENT_VARIABLE = "NSYSPROF_NSYS"
_INSTALL_HINT = (
    "Install Nsight Systems, or name it with --nsys or NSYSPROF_NSYS; without it, --profiler torch uses the "
    "profiler built into torch."
)


def find_nsys(wanted: Path | None = None) -> Path | None:
    """The nsys to use, or None.

    Order: `wanted` (--nsys), NSYSPROF_NSYS, PATH, CUDA_HOME, Nsight Systems' own folders (newest first), the copy
    inside Nsight Compute (newest first), and on Windows the same under Program Files (untried). A named nsys that
    does not exist raises MissingToolError instead of being passed over.
    """
    for source, named in (("--nsys", wanted), (ENVIRONMENT_VARIABLE, os.environ.get(ENVIRONMENT_VARIABLE))):
        if named:
            return _check_named(source, Path(named))
    return next((path for path in _candidates() if _is_program(path)), None)


def nsys_version(nsys: Path) -> str | None:
    """The version nsys prints of itself, e.g. `2025.3.1.90-253135822126v0`; None when it cannot run."""
    try:
        done = subprocess.run([str(nsys), "--version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r"version\s+(\S+)", done.stdout)
    return found.group(1) if found else None


def _check_named(source: str, path: Path) -> Path:
    program = path / _program_name() if path.is_dir() else path
    if not _is_program(program):
        raise MissingToolError(f"{source} names {path}, which is not an nsys program.", _INSTALL_HINT)
    return program


def _program_name() -> str:
    return "nsys.exe" if sys.platform == "win32" else "nsys"


def _is_program(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)


def _candidates() -> Iterator[Path]:
    name = _program_name()
    on_path = shutil.which("nsys")
    if on_path:
        yield Path(on_path)
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        if os.environ.get(variable):
            yield Path(os.environ[variable]) / "bin" / name
    if sys.platform == "win32":
        for variable in ("ProgramW6432", "ProgramFiles"):
            vendor = Path(os.environ.get(variable, "C:/Program Files")) / "NVIDIA Corporation"
            yield from _newest(vendor, f"Nsight Systems */target-windows-x64/{name}")
            yield from _newest(vendor, f"Nsight Compute */host/target-windows-x64/{name}")
        return
    yield Path("/usr/local/cuda/bin") / name
    yield from _newest(Path("/opt/nvidia/nsight-systems"), f"*/bin/{name}")
    yield from _newest(Path("/opt/nvidia/nsight-systems"), f"*/target-linux-*/{name}")
    yield from _newest(Path("/opt/nvidia/nsight-systems-cli"), f"*/bin/{name}")
    for home in (Path("/opt/nvidia/nsight-compute"), Path("/usr/local/cuda")):
        yield from _newest(home, f"*/host/target-linux-*/{name}")


def _newest(folder: Path, pattern: str) -> list[Path]:
    def version(path: Path) -> list[int]:
        return [int(part) for part in re.findall(r"\d+", str(path.relative_to(folder)))]

    try:
        return sorted(folder.glob(pattern), key=version, reverse=True)
    except OSError:
        return []
