"""Replace an older folder by a new one, so that a kill leaves one of the two, and keep the user's own files."""

from __future__ import annotations

import contextlib
import fnmatch
import json
import os
import shutil
from pathlib import Path

from nsysprof.errors import NsysprofError
from nsysprof.files.exchange_paths import exchange_paths
from nsysprof.files.folder_state import (
    OLD,
    PART,
    STATE,
    FolderKind,
    find_leftovers,
    is_leftover_inside,
    read_state,
    write_state,
)
from nsysprof.files.output import write_whole


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
