"""Describe the machine of a program that nsys records, seen from outside the program."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from nsysprof.environment import collect_gpus, collect_host
from nsysprof.nsight.find_tool import tool_version
from nsysprof.results.checks import comparable_hash


def collect_machine(nsys: Path | None) -> dict[str, Any]:
    """Return the facts that are known from outside the program. Its torch and CUDA are not.

    nsys: the nsys that records; None where none does.
    """
    gpus = collect_gpus()
    environment = {
        **collect_host(),
        "gpu_name": ", ".join(sorted({gpu["name"] for gpu in gpus})) or None,
        "gpu_count": len(gpus),
        "driver_version": gpus[0]["driver_version"] if gpus else None,
        "power_limit_w": gpus[0].get("power_limit_w") if gpus else None,
        "nsys_version": None if nsys is None else tool_version(nsys),
    }
    return {**environment, "comparable_hash": comparable_hash(environment)}
