"""Write a result folder beside the older one and exchange the two at the end, so that a kill leaves one of them.

A run holds a lock file beside its folder, and writes into a sibling with a random name. `folder.json` is written last
and says that the folder is complete. What a killed run left is removed when the next one begins. Only a run that
measures for hours may write into a new folder directly; `folder.json` then says that it is not complete yet.
"""

from __future__ import annotations

import contextlib
import secrets
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from nsysprof.errors import NsysprofError
from nsysprof.files.folder_exchange import must_stay, name_final_folder, put_in_place, remove_path, restore_older
from nsysprof.files.folder_lock import hold_lock
from nsysprof.files.folder_state import (
    PART,
    STATE,
    FolderKind,
    check_folder,
    find_leftovers,
    is_barely_begun,
    read_state,
    real_folder,
    write_state,
)
from nsysprof.files.output import output_error


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
