"""Write a result folder beside the older one and exchange the two at the end, so that a kill leaves one of them.

A run holds a lock file beside its folder, and writes into a sibling with a random name. `folder.json` is written last
and says that the folder is complete. What a killed run left is removed when the next one begins. Only a run that
measures for hours may write into a new folder directly; `folder.json` then says that it is not complete yet.
"""

from __future__ import annotations

import contextlib
import fnmatch
import json
import os
import re
import secrets
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from nsysprof.errors import NsysprofError, OutputError, TraceError
from nsysprof.files.exchange_paths import exchange_paths
from nsysprof.files.folder_lock import hold_lock
from nsysprof.files.output import output_error, write_whole
from nsysprof.files.plain_file import read_plain_text
from nsysprof.files.written_by import VERSION

FORMAT_VERSION = 1
STATE = "folder.json"
PART, _OLD = "nsysprof-part", "nsysprof-old"
# The end of the name of a file in a folder that a job has begun and not completed; joint_folder makes it.
MARK = "nsysprof-job"


@dataclass(frozen=True)
class FolderKind:
    """One kind of result folder."""

    # The name in folder.json, such as "analysis", and the article before it.
    name: str
    article: str
    # The file by which a folder of this kind is recognised that has no folder.json.
    proof: str
    # Patterns of files that older versions wrote. Whatever else is in a folder belongs to the user and stays.
    files: tuple[str, ...]
    # A file that the folder must not have.
    unless: str = ""
    # Whether a run may take hours, so that what it has measured is kept when it fails.
    is_slow: bool = False
    # Whether a run continues what a killed one has left.
    goes_on: bool = False
    # JSON files that name paths inside the folder.
    with_paths: tuple[str, ...] = ()


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
                _forget_if_unused(real, existed=existed)
            elif not (claimed.is_committed or is_kept):
                shutil.rmtree(claimed.path, ignore_errors=True)


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


def check_folder(folder: Path, kind: FolderKind, *, force: bool) -> None:
    """Raise OutputError unless `folder` is free, or holds an older result of this kind and `force` is given."""
    try:
        if folder.exists() and not folder.is_dir():
            raise OutputError(f"{folder} is a file.", "Choose another folder with --out.")
        names = {path.name for path in folder.iterdir()} - {STATE} if folder.is_dir() else set()
    except OSError as error:
        raise output_error(folder, error) from error
    state = read_state(folder)
    names = {name for name in names if not is_leftover_inside(name)}
    if not names or (state is not None and _is_barely_begun(state, kind, names)):
        return
    if not _is_ours(folder, kind, state):
        raise OutputError(
            f"{folder} exists, and nsysprof did not write it as {kind.article} {kind.name}.",
            "Choose another folder with --out.",
        )
    if force:
        return
    if state is not None and not state.get("whole"):
        raise OutputError(
            f"{folder} holds {kind.article} {kind.name} that did not end.",
            "Give --force to replace it, or another folder with --out.",
        )
    raise OutputError(
        f"{folder} already holds {kind.article} {kind.name}.",
        "Give --force to replace it, or another folder with --out.",
    )


def read_state(folder: Path) -> dict[str, object] | None:
    """Return what folder.json says, or None where there is none that can be read, as in folders of older versions."""
    try:
        data = json.loads(read_plain_text(folder / STATE))
    except (OSError, ValueError, RecursionError):
        return None
    return data if isinstance(data, dict) else None


def require_whole(folder: Path) -> None:
    """Raise TraceError for a folder whose run was killed or has not ended yet."""
    state = read_state(folder)
    if state is not None and state.get("whole") is not True:
        raise TraceError(
            f"{folder} is incomplete: the run that writes it has not ended, or was killed.",
            "Wait until the run ends, or run it again with --force.",
        )


def find_leftovers(folder: Path) -> list[Path]:
    """Return what killed runs left beside the folder or in it, the newest first."""
    real = real_folder(folder)
    name = re.compile(rf"\.{re.escape(real.name[:100])}\.[0-9a-f]{{16}}\.({PART}|{_OLD})")
    try:
        found = [path for path in real.parent.iterdir() if name.fullmatch(path.name)]
        if real.is_dir():
            found += [path for path in real.iterdir() if is_leftover_inside(path.name)]
        return sorted(found, key=lambda path: path.lstat().st_mtime_ns, reverse=True)
    except OSError:
        return []


