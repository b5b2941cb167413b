import errno
import os
from pathlib import Path

import pytest

from nsysprof.errors import OutputError
from nsysprof.output import open_whole, output_error, write_whole


def test_a_failed_write_leaves_the_old_file_whole_and_nothing_beside_it(tmp_path, monkeypatch):
    target = write_whole(tmp_path / "f", b"old")
    real = Path.write_bytes

    def full(self, data):
        real(self, data[:1])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "write_bytes", full)
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
