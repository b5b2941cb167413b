"""What owners hold over time shows the peak, however short it was, and the step around it."""

import numpy as np

from nsysprof.analysis.overview.allocator_owners import list_allocator_owners
from nsysprof.results.allocator_memory import OTHERS, OwnedOverTime
from nsysprof.torchprof.allocator_history import read_allocator_history
from tests.builders.allocator_snapshot import SnapshotBuilder, frames

STEPS, LAYERS, MIB = 50, 20, 1 << 20


def over_time_of(builder: SnapshotBuilder, folder) -> OwnedOverTime:
    return list_allocator_owners(read_allocator_history(builder.write(folder / "s.pickle")))[3]


def training(pause_us: int = 0) -> SnapshotBuilder:
    """Return weights and, after a pause, steps that hold 21 MiB more and more of layers, and 100 MiB more once."""
    builder = SnapshotBuilder()
    builder.alloc(10 * MIB, frames("/w/model.py", 1, "build"))
    builder._time += pause_us
    for step in range(STEPS):
        held = [builder.alloc(MIB, frames("/w/model.py", 10 + layer, "forward")) for layer in range(LAYERS)]
        if step == STEPS // 2:
            builder.free(builder.alloc(100 * MIB, frames("/w/model.py", 99, "loss")))
        for each in held:
            builder.free(each)
    return builder


def test_the_peak_and_the_step_around_it_are_shown(tmp_path):
    found = over_time_of(training(pause_us=1_000_000), tmp_path)
    total = found.whole.bytes.sum(axis=0)
    assert total.max() == 130 * MIB  # although its slice holds many other moments
    assert np.diff(found.whole.edges).min() >= 0
    near = found.around_peak
    assert near is not None
    assert near.bytes.sum(axis=0).max() == 130 * MIB
    assert near.bytes.sum(axis=0)[0] <= 22 * MIB
    # One step has 40 events, and one of 50 is here.
    assert near.edges[-1] - near.edges[0] < 50 * 10
    assert found.owners[0] == "w/model.py:99 loss"
    assert OTHERS in found.owners


def test_a_peak_that_lasts_is_shown_once(tmp_path):
    builder = SnapshotBuilder()
    builder.alloc(MIB)
    builder.alloc(MIB)
    for _ in range(5):
        builder.free(builder.alloc(1))
    assert over_time_of(builder, tmp_path).around_peak is None
