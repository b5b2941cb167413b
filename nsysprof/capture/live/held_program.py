"""Define HeldProgram: a program that runs under nsys without being recorded, and how another process finds it."""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from dataclasses import dataclass
from pathlib import Path

from nsysprof.errors import TraceError, UsageError
from nsysprof.files.json_file import encode_json, read_json
from nsysprof.files.output import write_whole

HELD = "held.json"
# The environment variable that is set in the program, so that it can send SIGUSR1 to its holder, and its daemons can be
# found.
HOLD_PID = "NSYSPROF_HOLD_PID"
FORMAT_VERSION = 1
_HOW = "Start one: nsysprof capture --hold --out FOLDER -- PROGRAM."


@dataclass(frozen=True)
class HeldProgram:
    """What another process must know in order to record a part of a held program."""

    format_version: int
    # The folder with the program's logs and its recordings.
    folder: str
    argv: tuple[str, ...]
    # The process of nsysprof that holds the program, and when it began (clock ticks since boot).
    holder_pid: int
    holder_started: int
    # The process id of the program.
    program_pid: int
    nsys: str
    session: str
    # The options of nsys for each recording.
    start_options: tuple[str, ...]
    # Where nsys keeps its sessions: it only finds those with the same TMPDIR.
    tmpdir: str | None

    @property
    def environment(self) -> dict[str, str]:
        """Return the environment for nsys."""
        return {**os.environ, **({"TMPDIR": self.tmpdir} if self.tmpdir else {})}

    def is_alive(self) -> bool:
        """Return whether the process that holds the program still runs, and its id was not reused by another one."""
        return started_ticks(self.holder_pid) == self.holder_started


def publish(held: HeldProgram) -> None:
    """Write what other processes must know into the folder, and register the folder where `record` looks for it."""
    write_whole(Path(held.folder) / HELD, encode_json(held))
    with contextlib.suppress(OSError):  # then the user must name the folder
        place = _register()
        place.mkdir(mode=0o700, exist_ok=True)
        if _is_ours(place):
            (place / str(held.holder_pid)).write_text(held.folder, encoding="utf-8")


def retract(held: HeldProgram) -> None:
    """Remove what `publish` wrote."""
    for path in (Path(held.folder) / HELD, _register() / str(held.holder_pid)):
        with contextlib.suppress(OSError):
            path.unlink()


def find_held(folder: Path | None) -> HeldProgram:
    """Return the held program of a folder, or the only one of this user. Raises UsageError where there is none."""
    if folder is not None:
        return _read(folder)
    found = _registered()
    if not found:
        raise UsageError("No held program was found.", _HOW)
    if len(found) > 1:
        names = ", ".join(sorted(each.folder for each in found)[:5])
        raise UsageError(f"{len(found)} held programs were found: {names}.", "Give the folder of one of them.")
    return found[0]


def started_ticks(pid: int) -> int | None:
    """Return when a process began (clock ticks since boot), or None when there is no such process."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        fields = text.rpartition(")")[2].split()
        return None if fields[0] == "Z" else int(fields[19])
    except (OSError, ValueError, IndexError):
        return None


def _read(folder: Path) -> HeldProgram:
    path = folder / HELD
    if not path.is_file():
        raise UsageError(f"{folder} is not the folder of a held program.", _HOW)
    try:
        held = read_json(path, HeldProgram, kind="a held program", advice=_HOW, newest=FORMAT_VERSION)
    except TraceError as error:
        raise UsageError(error.text, error.next_step) from error
    if path.stat().st_uid != os.getuid():
        raise UsageError(f"{folder} belongs to another user.", "Record it as that user.")
    if not held.is_alive():
        raise UsageError(f"The program of {folder} is no longer held: it has ended.", _HOW)
    return held


def _registered() -> list[HeldProgram]:
    place, found = _register(), []
    if not place.is_dir() or not _is_ours(place):
        return []
    for path in sorted(place.iterdir()):
        try:
            found.append(_read(Path(path.read_text(encoding="utf-8"))))
        except (UsageError, OSError, ValueError):
            with contextlib.suppress(OSError):
                path.unlink()  # left over by a holder that was killed
    return found


def _register() -> Path:
    return Path(tempfile.gettempdir()) / f"nsysprof-held-{os.getuid()}"


def _is_ours(place: Path) -> bool:
    """Return whether only this user can have written into the folder."""
    facts = place.lstat()
    return stat.S_ISDIR(facts.st_mode) and facts.st_uid == os.getuid() and not facts.st_mode & 0o022
