"""Give each GPU one number, because every process numbers the GPUs in its own way.

A trace names a GPU in three ways: by the id of TARGET_INFO_GPU, by CUDA's ordinal on the machine (cuDevice), and by the
ordinal within a process. Kernels, copies and allocations use the latter, and CUDA_VISIBLE_DEVICES may reorder it. Our
number is the machine's ordinal.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from nsysprof.trace.columns import read_rows
from nsysprof.trace.open import Trace
from nsysprof.trace.schema import NULL, DeviceRow, Int64s

_PID_SHIFT, _PID_BITS = 24, 0xFFFFFF
# Characters. Kernels of templates within templates reach some thousands; a range has the name that a person gave it.
LONGEST_NAME = 8_192
LONGEST_RANGE_NAME = 1_024
LONGEST_DEVICE_NAME = LONGEST_METRIC_NAME = 200
_DIGITS = 16
_MARK = re.compile(rf"… \([\d,]+ characters, SHA-256 [0-9a-f]{{{_DIGITS}}}\)$")


@dataclass(frozen=True)
class Gpu:
    """A row of TARGET_INFO_GPU or of its predecessor in older exports; `number` is ours."""

    gpu_id: int
    number: int
    name: str
    total_memory_bytes: int | None
    sm_count: int | None
    uuid: str | None
    memory_bytes_per_s: int | None


@dataclass(frozen=True)
class Gpus:
    """The GPUs of a trace."""

    rows: tuple[Gpu, ...]
    # (pid, the process' ordinal) -> GPU id, where recorded.
    by_process: dict[tuple[int, int], int]

    @cached_property
    def _number_of(self) -> dict[int, int]:
        return {gpu.gpu_id: gpu.number for gpu in self.rows}

    def number(self, global_pid: int, ordinal: int) -> int:
        """Return our number of the GPU that the process calls `ordinal`, or `ordinal` where the trace does not say."""
        gpu_id = self.by_process.get(((global_pid >> _PID_SHIFT) & _PID_BITS, ordinal))
        return ordinal if gpu_id is None else self._number_of.get(gpu_id, ordinal)

    def numbers(self, global_pid: Int64s, ordinal: Int64s) -> Int64s:
        """Return our numbers for columns of processes and their ordinals."""
        if not self.by_process or len(ordinal) == 0:
            return ordinal
        pairs, code = np.unique(np.stack((global_pid, ordinal)), axis=1, return_inverse=True)
        number_of_pair = np.array([self.number(pid, device) for pid, device in pairs.T.tolist()], dtype=np.int64)
        numbers: npt.NDArray[np.int64] = number_of_pair[code.reshape(-1)]
        return numbers

    def device_rows(self) -> tuple[DeviceRow, ...]:
        """Return the GPUs by number, for the analysis."""
        by_number = {gpu.number: gpu for gpu in reversed(self.rows)}
        return tuple(
            DeviceRow(gpu.number, gpu.name, gpu.total_memory_bytes, gpu.sm_count, gpu.uuid)
            for _, gpu in sorted(by_number.items())
        )


def read_gpus(trace: Trace) -> Gpus:
    """Return the GPUs of TARGET_INFO_GPU and TARGET_INFO_CUDA_DEVICE. Exports of 2020 have another key or table."""
    rows = read_rows(
        trace,
        "TARGET_INFO_GPU",
        ("id", "deviceId", "cuDevice", "name", "totalMemory", "smCount", "uuid", "memoryBandwidth"),
    )
    oldest = read_rows(
        trace, "TARGET_INFO_CUDA_GPU", ("x", "deviceId", "x", "name", "x", "numMultiprocessors", "x", "x")
    )
    mapping = [
        (gpu, ordinal, pid)
        for gpu, ordinal, pid in read_rows(trace, "TARGET_INFO_CUDA_DEVICE", ("gpuId", "cudaId", "pid"))
        if isinstance(gpu, int) and isinstance(ordinal, int)
    ]
    known = []
    for gpu, device, ordinal, name, memory, sms, uuid, bandwidth in rows or oldest:
        key = next((i for i in (gpu, device) if isinstance(i, int)), None)
        if key is None or "Basic Render" in str(name):  # Windows lists its software renderer, with cuDevice 0 too
            continue
        seen = next((number for gpu_id, number, _ in mapping if gpu_id == key), None)
        machine = next((i for i in (ordinal, seen, device, key) if isinstance(i, int)), key)
        text = cut_name(str(uuid), LONGEST_DEVICE_NAME) if uuid else None
        processors = next((row[5] for row in oldest if row[1] == key), None) if sms is None else sms
        board = cut_name(name, LONGEST_DEVICE_NAME) if isinstance(name, str) else f"GPU {machine}"
        known.append(Gpu(key, machine, board, _int(memory), _int(processors), text, _int(bandwidth)))
    if len({gpu.number for gpu in known}) < len(known):
        # Two GPUs have the same ordinal where each was the only one that its process could see. Their ids distinguish
        # them.
        known = [Gpu(**{**vars(gpu), "number": gpu.gpu_id}) for gpu in known]
    by_process = {(pid, ordinal): gpu for gpu, ordinal, pid in mapping if isinstance(pid, int)}
    return Gpus(tuple(known), by_process)


def _int(value: object) -> int | None:
    return value if isinstance(value, int) and value != NULL else None


def cut_name(name: str, longest: int = LONGEST_NAME) -> str:
    """Return the name; of a longer one its beginning, its length and its SHA-256, which keeps it unique.

    A name that was already cut gives the same result as the whole name.

    longest: how many characters to keep.
    """
    if len(name) <= longest:
        return name
    marked = _MARK.search(name[-100:])
    if marked is not None:
        return name[:longest] + marked.group()
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGITS]
    return f"{name[:longest]}… ({len(name):,} characters, SHA-256 {digest})"
