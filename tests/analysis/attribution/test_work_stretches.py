import numpy as np
import pytest

from nsysprof.analysis.attribution import work_stretches
from nsysprof.analysis.attribution.work_stretches import OrderedWork
from nsysprof.trace.schema import COPY, KERNEL, Work


def make_work(random, rows, devices, spread):
    kernels = rows - rows // 8
    variants = np.array([[kind, 1, device, 0, 7, 0, 0, 0] for kind in (KERNEL, COPY) for device in range(devices)])
    others = rows - kernels
    return Work(
        start_ns=np.sort(random.integers(0, spread, rows))[random.permutation(rows)],
        duration_ns=random.integers(0, 12, rows).astype(np.uint32),
        variant=(random.integers(0, devices, rows) + devices * (np.arange(rows) >= kernels)).astype(np.int16),
        bytes=random.integers(0, 99, others),
        copy_kind=np.ones(others, np.int64),
        host_kind=np.zeros(others, np.int8),
        graph_node=np.zeros(0, np.int64),
        variants=variants,
        kernels=kernels,
        dropped=0,
        unsized=0,
    )


def make_stretches(random, rows):
    """Return owner, low and high; those of one owner do not overlap, of different owners they may."""
    owners, lows, highs = [], [], []
    for owner in range(6):
        cuts = np.sort(random.integers(0, rows + 1, 6))
        for low, high in ((cuts[0], cuts[1]), (cuts[2], cuts[3]), (cuts[4], cuts[5]))[: owner % 3 + 1]:
            owners, lows, highs = [*owners, owner], [*lows, low], [*highs, high]
    return np.array(owners), np.array(lows, np.int64), np.array(highs, np.int64)


def covered_ns(pairs):
    """Return the length of the union of (start, end), counted nanosecond by nanosecond."""
    return len({moment for start, end in pairs for moment in range(start, end)})


@pytest.mark.parametrize("spread", [40, 300, 3000])  # one block of everything, many blocks, hardly any
@pytest.mark.parametrize("devices", [1, 2])
@pytest.mark.parametrize("at_once", [4, 1 << 21])
def test_stretches_add_up_as_piece_by_piece(spread, devices, at_once, monkeypatch):
    monkeypatch.setattr(work_stretches, "_ROWS_AT_ONCE", at_once)
    monkeypatch.setattr(work_stretches, "_BLOCK", at_once)
    for seed in range(8):
        random = np.random.default_rng(seed)
        work = make_work(random, 120, devices, spread)
        # Launches are in the order of time but for some, as on several streams.
        order = np.argsort(work.start_ns + random.integers(0, 15, 120), kind="stable").astype(np.int32)[:100]
        ordered = OrderedWork(work, order)
        owner, low, high = make_stretches(random, len(order))
        end = work.ends_ns()
        first, last = ordered.of_kernels(low), ordered.of_kernels(high)
        assert (last - first).tolist() == [int((order[a:b] < work.kernels).sum()) for a, b in zip(low, high)]  # noqa: B905
        assert ordered.bytes_of(COPY, low, high).tolist() == [
            sum(int(work.bytes[row - work.kernels]) for row in order[a:b] if row >= work.kernels)
            for a, b in zip(low, high, strict=True)
        ]
        busy, expected = np.zeros(6, np.int64), np.zeros(6, np.int64)
        for device in ordered.devices:
            busy += device.busy(owner, *device.stretches(low, high), 6)
        for number in range(6):
            rows = [row for o, a, b in zip(owner, low, high, strict=True) if o == number for row in order[a:b]]
            for device in range(devices):
                mine = [row for row in rows if work.device_of[work.variant[row]] == device]
                expected[number] += covered_ns([(int(work.start_ns[row]), int(end[row])) for row in mine])
        assert busy.tolist() == expected.tolist()


def test_spans_reach_from_the_first_start_to_the_last_end():
    random = np.random.default_rng(3)
    work = make_work(random, 60, 1, 200)
    (device,) = OrderedWork(work, np.arange(60, dtype=np.int32)).devices
    low, high = np.array([0, 5, 59, 10, 0]), np.array([60, 6, 60, 40, 1])
    starts, ends = device.spans(low, high)
    rows = [slice(a, b) for a, b in zip(low, high, strict=True)]
    assert starts.tolist() == [work.start_ns[some].min() for some in rows]
    assert ends.tolist() == [work.ends_ns()[some].max() for some in rows]
