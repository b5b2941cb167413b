"""Write a result folder so that a kill leaves it or the older one: by one process, or by all processes of a job.

A run holds a lock file beside its folder, and writes into a sibling with a random name. `folder.json` is written last
and says that the folder is complete. What a killed run left is removed when the next one begins. Only a run that
measures for hours may write into a new folder directly; `folder.json` then says that it is not complete yet.

The processes of a job start and end at any time, on several hosts. They share a lock, and a folder that is named after
the job. Without an older result they write into the folder itself. With one, they write into a sibling, and the last
process puts it in the older folder's place, so that killing any of them leaves the older result intact.
"""

from __future__ import annotations

import contextlib
import ctypes
import fnmatch
import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from nsysprof.errors import NsysprofError, OutputError
from nsysprof.files.folder_lock import JointLock, hold_lock, join_lock
from nsysprof.files.folder_state import (
    MARK,
    OLD,
    PART,
    STATE,
    FolderKind,
    check_folder,
    find_leftovers,
    is_barely_begun,
    is_leftover_inside,
    read_state,
    real_folder,
    write_state,
)
from nsysprof.files.plain_file import output_error, write_whole

# What Linux's renameat2 takes.
_AT_FDCWD, _RENAME_EXCHANGE = -100, 2


class ClaimedFolder:
    """A folder that only this process writes.

    path: where to write until `commit`, which may be `folder` itself.
    goes_on: whether it has what an earlier run left.
    """

    def __init__(self, folder: Path, path: Path, kind: FolderKind, *, goes_on: bool) -> None:
        self.folder, self.path, self._kind, self.goes_on = folder, path, kind, goes_on
        self.is_committed = False

    def final(self, paths: Iterable[Path]) -> tuple[Path, ...]:
        """Return where files that were written into `path` are once it is in its place."""
        return tuple(self.folder / path.relative_to(self.path) for path in paths)

    def commit(self) -> None:
        """Put what was written in the older folder's place. Raises OutputError."""
        try:
            put_in_place(self.path, real_folder(self.folder), self._kind)
        except OSError as error:
            raise output_error(self.folder, error) from error
        self.is_committed = True


@contextmanager
def claim_folder(folder: Path, kind: FolderKind, *, force: bool, resume: bool = False) -> Iterator[ClaimedFolder]:
    """Lock a folder for one run and yield where to write; it takes the older one's place with `commit`.

    resume: begin with what a killed run left, else with a copy of the folder's proof; it may hold an older result.
    Without a commit the older result stays as it is, but for kinds that are slow: what these leave behind when they
    fail takes its place. Raises OutputError when the folder is another's, in use or not writable.
    """
    check_folder(folder, kind, force=force or resume)
    real = real_folder(folder)
    with parents_of(real, folder), hold_lock(real):
        restore_older(real)
        check_folder(folder, kind, force=force or resume)
        existed = real.is_dir()
        claimed = _begin(folder, real, kind, resume=resume)
        is_kept = False
        try:
            yield claimed
        except BaseException as error:
            if isinstance(error, NsysprofError):
                name_final_folder(error, claimed.path, claimed.folder)
            if kind.is_slow and not claimed.is_committed and (claimed.path / kind.proof).exists():
                claimed.commit()
            is_kept = kind.goes_on
            raise
        finally:
            if not claimed.is_committed and claimed.path == real:
                _remove_state_if_unused(real, existed=existed)
            elif not (claimed.is_committed or is_kept):
                shutil.rmtree(claimed.path, ignore_errors=True)


@contextmanager
def parents_of(real: Path, folder: Path) -> Iterator[None]:
    """Make the folders above; those that nothing came into go again."""
    missing = [parent for parent in real.parents if not parent.exists()]
    try:
        real.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise output_error(folder, error) from error
    try:
        yield
    finally:
        for parent in missing:
            with contextlib.suppress(OSError):  # not empty
                parent.rmdir()


