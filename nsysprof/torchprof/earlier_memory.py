"""Infer from the totals of torch's allocator what it held before a session began."""

from __future__ import annotations


class EarlierMemory:
    """The memory that torch's allocator held before a session's first event.

    Totals show how much it was, and later frees show what it was.
    """

    def __init__(self) -> None:
        self._live: dict[tuple[int, int], set[int]] = {}
        self._held: dict[tuple[int, int], int] = {}

    def see(self, device: tuple[int, int], address: int, size: int, total: int | None) -> bool:
        """Return whether this event frees memory from before the session. Events must come in order of time.

        device: its process and number.
        size: bytes; negative for a free.
        total: the bytes that the allocator held after the event.
        """
        live = self._live.setdefault(device, set())
        self._held.setdefault(device, 0 if total is None else max(0, total - size))
        if size > 0:
            live.add(address)
            return False
        if address in live:
            live.remove(address)
            return False
        self._held[device] += size
        return True

    def left(self) -> dict[tuple[int, int], int]:
        """Return the bytes, by device, that were held before the session and not freed in it."""
        return {device: size for device, size in self._held.items() if size > 0}
