"""Snapshots of every form that torch wrote are read; others are refused."""

import pickle

import pytest

from nsysprof.errors import TraceDamagedError, TraceForeignError
from nsysprof.torchprof.allocator_history import ALLOC, FREE, RESERVE, Frame, read_allocator_history
from tests.builders.allocator_snapshot import SnapshotBuilder, frames


def test_events_stacks_and_holding(tmp_path):
    builder = SnapshotBuilder(device=1)
    builder.reserve(1 << 20)
    first = builder.alloc(1000, frames("/w/train.py", 7, "step"))
    builder.alloc(24, frames("/w/train.py", 9, "step"))
    builder.free(first)
    (device,) = read_allocator_history(builder.write(tmp_path / "s.pickle")).devices
    assert device.device_id == 1
    assert device.kind.tolist() == [RESERVE, ALLOC, ALLOC, FREE]  # free_requested frees nothing yet
    assert device.bytes.tolist() == [1 << 20, 1000, 24, 1000]
    assert device.holding.bytes.tolist() == [24]
    assert device.reserved_bytes == 1 << 20
    assert (device.time_us[1:] > device.time_us[:-1]).all()


def test_equal_stacks_are_one(tmp_path):
    builder = SnapshotBuilder()
    for _ in range(3):
        builder.alloc(10, frames("/w/a.py", 1, "f"))
    history = read_allocator_history(builder.write(tmp_path / "s.pickle"))
    assert len(history.stacks) == 1
    assert Frame("/w/a.py", 1, "f") in history.stacks[0]


def test_older_forms(tmp_path):
    last = {"addr": 1, "real_size": 1000, "frames": frames("a.py", 3, "f")}
    block = {"size": 1024, "state": "active_allocated", "history": [last]}
    segment = {"device": 0, "address": 4096, "total_size": 2048, "blocks": [{"size": 512, "state": "inactive"}, block]}
    for data in ([segment], {"segments": [segment]}):
        (tmp_path / "s.pickle").write_bytes(pickle.dumps(data))
        (device,) = read_allocator_history(tmp_path / "s.pickle").devices
        assert device.holding.bytes.tolist() == [1000]
        assert device.holding.address.tolist() == [4096 + 512]


def test_a_free_counts_when_requested_where_nothing_else_was_recorded(tmp_path):
    builder = SnapshotBuilder()
    builder.free(builder.alloc(10))
    builder.events = [event for event in builder.events if event["action"] != "free_completed"]
    (device,) = read_allocator_history(builder.write(tmp_path / "s.pickle")).devices
    assert device.kind.tolist() == [ALLOC, FREE]


@pytest.mark.parametrize(
    ("data", "error"),
    [
        ({"a": 1}, TraceForeignError),
        ("text", TraceForeignError),
        ({"segments": [1]}, TraceDamagedError),
        ({"segments": [], "device_traces": [[{"action": "alloc"}]]}, TraceDamagedError),
        ({"segments": [], "device_traces": [[{"action": "alloc", "addr": 1 << 70, "size": 1}]]}, TraceDamagedError),
        ({"segments": [], "device_traces": [[{"action": "alloc", "addr": 1, "size": -1}]]}, TraceDamagedError),
        ({"segments": [], "device_traces": [[{"action": ["alloc"], "addr": 1, "size": 1}]]}, TraceDamagedError),
        # Sums of these would wrap around.
        ({"segments": [], "device_traces": [[{"action": "alloc", "addr": 1, "size": 1 << 62}] * 8]}, TraceDamagedError),
        ({"segments": [{"total_size": -1, "blocks": []}], "device_traces": []}, TraceDamagedError),
        ({"segments": [{"total_size": 1 << 70, "blocks": []}], "device_traces": []}, TraceDamagedError),
    ],
)
def test_what_is_no_snapshot(tmp_path, data, error):
    (tmp_path / "s.pickle").write_bytes(pickle.dumps(data))
    with pytest.raises(error):
        read_allocator_history(tmp_path / "s.pickle")


def test_one_list_many_times_is_bounded(tmp_path):
    """A small pickle can name one list of events many times."""
    trace = [{"action": "alloc", "addr": 1, "size": 1}] * 5000
    (tmp_path / "s.pickle").write_bytes(pickle.dumps({"segments": [], "device_traces": [trace] * 5000}))
    with pytest.raises(TraceDamagedError, match="more devices"):
        read_allocator_history(tmp_path / "s.pickle")
