"""Write slices to a viewer's track as they come, without holding all of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from nsysprof.arrays import Int64s
from nsysprof.export.nesting import begins_and_ends, disjoint_lanes, find_crossing, sort_for_nesting

_Ints = npt.NDArray[Any]
# Slices are held back until there are this many of them, because arrays of a few rows cost more than they save.
_LEAST_ROWS = 1 << 13
# After this many passes over overlapping slices, the rest is laid out at once.
_MOST_NESTING_TRACKS = 8

AddTrack = Callable[[], int]
# A function that is called with a track, times, and the row of each time: -1 where the innermost slice ends.
WriteSlices = Callable[[int, Int64s, Int64s], None]


class NestedTrack:
    """A track of slices that come in order of start. Those that overlap without nesting go to tracks of their own."""

    def __init__(self, add_track: AddTrack, write: WriteSlices) -> None:
        """Begin with one track.

        add_track: returns the number of a further track of the same name.
        """
        self._add_track, self._write = add_track, write
        self._tracks = [add_track()]
        self._held: list[tuple[Int64s, Int64s, _Ints]] = []
        self._count = 0
        self._open = 0

    def add(self, start_ns: Int64s, end_ns: Int64s, row: _Ints) -> None:
        """Add slices, which begin no earlier than those before them."""
        self._held.append((start_ns, end_ns, row))
        self._count += len(row)
        # Slices that are still open are looked at again only when there are as many new ones.
        if self._count >= max(_LEAST_ROWS, 2 * self._open):
            self._write_closed(is_last=False)

    def finish(self) -> None:
        """Write what is held back."""
        if self._count:
            self._write_closed(is_last=True)

    def _write_closed(self, *, is_last: bool) -> None:
        """Write the slices that no later slice can overlap."""
        start, end, row = (np.concatenate(parts) for parts in zip(*self._held, strict=True))
        order = sort_for_nesting(start, end)
        start, end, row = start[order], end[order], row[order]
        closed = len(start)
        if not is_last:
            ends = np.flatnonzero(start[1:] >= np.maximum.accumulate(end)[:-1])
            closed = int(ends[-1]) + 1 if len(ends) else 0
        if closed:
            self._place(start[:closed], end[:closed], row[:closed])
        self._held = [(start[closed:].copy(), end[closed:].copy(), row[closed:].copy())]
        self._count = self._open = len(start) - closed

    def _place(self, start: Int64s, end: Int64s, row: _Ints) -> None:
        for level in range(_MOST_NESTING_TRACKS):
            crossing = find_crossing(start, end)
            if len(crossing) == 0:
                self._fill(level, start, end, row)
                return
            self._fill(level, *(np.delete(column, crossing) for column in (start, end, row)))
            start, end, row = start[crossing], end[crossing], row[crossing]
        lanes = disjoint_lanes(start, end)
        for lane in range(int(lanes.max()) + 1):
            mine = lanes == lane
            self._fill(_MOST_NESTING_TRACKS + lane, start[mine], end[mine], row[mine])

    def _fill(self, number: int, start: Int64s, end: Int64s, row: _Ints) -> None:
        while len(self._tracks) <= number:
            self._tracks.append(self._add_track())
        time, which = begins_and_ends(start, end)
        self._write(self._tracks[number], time, np.where(which >= 0, row[which], -1))
