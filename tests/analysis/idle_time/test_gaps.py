"""The gaps of a device, block by block, against a look at every nanosecond."""

from __future__ import annotations

import numpy as np
import pytest

from nsysprof.analysis.idle_time import gaps
from nsysprof.analysis.idle_time.gaps import find_gaps
from nsysprof.native import load
from nsysprof.trace.schema import KERNEL, MIGRATION, Work


def work_of(start: np.ndarray, duration: np.ndarray, variant: np.ndarray) -> Work:
    none = np.zeros(0, dtype=np.int64)
    # Two devices, and a migration to the first one, which fills no gap.
    variants = np.array(
        [[kind, 1, device, 0, 7, 0, 0, 0] for kind, device in ((KERNEL, 0), (KERNEL, 1), (MIGRATION, 0))]
    )
    of_row = variant.astype(np.int16)
    return Work(
        start, duration.astype(np.uint32), of_row, none, none, none.astype(np.int8), none, variants, len(start), 0, 0
    )


@pytest.mark.parametrize("block", [1, 3, 1 << 20, None])
@pytest.mark.parametrize("in_order", [True, False])
def test_gaps_lie_where_nothing_runs(block: int | None, in_order: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if block is None:  # compiled code needs no blocks
        monkeypatch.setattr(load, "is_wanted", lambda _unit: True)
    else:
        monkeypatch.setattr(load, "is_wanted", lambda _unit: False)
        monkeypatch.setattr(gaps, "_BLOCK", block)
    some = 0
    for seed in range(10):
        random = np.random.default_rng(seed)
        start = random.integers(0, 300, 40)
        work = work_of(np.sort(start) if in_order else start, random.integers(0, 9, 40), random.integers(0, 3, 40))
        for found in find_gaps(work):
            mine = np.flatnonzero((work.variant == found.span.device_id) & (work.variant != 2))
            first, last = int(work.start_ns[mine].min()), int(work.ends_ns(mine).max())
            busy = {at for row in mine for at in range(work.start_ns[row], work.ends_ns(row))}
            every = slice(0, len(found))
            idle = {
                at
                for begin, end in zip(found.starts_ns(every), found.ends_ns(every), strict=True)
                for at in range(begin, end)
            }
            assert idle == set(range(first, last)) - busy
            assert found.span.whole.idle_ns == len(idle)
            assert found.span.whole.busy_ns == len(busy)
            assert (found.span.first_ns, found.span.whole.span_ns) == (first, last - first)
            assert set(found.ender.tolist()) | set(found.before.tolist()) <= set(mine.tolist())
            some += len(found)
    assert some > 100
