import numpy as np
import pandas as pd
from hypothesis import given
from hypothesis import strategies as st

from nsysprof.analysis.attribution.nesting import describe_places, find_paths, parents


def table(rows):
    """(start, end, thread, style) in order of start."""
    frame = pd.DataFrame(rows, columns=["start_ns", "end_ns", "global_tid", "style"])
    return frame.astype({"start_ns": "int64", "end_ns": "int64", "global_tid": "int64"})


@given(st.lists(st.tuples(st.sampled_from(["push", "pop"]), st.integers(1, 2)), max_size=30))
def test_parents_are_those_of_the_stack(events):
    stacks, rows, expected = {1: [], 2: []}, [], []
    for time, (event, thread) in enumerate(events):
        stack = stacks[thread]
        if event == "push":
            expected.append(stack[-1] if stack else -1)
            stack.append(len(rows))
            rows.append([time, 1000 - len(stack), thread, "PushPop"])
        elif stack:
            rows[stack.pop()][1] = time
    assert parents(table(rows)).tolist() == expected


def test_ranges_of_two_domains_that_cross_have_the_parent_that_holds_them():
    rows = [(0, 10, 1, "PushPop"), (5, 20, 1, "PushPop"), (12, 14, 1, "PushPop"), (1, 30, 1, "StartEnd")]
    assert parents(table(sorted(rows))).tolist() == [-1, -1, -1, 2]


def test_every_place_of_a_name_is_given_the_longest_first():
    parent = np.array([-1, 0, -1, 2, -1])
    group = np.array([0, 1, 2, 1, 1])
    paths = find_paths(parent, group, ["train", "matmul", "eval"])
    places = describe_places(paths, group, np.array([90, 10, 90, 30, 1]), 3)
    assert places == ["train", "eval > matmul | train > matmul | matmul", "eval"]
