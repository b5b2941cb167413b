"""Convert Kineto's JSON (as torch.profiler's export_chrome_trace writes it) to an SQLite file."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from nsysprof.errors import OutputError, TraceEmptyError, TraceError, TraceForeignError
from nsysprof.files.plain_file import VERSION
from nsysprof.torchprof.kineto_events import Event, Header, int64, read_events, read_header
from nsysprof.torchprof.torch_tables import TorchTables
from nsysprof.trace.open import refuse_lfs_pointer

# Inside a JSON string the quotes would be escaped, so this matches only real categories.
_ON_GPU = re.compile(rb'"cat"\s*:\s*"(kernel|gpu_mem(cpy|set)|cuda_(runtime|driver)|Kernel|Mem(cpy|set)|Runtime)"')
_CHUNK = 4 << 20


def convert_kineto_json(source: Path, target: Path, named: Path | None = None) -> Path:
    """Write `source` as the new SQLite file `target`, and return its path.

    Time zero is the first event's start. If there are events of a GPU, kernels, copies and fills become the work.
    Otherwise the leaf operators on the CPU do. Memory is what torch's allocator reported, where it was recorded
    (profile_memory).

    Raises TraceEmptyError, TraceDamagedError or TraceForeignError for what is not a complete trace, TraceError for what
    cannot be read, and OutputError when `target` cannot be written.

    named: the path that errors show instead of `source`.
    """
    name = named or source
    try:
        _refuse_other_files(source, name)
        header = read_header(source, name)
        device = "cuda" if _has_gpu_events(source) else "cpu"
        rows = _convert(read_events(source, name), header, device, target)
    except sqlite3.Error as error:
        raise OutputError(f"{name} cannot be converted: {error}.", "Free space, or set TMPDIR.") from error
    except OSError as error:
        raise TraceError(f"{name} cannot be read: {error.strerror}.", "Check the path.") from error
    if rows == 0:
        raise _nothing(name, header)
    return target


def merge_kineto_files(sources: Sequence[Path], target: Path) -> dict[Path, int]:
    """Write the files of several processes as the one new SQLite file `target`; return how many rows each became.

    Time zero is the first event of all. Raises what convert_kineto_json raises.
    """
    headers = {source: read_header(source) for source in sources}
    firsts = {source: _until_first_time(read_events(source))[1] for source in sources}
    device = "cuda" if any(_has_gpu_events(source) for source in sources) else "cpu"
    origin_ns = min(headers[source].base_ns + firsts[source] for source in sources)
    devices = next((gpus for source in sources if (gpus := _devices(headers[source]))), [])
    rows = {}
    try:
        tables = TorchTables(target, device, VERSION)
        try:
            tables.describe(origin_ns, devices if device == "cuda" else (), None)
            for source in sources:
                shift_ns = headers[source].base_ns - origin_ns
                rows[source] = tables.append(read_events(source), shift_ns, earlier_memory=True)
        finally:
            tables.close()
    except sqlite3.Error as error:
        raise OutputError(f"{target} cannot be written: {error}.", "Free space, or choose another --out.") from error
    return rows


def _convert(events: Iterator[Event], header: Header, device: str, target: Path) -> int:
    head, origin_ns = _until_first_time(events)
    tables = TorchTables(target, device, VERSION)
    try:
        memory_kind = "driver" if header.has_driver_memory else "allocator"
        devices = _devices(header) if device == "cuda" else ()
        tables.describe(header.base_ns + origin_ns, devices, None, memory_kind=memory_kind)
        return tables.append(chain(head, events), -origin_ns, earlier_memory=True)
    finally:
        tables.close()


def _refuse_other_files(source: Path, name: Path) -> None:
    with source.open("rb") as stream:
        head = stream.read(100)
    if not head:
        raise TraceEmptyError(f"{name} is empty (0 bytes).", "Export it again, with export_chrome_trace.")
    refuse_lfs_pointer(name, head)


def _has_gpu_events(source: Path) -> bool:
    """Return whether any event belongs to a GPU, which decides whether operators become work."""
    rest = b""
    with source.open("rb") as stream:
        while chunk := stream.read(_CHUNK):
            if _ON_GPU.search(rest + chunk):
                return True
            rest = chunk[-100:]
    return False


def _until_first_time(events: Iterator[Event]) -> tuple[list[Event], int]:
    """Return the events up to the first with a time, and that time; 0 if none has one."""
    head: list[Event] = []
    for event in events:
        head.append(event)
        if event.start_ns is not None:
            return head, event.start_ns
    return head, 0


def _devices(header: Header) -> list[dict[str, Any]]:
    rows = []
    for position, device in enumerate(header.devices):
        number = int64(device.get("id"))
        index = position if number is None else number
        rows.append(
            {
                "id": index,
                "name": str(device.get("name", f"GPU {index}")),
                "totalMemory": int64(device.get("totalGlobalMem")),
                "smCount": int64(device.get("numSms", device.get("multiProcessorCount"))),
                "cuDevice": index,
                "computeMajor": int64(device.get("computeMajor", device.get("major"))),
                "computeMinor": int64(device.get("computeMinor", device.get("minor"))),
            }
        )
    return rows


def _nothing(name: Path, header: Header) -> TraceEmptyError | TraceForeignError:
    if header.is_kineto:
        return TraceEmptyError(
            f"{name} contains no operator, kernel or range.", "Record some work between the profiler's start and stop."
        )
    return TraceForeignError(
        f"{name} is a trace in Chrome's format, but not one of torch.profiler.",
        "Give the file that export_chrome_trace wrote, or an nsys export.",
    )
