"""Compute how busy each slice of time was. Drawing each of many kernels as a rectangle would look like one block."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from nsysprof.arrays import Floats


class BusyShares:
    """Adds up how busy each of `bins` slices of [0, span] is, some intervals at a time."""

    def __init__(self, span: float, bins: int) -> None:
        self._edges, self._bins = np.linspace(0, span, bins + 1), bins
        # What intervals inside one slice take, and the first and last slices of longer ones.
        self._inside, self._begins, self._ends = np.zeros(bins), np.zeros(bins), np.zeros(bins)
        # What longer intervals add from a slice on, and how many have their last slice there.
        self._change, self._last = np.zeros(bins + 1), np.zeros(bins, dtype=np.int64)

    def add(self, start: npt.NDArray[np.int64], end: npt.NDArray[np.int64]) -> None:
        """Add intervals. The sums do not depend on how many are added at a time."""
        edges, bins = self._edges, self._bins
        width = edges[1] - edges[0]
        first = np.clip((start / width).astype(np.int64), 0, bins - 1)
        last = np.clip((end / width).astype(np.int64), 0, bins - 1)
        inside = first == last
        np.add.at(self._inside, first[inside], (end - start)[inside].astype(np.float64))
        long_start, long_end, a, b = start[~inside], end[~inside], first[~inside], last[~inside]
        np.add.at(self._begins, a, edges[a + 1] - long_start)
        np.add.at(self._ends, b, long_end - edges[b])
        np.add.at(self._change, a + 1, width)
        self._last += np.bincount(b, minlength=bins)

    def shares(self) -> Floats:
        """Return the share (0 to 1) of each slice that the intervals cover: their sum, at most 1."""
        width = self._edges[1] - self._edges[0]
        change = self._change.copy()
        np.add.at(change, np.repeat(np.arange(self._bins), self._last), -width)
        busy = self._inside + self._begins
        busy += self._ends
        shares: Floats = np.clip((busy + np.cumsum(change)[:-1]) / width, 0, 1)
        return shares


def busy_shares(start: npt.NDArray[np.int64], end: npt.NDArray[np.int64], span: float, bins: int) -> Floats:
    """Return the share (0 to 1) of each of `bins` slices of [0, span] that intervals cover: their sum, at most 1."""
    occupancy = BusyShares(span, bins)
    occupancy.add(start, end)
    return occupancy.shares()


def resample_shares(share: npt.NDArray[np.float32], start_ns: int, slice_ns: int, edges: Floats) -> Floats:
    """Return the mean share (0 to 1) between each two neighbouring edges (ns).

    share: the shares of equal slices that begin at start_ns.
    """
    whole = np.concatenate(([0.0], np.cumsum(np.asarray(share, dtype=float)))) * slice_ns
    at = np.interp(edges, start_ns + slice_ns * np.arange(len(share) + 1.0), whole)
    shares: Floats = np.clip(np.diff(at) / np.diff(edges), 0, 1)
    return shares


def category_shares(busy: Mapping[str, BusyShares]) -> dict[str, Floats]:
    """Return the shares (0 to 1) of each slice by category. Where work overlaps they are reduced to a sum of 1."""
    shares = {category: busy_in_category.shares() for category, busy_in_category in busy.items()}
    total = np.maximum(1.0, np.sum(list(shares.values()), axis=0)) if shares else 1.0
    return {category: share / total for category, share in shares.items()}
