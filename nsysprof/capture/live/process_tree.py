"""List the processes of a held program, with whether nsys can see each one, and why not."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

_MOST_PROCESSES = 10_000
_LONGEST = 300
# The libraries that nsys loads into a program that it launched.
_OF_NSYS = re.compile(r"libToolsInjection|ToolsInjection64|libnsys-launcher")
_CUDA = re.compile(r"/libcuda\.so")
# The names of nsys' own processes, and of our process that runs the program.
_HELPERS = ("nsys", "nsys-launcher", "nsys-tee")
# What multiprocessing runs with `python -c`.
_PYTHON_HELPERS = (
    ("spawn_main", "spawned worker"),
    ("resource_tracker", "resource tracker"),
    ("forkserver", "fork server"),
)
_LAUNCHER = "nsysprof.capture.user_program.run_program"


@dataclass(frozen=True)
class SeenProcess:
    """One process of the program, as it was during a recording."""

    pid: int
    parent_pid: int
    # What the process calls itself, or its program and arguments.
    name: str
    command: str
    # Whether it runs the same program as its parent: it was forked and has executed nothing since.
    is_forked: bool
    # Whether libraries of nsys are loaded in it.
    has_nsys: bool
    # Whether libcuda is loaded in it, and whether it has opened a GPU; None where that cannot be determined.
    has_cuda: bool | None
    uses_gpu: bool | None


def list_processes(root: int, argv: tuple[str, ...] = (), mark: str = "") -> tuple[SeenProcess, ...]:
    """Return the program's processes: `root`, its descendants, and those that left the tree as daemons.

    argv: the command of the program. A daemon that still runs it was forked.
    mark: a variable in the program's environment, `NAME=VALUE`, by which daemons are found, because their parent is
        another process.
    """
    parents = _parents()
    inside = {root}
    grown = True
    while grown:
        more = {pid for pid, parent in parents.items() if parent in inside and pid not in inside}
        inside |= more
        grown = bool(more)
    if mark:
        inside |= {pid for pid in parents if pid not in inside and mark in _read(pid, "environ").split("\0")}
    seen = (_look(pid, parents.get(pid, 0), root, inside, argv) for pid in sorted(inside)[:_MOST_PROCESSES])
    return tuple(process for process in seen if process is not None)


def _look(pid: int, parent: int, root: int, inside: set[int], argv: tuple[str, ...]) -> SeenProcess | None:
    command = _words(pid)
    if not command or _LAUNCHER in command or Path(command[0]).name in _HELPERS:
        return None
    if parent in inside:
        is_forked = command == _words(parent) and _executable(pid) == _executable(parent)
    else:
        is_forked = pid != root and bool(argv) and command[-len(argv) :] == list(argv)
    maps = _read(pid, "maps")
    return SeenProcess(
        pid=pid,
        parent_pid=parent,
        name=process_name(command, _read(pid, "comm").strip()),
        command=" ".join(command)[:_LONGEST],
        is_forked=is_forked,
        has_nsys=bool(_OF_NSYS.search(maps)),
        has_cuda=bool(_CUDA.search(maps)) if maps else None,
        uses_gpu=_opens_gpu(pid),
    )


def process_name(command: list[str], comm: str) -> str:
    """Return a short name: a title that the process gave itself, its script or module, or its program.

    command: its arguments; empty where they are unknown.
    comm: what the kernel calls it.
    """
    if not command:
        return comm
    program = Path(command[0].split()[0] if command[0].split() else comm).name
    title = len(command) == 1 and (" " in command[0] or ":" in command[0])
    if title:
        return command[0][:60]  # set by setproctitle
    if not program.startswith(("python", "pypy")):
        return program[:60] or comm
    if comm and not comm.startswith(("python", "pypy", "pt_", "MainThread")):
        return comm[:60]  # set by prctl
    return _of_python(command[1:]) or program


def _of_python(arguments: list[str]) -> str:
    """Return the script or module that Python runs, by its arguments."""
    for word, after in zip(arguments, [*arguments[1:], ""], strict=True):
        if word == "-m" and after:
            return after[:60]
        if word == "-c":
            return next(
                (name for mark, name in _PYTHON_HELPERS if any(mark in argument for argument in arguments)), "python -c"
            )
        if not word.startswith("-"):
            return Path(word).name[:60]
    return ""


def _parents() -> dict[int, int]:
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            fields = _read(int(entry.name), "stat").rpartition(")")[2].split()
            if len(fields) > 1 and fields[0] != "Z":
                parents[int(entry.name)] = int(fields[1])
    return parents


def _words(pid: int) -> list[str]:
    return [word for word in _read(pid, "cmdline").split("\0") if word]


def _executable(pid: int) -> str:
    try:
        return os.readlink(f"/proc/{pid}/exe")  # noqa: PTH115
    except OSError:
        return ""


def _opens_gpu(pid: int) -> bool | None:
    try:
        links = list(Path(f"/proc/{pid}/fd").iterdir())
    except OSError:
        return None
    for link in links:
        try:
            if re.fullmatch(r"/dev/nvidia\d+", os.readlink(link)):  # noqa: PTH115
                return True
        except OSError:
            continue
    return False


def _read(pid: int, name: str) -> str:
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes().decode(errors="replace")
    except OSError:
        return ""
