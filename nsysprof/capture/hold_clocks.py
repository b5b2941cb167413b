"""Hold a GPU's SM clock at one frequency until standard input ends: python -m nsysprof.capture.hold_clocks UUID MHZ.

This runs as a separate process, so that the clock is released however the measuring process ends, even if it is killed:
its end of the pipe closes with it. The first line of output is `locked`, or why the lock was refused.
"""

from __future__ import annotations

import signal
import sys
from typing import Any

LOCKED = "locked"


def main(arguments: list[str]) -> int:
    """Lock the clock, wait until standard input ends, release the clock, and return the exit code."""
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_IGN)
    try:
        import pynvml
    except ImportError:
        _say("nvidia-ml-py is not installed")
        return 1
    uuid, mhz = arguments[0], int(arguments[1])
    try:
        pynvml.nvmlInit()
        handle = pynvml.nvmlDeviceGetHandleByUUID(uuid)
    except pynvml.NVMLError as error:
        _say(str(error))
        return 1
    return _hold(pynvml, handle, mhz)


def _hold(pynvml: Any, handle: Any, mhz: int) -> int:
    try:
        pynvml.nvmlDeviceSetGpuLockedClocks(handle, mhz, mhz)
    except pynvml.NVMLError as error:
        _say(str(error))
        return 1
    try:
        _say(LOCKED)
        sys.stdin.buffer.read()
    finally:
        pynvml.nvmlDeviceResetGpuLockedClocks(handle)
    return 0


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