def _begin(folder: Path, real: Path, kind: FolderKind, *, resume: bool) -> ClaimedFolder:
    try:
        leftovers = find_leftovers(real)
        path, goes_on = _place(real, kind, leftovers, resume=resume)
        for leftover in leftovers:
            if leftover != path:
                remove_path(leftover)
        if path == real:
            write_state(real, kind, [], whole=False)
        if resume and not goes_on and (real / kind.proof).is_file():  # else nothing was measured yet
            shutil.copy2(real / kind.proof, path / kind.proof)
    except OSError as error:
        raise output_error(folder, error) from error
    return ClaimedFolder(folder, path, kind, goes_on=goes_on)


def _remove_state_if_unused(real: Path, *, existed: bool) -> None:
    """Remove the state of a folder in which a run wrote nothing, so that it is not taken for an incomplete result."""
    with contextlib.suppress(OSError):
        if [path.name for path in real.iterdir()] == [STATE]:
            (real / STATE).unlink()
            if not existed:
                real.rmdir()


def _place(real: Path, kind: FolderKind, leftovers: list[Path], *, resume: bool) -> tuple[Path, bool]:
    """Return the folder to write into, and whether an earlier run has begun it."""
    if resume or kind.goes_on:
        for leftover in leftovers:
            if leftover.name.endswith(PART) and (kind.goes_on or (leftover / kind.proof).is_file()):
                return leftover, True
    state = read_state(real)
    inside = {path.name for path in real.iterdir()} - {STATE} if real.is_dir() else set()
    if kind.is_slow and not resume and (not inside or (state is not None and is_barely_begun(state, kind, inside))):
        real.mkdir(exist_ok=True)
        return real, bool(inside)
    if real.is_dir() and must_stay(real):
        return _make(real, real.name), False
    return _make(real.parent, real.name), False


def _make(parent: Path, name: str) -> Path:
    while True:
        path = parent / f".{name[:100]}.{secrets.token_hex(8)}.{PART}"
        with contextlib.suppress(FileExistsError):
            path.mkdir()
            return path


def exchange_paths(first: Path, second: Path) -> bool:
    """Exchange two folders of one file system, and return whether the system supports that."""
    renameat2 = _renameat2()
    if renameat2 is None:
        return False
    paths = (os.fsencode(first), os.fsencode(second))
    return bool(renameat2(_AT_FDCWD, paths[0], _AT_FDCWD, paths[1], _RENAME_EXCHANGE) == 0)


@cache
def _renameat2() -> Any:
    """Return the C library's function; None where it has none, as on macOS and Windows."""
    try:
        function = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError, TypeError):
        return None
    function.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint]
    function.restype = ctypes.c_int
    return function


def put_in_place(path: Path, real: Path, kind: FolderKind, written_at: Path | None = None) -> None:
    """Let the folder `path`, which may be `real` itself, take the place of an older result. Raises OSError.

    written_at: the path that our own records name, where `path` has been renamed since.
    """
    _name_final_paths(path, real, kind, written_at or path)
    made = sorted(entry.name for entry in path.iterdir())
    if path.parent == real:
        _move_over(path, real, kind, made)
    elif path != real:
        _exchange(path, real, kind, made)
    else:
        write_state(real, kind, made, whole=True)


def must_stay(real: Path) -> bool:
    """Return whether the folder cannot be exchanged: a mount, the current folder, or inside a read-only folder."""
    here = Path(os.path.realpath("."))
    is_other_disk = real.stat().st_dev != real.parent.stat().st_dev
    is_in_use = Path(os.path.realpath(real)) in (here, *here.parents)
    return is_other_disk or os.path.ismount(real) or is_in_use or not os.access(real.parent, os.W_OK)


def restore_older(real: Path) -> None:
    """Put the older folder back where a run was killed between setting it aside and replacing it."""
    if not os.path.lexists(real):
        for leftover in find_leftovers(real):
            if leftover.name.endswith(OLD):
                with contextlib.suppress(OSError):
                    leftover.rename(real)
                return


