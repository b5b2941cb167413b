"""Build snapshots in the form of torch.cuda.memory._dump_snapshot, and book while building what they must show."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

_TORCH = {"filename": "/venv/lib/python3.11/site-packages/torch/nn/modules/linear.py", "line": 116, "name": "forward"}
_CPP = {"filename": "Module.cpp", "line": 0, "name": "c10::cuda::malloc"}


def frames(file: str, line: int, function: str) -> list[dict[str, Any]]:
    """Return a stack as torch has it: C++ and torch's own frames inside, the program's around them."""
    return [_CPP, _TORCH, {"filename": file, "line": line, "name": function}]


class SnapshotBuilder:
    """The allocator of one device: allocate, free, reserve; then write."""

    def __init__(self, device: int = 0, start_us: int = 1_790_000_000_000_000) -> None:
        self.device = device
        self.events: list[dict[str, Any]] = []
        self.live: dict[int, tuple[int, Any]] = {}
        self.reserved = 0
        self.peak = self.now = 0
        self.failure: dict[str, Any] = {}
        # Segments in which nothing is allocated.
        self.empty_segments: list[int] = []
        # Sizes of the pieces that are not in use in the other segment.
        self.idle_pieces: list[int] = [512]
        self._time = start_us
        self._next = 0x7F00_0000_0000

    def _event(self, action: str, address: int, size: int, stack: Any = None) -> None:
        self._time += 10
        self.events.append({
            "action": action, "addr": address, "size": size, "stream": 0, "time_us": self._time, "frames": stack or [],
            "compile_context": "N/A", "user_metadata": "",
        })  # fmt: skip

    def reserve(self, size: int) -> None:
        self.reserved += size
        self._event("segment_alloc", self._next, size)

    def release(self, size: int) -> None:
        self.reserved -= size
        self._event("segment_free", self._next, size)

    def alloc(self, size: int, stack: Any = None) -> int:
        address, self._next = self._next, self._next + size + 512
        self.live[address] = (size, stack or [])
        self._event("alloc", address, size, stack)
        self.now += size
        self.peak = max(self.peak, self.now)
        return address

    def free(self, address: int) -> None:
        size, stack = self.live.pop(address)
        self._event("free_requested", address, size, stack)
        self._event("free_completed", address, size)
        self.now -= size

    def fail(self, size: int, free: int, stack: Any = None, **facts: Any) -> None:
        """Let an allocation fail. facts: what the recorder adds, but for what stands here."""
        self._event("oom", 0, size, stack)
        del self.events[-1]["addr"]
        self.events[-1]["device_free"] = free
        if facts:
            self.failure = {
                "device": self.device, "asked_bytes": size, "free_bytes": free, "limit_bytes": 1 << 40,
                "total_bytes": None, "process": 1, "failure": 1, "tensors": [], "losses": 0, "has_frozen": False,
            } | facts  # fmt: skip

    def forget(self, count: int) -> None:
        """Lose the first events, as a full ring does."""
        del self.events[:count]

    def snapshot(self) -> dict[str, Any]:
        blocks = [
            {"address": at, "size": -(-size // 512) * 512, "requested_size": size, "state": "active_allocated",
             "frames": stack}
            for at, (size, stack) in self.live.items()
        ]  # fmt: skip
        blocks += [
            {"address": 0, "size": size, "requested_size": 0, "state": "inactive", "frames": []}
            for size in self.idle_pieces
        ]
        segment = {
            "device": self.device, "address": 0x7F00_0000_0000, "total_size": self.reserved, "stream": 0,
            "segment_type": "large", "allocated_size": 0, "active_size": 0, "blocks": blocks,
        }  # fmt: skip
        empty = [
            {**segment, "total_size": size, "blocks": [{"size": size, "state": "inactive", "address": 1}]}
            for size in self.empty_segments
        ]
        traces: list[list[dict[str, Any]]] = [[] for _ in range(self.device + 1)]
        traces[self.device] = self.events
        more = {"nsysprof_failure": self.failure} if self.failure else {}
        return {
            "segments": [segment, *empty], "device_traces": traces, "external_annotations": [],
            "allocator_settings": {"expandable_segments": False}, **more,
        }  # fmt: skip

    def write(self, path: Path, protocol: int = pickle.DEFAULT_PROTOCOL) -> Path:
        path.write_bytes(pickle.dumps(self.snapshot(), protocol=protocol))
        return path
