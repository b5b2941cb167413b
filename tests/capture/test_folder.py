import errno
import os
from pathlib import Path

import pytest

from nsysprof.capture.folder import prepare_folder, remove_work
from nsysprof.errors import OutputError


def test_a_new_folder_is_made_with_its_parents(tmp_path):
    prepare_folder(tmp_path / "a" / "b", force=False)
    assert (tmp_path / "a" / "b" / "logs").is_dir()
    remove_work(tmp_path / "a" / "b")
    assert sorted(path.name for path in (tmp_path / "a" / "b").iterdir()) == ["logs"]


def test_an_older_capture_is_replaced_only_with_force_and_strangers_stay(tmp_path):
    (tmp_path / "manifest.json").write_text("{}")
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(OutputError, match="already holds a capture") as caught:
        prepare_folder(tmp_path, force=False)
    assert "--force" in caught.value.next_step
    assert (tmp_path / "manifest.json").exists()
    prepare_folder(tmp_path, force=True)
    assert not (tmp_path / "manifest.json").exists()
    assert (tmp_path / "notes.txt").read_text() == "mine"


@pytest.mark.parametrize("force", [True, False])
def test_a_folder_of_other_things_is_never_taken(tmp_path, force):
    (tmp_path / "thesis.tex").write_text("years")
    with pytest.raises(OutputError, match="not a capture of ours"):
        prepare_folder(tmp_path, force=force)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_file_is_not_a_folder(tmp_path):
    (tmp_path / "x").write_text("")
    with pytest.raises(OutputError, match="is a file"):
        prepare_folder(tmp_path / "x", force=True)
    with pytest.raises(OutputError, match="cannot be written"):
        prepare_folder(tmp_path / "x" / "y", force=True)


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs a folder that no user can write")
def test_a_folder_that_cannot_be_written():
    with pytest.raises(OutputError, match="cannot be written"):
        prepare_folder(Path("/proc/self/capture"), force=False)


def test_a_full_disk_is_named(tmp_path, monkeypatch):
    def full(*_args):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(OutputError, match="No space left"):
        prepare_folder(tmp_path / "new", force=False)
