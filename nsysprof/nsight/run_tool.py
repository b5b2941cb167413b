"""Run one of NVIDIA's programs until it ends, and return what it printed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from nsysprof.errors import MissingToolError, ToolFailedError

_PERCENT = re.compile(rb"(\d{1,3}) ?%")
_FIRST_S, _STEP = 3.0, 10
_CHUNK, _KEPT = 1 << 14, 1 << 18
_VERSION_S = 60.0
# What to do without nsys. The page has the repositories.
GET_NSYS = (
    "Install it (Ubuntu, images of nvidia/cuda: apt install nsight-systems-cli; RHEL: dnf install nsight-systems-cli; "
    "cluster: module load cuda; three lines for each: nsysprof help nsys), or name it with --nsys or NSYSPROF_NSYS"
)


@dataclass(frozen=True)
class Step:
    """One program that was run."""

    name: str
    argv: tuple[str, ...]
    # None when the program was killed or has not ended.
    exit_code: int | None
    duration_ns: int


def run_tool(
    argv: Sequence[str],
    *,
    timeout_s: float | None = None,
    environment: Mapping[str, str] | None = None,
    is_shielded: bool = False,
) -> subprocess.CompletedProcess[str]:
    """Run a program without input and return what it printed. The locale is C, so that numbers have a decimal point.

    Raises ToolFailedError when the program cannot be started or does not end in time.

    timeout_s: how long to wait for its end (s); None waits without limit.
    environment: the program's environment; None for the environment of this process.
    """
    try:
        return subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout_s,
            check=False,
            process_group=0 if is_shielded else None,
            env={**(os.environ if environment is None else environment), "LC_ALL": "C"},
        )
    except subprocess.TimeoutExpired as error:
        raise ToolFailedError(
            f"{argv[0]} does not end.", "Check whether another profiler holds the GPU, and run again."
        ) from error
    except OSError as error:
        raise ToolFailedError(
            f"{argv[0]} cannot be run: {error.strerror}.", "Install it again, or name another program."
        ) from error


def run_showing(argv: Sequence[str], say: Callable[[str], None], title: str) -> subprocess.CompletedProcess[str]:
    """Run a program without input, as run_tool does, and return what it printed last, without limit of time.

    Raises ToolFailedError when it cannot be started.

    say: called with `title` and the percentage at every tenth of the way, once the program has taken some seconds.
    """
    try:
        process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, "LC_ALL": "C"},
        )
    except OSError as error:
        raise ToolFailedError(
            f"{argv[0]} cannot be run: {error.strerror}.", "Install it again, or name another program."
        ) from error
    said, shown, began = b"", 0, time.monotonic()
    assert process.stdout is not None
    try:
        with process.stdout as stream:
            while chunk := os.read(stream.fileno(), _CHUNK):
                said = (said + chunk)[-_KEPT:]
                percentages = _PERCENT.findall(chunk)
                done = min(100, int(percentages[-1])) if percentages else 0
                if done >= shown + _STEP and time.monotonic() - began > _FIRST_S:
                    shown = done - done % _STEP
                    say(f"{title}: {shown} %")
        code = process.wait()
    except BaseException:
        process.kill()
        process.wait()
        raise
    return subprocess.CompletedProcess(list(argv), code, said.decode("utf-8", "replace"), "")


@dataclass(frozen=True)
class Tool:
    """One of NVIDIA's programs, and where to look for it."""

    name: str
    # The option and the environment variable by which a user names the program.
    option: str
    variable: str
    # What to do when the program that the user named does not exist.
    hint: str
    # Folders, and patterns of the program inside them. Of several versions, the newest is taken.
    folders: tuple[tuple[str, str], ...]
    # The folders and patterns under Program Files on Windows (untested).
    windows_folders: tuple[str, ...] = ()

    @property
    def file_name(self) -> str:
        return f"{self.name}.exe" if sys.platform == "win32" else self.name


NSYS = Tool(
    "nsys",
    "--nsys",
    "NSYSPROF_NSYS",
    f"{GET_NSYS}; without it, --profiler torch uses the profiler built into torch.",
    (
        ("/opt/nvidia/nsight-systems", "*/bin/nsys"),
        ("/opt/nvidia/nsight-systems", "*/target-linux-*/nsys"),
        ("/opt/nvidia/nsight-systems-cli", "*/bin/nsys"),
        # Nsight Compute contains a copy of nsys.
        ("/opt/nvidia/nsight-compute", "*/host/target-linux-*/nsys"),
        ("/usr/local/cuda", "*/host/target-linux-*/nsys"),
    ),
    ("Nsight Systems */target-windows-x64/nsys.exe", "Nsight Compute */host/target-windows-x64/nsys.exe"),
)
NCU = Tool(
    "ncu",
    "--ncu",
    "NSYSPROF_NCU",
    "Install Nsight Compute.",
    (("/opt/nvidia/nsight-compute", "*/ncu"),),
)


def find_tool(tool: Tool, wanted: Path | None = None) -> Path | None:
    """Return the program to use, or None where there is none.

    The order is: `wanted` (the option), the environment variable, PATH, CUDA_HOME, and the folders of NVIDIA's
    installers. Raises MissingToolError when the user named a program that does not exist, instead of taking another.
    """
    for source, named in ((tool.option, wanted), (tool.variable, os.environ.get(tool.variable))):
        if named:
            return _check_named(tool, source, Path(named))
    return next((path for path in _candidates(tool) if _is_program(path)), None)


def tool_version(program: Path) -> str | None:
    """Return the version that nsys or ncu prints, e.g. `2025.3.1.90-253135822126v0`; None when it cannot run."""
    try:
        done = run_tool([str(program), "--version"], timeout_s=_VERSION_S)
    except ToolFailedError:
        return None
    match = re.search(r"[Vv]ersion\s+(\S+)", done.stdout)
    return match.group(1) if match else None


def _check_named(tool: Tool, source: str, path: Path) -> Path:
    program = path / tool.file_name if path.is_dir() else path
    if not _is_program(program):
        raise MissingToolError(f"{source} names {path}, which is not an {tool.name} program.", tool.hint)
    return program.absolute()  # a name without a slash would be looked for on PATH


def _is_program(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)


def _candidates(tool: Tool) -> Iterator[Path]:
    on_path = shutil.which(tool.name)
    if on_path:
        yield Path(on_path)
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        if os.environ.get(variable):
            yield Path(os.environ[variable]) / "bin" / tool.file_name
    if sys.platform == "win32":
        for variable in ("ProgramW6432", "ProgramFiles"):
            vendor = Path(os.environ.get(variable, "C:/Program Files")) / "NVIDIA Corporation"
            for pattern in tool.windows_folders:
                yield from _newest(vendor, pattern)
        return
    yield Path("/usr/local/cuda/bin") / tool.file_name
    for folder, pattern in tool.folders:
        yield from _newest(Path(folder), pattern)


def _newest(folder: Path, pattern: str) -> list[Path]:
    """Return the paths in `folder` that match `pattern`, the highest version numbers first."""

    def version(path: Path) -> list[int]:
        return [int(part) for part in re.findall(r"\d+", str(path.relative_to(folder)))]

    try:
        return sorted(folder.glob(pattern), key=version, reverse=True)
    except OSError:
        return []
