import gzip
import lzma
import time

import pytest

from nsysprof.errors import OutputError, TraceDamagedError, TraceForeignError
from nsysprof.trace.inputs import resolve_input as unpacking
from nsysprof.trace.inputs.resolve_input import unpack, zstd

PACKERS = {".xz": lzma.compress, ".gz": gzip.compress, ".zst": zstd.compress}
DATA = b"SQLite format 3\0" * 1000


@pytest.fixture(params=PACKERS)
def packed(request, tmp_path):
    path = tmp_path / f"t.sqlite{request.param}"
    path.write_bytes(PACKERS[request.param](DATA))
    return path


@pytest.fixture
def work(tmp_path):
    (tmp_path / "work").mkdir()
    return tmp_path / "work"


def test_several_streams_in_one_file_are_one_trace(packed, work):
    packed.write_bytes(packed.read_bytes() * 2)
    assert unpack(packed, work).read_bytes() == DATA * 2


def test_a_truncated_file_is_damaged(packed, work):
    packed.write_bytes(packed.read_bytes()[:-6])
    with pytest.raises(TraceDamagedError, match="damaged or truncated"):
        unpack(packed, work)


def test_more_than_any_trace_unpacks_to_is_refused_and_removed(packed, work, monkeypatch):
    monkeypatch.setattr(unpacking, "MAX_FREE_BYTES", 100)
    monkeypatch.setattr(unpacking, "_MOST_TIMES", 2)
    with pytest.raises(TraceForeignError, match="by about ten times"):
        unpack(packed, work)
    assert list(work.iterdir()) == []


@pytest.mark.parametrize("suffix", [".gz", ".xz", ".zst"])
def test_a_small_file_that_unpacks_to_hundreds_of_megabytes_is_refused_early(tmp_path, work, suffix):
    """1.6 MB that unpacked to 390 MB took a minute."""
    path = tmp_path / f"t.sqlite{suffix}"
    pack = {".gz": gzip.compress, ".xz": lzma.compress, ".zst": zstd.compress}[suffix]
    path.write_bytes(pack(bytes(range(256)) * 200_000))
    with pytest.raises(TraceForeignError, match="unpacks to more than 32 MiB, 40 times its size"):
        unpack(path, work)


def test_a_disk_that_is_too_small_is_not_filled(packed, work, monkeypatch):
    monkeypatch.setattr(unpacking, "_SHARE_OF_DISK", 0.0)
    with pytest.raises(OutputError, match="than the disk has room for"):
        unpack(packed, work)
    assert list(work.iterdir()) == []


@pytest.mark.parametrize(("suffix", "empty"), [(".zst", zstd.compress(b"")), (".xz", lzma.compress(b""))])
def test_thousands_of_empty_parts_are_refused_at_once(tmp_path, work, suffix, empty):
    """Each took some 50 us: 9 MB of them took 98 s."""
    path = tmp_path / f"e.sqlite{suffix}"
    path.write_bytes(empty * 100_000)
    begun = time.process_time()
    with pytest.raises(TraceForeignError, match="thousands of tiny streams"):
        unpack(path, work)
    assert time.process_time() - begun < 2
    assert list(work.iterdir()) == []
