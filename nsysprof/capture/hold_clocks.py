"""Hold a GPU's SM clock at one frequency until standard input ends: python -m nsysprof.capture.hold_clocks UUID MHZ.

It is a process of its own so that the clock is given back however the measuring process ends, a kill among the ways:
its end of the pipe closes with it. The first line that is printed says `locked`, or why that was refused.
"""

from __future__ import annotations

import signal
import sys
from typing import Any

LOCKED = "locked"


def main(arguments: list[str]) -> int:
    """Lock, wait for the end of standard input, and give the clock back; return the exit code."""
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
