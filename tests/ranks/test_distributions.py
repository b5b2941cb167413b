"""Distributions merge in any order to the same numbers, exact where they say so and else within their error."""

from __future__ import annotations

import dataclasses
from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from nsysprof.ranks.distributions import (
    EXACT,
    ROUNDING_ERROR,
    Distributions,
    Key,
    distribute,
    empty,
    merge_all,
    rename,
    round_values,
)


def merge(*parts: Distributions) -> Distributions:
    return merge_all(parts)


NAMES = [Key("kernel", name=name) for name in "abc"]
rows = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2**40)), max_size=40)


def of(pairs: list[tuple[int, int]]) -> Distributions:
    number, value = (np.array(part, dtype=np.int64) for part in (zip(*pairs, strict=True) if pairs else ([], [])))
    return distribute(NAMES, number, value, value // 2)


def many(seed: int, count: int) -> Distributions:
    values = np.random.default_rng(seed).lognormal(10, 2, count).astype(np.int64)
    return distribute(NAMES[:1], np.zeros(count, np.int64), values)


def same(a: Distributions, b: Distributions) -> bool:
    fields = [(getattr(a, f.name), getattr(b, f.name)) for f in dataclasses.fields(a)]
    return all(x == y if isinstance(x, tuple) else np.array_equal(x, y) for x, y in fields)


@given(rows, rows, rows)
def test_the_order_of_merging_changes_nothing(x, y, z):
    a, b, c = of(x), of(y), of(z)
    whole = of(x + y + z)
    assert same(merge(a, b), merge(b, a))
    assert same(merge(merge(a, b), c), merge(a, merge(b, c)))
    assert same(merge(merge(a, b), c), whole)
    assert same(merge(a, empty()), a)


@given(rows)
def test_what_comes_to_share_a_name_is_as_if_it_had_been_counted_under_it(x):
    shared = {key: NAMES[max(1, at)] for at, key in enumerate(NAMES)}
    found = of(x)
    renamed = rename(found, [shared[key] for key in found.keys])
    number, value = (np.array(part, dtype=np.int64) for part in (zip(*x, strict=True) if x else ([], [])))
    assert same(renamed, distribute([shared[key] for key in NAMES], number, value, value // 2))


def test_nor_does_it_where_values_are_rounded_on_the_way():
    parts = [many(seed, 500) for seed in range(6)]
    left = right = empty()
    for part in parts:
        left = merge(left, part)
    for part in reversed(parts):
        right = merge(part, right)
    assert same(left, merge(*parts))
    tree = merge(merge(merge(parts[0], parts[3]), merge(parts[5], parts[1])), merge(parts[4], parts[2]))
    assert left.rounded.all()
    assert not parts[0].rounded.any()
    assert same(left, right)
    assert same(left, tree)


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(-(2**61), 2**61) | st.integers(0, 9)), max_size=60))
def test_narrow_and_wide_values_are_counted_as_a_counter_does(pairs):
    found = of(pairs)
    counted = Counter(pairs)
    for position, key in enumerate(found.keys):
        values, times = found.of(position)
        mine = {value: n for (number, value), n in counted.items() if NAMES[number] == key}
        assert dict(zip(values.tolist(), times.tolist(), strict=True)) == mine
        assert list(values) == sorted(mine)
        assert (found.count[position], found.least[position], found.most[position]) == (
            sum(mine.values()),
            min(mine),
            max(mine),
        )
    assert len(found.keys) == len({number for number, _ in pairs})


@given(st.lists(st.integers(0, 2**45), min_size=1, max_size=60))
def test_quantiles_and_deviation_are_those_of_the_raw_values(values):
    found = of([(0, value) for value in values])
    at = [0, 0.05, 0.25, 0.5, 0.75, 0.99, 1]
    assert np.allclose(found.quantiles(0, at), np.quantile(np.array(values), at), rtol=1e-12)
    assert np.isclose(found.stddev(0), np.std(values, ddof=1) if len(values) > 1 else 0, rtol=1e-9, atol=1e-6)
    assert (found.total[0], found.least[0], found.most[0]) == (sum(values), min(values), max(values))


def test_rounded_quantiles_are_within_the_error_and_totals_exact():
    raw = np.random.default_rng(7).lognormal(12, 3, 50_000).astype(np.int64)
    found = distribute(NAMES[:1], np.zeros(len(raw), np.int64), raw)
    assert found.rounded[0]
    assert len(found.values) < 20_000
    at = np.linspace(0, 1, 101)
    exact = np.quantile(raw, at, method="lower")
    ours = np.array(found.quantiles(0, at))
    assert (np.abs(ours - np.quantile(raw, at)) <= ROUNDING_ERROR * np.quantile(raw, at, method="higher") + 1).all()
    assert exact[0] == found.least[0]
    assert found.total[0] == raw.sum()


@given(st.integers(0, 2**50))
def test_rounding_is_near_and_rounding_again_changes_nothing(value):
    (once,) = round_values(np.array([value]))
    assert abs(int(once) - value) <= ROUNDING_ERROR * value
    assert round_values(np.array([once]))[0] == once
    assert value >= EXACT or once == value
