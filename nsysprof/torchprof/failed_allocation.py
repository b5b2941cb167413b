"""Read from a snapshot of torch's allocator the failed allocation at which it was taken, and what tensors are for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

# As nsysprof.workload.program_start.memory_recorder writes it.
FAILURE = "nsysprof_failure"
KINDS = ("parameters", "buffers", "gradients", "optimizer-state", "graph", "held")
_MOST_TENSORS, _MOST_BYTES, _LONGEST = 200_000, 1 << 61, 300
# What may follow a failure in the history when the snapshot is taken at once.
_AFTER = ("snapshot", "oom")


class KnownTensor(NamedTuple):
    """What a storage is for. name: the path of a module, or the class of an optimizer."""

    kind: str
    name: str
    address: int
    element_bytes: int


@dataclass(frozen=True)
class FailedAllocation:
    """An allocation that failed, and what its process knew then. None: the snapshot does not say."""

    device_id: int
    asked_bytes: int
    # What the driver had left on the device.
    free_bytes: int
    # What torch may use of the device, and what the device has.
    limit_bytes: int | None = None
    total_bytes: int | None = None
    process: int | None = None
    rank: int | None = None
    world_size: int | None = None
    # Which failure of the process it is, from 1 on.
    failure: int | None = None
    # None where nobody looked.
    tensors: tuple[KnownTensor, ...] | None = None
    # How many tensors of one element kept a graph alive.
    losses: int = 0
    has_frozen: bool = False


def read_failure(snapshot: dict[str, Any]) -> tuple[FailedAllocation | None, dict[str, Any]]:
    """Return the failed allocation at which a snapshot was taken, and its event; None for a snapshot of another time.

    Raises ValueError, TypeError, KeyError or AttributeError for what no program writes.
    """
    traces = snapshot.get("device_traces") or []
    recorded = snapshot.get(FAILURE)
    if recorded is None:
        for device, trace in enumerate(traces):
            event = _last(trace)
            if event is not None and all(_last(other) is None for other in traces if other is not trace):
                asked, free = _size(event["size"]), _size(event.get("device_free") or 0)
                return FailedAllocation(device, asked, free), event
        return None, {}
    if not isinstance(recorded, dict):
        raise TypeError("a failure that is not a dictionary")
    failure = _of_ours(recorded)
    trace = traces[failure.device_id] if failure.device_id < len(traces) else []
    events = (event for event in reversed(trace) if event["action"] == "oom")
    return failure, next(events, {})


def _last(trace: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
    """Return the last failure of a device, if nothing was allocated or freed after it."""
    last: dict[str, Any] | None = None
    for event in reversed(trace):
        if event["action"] not in _AFTER:
            break
        if event["action"] == "oom":
            last = event
            break
    return last


def _of_ours(recorded: dict[str, Any]) -> FailedAllocation:
    tensors = recorded.get("tensors")
    if tensors is not None and len(tensors) > _MOST_TENSORS:
        raise ValueError("more tensors than are recorded")
    device = _size(recorded["device"])
    if device >= 1 << 16:
        raise ValueError("a device that no machine has")
    return FailedAllocation(
        device_id=device,
        asked_bytes=_size(recorded["asked_bytes"]),
        free_bytes=_size(recorded["free_bytes"]),
        limit_bytes=_size(recorded["limit_bytes"]),
        total_bytes=None if recorded.get("total_bytes") is None else _size(recorded["total_bytes"]),
        process=_size(recorded["process"]),
        rank=_number(recorded.get("rank")),
        world_size=_number(recorded.get("world_size")),
        failure=_size(recorded["failure"]),
        tensors=None if tensors is None else tuple(_tensor(*tensor) for tensor in tensors),
        losses=_size(recorded.get("losses") or 0),
        has_frozen=recorded.get("has_frozen") is True,
    )


def _tensor(kind: str, name: str, address: int, element_bytes: int) -> KnownTensor:
    if kind not in KINDS:
        raise ValueError("a kind of tensor that is not recorded")
    return KnownTensor(kind, str(name)[:_LONGEST], _size(address, 1 << 63), _size(element_bytes))


def _number(text: object) -> int | None:
    """Return a number that the environment has; None where it has none."""
    return int(text) if isinstance(text, str) and text.isascii() and text.isdigit() and len(text) < 8 else None


def _size(value: object, most: int = _MOST_BYTES) -> int:
    if not isinstance(value, int) or not 0 <= value < most:
        raise ValueError("a size or a number that no machine has")
    return int(value)
