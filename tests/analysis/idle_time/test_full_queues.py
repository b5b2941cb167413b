"""A slow launch met a full queue only where much issued work was still to be done."""

import numpy as np
import pytest

from nsysprof.analysis.idle_time.full_queues import find_full_queues

US = 1_000


@pytest.mark.parametrize(
    ("took_us", "issued", "ended", "is_launch", "full"),
    [
        (80, 300, 50, True, True),
        (80, 300, 150, True, False),  # 150 pending: the call was slow for a reason of its own
        (40, 300, 50, True, False),  # not slow
        (80, 300, 50, False, False),  # not a launch
    ],
)
def test_a_slow_launch_with_much_work_pending(took_us, issued, ended, is_launch, full):
    start = np.array([1_000 * US])
    ends = np.concatenate((np.arange(ended), np.arange(issued - ended) + 2_000 * US))
    found = find_full_queues(start, start + took_us * US, np.array([is_launch]), np.array([issued]), ends)
    assert found.tolist() == ([0] if full else [])
