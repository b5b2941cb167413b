import errno
import os
from pathlib import Path

import pytest

from nsysprof.capture.folder import prepare_folder, remove_work
from nsysprof.errors import OutputError


def test_a_folder_gets_what_a_capture_needs_and_nothing_of_an_earlier_run(tmp_path):
    (tmp_path / ".work").mkdir()
    (tmp_path / ".work" / "stop").touch()
    prepare_folder(tmp_path)
    assert not (tmp_path / ".work" / "stop").exists()
    remove_work(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["logs"]


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs a folder that no user can write")
def test_a_folder_that_cannot_be_written():
    with pytest.raises(OutputError, match="cannot be written"):
        prepare_folder(Path("/proc/self/capture"))


def test_a_full_disk_is_named(tmp_path, monkeypatch):
    def full(*_args):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(OutputError, match="No space left"):
        prepare_folder(tmp_path)
