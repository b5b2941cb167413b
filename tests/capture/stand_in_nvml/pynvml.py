"""A stand-in for NVML, which needs a GPU: it writes down who locks and frees the clocks, and counts energy."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path


class NVMLError(Exception):
    pass


def _note(text: str) -> None:
    with Path(os.environ["STAND_IN_NVML"]).open("a") as stream:
        stream.write(f"{text}\n")


def nvmlInit() -> None:
    pass


def nvmlShutdown() -> None:
    pass


def __getattr__(name: str) -> Callable[..., None]:
    """Return a function of NVML that these boards do not support."""
    if not name.startswith("nvml"):
        raise AttributeError(name)

    def refuse(*_: object) -> None:
        raise NVMLError("Not Supported")

    return refuse


def nvmlDeviceGetHandleByUUID(uuid: str) -> str:
    return uuid


def nvmlDeviceSetGpuLockedClocks(handle: str, low: int, high: int) -> None:
    if "refuse" in handle:
        raise NVMLError("Insufficient Permissions")
    _note(f"lock {handle} {low} {high}")


def nvmlDeviceResetGpuLockedClocks(handle: str) -> None:
    if "stuck" in handle:
        raise NVMLError("GPU is lost")
    _note(f"free {handle}")


_BOARDS = ("GPU-0", "GPU-1")


def nvmlDeviceGetCount() -> int:
    return len(_BOARDS)


def nvmlDeviceGetHandleByIndex(index: int) -> str:
    return _BOARDS[index]


def nvmlDeviceGetUUID(handle: str) -> str:
    return handle


def nvmlDeviceGetTotalEnergyConsumption(handle: str) -> int:
    """Return the energy of a board (mJ): the first uses 100 W, the second 200 W."""
    if "NO_ENERGY" in os.environ:
        raise NVMLError("Not Supported")
    return int(time.time_ns() / 1e6 * 100 * (1 + _BOARDS.index(handle)))
