"""Store durations by name as counts of values, which can be merged in any order with exactly the same result.

A sketch that samples values at random (KLL), or in the order in which they come (t-digest), would give different
quantiles with one worker than with two. Counts of values do not. GPU clocks tick coarsely, so a kernel has few
different durations. Where there are more than EXACT of them, they are rounded to ten significant bits, which depends
only on the value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from nsysprof.trace.schema import Bools, Int64s, Ints

# Where one name has more different values than this, they are rounded to _BITS significant bits.
EXACT = 1024
_BITS = 10
# A rounded value is the middle of its bucket. The bucket's width is 2**-9 of its lower end.
ROUNDING_ERROR = 2.0**-_BITS


class Key(NamedTuple):
    """What a set of durations belongs to. Fields that do not apply to its kind are empty."""

    kind: str  # The kind: kernel, range, range_kernel, api or memop.
    range: str = ""
    style: str = ""
    domain: str = ""
    name: str = ""
    short_name: str = ""


@dataclass(frozen=True)
class Distributions:
    """Values by key (ns), with the keys in order."""

    keys: tuple[Key, ...]
    # One per key, exact even where values were rounded: number, sum, smallest and largest value (ns).
    count: Int64s
    total: Int64s
    least: Int64s
    most: Int64s
    # One per key: the bytes that its copies and fills moved; 0 for other kinds.
    size_bytes: Int64s
    # One per key: whether its values were rounded.
    rounded: Bools
    # values[edges[i]:edges[i + 1]] are the different values of keys[i], ascending; `times` says how often each
    # occurred.
    edges: Int64s
    values: Int64s
    times: Int64s

    def of(self, number: int) -> tuple[Int64s, Int64s]:
        """Return the different values of a key (ns), and how often each occurred."""
        part = slice(self.edges[number], self.edges[number + 1])
        return self.values[part], self.times[part]

    def quantiles(self, number: int, at: Sequence[float]) -> list[float]:
        """Return quantiles (0 to 1) of a key's values (ns), interpolated linearly as numpy.quantile does."""
        values, times = self.of(number)
        reached = np.cumsum(times)
        position = np.asarray(at) * (int(reached[-1]) - 1)
        low, high = (values[np.searchsorted(reached, part(position), "right")] for part in (np.floor, np.ceil))
        between = low + (high - low) * (position - np.floor(position))
        return [float(value) for value in np.clip(between, self.least[number], self.most[number])]

    def stddev(self, number: int) -> float:
        """Return the sample standard deviation of a key's values (ns); 0 for a single value."""
        values, times = self.of(number)
        if self.count[number] < 2:
            return 0.0
        squares = (times * (values - self.total[number] / self.count[number]) ** 2).sum()
        return float(np.sqrt(squares / (self.count[number] - 1)))


def empty() -> Distributions:
    """Return distributions without any key."""
    none = np.zeros(0, dtype=np.int64)
    return Distributions((), none, none, none, none, none, none.astype(bool), np.zeros(1, np.int64), none, none)


def distribute(keys: Sequence[Key], number: Ints, value: Ints, size_bytes: Ints | None = None) -> Distributions:
    """Return the distributions of `value`, each counted for the key with its number.

    Equal keys become one. Keys without a value are left out.

    number: for each value, the position of its key in `keys`.
    value: durations (ns).
    size_bytes: for each value, the bytes that were moved.
    """
    unique = sorted(set(keys))
    where = {key: position for position, key in enumerate(unique)}
    owner_of = np.array([where[key] for key in keys], dtype=np.int64)
    owner = owner_of[number] if len(keys) else np.zeros(0, np.int64)
    group, values, times = _count(owner, value.astype(np.int64))
    fresh = np.ones(len(group), dtype=bool)
    fresh[1:] = group[1:] != group[:-1]
    begins = np.flatnonzero(fresh)
    seen = group[begins]
    if len(seen) == 0:
        return empty()
    sizes = np.zeros(len(unique), np.int64)
    if size_bytes is not None:
        np.add.at(sizes, owner, size_bytes.astype(np.int64))
    exact = (
        np.add.reduceat(times, begins),
        np.add.reduceat(values * times, begins),
        values[begins],
        values[np.append(begins[1:], len(values)) - 1],
        sizes[seen],
    )
    chosen = tuple(unique[position] for position in seen.tolist())
    joined = (np.cumsum(fresh) - 1, values, times)
    return _settle(chosen, exact, np.zeros(len(seen), dtype=bool), *joined)


def merge_all(parts: Sequence[Distributions]) -> Distributions:
    """Return the parts combined. The operation is associative and commutative, to the last bit."""
    return _combine(parts, [part.keys for part in parts])


