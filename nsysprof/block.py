"""Block: the samples that one process took of one case in one go; the raw record of `bench` and `tune`."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

# Statuses of a block that was measured. Every other one (see workload/worker.py) has a reason.
OK = "ok"
# Above this part of a call's time the CPU's launching is what is timed, and a graph shows the GPU's own time.
LAUNCH_BOUND = 0.8
# When a case is warm, which the measured process decides and every report states.
WINDOW_S, WINDOWS, TOLERANCE = 1e-3, 3, 0.03
WARMUP_RULE = (
    "windows of calls of at least 1 ms each until the last three differ by less than 3 % from their median, "
    "at most {seconds:g} s"
)


@dataclass(frozen=True)
class Block:
    """`cell`: the index of the case in the grid; a case that is measured against itself has several cells.

    started_ns: UTC epoch of the first sample. values_ns, offsets_ns: each sample's duration, and its start since the
    first one's. graph_ns: the same call replayed as a CUDA graph, empty when that was not measured, for graph_reason.
    launch_share: the CPU's time to launch a call over the time of a call, both back to back; None on the CPU.
    stable: whether warm-up ended by its rule and not by its time. throttled: indices of samples during which the GPU
    was throttled. errors: distance from the float64 reference by tensor, where that was taken before the block.
    peak_bytes: what torch's allocator held beyond what was there before; None on the CPU.
    """

    cell: int
    process: int
    round: int
    status: str
    reason: str = ""
    started_ns: int = 0
    values_ns: tuple[int, ...] = ()
    offsets_ns: tuple[int, ...] = ()
    graph_ns: tuple[int, ...] = ()
    graph_reason: str = ""
    launch_share: float | None = None
    warmup_calls: int = 0
    stable: bool = True
    throttled: tuple[int, ...] = ()
    peak_bytes: int | None = None
    errors: dict[str, float] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        data = asdict(self)
        return {key: value for key, value in data.items() if value not in ((), "", {}) or key == "status"}

    @staticmethod
    def from_json(data: dict[str, Any]) -> Block:
        """Raises TypeError for keys that are none of a block's."""
        fields = dict(data)
        for name in ("values_ns", "offsets_ns", "graph_ns", "throttled"):
            fields[name] = tuple(fields.get(name, ()))
        return Block(**fields)
