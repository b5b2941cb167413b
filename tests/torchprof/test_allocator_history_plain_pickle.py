"""A pickle of plain containers is read as Python reads it; one that could do anything else is refused unrun."""

import os
import pickle
import struct
from collections import OrderedDict
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nsysprof.errors import TraceDamagedError, TraceEmptyError, TraceError, TraceForeignError
from nsysprof.torchprof import allocator_history
from nsysprof.torchprof.allocator_history import read_plain_pickle

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**100), 2**100) | st.floats(allow_nan=False) | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(st.text(), inner),
    max_leaves=12,
)


def write(folder, data):
    path = folder / "s.pickle"
    path.write_bytes(data)
    return path


@settings(max_examples=40, deadline=None)
@given(value=PLAIN, protocol=st.integers(3, pickle.HIGHEST_PROTOCOL))
def test_plain_containers_are_read_as_python_reads_them(tmp_path_factory, value, protocol):
    path = write(tmp_path_factory.getbasetemp(), pickle.dumps(value, protocol=protocol))
    assert read_plain_pickle(path) == value


class Bomb:
    def __reduce__(self):
        return os.system, ("touch ran",)


def persistent() -> bytes:
    return b"\x80\x02X\x01\x00\x00\x00aQ."


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(pickle.dumps(Bomb()), id="reduce"),
        pytest.param(pickle.dumps({"segments": [Bomb()]}, protocol=2), id="reduce inside, protocol 2"),
        pytest.param(pickle.dumps(OrderedDict(a=1)), id="a harmless class too"),
        pytest.param(pickle.dumps(os.system), id="global"),
        pytest.param(persistent(), id="persistent id"),
        pytest.param(b"\x80\x02\x82\x01.", id="extension registry"),
        pytest.param(b"\x80\x05}\x97.", id="out-of-band buffer"),
        pytest.param(b"\x80\x02cos\nsystem\n(X\x04\x00\x00\x00truetR.", id="hand-written"),
        pytest.param(b"\x80\x04})" + b"\x85" * 250_000 + b"K\x01s.", id="a key of tuples in tuples"),
        pytest.param(
            b"\x80\x04}(" + b"\x8a\x0c" + ((1 << 61) - 1 << 9).to_bytes(12, "little") + b"Nu.", id="keys that collide"
        ),
        pytest.param(b"\x80\x04()K\x01d.", id="a tuple as key, by DICT"),
        pytest.param(b"\x80\x02\x8b" + struct.pack("<i", 1 << 20) + b"\x01" * (1 << 20) + b".", id="huge integer"),
    ],
)
def test_what_could_run_anything_is_refused(tmp_path: Path, monkeypatch, data):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(TraceForeignError, match="It was not run"):
        read_plain_pickle(write(tmp_path, data))
    assert not (tmp_path / "ran").exists()


def test_a_large_memo_index_takes_no_memory(tmp_path: Path):
    """Python's unpickler in C would allocate 16 GiB here."""
    data = b"\x80\x02]r" + struct.pack("<I", (1 << 31) - 1) + b"."
    assert read_plain_pickle(write(tmp_path, data)) == []


def test_too_many_objects_and_too_large_files_are_refused(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(allocator_history, "MOST_OBJECTS", 50)
    with pytest.raises(TraceForeignError, match="more than 50 objects"):
        read_plain_pickle(write(tmp_path, b"\x80\x02]" + b"]" * 60 + b"."))
    monkeypatch.setattr(allocator_history, "MOST_BYTES", 10)
    with pytest.raises(TraceError, match="at most 10"):
        read_plain_pickle(write(tmp_path, pickle.dumps(list(range(100)))))


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b"", TraceEmptyError),
        (b"SQLite format 3\0", TraceForeignError),
        (b"\x80\x04\x95", TraceDamagedError),
        (b"\x80\x02}]K\x01s.", TraceForeignError),  # a list as a key
        (b"\x80\x02a.", TraceDamagedError),
        (b"\x80\xff.", TraceDamagedError),
    ],
)
def test_damage_is_an_error_of_ours(tmp_path: Path, data, error):
    with pytest.raises(error):
        read_plain_pickle(write(tmp_path, data))


def test_every_truncation_and_flipped_byte_is_an_error_of_ours_or_plain(tmp_path: Path):
    whole = pickle.dumps({"segments": [{"a": (1, 2.5, None, True)}], "t": [["x" * 300] * 3]})
    for at in range(len(whole)):
        for data in (whole[:at], whole[:at] + bytes([whole[at] ^ 0x55]) + whole[at + 1 :]):
            try:
                read_plain_pickle(write(tmp_path, data))
            except TraceError:
                continue
