"""Describe this machine: its processor, memory and GPUs, and the current clocks of a GPU."""

from __future__ import annotations

import contextlib
import os
import platform
import subprocess
from pathlib import Path
from typing import Any


def collect_host() -> dict[str, Any]:
    """Return CPU, operating system, Python and git commit.

    Host and user names are left out, because captures are shared.
    """
    return {
        "os": f"{platform.system()} {platform.release()}",
        "python_version": platform.python_version(),
        "cpu_model": _cpu_model(),
        "cpu_count": os.cpu_count(),
        "memory_bytes": _host_memory_bytes(),
        "git_commit": _git_commit(),
    }


def collect_gpus() -> list[dict[str, Any]]:
    """Return name, UUID, memory, driver and power limit of every GPU that NVML sees.

    The list is empty without driver or nvidia-ml-py.
    """
    pynvml = _open_nvml()
    if pynvml is None:
        return []
    try:
        driver = _text(pynvml.nvmlSystemGetDriverVersion())
        gpus = []
        for index in range(pynvml.nvmlDeviceGetCount()):
            with contextlib.suppress(pynvml.NVMLError):  # a board that has failed is left out
                gpus.append(_one_gpu(pynvml, index, driver))
        return gpus
    except pynvml.NVMLError:
        return []
    finally:
        pynvml.nvmlShutdown()


def _open_nvml() -> Any | None:
    """Return the module of NVML, ready for questions; None without driver or nvidia-ml-py."""
    try:
        import pynvml
    except ImportError:
        return None
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return None
    return pynvml


def _one_gpu(pynvml: Any, index: int, driver: str) -> dict[str, Any]:
    handle = pynvml.nvmlDeviceGetHandleByIndex(index)
    return {
        "index": index,
        "name": _text(pynvml.nvmlDeviceGetName(handle)),
        "uuid": _text(pynvml.nvmlDeviceGetUUID(handle)),
        "memory_bytes": int(pynvml.nvmlDeviceGetMemoryInfo(handle).total),
        "driver_version": driver,
        "power_limit_w": _power_limit_w(pynvml, handle),
    }


def _power_limit_w(pynvml: Any, handle: Any) -> int | None:
    """Return the power limit of a GPU (W); None where NVML does not report it."""
    try:
        return round(int(pynvml.nvmlDeviceGetEnforcedPowerLimit(handle)) / 1000)
    except pynvml.NVMLError:
        return None


def driver_cuda_version() -> tuple[int, int] | None:
    """Return the newest CUDA that the driver supports, e.g. (13, 0); None without driver or nvidia-ml-py."""
    pynvml = _open_nvml()
    if pynvml is None:
        return None
    try:
        number = int(pynvml.nvmlSystemGetCudaDriverVersion())
        pynvml.nvmlShutdown()
    except pynvml.NVMLError:
        return None
    return number // 1000, number % 1000 // 10


def read_clocks(uuid: str) -> dict[str, Any] | None:
    """Return clocks of SM and memory (MHz), temperature (C), power (W) and throttle reasons (bit mask) of a GPU.

    Return None where NVML cannot answer. The GPU is found by its UUID, because NVML ignores CUDA_VISIBLE_DEVICES.
    """
    pynvml = _open_nvml()
    if pynvml is None:
        return None
    try:
        handle = pynvml.nvmlDeviceGetHandleByUUID(uuid)
        return {
            "sm_clock_mhz": int(pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_SM)),
            "memory_clock_mhz": int(pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_MEM)),
            "temperature_c": int(pynvml.nvmlDeviceGetTemperature(handle, pynvml.NVML_TEMPERATURE_GPU)),
            "power_w": round(pynvml.nvmlDeviceGetPowerUsage(handle) / 1000, 1),
            "throttle_reasons": throttle_names(int(pynvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle))),
        }
    except pynvml.NVMLError:
        return None


# Bits of nvmlClocksEventReasons (nvml.h). Only Idle is not a throttle.
_THROTTLE_BITS = {
    0x1: "gpu_idle",
    0x2: "applications_clocks_setting",
    0x4: "sw_power_cap",
    0x8: "hw_slowdown",
    0x10: "sync_boost",
    0x20: "sw_thermal_slowdown",
    0x40: "hw_thermal_slowdown",
    0x80: "hw_power_brake_slowdown",
    0x100: "display_clock_setting",
}


def throttle_names(mask: int) -> list[str]:
    """Return the names of the bits that are set in an NVML clock-event mask. An unknown bit is shown as its number."""
    names = [name for bit, name in _THROTTLE_BITS.items() if mask & bit]
    unknown = mask & ~sum(_THROTTLE_BITS)
    return [*names, f"unknown_0x{unknown:x}"] if unknown else names


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value


def _cpu_model() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def _host_memory_bytes() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None


def _git_commit() -> str | None:
    """Return the commit of the working directory's repository, with `-dirty` when it has changes."""
    try:
        done = subprocess.run(
            ["git", "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"],
            capture_output=True,
            text=True,
            timeout=10,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None
