"""The innermost range at a time, against looking at every range."""

import numpy as np
import pandas as pd
from hypothesis import given
from hypothesis import strategies as st

from nsysprof.analysis.ranges.open_range import InnermostRanges, innermost_ranges
from tests.builders.build_trace import OTHER_TID, TID

INSTANCES = st.lists(st.tuples(st.integers(0, 30), st.integers(1, 20), st.sampled_from([TID, OTHER_TID])), max_size=8)


def looked_up(instances, tid, time):
    """Return the range that began last of those open, on the thread or else in its process."""
    for mine in ([each for each in instances if each[2] == tid], instances):
        open_ones = [(start, number) for number, (start, lasts, owner) in enumerate(instances)
                     if (start, lasts, owner) in mine and start <= time < start + lasts]  # fmt: skip
        if open_ones:
            return f"range_{chr(97 + max(open_ones)[1])}"
    return ""


@given(instances=INSTANCES)
def test_whatever_nests_or_overlaps(instances):
    ranges = pd.DataFrame(
        [(f"range_{chr(97 + n)}", "", start, start + lasts, tid) for n, (start, lasts, tid) in enumerate(instances)],
        columns=["name", "domain", "start_ns", "end_ns", "global_tid"],
    )
    times = np.arange(55, dtype=np.int64)
    for tid in (TID, OTHER_TID):
        for some in (times, times[17:23]):
            found = innermost_ranges(ranges, np.full(len(some), tid), some)
            wanted = [looked_up(instances, tid, int(time)) for time in some]
            assert found.tolist() == wanted
            for_many = InnermostRanges(ranges)
            assert for_many.names[for_many.codes(tid, some)].tolist() == wanted