def name_final_folder(error: NsysprofError, path: Path, folder: Path) -> None:
    """Change an error so that it names the folder as the user knows it, and not where it was written."""
    error.text = error.text.replace(str(path), str(folder))
    error.next_step = error.next_step.replace(str(path), str(folder))
    error.args = (error.text,)


def remove_path(path: Path) -> None:
    """Remove a file, a folder or a symbolic link. The target of a link is kept."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _exchange(path: Path, real: Path, kind: FolderKind, made: list[str]) -> None:
    write_state(path, kind, made, whole=True)
    if not real.exists():
        path.rename(real)
        return
    _keep_foreign(real, path, kind)
    path.chmod(real.stat().st_mode & 0o7777)
    if not exchange_paths(path, real):
        aside = path.with_name(path.name.replace(PART, OLD))
        real.rename(aside)  # killed here, the next run puts it back
        path.rename(real)
        path = aside
    shutil.rmtree(path, ignore_errors=True)


def _move_over(path: Path, real: Path, kind: FolderKind, made: list[str]) -> None:
    """Replace the content of a folder that must stay itself, file by file; it is not complete until the end."""
    ours = _own_names(real, kind)
    write_state(real, kind, sorted(ours | set(made)), whole=False)
    for old in list(real.iterdir()):
        is_ours = old.name in ours and old.name != STATE and old != path
        if is_ours or (old.name in made and old.is_dir()):
            remove_path(old)
    for name in made:
        (path / name).rename(real / name)
    path.rmdir()
    write_state(real, kind, made, whole=True)


def _keep_foreign(real: Path, path: Path, kind: FolderKind) -> None:
    """Bring the user's own files along, as links to the same data, so that the older folder stays whole meanwhile."""
    ours = _own_names(real, kind)
    for entry in real.iterdir():
        target = path / entry.name
        if entry.name in ours or os.path.lexists(target):
            continue
        if entry.is_dir() and not entry.is_symlink():
            shutil.copytree(entry, target, symlinks=True, copy_function=_link)
        else:
            _link(str(entry), str(target))


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target, follow_symlinks=False)
    except (OSError, NotImplementedError):  # the folders are on different disks, or the system has no links
        shutil.copy2(source, target, follow_symlinks=False)


def _own_names(folder: Path, kind: FolderKind) -> set[str]:
    state = read_state(folder) or {}
    listed = state.get("files")
    names = {name for name in listed if isinstance(name, str)} if isinstance(listed, list) else set()
    present = [path.name for path in folder.iterdir()]
    by_pattern = {name for name in present if any(fnmatch.fnmatchcase(name, pattern) for pattern in kind.files)}
    return names | by_pattern | {STATE} | {name for name in present if is_leftover_inside(name)}


def _name_final_paths(path: Path, real: Path, kind: FolderKind, written_at: Path) -> None:
    """Write the folder's final path into our own records of the run."""
    for name in kind.with_paths:
        file = path / name
        if written_at != real and file.is_file():
            old, new = (json.dumps(str(each))[1:-1] for each in (written_at, real))
            write_whole(file, file.read_text(encoding="utf-8").replace(old, new).encode())


@dataclass
class JointFolder:
    """A folder that the processes of one job write.

    path: where to write, which may be `folder` itself.
    is_restarted: whether `path` has files of an earlier attempt of this process, which it may replace.
    is_complete: whether every process of the job has ended and the folder is in its place; known at the end.
    is_left: whether this was the last running process while others are missing, so that an older result stays.
    """

    folder: Path
    path: Path
    is_restarted: bool
    is_complete: bool = False
    is_left: bool = False

    def final(self, paths: Iterable[Path]) -> tuple[Path, ...]:
        """Return where files that were written into `path` are now."""
        return tuple(self.folder / path.relative_to(self.path) if self.is_complete else path for path in paths)


