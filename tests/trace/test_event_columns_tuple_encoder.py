"""Codes of tuples, whatever the tuples are."""

import time

import numpy as np
import pytest

from nsysprof.trace.event_columns import TupleEncoder

MULTIPLIER = 0x9E3779B97F4A7C15


def of_one_hash(count: int) -> np.ndarray:
    """Numbers whose product with the hash's multiplier has equal halves, which it folds to 0."""
    inverse = np.uint64(pow(MULTIPLIER, -1, 2**64))
    halves = np.arange(1, count + 1, dtype=np.uint64)
    return (((halves << np.uint64(32)) | halves) * inverse).view(np.int64)


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("batches", [1, 4])
def test_tuples_made_to_have_one_hash_cost_no_more_than_others(compiled: bool, batches: int) -> None:
    """A table of 200,000 such rows took half a minute."""
    values = of_one_hash(200_000)
    coder = TupleEncoder(1, compiled=compiled)
    coder.encode(values[:1])  # compiles
    before = time.thread_time()
    codes = np.concatenate([coder.encode(part) for part in np.array_split(values, batches)])
    assert time.thread_time() - before < 5
    assert codes.tolist() == list(range(len(values)))
    assert coder.rows[:, 0].tolist() == values.tolist()


def test_codes_stay_when_the_hash_table_is_given_up() -> None:
    coder = TupleEncoder(1, compiled=True)
    plain = np.arange(1_000, dtype=np.int64)
    first = coder.encode(plain).tolist()
    coder.encode(of_one_hash(5_000))
    assert coder.encode(plain).tolist() == first == list(range(1_000))
    assert coder.encode(of_one_hash(5_000)).tolist() == list(range(1_000, 6_000))
