"""Masks are texts by a strict grammar, and what a window leaves of the scores is counted exactly."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsysprof.attention.mask import (
    check_masks,
    hidden_before,
    mask_of_window,
    parse_window,
    read_window,
    visible_scores,
)
from nsysprof.errors import UsageError

SIDES = st.none() | st.integers(0, 30)


@given(st.tuples(SIDES, SIDES), st.integers(1, 20), st.integers(0, 20))
def test_scores_and_keys_of_a_window_as_counted_one_by_one(window, queries, more):
    keys = queries + more
    left, right = (keys if side is None else side for side in window)
    seen = [(i, j) for i in range(queries) for j in range(keys) if i + more - left <= j <= i + more + right]
    assert visible_scores(window, queries, keys) == len(seen)
    assert keys - hidden_before(window, queries, keys) == len({j for _, j in seen})


@given(st.tuples(SIDES, SIDES), st.integers(1, 20), st.integers(0, 20))
def test_a_window_becomes_none_only_where_it_hides_what_the_plain_call_hides(window, queries, more):
    keys = queries + more
    mask, causal = mask_of_window(window, queries, keys)
    visible = visible_scores(window, queries, keys)
    if mask == "none":
        assert visible == (queries * (queries + 1) // 2 if causal else queries * keys)
    else:
        assert not causal
        assert visible_scores(read_window(mask), queries, keys) == visible


@pytest.mark.parametrize(
    ("window", "lengths", "mask"),
    [
        ((256, 0), (1, 4096), ("window:256:all", False)),
        ((256, 0), (64, 4096), ("window:256:0", False)),
        ((None, 0), (64, 4096), ("window:all:0", False)),
        ((None, 0), (64, 64), ("none", True)),
        ((None, 0), (1, 4096), ("none", False)),
        ((4096, 4096), (64, 4096), ("none", False)),
    ],
)
def test_a_window_that_hides_nothing_is_no_mask(window, lengths, mask):
    assert mask_of_window(window, *lengths) == mask


def test_a_query_without_a_place_sees_no_key():
    with pytest.raises(UsageError, match="at least as many keys as queries, not --kv-seq 8 for --seq 16") as caught:
        mask_of_window((4, 0), 16, 8)
    assert "Give --kv-seq 16" in caught.value.next_step


@pytest.mark.parametrize(
    ("text", "window"), [("256,0", (256, 0)), (" -1 , 0", (None, 0)), ("0,-1", (0, None)), ("-1,-1", (None, None))]
)
def test_windows_as_users_type_them(text, window):
    assert parse_window(text) == window


@pytest.mark.parametrize(
    ("text", "near"),
    [("256", "256,0"), ("256:8", "256,8"), ("-2,0", "2,0"), ("all", "256,0"), ("1,2,3", "1,2"), ("", "256,0")],
)
def test_what_is_no_window_names_the_nearest_that_is_one(text, near):
    with pytest.raises(UsageError, match="is not LEFT,RIGHT") as caught:
        parse_window(text)
    assert f"--window {near}?" in caught.value.next_step
    parse_window(near)


@pytest.mark.parametrize(
    ("mask", "says"),
    [
        ("boool", "Did you mean 'bool'"),
        ("flaot", "Did you mean 'float'"),
        ("bool:qk", "which of the axes"),
        ("bool:qkbh", "which of the axes"),
        ("none:b11k", "which of the axes"),
        ("window:3:0", "is not a mask"),
        ("", "Unknown mask ''"),
    ],
)
def test_what_is_no_mask_is_refused(mask, says):
    with pytest.raises(UsageError, match=says):
        check_masks((mask,))


def test_masks_that_are_some():
    check_masks(("none", "bool", "float:b11k", "learned:1hqk"))
    with pytest.raises(UsageError, match="--mask is empty"):
        check_masks(())


@given(st.text(alphabet="window:al0123456789-", max_size=20))
def test_any_text_is_a_window_or_none(text):
    window = read_window(text)
    assert window is None or text.startswith("window:")
