"""Do a known amount of GPU work in three processes, to check a recording of it. It only needs the CUDA driver.

Run as `python probe_program.py COUNTS`: each process writes what it did to COUNTS.NAME. The main process launches
kernels on two streams, replays a graph, and allocates in every possible way. A process forked before any CUDA and a new
one launch kernels too.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

# Launches of each process, nodes of the graph, and how often it is replayed.
LAUNCHES = {"main": 40, "forked": 7, "spawned": 9}
NODES, REPLAYS = 5, 4
_BYTES = 1 << 20
# Drivers refuse to compile for what is newer than they are, and some for what is old.
_TARGETS = (("6.0", "sm_50"), ("6.3", "sm_75"), ("7.0", "sm_80"))
_PTX = """\
.version {version}
.target {target}
.address_size 64
.visible .entry nsysprof_probe(.param .u64 pointer)
{{
    .reg .b64 %rd<3>;
    .reg .b32 %r<3>;
    ld.param.u64 %rd1, [pointer];
    cvta.to.global.u64 %rd2, %rd1;
    ld.global.u32 %r1, [%rd2];
    add.s32 %r2, %r1, 1;
    st.global.u32 [%rd2], %r2;
    ret;
}}
"""
_RELAXED = 2  # CU_STREAM_CAPTURE_MODE_RELAXED
_NON_BLOCKING = 1


class _Location(ctypes.Structure):
    _fields_ = (("type", ctypes.c_int), ("id", ctypes.c_int))


class _AllocationProperties(ctypes.Structure):
    _fields_ = (
        ("type", ctypes.c_int),
        ("handle_types", ctypes.c_int),
        ("location", _Location),
        ("windows", ctypes.c_void_p),
        ("flags", ctypes.c_ubyte * 8),
    )


class _Access(ctypes.Structure):
    _fields_ = (("location", _Location), ("flags", ctypes.c_int))


class DriverCallError(Exception):
    """A call of the driver failed."""


class CudaDriver:
    """The CUDA driver, with a context on the first GPU that is visible."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL("libcuda.so.1")
        self.call("cuInit", 0)
        device, context = ctypes.c_int(), ctypes.c_void_p()
        self.call("cuDeviceGet", ctypes.byref(device), 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self.call("cuCtxSetCurrent", context)
        self.device = device.value

    def call(self, name: str, *arguments: Any) -> None:
        """Call the driver. Raises DriverCallError where it refuses."""
        try:
            function: Callable[..., int] = getattr(self._library, name)
        except AttributeError:
            raise DriverCallError(f"{name} is not there") from None
        code = function(*arguments)
        if code != 0:
            raise DriverCallError(f"{name} failed with {code}")

    def pointer(self, name: str, *arguments: Any) -> ctypes.c_void_p:
        """Return what a call writes through its first argument."""
        pointer = ctypes.c_void_p()
        self.call(name, ctypes.byref(pointer), *arguments)
        return pointer

    def load_kernel(self) -> ctypes.c_void_p:
        """Return a kernel that adds one to an integer."""
        refused = ""
        for version, target in _TARGETS:
            text = _PTX.format(version=version, target=target).encode()
            try:
                module = self.pointer("cuModuleLoadData", text)
            except DriverCallError as error:
                refused = str(error)
                continue
            return self.pointer("cuModuleGetFunction", module, b"nsysprof_probe")
        raise DriverCallError(refused)


class KnownWork:
    """A kernel, memory for it, and two streams."""

    def __init__(self, driver: CudaDriver) -> None:
        self.driver = driver
        self.kernel = driver.load_kernel()
        self.memory = driver.pointer("cuMemAlloc_v2", ctypes.c_size_t(_BYTES))
        self.streams = [driver.pointer("cuStreamCreate", _NON_BLOCKING) for _ in range(2)]

    def launch(self, stream: ctypes.c_void_p) -> None:
        """Launch the kernel once."""
        parameters = (ctypes.c_void_p * 1)(ctypes.cast(ctypes.byref(self.memory), ctypes.c_void_p))
        self.driver.call("cuLaunchKernel", self.kernel, 1, 1, 1, 1, 1, 1, 0, stream, parameters, None)

    def launch_on_both(self, times: int) -> None:
        """Launch the kernel on the two streams in turn, and wait."""
        for number in range(times):
            self.launch(self.streams[number % 2])
        self.driver.call("cuCtxSynchronize")

    def replay(self, nodes: int, times: int) -> None:
        """Build a graph of this many kernels and replay it, and wait."""
        stream = self.streams[0]
        self.driver.call("cuStreamBeginCapture_v2", stream, _RELAXED)
        for _ in range(nodes):
            self.launch(stream)
        graph = ctypes.c_void_p()
        self.driver.call("cuStreamEndCapture", stream, ctypes.byref(graph))
        ready = self.driver.pointer("cuGraphInstantiateWithFlags", graph, ctypes.c_ulonglong(0))
        for _ in range(times):
            self.driver.call("cuGraphLaunch", ready, stream)
        self.driver.call("cuCtxSynchronize")

    def allocate(self) -> dict[str, bool]:
        """Allocate and free in each way, and return which ways this driver has."""
        ways = {"device": self._device, "pool": self._pool, "pinned": self._pinned, "virtual": self._virtual}
        done = {}
        for name, way in ways.items():
            done[name] = False
            with contextlib.suppress(DriverCallError):
                way()
                done[name] = True
        return done

    def _device(self) -> None:
        for _ in range(3):
            self.driver.call("cuMemFree_v2", self.driver.pointer("cuMemAlloc_v2", ctypes.c_size_t(_BYTES)))

    def _pool(self) -> None:
        stream = self.streams[0]
        for _ in range(3):
            block = self.driver.pointer("cuMemAllocAsync", ctypes.c_size_t(_BYTES), stream)
            self.driver.call("cuMemsetD8Async", block, ctypes.c_ubyte(1), ctypes.c_size_t(_BYTES), stream)
            self.driver.call("cuMemFreeAsync", block, stream)
        self.driver.call("cuCtxSynchronize")

    def _pinned(self) -> None:
        block = self.driver.pointer("cuMemAllocHost_v2", ctypes.c_size_t(_BYTES))
        self.driver.call("cuMemcpyHtoDAsync_v2", self.memory, block, ctypes.c_size_t(_BYTES), self.streams[1])
        self.driver.call("cuCtxSynchronize")
        self.driver.call("cuMemFreeHost", block)

    def _virtual(self) -> None:
        where = _Location(1, self.driver.device)
        wanted = _AllocationProperties(type=1, location=where)
        size = ctypes.c_size_t()
        self.driver.call("cuMemGetAllocationGranularity", ctypes.byref(size), ctypes.byref(wanted), 0)
        zero = ctypes.c_ulonglong(0)
        address = self.driver.pointer("cuMemAddressReserve", size, ctypes.c_size_t(0), ctypes.c_void_p(), zero)
        handle = ctypes.c_ulonglong()
        self.driver.call("cuMemCreate", ctypes.byref(handle), size, ctypes.byref(wanted), zero)
        self.driver.call("cuMemMap", address, size, ctypes.c_size_t(0), handle, zero)
        access = _Access(where, 3)
        self.driver.call("cuMemSetAccess", address, size, ctypes.byref(access), ctypes.c_size_t(1))
        self.driver.call("cuMemUnmap", address, size)
        self.driver.call("cuMemRelease", handle)
        self.driver.call("cuMemAddressFree", address, size)


def work_as(name: str) -> dict[str, Any]:
    """Do the work of this process and return what it did."""
    facts: dict[str, Any] = {"pid": os.getpid(), "launches": LAUNCHES[name], "nodes": 0, "replays": 0}
    work = KnownWork(CudaDriver())
    work.launch_on_both(LAUNCHES[name])
    if name == "main":
        facts["ways"] = work.allocate()
        work.replay(NODES, REPLAYS)
        facts |= {"nodes": NODES * REPLAYS, "replays": REPLAYS}
    return facts


def _fork(path: str) -> None:
    """Let a forked process do its work, and wait for it."""
    child = os.fork()
    if child == 0:
        code = 1
        with contextlib.suppress(BaseException):
            _write(path, "forked", work_as("forked"))
            code = 0
        # A usual end, so that a profiler in the process has its chance.
        sys.exit(code)
    os.waitpid(child, 0)


def _write(path: str, name: str, facts: dict[str, Any]) -> None:
    Path(f"{path}.{name}").write_text(json.dumps(facts), encoding="utf-8")


def main(arguments: list[str]) -> int:
    """Do the work of the process that the arguments name; without a name, of all processes."""
    path = arguments[0]
    if len(arguments) > 1:
        _write(path, arguments[1], work_as(arguments[1]))
        return 0
    _fork(path)
    subprocess.run([sys.executable, __file__, path, "spawned"], check=False)
    try:
        main_facts = work_as("main")
    except (DriverCallError, OSError) as error:
        print(f"no CUDA: {error}", file=sys.stderr)  # noqa: T201
        return 3
    _write(path, "main", main_facts)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
