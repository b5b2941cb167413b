import errno
import os
import secrets
from pathlib import Path

import pytest

from nsysprof.errors import OutputError
from nsysprof.files.plain_file import open_whole, output_error, write_whole


def test_a_failed_write_leaves_the_old_file_whole_and_nothing_beside_it(tmp_path, monkeypatch):
    target = write_whole(tmp_path / "f", b"old")
    real = os.fdopen

    def full(descriptor, mode):
        stream = real(descriptor, mode)
        stream.write(b"n")
        stream.close()
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fdopen", full)
    with pytest.raises(OutputError, match="No space left"):
        write_whole(target, b"new")
    assert target.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [target]


@pytest.mark.parametrize("code", [errno.EACCES, errno.EROFS, errno.EIO])
def test_other_failures_name_the_path_and_the_cause(code):
    error = output_error(Path("x/y"), OSError(code, os.strerror(code)))
    assert "x/y cannot be written" in error.text
    assert os.strerror(code) in error.text
    assert "--out" in error.next_step


def test_a_stream_takes_the_place_of_the_file_at_its_end_or_never(tmp_path):
    target = tmp_path / "out.bin"
    with open_whole(target) as stream:
        stream.write(b"new")
        assert not target.exists()
    assert target.read_bytes() == b"new"
    with pytest.raises(KeyboardInterrupt), open_whole(target) as stream:
        stream.write(b"half")
        raise KeyboardInterrupt
    with pytest.raises(OutputError), open_whole(target) as stream:
        raise OSError(errno.ENOSPC, "No space left on device")
    assert target.read_bytes() == b"new"
    assert [path.name for path in tmp_path.iterdir()] == ["out.bin"]


def test_a_link_planted_beside_a_file_is_not_written_through(tmp_path):
    (tmp_path / "thesis").write_bytes(b"years")
    for name in (".out.csv.part", ".out.csv"):
        (tmp_path / name).symlink_to("thesis")
    write_whole(tmp_path / "out.csv", b"new")
    assert (tmp_path / "thesis").read_bytes() == b"years"
    (tmp_path / "link.csv").symlink_to("thesis")
    write_whole(tmp_path / "link.csv", b"new")  # the link itself is replaced
    assert (tmp_path / "thesis").read_bytes() == b"years"


def test_a_scratch_file_of_a_known_name_is_not_opened(tmp_path, monkeypatch):
    names = iter(["00", "11"])
    monkeypatch.setattr(secrets, "token_hex", lambda _bytes: next(names))
    (tmp_path / "thesis").write_bytes(b"years")
    (tmp_path / ".f.00.part").symlink_to("thesis")
    write_whole(tmp_path / "f", b"new")
    assert (tmp_path / "thesis").read_bytes() == b"years"
    assert (tmp_path / "f").read_bytes() == b"new"