def rename(distributions: Distributions, names: Sequence[Key]) -> Distributions:
    """Return the distributions under other keys; those that come to share a key are combined.

    names: the new key of each of `found.keys`.
    """
    return _combine((distributions,), (names,))


def _combine(parts: Sequence[Distributions], names: Sequence[Sequence[Key]]) -> Distributions:
    """Return the parts as one. names: for each part, what each of its keys is called."""
    keys = sorted({key for mine in names for key in mine})
    where = {key: position for position, key in enumerate(keys)}
    at = [np.array([where[key] for key in mine], dtype=np.int64) for mine in names]
    least, most = np.full(len(keys), np.iinfo(np.int64).max), np.zeros(len(keys), np.int64)
    sums = [np.zeros(len(keys), np.int64) for _ in range(3)]
    rounded = np.zeros(len(keys), dtype=bool)
    for part, mine in zip(parts, at, strict=True):
        np.minimum.at(least, mine, part.least)
        np.maximum.at(most, mine, part.most)
        np.logical_or.at(rounded, mine, part.rounded)
        for total, values in zip(sums, (part.count, part.total, part.size_bytes), strict=True):
            np.add.at(total, mine, values)
    owner = np.concatenate([np.repeat(mine, np.diff(part.edges)) for part, mine in zip(parts, at, strict=True)])
    joined = _join(owner, np.concatenate([p.values for p in parts]), np.concatenate([p.times for p in parts]))
    return _settle(tuple(keys), (sums[0], sums[1], least, most, sums[2]), rounded, *joined)


def _settle(
    keys: tuple[Key, ...],
    exact: tuple[Int64s, Int64s, Int64s, Int64s, Int64s],
    rounded: Bools,
    owner: Ints,
    value: Int64s,
    times: Int64s,
) -> Distributions:
    """Return distributions of joined values, rounded for the keys that have too many different ones."""
    rounded = rounded | (np.bincount(owner, minlength=len(keys)) > EXACT)
    if rounded.any():
        # Rounding does not change the order.
        owner, value, times = _join_runs(owner, np.where(rounded[owner], round_values(value), value), times)
    edges = np.searchsorted(owner, np.arange(len(keys) + 1))
    return Distributions(keys, *exact, rounded, edges.astype(np.int64), value, times)


def _count(owner: Int64s, value: Int64s) -> tuple[Int64s, Int64s, Int64s]:
    """Return the different (owner, value) pairs in order, and how often each occurred."""
    if len(value) == 0:
        return owner, value, value
    least = int(value.min())
    bits = (int(value.max()) - least).bit_length()
    if int(owner.max()).bit_length() + bits > 62:
        return _join(owner, value, np.ones_like(value))
    # Owner and value are packed into one number, which can be sorted many times faster than two.
    different, times = _count_equal((owner << bits) | (value - least), int(owner.max()).bit_length() + bits)
    return different >> bits, (different & ((1 << bits) - 1)) + least, times


def _count_equal(values: Int64s, bits: int) -> tuple[Int64s, Int64s]:
    """Return the different values in order, and how often each occurred. None is negative or has more bits."""
    values.sort()
    begins = np.flatnonzero(np.append(True, values[1:] != values[:-1]))
    return values[begins], np.diff(begins, append=len(values))


def _join(owner: Ints, value: Int64s, times: Int64s) -> tuple[Int64s, Int64s, Int64s]:
    """Return the values with equal ones of an owner joined."""
    order = np.lexsort((value, owner))
    return _join_runs(owner[order], value[order], times[order])


def _join_runs(owner: Ints, value: Int64s, times: Int64s) -> tuple[Int64s, Int64s, Int64s]:
    """Return the values with equal ones of an owner joined, where equal ones already lie side by side."""
    fresh = np.ones(len(value), dtype=bool)
    fresh[1:] = (value[1:] != value[:-1]) | (owner[1:] != owner[:-1])
    begins = np.flatnonzero(fresh)
    counted: Int64s = np.add.reduceat(times, begins) if len(begins) else times
    return owner[begins].astype(np.int64), value[begins], counted


def round_values(value: Int64s) -> Int64s:
    """Return each value rounded to the middle of its bucket of _BITS significant bits.

    Values up to 1023 stay as they are, and rounding twice gives the same as rounding once.
    """
    length = np.frexp(value.astype(np.float64))[1].astype(np.int64)
    shift = np.maximum(length - _BITS, 0)
    half: npt.NDArray[np.int64] = (np.int64(1) << shift) >> 1
    middles: Int64s = ((value >> shift) << shift) + half
    return middles
