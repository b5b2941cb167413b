"""Owners of torch's memory at the peak add up to it, what lived before the recording included."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nsysprof.analysis.overview.allocator_owners import (
    BEFORE,
    NO_STACK,
    find_fragmentation,
    list_allocator_owners,
    owner_of,
)
from nsysprof.torchprof.allocator_history import Frame, read_allocator_history
from tests.builders.allocator_snapshot import SnapshotBuilder, frames

SITE = "/opt/torch/venv/lib/python3.11/site-packages"  # an environment in a folder that is called torch


def owners(builder, folder, range_at=None):
    return list_allocator_owners(read_allocator_history(builder.write(folder / "s.pickle")), range_at)


def test_owners_are_lines_of_the_program(tmp_path):
    builder = SnapshotBuilder()
    builder.reserve(1 << 20)
    builder.alloc(3000, frames("/home/me/work/train.py", 12, "main"))
    cache = builder.alloc(5000, frames(f"{SITE}/transformers/cache.py", 40, "update"))
    builder.alloc(100)
    builder.free(cache)
    builder.alloc(200, frames("/home/me/work/train.py", 13, "main"))
    (use,), device, table, _ = owners(builder, tmp_path)
    assert (use.peak_bytes, use.end_bytes, use.before_bytes, device) == (8100, 3300, 0, 0)
    assert dict(zip(table["owner"], table["peak_bytes"], strict=True)) == {
        "transformers/cache.py:40 update": 5000, "work/train.py:12 main": 3000, NO_STACK: 100,
    }  # fmt: skip
    assert table["share_pct"].sum() == pytest.approx(100)


def test_what_lived_before_the_recording_is_part_of_the_peak(tmp_path):
    builder = SnapshotBuilder()
    weights = builder.alloc(1000, frames("/w/model.py", 5, "build"))
    freed = builder.alloc(400, frames("/w/model.py", 6, "build"))
    builder.forget(2)
    builder.alloc(50, frames("/w/train.py", 9, "step"))
    builder.free(freed)
    (use,), _, table, _ = owners(builder, tmp_path)
    held = dict(zip(table["owner"], table["peak_bytes"], strict=True))
    # The weights are still there, with their stack; what was freed since has lost its own.
    assert held == {"w/model.py:5 build": 1000, BEFORE: 400, "w/train.py:9 step": 50}
    assert (use.peak_bytes, use.before_bytes) == (1450, 1400)
    assert weights in builder.live


@given(
    steps=st.lists(st.tuples(st.integers(0, 2), st.integers(1, 1 << 30), st.integers(0, 5)), max_size=60),
    lost=st.integers(0, 30),
)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_owners_add_up_to_the_peak(tmp_path, steps, lost):
    builder = SnapshotBuilder()
    first_of = []  # the peak after each event of the whole history, to know the one after what was lost
    for kind, size, line in steps:
        if kind == 0 and builder.live:
            builder.free(list(builder.live)[line % len(builder.live)])
        else:
            builder.alloc(size, frames("/w/train.py", line, "step") if line else None)
        first_of.append((len(builder.events), builder.now))
    lost = min(lost, len(builder.events))
    builder.forget(lost)
    used, device, table, over_time = owners(builder, tmp_path)
    seen = [now for events, now in first_of if events >= lost]
    if device is None:
        assert max(seen, default=0) == 0
        return
    assert used[0].peak_bytes >= max(seen)  # the moment at which the history begins may be within a step
    if lost == 0:
        assert used[0].peak_bytes == builder.peak
    assert table["peak_bytes"].sum() == used[0].peak_bytes
    assert (table["peak_bytes"] > 0).all()
    assert over_time.whole.bytes.sum(axis=0).max() == used[0].peak_bytes
    assert (over_time.whole.bytes >= 0).all()
    if over_time.around_peak is not None:
        assert over_time.around_peak.bytes.sum(axis=0).max() == used[0].peak_bytes
    assert used[0].end_bytes == builder.now


def test_ranges_are_asked_at_the_time_of_the_allocation(tmp_path):
    builder = SnapshotBuilder()
    old = builder.alloc(7, frames("/w/a.py", 1, "f"))
    builder.forget(1)
    start = builder._time
    builder.alloc(10, frames("/w/a.py", 2, "f"))
    builder.alloc(20, frames("/w/a.py", 2, "f"))
    asked = []

    def range_at(times):
        asked.extend((times - start).tolist())
        return ["forward", ""]

    _, _, table, _ = owners(builder, tmp_path, range_at)
    assert asked == [10, 20]
    rows = {(row["owner"], row["range"]): row["peak_bytes"] for row in table.to_dict("records")}
    assert rows == {("w/a.py:2 f", "forward"): 10, ("w/a.py:2 f", None): 20, ("w/a.py:1 f", None): 7}
    assert old in builder.live


def test_fragmentation_is_what_was_taken_and_never_used(tmp_path):
    builder = SnapshotBuilder()
    builder.reserve(1 << 30)
    big = builder.alloc(1 << 30)
    builder.free(big)
    builder.alloc(1 << 20)
    builder.reserve(1 << 30)  # nothing of the first fits
    builder.alloc(1 << 30)
    used, *_ = owners(builder, tmp_path)
    (finding,) = find_fragmentation(used)
    assert finding.code == "memory-fragmentation"
    assert finding.bytes == (1 << 30) - (1 << 20)
    assert "2 GiB from the driver" in finding.text


def test_a_full_allocator_is_not_fragmented(tmp_path):
    builder = SnapshotBuilder()
    builder.reserve(1 << 30)
    builder.alloc((1 << 30) - 4096)
    assert find_fragmentation(owners(builder, tmp_path)[0]) == ()


@pytest.mark.parametrize(
    ("files", "owner"),
    [
        (["Module.cpp", f"{SITE}/torch/nn/functional.py", "/w/net.py"], "w/net.py:3 f"),
        (["/usr/lib/python3.11/contextlib.py", f"{SITE}/mylib/x.py"], "mylib/x.py:3 f"),
        ([f"{SITE}/torch/utils/data.py", "<frozen runpy>"], NO_STACK),
        (["train.py"], "train.py:3 f"),
        ([], NO_STACK),
    ],
)
def test_owner_of(files, owner):
    assert owner_of(tuple(Frame(file, 3, "f") for file in files)) == owner
