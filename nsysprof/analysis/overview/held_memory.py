"""Follow which allocations of torch's allocator are held at which time, and what each owner holds over time."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from nsysprof.analysis.kernel_names.variant_names import Texts
from nsysprof.results.allocator_memory import OTHERS, OwnedInSlices, OwnedOverTime
from nsysprof.torchprof.allocator_history import ALLOC, FREE, DeviceHistory
from nsysprof.trace.schema import Int64s

_MOST_SLICES = 600
# Little is held when at most this share of the events sees less. The rise to the peak begins, and the fall after it
# ends, this share of it above that.
_LITTLE, _FOOT = 0.05, 0.1
# A part of the time that is longer than this share of the whole is not shown again.
_LONG_SHARE = 0.4


@dataclass(frozen=True)
class Held:
    """All allocations that were ever held.

    `freed` is the number of the event that frees each one, or past the last event.
    """

    since: Int64s
    freed: Int64s
    bytes: Int64s
    # -1: not known.
    stack: Int64s

    def at(self, event: int) -> Int64s:
        """Return which allocations are held after an event; -1 means before all events."""
        return np.flatnonzero((self.since <= event) & (self.freed > event))


def follow_held(device: DeviceHistory) -> Held:
    """Return every allocation of a history, including those made before it began."""
    never = len(device.kind)
    rows: list[list[int]] = []
    live: dict[int, int] = {}
    columns = (device.kind.tolist(), device.address.tolist(), device.bytes.tolist(), device.stack.tolist())
    for event, (kind, address, size, stack) in enumerate(zip(*columns, strict=True)):
        if kind == ALLOC:
            if address in live:  # never freed in this history
                rows[live[address]][1] = event
            live[address] = len(rows)
            rows.append([event, never, size, stack])
        elif kind == FREE:
            if address in live:
                rows[live.pop(address)][1] = event
            else:
                rows.append([-1, event, size, -1])
    held = device.holding
    for address, size, stack in zip(held.address.tolist(), held.bytes.tolist(), held.stack.tolist(), strict=True):
        if address not in live:
            rows.append([-1, never, size, stack])
    return Held(*np.array(rows, dtype=np.int64).reshape(-1, 4).T)


def allocated_after(device: DeviceHistory, held: Held) -> Int64s:
    """Return how much is allocated before all events, and after each event (bytes)."""
    change = np.zeros(len(device.kind) + 2, dtype=np.int64)
    np.add.at(change, held.since + 1, held.bytes)
    np.subtract.at(change, held.freed + 1, held.bytes)
    return np.cumsum(change)[:-1]


def follow_owners(device: DeviceHistory, held: Held, owner: Texts, first: Iterable[str]) -> OwnedOverTime:
    """Return what each owner holds over the whole history, and in more detail around the peak.

    owner: of each allocation.
    first: the owners to show by name; all others are one.
    """
    first = tuple(str(name) for name in first)
    names = (*first, OTHERS) if set(owner.tolist()) - set(first) else first
    number = {name: position for position, name in enumerate(first)}
    code = np.array([number.get(name, len(number)) for name in owner.tolist()])
    rows = np.zeros((len(names), len(device.kind) + 1), dtype=np.int64)
    for position in range(len(names)):
        mine = code == position
        chosen = Held(held.since[mine], held.freed[mine], held.bytes[mine], held.stack[mine])
        rows[position] = allocated_after(device, chosen)
    has_times = len(device.time_us) > 0 and bool((device.time_us > 0).all())
    moment = np.arange(rows.shape[1], dtype=np.int64)
    if has_times:
        moment = np.maximum.accumulate(np.concatenate((device.time_us[:1], device.time_us)) - int(device.time_us[0]))
    last = rows.shape[1] - 1
    whole = _slice(moment, rows, 0, last)
    begin, end = _around_peak(rows.sum(axis=0))
    is_short = moment[end] - moment[begin] < _LONG_SHARE * (moment[-1] - moment[0])
    return OwnedOverTime(names, has_times, whole, _slice(moment, rows, begin, end) if is_short else None)


def _around_peak(total: Int64s) -> tuple[int, int]:
    """Return the first and the last event of the rise to the peak and the fall after it.

    They begin and end near what is held when little is: what steps hold between them, where steps have most events.
    """
    peak = int(np.argmax(total))
    little = int(np.quantile(total, _LITTLE, method="lower"))
    is_low = total <= little + int(_FOOT * (total[peak] - little))
    before, after = np.flatnonzero(is_low[: peak + 1]), np.flatnonzero(is_low[peak:])
    return int(before[-1]) if len(before) else 0, peak + int(after[0]) if len(after) else len(total) - 1


def _slice(moment: Int64s, rows: Int64s, begin: int, end: int) -> OwnedInSlices:
    """Return what owners hold from one event to another, in slices of the same length.

    Each slice shows the moment at which most is held in it. So the peak is there, however short it was.
    """
    moment, rows = moment[begin : end + 1], rows[:, begin : end + 1]
    span = int(moment[-1] - moment[0])
    count = max(1, min(_MOST_SLICES, span))
    edges = moment[0] + (span * np.arange(count + 1, dtype=np.int64)) // count
    # What is held when a slice begins counts in it.
    first = np.maximum(0, np.searchsorted(moment, edges[:-1], "right") - 1)
    last = np.maximum(first + 1, np.searchsorted(moment, edges[1:], "left"))
    last[-1] = len(moment)
    total = rows.sum(axis=0)
    picked = [low + int(np.argmax(total[low:high])) for low, high in zip(first.tolist(), last.tolist(), strict=True)]
    return OwnedInSlices(edges, rows[:, picked])