@contextmanager
def join_folder(
    folder: Path,
    kind: FolderKind,
    job: str,
    *,
    force: bool,
    is_taken: Callable[[Path], bool],
    has_all: Callable[[Path], bool],
) -> Iterator[JointFolder]:
    """Yield where this process of `job` writes. The last process puts the folder in its place. Raises OutputError.

    is_taken: returns whether a folder has files of an earlier run of this very process.
    has_all: returns whether a folder has what every process of the job leaves.
    """
    real, mark = real_folder(folder), f".{_hash(job)}.{MARK}"
    with parents_of(real, folder), join_lock(real) as lock:
        try:
            joint = _enter(folder, real, kind, mark, lock, force=force, is_taken=is_taken)
        except OSError as error:
            raise output_error(folder, error) from error
        try:
            yield joint
        except NsysprofError as error:
            _leave(joint, real, kind, mark, lock, has_all)
            if joint.is_complete:
                name_final_folder(error, joint.path, folder)
            raise
        _leave(joint, real, kind, mark, lock, has_all)


def _enter(
    folder: Path,
    real: Path,
    kind: FolderKind,
    mark: str,
    lock: JointLock,
    *,
    force: bool,
    is_taken: Callable[[Path], bool],
) -> JointFolder:
    is_first = lock.is_alone is not False  # where there are no locks, each may be the first
    if is_first:
        restore_older(real)
    ours = (real / mark).exists()
    if not ours:
        check_folder(folder, kind, force=force)
    beside = _beside(real, mark)
    aside: list[Path] = []
    if lock.is_alone and beside.exists() and is_taken(beside):  # the same job was killed and begins again
        aside.append(_set_aside(beside))
    if beside.exists():
        path = beside
    elif ours and not (force and lock.is_alone and is_taken(real)):
        path = real
    elif not is_first:
        raise OutputError(f"Another run is writing {folder}.", "Wait until it ends, or choose another output.")
    else:
        path = beside if _is_occupied(real) else real
    path.mkdir(parents=True, exist_ok=True)
    (path / mark).touch()
    # By its mark, what a killed job has left in an older folder is known as ours.
    kept = {path, path / mark, *(real.glob(f".*.{MARK}") if path != real else ())}
    leftovers = [each for each in find_leftovers(real) if each not in kept] if is_first else []
    lock.share()
    for leftover in dict.fromkeys([*aside, *leftovers]):  # nobody needs these, so this may take its time
        remove_path(leftover)
    return JointFolder(folder, path, is_taken(path))


def _leave(
    joint: JointFolder, real: Path, kind: FolderKind, mark: str, lock: JointLock, has_all: Callable[[Path], bool]
) -> None:
    """Complete the folder where this is the last process of the job. Raises OutputError."""
    if not lock.try_alone():
        return
    try:
        if not (joint.path / mark).exists():  # where there are no locks, another one may have been quicker
            joint.is_complete = True
            return
        if not has_all(joint.path):
            joint.is_left = joint.path != real
            return
        path = joint.path
        if path != real:
            # A random name, so that the remains of a killed job are never taken for a job that is still running.
            path = _set_aside(path)
        (path / mark).unlink()
        put_in_place(path, real, kind, written_at=joint.path)
    except OSError as error:
        raise output_error(joint.folder, error) from error
    joint.is_complete = True


def _beside(real: Path, mark: str) -> Path:
    """Return the folder in which the job writes while there is an older result; the same for all its processes."""
    name = f".{real.name[:100]}{mark.removesuffix(MARK)}{PART}"
    places = (real.parent / name, real / name)
    existing = next((place for place in places if place.exists()), None)
    return existing or places[real.is_dir() and must_stay(real)]


def _set_aside(path: Path) -> Path:
    """Give a job's folder a random name, under which the next run finds and removes it."""
    head = path.name.removesuffix(f".{PART}").rpartition(".")[0]
    other = path.with_name(f"{head}.{secrets.token_hex(8)}.{PART}")
    path.rename(other)
    return other


def _is_occupied(real: Path) -> bool:
    if not real.is_dir():
        return False
    if read_state(real) is not None:
        return True
    return not all(is_leftover_inside(path.name) for path in real.iterdir())


def _hash(job: str) -> str:
    return hashlib.sha256(job.encode()).hexdigest()[:16]
