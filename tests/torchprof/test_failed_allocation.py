"""What a snapshot says of a failed allocation is checked before it is believed."""

import pickle

import pytest

from nsysprof.errors import TraceDamagedError
from nsysprof.torchprof.allocator_history import read_allocator_history
from nsysprof.torchprof.failed_allocation import read_failure
from tests.builders.allocator_snapshot import SnapshotBuilder


def failed(**facts):
    builder = SnapshotBuilder()
    builder.alloc(100)
    builder.fail(7, 3, **({"rank": "2"} | facts))
    return builder.snapshot()


def test_a_failure_is_read():
    failure, event = read_failure(failed(tensors=[("held", "", 5, 4)]))
    assert failure is not None
    assert (failure.asked_bytes, failure.rank, failure.world_size) == (7, 2, None)
    assert failure.tensors is not None
    assert failure.tensors[0].kind == "held"
    assert event["action"] == "oom"
    assert read_failure(SnapshotBuilder().snapshot()) == (None, {})


@pytest.mark.parametrize("rank", ["", "-1", "1e3", "9" * 40, 5, None, "\u0665"])
def test_a_rank_that_is_none(rank):
    failure, _ = read_failure(failed(rank=rank))
    assert failure is not None
    assert failure.rank is None


@pytest.mark.parametrize(
    "facts",
    [
        {"device": 1 << 20}, {"device": -1}, {"asked_bytes": "7"}, {"asked_bytes": 1 << 61}, {"failure": 1.5},
        {"tensors": [("code", "", 1, 1)]}, {"tensors": [1]}, {"tensors": [("held", "", -1, 1)]}, {"tensors": 5},
        {"tensors": [("held", "", 1, 1)] * 200_001}, {"losses": "many"},
    ],
)  # fmt: skip
def test_what_no_program_writes_is_damaged(tmp_path, facts):
    (tmp_path / "s.pickle").write_bytes(pickle.dumps(failed(**facts)))
    with pytest.raises(TraceDamagedError):
        read_allocator_history(tmp_path / "s.pickle")
    (tmp_path / "s.pickle").write_bytes(pickle.dumps(failed() | {"nsysprof_failure": 5}))
    with pytest.raises(TraceDamagedError):
        read_allocator_history(tmp_path / "s.pickle")
