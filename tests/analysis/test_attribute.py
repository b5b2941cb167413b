import numpy as np
import pandas as pd
from hypothesis import given
from hypothesis import strategies as st

from nsysprof.analysis.attribute import attribute_work
from nsysprof.analysis.work import PID_MASK
from tests.build_trace import OTHER_PID, OTHER_TID, TID

THREADS = st.sampled_from([TID, OTHER_TID, OTHER_PID | 1])
CALLS = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 6), THREADS), max_size=20)
RANGES = st.lists(
    st.tuples(st.integers(0, 60), st.integers(0, 40), THREADS, st.sampled_from(["PushPop", "StartEnd"])), max_size=12
)


@given(CALLS, RANGES)
def test_attribution_agrees_with_looking_at_every_pair(calls, ranges):
    launches = pd.DataFrame(
        {
            "start_ns": np.array([c[0] for c in calls], dtype=np.int64),
            "end_ns": np.array([c[0] + c[1] for c in calls], dtype=np.int64),
            "global_tid": np.array([c[2] for c in calls], dtype=np.int64),
        }
    )
    work = pd.DataFrame({"launch": np.arange(-1, len(calls), dtype=np.int64)})  # the first has no call
    table = pd.DataFrame(
        {
            "start_ns": np.array([r[0] for r in ranges], dtype=np.int64),
            "end_ns": np.array([r[0] + r[1] for r in ranges], dtype=np.int64),
            "global_tid": np.array([r[2] for r in ranges], dtype=np.int64),
            "style": [r[3] for r in ranges],
        }
    )
    expected = {
        (i, j + 1)
        for i, (start, length, owner, style) in enumerate(ranges)
        for j, (begin, took, tid) in enumerate(calls)
        if start <= begin and begin + took <= start + length
        and (owner == tid if style == "PushPop" else owner & PID_MASK == tid & PID_MASK)
    }  # fmt: skip
    which, item = attribute_work(work, launches, table)
    pairs = list(zip(which.tolist(), item.tolist(), strict=True))
    assert len(pairs) == len(set(pairs))
    assert set(pairs) == expected
