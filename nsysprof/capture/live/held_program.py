"""Define HeldProgram: a program that runs under nsys without being recorded, and how another process finds it."""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from dataclasses import dataclass
from pathlib import Path

from nsysprof.errors import TraceError, UsageError
from nsysprof.files.plain_file import encode_json, read_json, write_whole

HELD = "held.json"
# The environment variable that is set in the program, so that it can send SIGUSR1 to its holder, and its daemons can be
# found.
HOLD_PID = "NSYSPROF_HOLD_PID"
FORMAT_VERSION = 1
_HOW = "Start one: nsysprof capture --hold --out FOLDER -- PROGRAM."


@dataclass(frozen=True)
class _Holder:
    """What the folder says: which process holds its program."""

    format_version: int
    holder_pid: int


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
    """Register the program where `record` looks for it, and write into its folder which process holds it.

    Only the register is believed: it is private, and a folder may come from anywhere.
    """
    with contextlib.suppress(OSError):  # then only a signal starts a recording
        place = _register()
        place.mkdir(mode=0o700, exist_ok=True)
        if _is_ours(place):
            write_whole(place / str(held.holder_pid), encode_json(held))
    write_whole(Path(held.folder) / HELD, encode_json(_Holder(FORMAT_VERSION, held.holder_pid)))


def retract(held: HeldProgram) -> None:
    """Remove what `publish` wrote."""
    for path in (Path(held.folder) / HELD, _register() / str(held.holder_pid)):
        with contextlib.suppress(OSError):
            path.unlink()


def find_held(folder: Path | None) -> HeldProgram:
    """Return the held program of a folder, or the only one of this user. Raises UsageError where there is none."""
    if folder is not None:
        return _find(folder)
    programs = _registered()
    if not programs:
        raise UsageError("No held program was found.", _HOW)
    if len(programs) > 1:
        names = ", ".join(sorted(program.folder for program in programs)[:5])
        raise UsageError(f"{len(programs)} held programs were found: {names}.", "Give the folder of one of them.")
    return programs[0]


def started_ticks(pid: int) -> int | None:
    """Return when a process began (clock ticks since boot), or None when there is no such process."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        fields = text.rpartition(")")[2].split()
        return None if fields[0] == "Z" else int(fields[19])
    except (OSError, ValueError, IndexError):
        return None


def _find(folder: Path) -> HeldProgram:
    """Return the held program of a folder, as the register of its holder describes it."""
    path = folder / HELD
    if not path.is_file():
        raise UsageError(f"{folder} is not the folder of a held program.", _HOW)
    try:
        pid = read_json(path, _Holder, kind="a held program", advice=_HOW, newest=FORMAT_VERSION).holder_pid
    except TraceError as error:
        raise UsageError(error.text, error.next_step) from error
    ended = UsageError(f"The program of {folder} is no longer held by this user.", _HOW)
    place = _register(_environment_of(pid).get("TMPDIR"))
    if not place.is_dir() or not _is_ours(place):
        raise ended
    held = _read(place / str(pid))
    if held is None or not Path(held.folder).exists() or not Path(held.folder).samefile(folder):
        raise ended
    return held


def _read(entry: Path) -> HeldProgram | None:
    """Return the program of an entry of the register; None where it is damaged, or its holder has ended."""
    try:
        held = read_json(entry, HeldProgram, kind="a held program", advice=_HOW, newest=FORMAT_VERSION)
    except TraceError:
        return None
    return held if held.is_alive() and str(held.holder_pid) == entry.name else None


def _registered() -> list[HeldProgram]:
    place, programs = _register(), []
    if not place.is_dir() or not _is_ours(place):
        return []
    for entry in sorted(place.iterdir()):
        held = _read(entry)
        if held is not None:
            programs.append(held)
        else:
            with contextlib.suppress(OSError):
                entry.unlink()  # left over by a holder that was killed
    return programs


def _environment_of(pid: int) -> dict[str, str]:
    """Return the environment of a process of this user; empty for any other."""
    try:
        text = Path(f"/proc/{pid}/environ").read_bytes()
        if Path(f"/proc/{pid}").stat().st_uid != os.getuid():
            return {}
    except OSError:
        return {}
    pairs = (os.fsdecode(entry).partition("=") for entry in text.split(b"\0") if entry)
    return {name: value for name, _, value in pairs}


def _register(folder: str | None = None) -> Path:
    """Return where the programs are registered that this user holds. folder: TMPDIR of the holder, where it has one."""
    return Path(folder or tempfile.gettempdir()) / f"nsysprof-held-{os.getuid()}"


def _is_ours(place: Path) -> bool:
    """Return whether only this user can have written into the folder."""
    facts = place.lstat()
    return stat.S_ISDIR(facts.st_mode) and facts.st_uid == os.getuid() and not facts.st_mode & 0o022