def _begin(folder: Path, real: Path, kind: FolderKind, *, resume: bool) -> ClaimedFolder:
    try:
        leftovers = find_leftovers(real)
        path, goes_on = _place(real, kind, leftovers, resume=resume)
        for leftover in leftovers:
            if leftover != path:
                remove_path(leftover)
        if path == real:
            write_state(real, kind, [], whole=False)
        if resume and not goes_on:
            shutil.copy2(real / kind.proof, path / kind.proof)
    except OSError as error:
        raise output_error(folder, error) from error
    return ClaimedFolder(folder, path, kind, goes_on=goes_on)


def _forget_if_unused(real: Path, *, existed: bool) -> None:
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
    if kind.is_slow and not resume and (not inside or (state is not None and _is_barely_begun(state, kind, inside))):
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


def must_stay(real: Path) -> bool:
    """Return whether the folder cannot be exchanged: a mount, the current folder, or inside a read-only folder."""
    here = Path(os.path.realpath("."))
    is_other_disk = real.stat().st_dev != real.parent.stat().st_dev
    is_in_use = Path(os.path.realpath(real)) in (here, *here.parents)
    return is_other_disk or os.path.ismount(real) or is_in_use or not os.access(real.parent, os.W_OK)


def _exchange(path: Path, real: Path, kind: FolderKind, made: list[str]) -> None:
    write_state(path, kind, made, whole=True)
    if not real.exists():
        path.rename(real)
        return
    _keep_foreign(real, path, kind)
    path.chmod(real.stat().st_mode & 0o7777)
    if not exchange_paths(path, real):
        aside = path.with_name(path.name.replace(PART, _OLD))
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
    except (OSError, NotImplementedError):  # another disk, or a system without links
        shutil.copy2(source, target, follow_symlinks=False)


def _own_names(folder: Path, kind: FolderKind) -> set[str]:
    state = read_state(folder) or {}
    listed = state.get("files")
    names = {name for name in listed if isinstance(name, str)} if isinstance(listed, list) else set()
    present = [path.name for path in folder.iterdir()]
    by_pattern = {name for name in present if any(fnmatch.fnmatchcase(name, pattern) for pattern in kind.files)}
    return names | by_pattern | {STATE} | {name for name in present if is_leftover_inside(name)}


def write_state(folder: Path, kind: FolderKind, files: list[str], *, whole: bool) -> None:
    data = {
        "format_version": FORMAT_VERSION,
        "nsysprof_version": VERSION,
        "kind": kind.name,
        "whole": whole,
        "files": [name for name in files if name != STATE],
    }
    write_whole(folder / STATE, (json.dumps(data, indent=1) + "\n").encode())


def _is_ours(folder: Path, kind: FolderKind, state: dict[str, object] | None) -> bool:
    if state is not None and "kind" in state:
        return state["kind"] == kind.name
    is_begun = any(path.name.endswith(f".{MARK}") for path in folder.iterdir())
    return (is_begun or (folder / kind.proof).exists()) and not (kind.unless and (folder / kind.unless).exists())


def _is_barely_begun(state: dict[str, object], kind: FolderKind, names: set[str]) -> bool:
    """Return whether a run ended before it had anything to keep."""
    return state.get("whole") is False and state.get("kind") == kind.name and kind.proof not in names


def is_leftover_inside(name: str) -> bool:
    return name.startswith(".") and name.endswith((f".{PART}", f".{MARK}"))


def restore_older(real: Path) -> None:
    """Put the older folder back where a run was killed between setting it aside and replacing it."""
    if not os.path.lexists(real):
        for leftover in find_leftovers(real):
            if leftover.name.endswith(_OLD):
                with contextlib.suppress(OSError):
                    leftover.rename(real)
                return


def _name_final_paths(path: Path, real: Path, kind: FolderKind, written_at: Path) -> None:
    """Write the folder's final path into our own records of the run."""
    for name in kind.with_paths:
        file = path / name
        if written_at != real and file.is_file():
            old, new = (json.dumps(str(each))[1:-1] for each in (written_at, real))
            write_whole(file, file.read_text(encoding="utf-8").replace(old, new).encode())


def name_final_folder(error: NsysprofError, path: Path, folder: Path) -> None:
    """Let an error name the folder as the user knows it, and not where it was written."""
    error.text = error.text.replace(str(path), str(folder))
    error.next_step = error.next_step.replace(str(path), str(folder))
    error.args = (error.text,)


def real_folder(folder: Path) -> Path:
    """Return where the folder is, spelled as the user wrote it where that means the same: other machines may see it."""
    if folder.is_symlink() or ".." in folder.parts:
        return Path(os.path.realpath(folder))
    return folder.absolute()


def remove_path(path: Path) -> None:
    """Remove a file, a folder or a symbolic link. The target of a link is kept."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
