#!/usr/bin/env python3
"""Let a GPU work hard, copy, and rest, each for a known time in its own range, so that their energy differs visibly.

    scripts/programs/power_phases.py --rounds 3 --seconds 1.5 --energy energy.json

`energy.json` has, for each range, its energy by the board's own counter (mJ), read before and after it. Needs torch.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path

import torch


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=1.5)
    parser.add_argument("--energy", type=Path, help="write the energy of each range there, as JSON")
    options = parser.parse_args()
    x = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
    big, other = (torch.empty(1 << 30, device="cuda", dtype=torch.uint8) for _ in range(2))
    works: dict[str, Callable[[], object]] = {
        "matmul": lambda: x @ x,
        "copy": lambda: other.copy_(big),
        "rest": lambda: time.sleep(0.01),
    }
    works["matmul"]()
    torch.cuda.synchronize()
    counter = energy_counter()
    found: dict[str, list[dict[str, float]]] = {name: [] for name in works}
    for _ in range(options.rounds):
        for name, work in works.items():
            before = counter()
            begin = time.perf_counter()
            torch.cuda.nvtx.range_push(name)
            while time.perf_counter() - begin < options.seconds:
                for _ in range(8):
                    work()
                torch.cuda.synchronize()
            torch.cuda.nvtx.range_pop()
            found[name].append({"seconds": time.perf_counter() - begin, "mj": counter() - before})
    print(json.dumps(found))
    if options.energy:
        options.energy.write_text(json.dumps(found), encoding="utf-8")


def energy_counter() -> Callable[[], float]:
    """Return a function that returns the energy the board has used (mJ); 0 where NVML does not tell."""
    try:
        import pynvml
    except ImportError:
        return lambda: 0.0
    try:
        pynvml.nvmlInit()
        handle = pynvml.nvmlDeviceGetHandleByIndex(0)
        pynvml.nvmlDeviceGetTotalEnergyConsumption(handle)
    except pynvml.NVMLError:
        return lambda: 0.0
    return lambda: float(pynvml.nvmlDeviceGetTotalEnergyConsumption(handle))


if __name__ == "__main__":
    main()
