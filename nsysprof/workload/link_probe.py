"""Measure in two seconds what the links of a machine carry, and print it as one JSON line; `doctor --links` runs it.

Run as `python -m nsysprof.workload.link_probe`, in a process of its own.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch

# All links together take so long (s), and each copy moves so many bytes.
_SECONDS, COPY_BYTES = 2.0, 256 << 20
# So many copies are queued before the clock is read again.
_AT_ONCE = 4

# What begins some copies, and returns when all are done.
Copies = Callable[[int], None]


def measure_link(copies: Copies, size_bytes: int, seconds: float, clock: Callable[[], float]) -> float:
    """Return the rate of a link (bytes/s): the best of several rounds of copies within a time.

    The first round sets up what the driver needs and does not count.
    """
    copies(1)
    best, end = 0.0, clock() + seconds
    while True:
        begin = clock()
        copies(_AT_ONCE)
        now = clock()
        best = max(best, _AT_ONCE * size_bytes / max(now - begin, 1e-9))
        if now >= end:
            return best


def list_links(gpus: int) -> list[tuple[str, str]]:
    """Return the links to measure: the host with the first GPU, and each GPU with the next one in a ring."""
    links = [("cpu", "cuda:0"), ("cuda:0", "cpu")] if gpus else []
    ring = [(f"cuda:{number}", f"cuda:{(number + 1) % gpus}") for number in range(gpus)]
    return links + (ring if gpus > 1 else [])


def measure_links() -> Iterator[dict[str, Any]]:
    """Yield the rate (bytes/s) of each link of this machine, and the ends and the GPU of it."""
    links = list_links(torch.cuda.device_count() if torch.cuda.is_available() else 0)
    for begins, ends in links:
        source, target = (
            torch.empty(COPY_BYTES, dtype=torch.uint8, device=place, pin_memory=place == "cpu")
            for place in (begins, ends)
        )

        def copies(count: int, source: torch.Tensor = source, target: torch.Tensor = target) -> None:
            for _ in range(count):
                target.copy_(source, non_blocking=True)
            for place in (source, target):
                if place.is_cuda:
                    torch.cuda.synchronize(place.device)

        rate = measure_link(copies, COPY_BYTES, _SECONDS / len(links), time.perf_counter)
        names = [torch.cuda.get_device_name(place.device) for place in (source, target) if place.is_cuda]
        yield {"from": begins, "to": ends, "gpu": names[0], "bytes_per_s": round(rate)}


def main() -> int:
    sys.stdout.write(json.dumps(list(measure_links())) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
