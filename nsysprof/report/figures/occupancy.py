"""Compute how busy each slice of time was. Drawing each of many kernels as a rectangle would look like one block."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from nsysprof.arrays import Floats


def busy_shares(start: npt.NDArray[np.int64], end: npt.NDArray[np.int64], span: float, bins: int) -> Floats:
    """Return the share (0 to 1) of each of `bins` slices of [0, span] that intervals cover: their sum, at most 1."""
    edges = np.linspace(0, span, bins + 1)
    width = edges[1] - edges[0]
    first = np.clip((start / width).astype(np.int64), 0, bins - 1)
    last = np.clip((end / width).astype(np.int64), 0, bins - 1)
    change = np.zeros(bins + 1)
    inside = first == last
    busy = np.bincount(first[inside], weights=(end - start)[inside], minlength=bins).astype(np.float64)
    long_start, long_end, a, b = start[~inside], end[~inside], first[~inside], last[~inside]
    busy += np.bincount(a, weights=edges[a + 1] - long_start, minlength=bins)
    busy += np.bincount(b, weights=long_end - edges[b], minlength=bins)
    np.add.at(change, a + 1, width)
    np.add.at(change, b, -width)
    shares: Floats = np.clip((busy + np.cumsum(change)[:-1]) / width, 0, 1)
    return shares


def resample_shares(share: npt.NDArray[np.float32], start_ns: int, slice_ns: int, edges: Floats) -> Floats:
    """Return the mean share (0 to 1) between each two neighbouring edges (ns).

    share: the shares of equal slices that begin at start_ns.
    """
    whole = np.concatenate(([0.0], np.cumsum(np.asarray(share, dtype=float)))) * slice_ns
    at = np.interp(edges, start_ns + slice_ns * np.arange(len(share) + 1.0), whole)
    found: Floats = np.clip(np.diff(at) / np.diff(edges), 0, 1)
    return found


def category_shares(
    start: npt.NDArray[np.int64], end: npt.NDArray[np.int64], category: npt.NDArray[np.int64], span: float, bins: int
) -> dict[int, Floats]:
    """Return the shares (0 to 1) of each slice by category. Where work overlaps they are reduced to a sum of 1."""
    found = {
        int(each): busy_shares(start[category == each], end[category == each], span, bins)
        for each in np.unique(category)
    }
    total = np.maximum(1.0, np.sum(list(found.values()), axis=0)) if found else 1.0
    return {each: share / total for each, share in found.items()}
