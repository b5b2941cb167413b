"""A stand-in for NVML that writes down who locks and frees the clocks; locking them cannot be caused without a GPU."""

from __future__ import annotations

import os
from pathlib import Path


class NVMLError(Exception):
    pass


def _note(text: str) -> None:
    with Path(os.environ["STAND_IN_NVML"]).open("a") as stream:
        stream.write(f"{text}\n")


def nvmlInit() -> None:
    pass


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
