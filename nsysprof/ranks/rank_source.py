"""Define one input of an analysis of many traces."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class RankSource:
    """One input of an analysis of many traces."""

    position: int
    path: Path
    # The rank in the capture's manifest; None where there is none.
    rank: int | None = None
    world_size: int | None = None
    host: str | None = None
    # The nsys that turns a .nsys-rep into SQLite.
    nsys: Path | None = None
    # See open_trace. With one worker per processor, workers are a sixth faster without further threads.
    one_thread: bool = False
