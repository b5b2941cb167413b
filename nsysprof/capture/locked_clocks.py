"""Lock the SM clock of the measured GPU while it is measured, and release it however the measurement ends."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from nsysprof.errors import MissingToolError

_STARTUP_S = 60.0
_RESTORE_S = 30.0
_ASK_UUID = "import torch; print(torch.cuda.get_device_properties(0).uuid)"
LOCKED = "locked"


@contextmanager
def locked_clocks(uuid: str, mhz: int) -> Iterator[None]:
    """Hold a GPU's SM clock at `mhz` (MHz) inside the context.

    Another process holds the clock, and releases it as soon as this one leaves the context or ends in any way. Raises
    MissingToolError where locking is not permitted, or where the clock could not be released.

    uuid: the GPU's UUID, as NVML reports it.
    """
    argv = [sys.executable, "-m", "nsysprof.capture.locked_clocks", uuid, str(mhz)]
    keeper = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert keeper.stdin is not None
    assert keeper.stdout is not None
    try:
        said = keeper.stdout.readline().strip()
        if said != LOCKED:
            raise MissingToolError(
                f"The clock cannot be locked at {mhz} MHz: {said or 'the process that holds it died'}.",
                "Locking needs root. --sustained measures at the clock that the GPU can hold by itself.",
            )
        yield
    finally:
        keeper.stdin.close()
        code = _end_of(keeper)
        keeper.stdout.close()
    if code != 0:
        raise MissingToolError(
            "The clock was locked and could not be released.", "Run nvidia-smi --reset-gpu-clocks as root."
        )


def measured_gpu() -> str:
    """Return the UUID of the GPU that a measured process uses. Raises MissingToolError where there is none."""
    try:
        done = subprocess.run(
            [sys.executable, "-c", _ASK_UUID], capture_output=True, text=True, timeout=_STARTUP_S, check=False
        )
        uuid = done.stdout.strip() if done.returncode == 0 else ""
    except subprocess.TimeoutExpired:
        uuid = ""
    if not uuid:
        raise MissingToolError("--lock-clocks found no GPU to lock.", "Leave it out, or see nsysprof doctor.")
    return uuid if uuid.startswith("GPU-") else f"GPU-{uuid}"


def _end_of(keeper: subprocess.Popen[str]) -> int:
    """Return how the holding process ended. A second Ctrl-C does not interrupt this."""
    while True:
        try:
            return keeper.wait(_RESTORE_S)
        except KeyboardInterrupt:
            continue
        except subprocess.TimeoutExpired:
            return 1


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
