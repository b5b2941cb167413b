"""Let the processes of one job write one result folder together, and complete it when all have ended.

The processes start and end at any time, on several hosts. They share a lock, and a folder that is named after the job.
Without an older result they write into the folder itself. With one, they write into a sibling, and the last process
puts it in the older folder's place, so that killing any of them leaves the older result intact.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from nsysprof.errors import NsysprofError, OutputError
from nsysprof.files.folder_lock import JointLock, join_lock
from nsysprof.files.folder_state import (
    MARK,
    PART,
    FolderKind,
    check_folder,
    find_leftovers,
    is_leftover_inside,
    read_state,
    real_folder,
)
from nsysprof.files.output import output_error
from nsysprof.files.result_folder import (
    must_stay,
    name_final_folder,
    parents_of,
    put_in_place,
    remove_path,
    restore_older,
)


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
