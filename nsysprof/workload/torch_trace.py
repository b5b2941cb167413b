"""The embedded profiler: torch.profiler (Kineto, CUPTI) written as a SQLite with the tables and columns of nsys.

On a GPU, kernels, copies, fills, API calls and torch's own allocator events are recorded. On a CPU-only machine a row
of the kernel table is a leaf operator on the device `cpu`, as META_DATA_CAPTURE's NSYSPROF:WORK_KIND says.
"""

from __future__ import annotations

import json
import os
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile, record_function

from nsysprof import __version__
from nsysprof.workload.leaf_operators import select_leaves

Event = dict[str, Any]

_TABLES: dict[str, dict[str, type]] = {
    "StringIds": {"id": int, "value": str},
    "META_DATA_CAPTURE": {"name": str, "value": str},
    "TARGET_INFO_SESSION_START_TIME": {"utcEpochNs": int},
    "TARGET_INFO_GPU": {
        "id": int, "name": str, "totalMemory": int, "smCount": int, "cuDevice": int,
        "computeMajor": int, "computeMinor": int,
    },
    "CUPTI_ACTIVITY_KIND_KERNEL": {
        "start": int, "end": int, "deviceId": int, "contextId": int, "streamId": int, "correlationId": int,
        "globalPid": int, "demangledName": int, "shortName": int, "registersPerThread": int,
        "gridX": int, "gridY": int, "gridZ": int, "blockX": int, "blockY": int, "blockZ": int,
    },
    "CUPTI_ACTIVITY_KIND_MEMCPY": {
        "start": int, "end": int, "deviceId": int, "contextId": int, "streamId": int, "correlationId": int,
        "globalPid": int, "bytes": int, "copyKind": int,
    },
    "CUPTI_ACTIVITY_KIND_MEMSET": {
        "start": int, "end": int, "deviceId": int, "contextId": int, "streamId": int, "correlationId": int,
        "globalPid": int, "value": int, "bytes": int,
    },
    "CUPTI_ACTIVITY_KIND_RUNTIME": {
        "start": int, "end": int, "eventClass": int, "globalTid": int, "correlationId": int, "nameId": int,
        "returnValue": int,
    },
    "NVTX_EVENTS": {
        "start": int, "end": int, "eventType": int, "rangeId": int, "text": str, "globalTid": int,
        "endGlobalTid": int, "textId": int, "domainId": int,
    },
    "CUDA_GPU_MEMORY_USAGE_EVENTS": {
        "start": int, "globalPid": int, "deviceId": int, "contextId": int, "address": int, "bytes": int,
        "memKind": int, "memoryOperationType": int,
    },
}  # fmt: skip

_PUSH_POP, _START_END = 59, 60
_COPY_KINDS = {
    "HtoD": 1,
    "DtoH": 2,
    "HtoA": 3,
    "AtoH": 4,
    "AtoA": 5,
    "AtoD": 6,
    "DtoA": 7,
    "DtoD": 8,
    "HtoH": 9,
    "PtoP": 10,
}
_DEVICE_MEMORY = 2  # ENUM_CUDA_MEM_KIND: device


class TorchTrace:
    """Appends one profiled session after another to one SQLite; several processes may do so in turn."""

    def __init__(self, path: str, origin_ns: int, device: str) -> None:
        """origin_ns: UTC epoch of time zero of the trace, the same for all sessions."""
        import sqlite_utils

        self._database = sqlite_utils.Database(path)
        self._device = device
        new = "StringIds" not in self._database.table_names()
        for table, columns in _TABLES.items():
            self._database[table].create(columns, if_not_exists=True)
        if new:
            self._write_metadata(origin_ns)
        (self._origin_ns,) = next(
            iter(self._database.query("SELECT utcEpochNs FROM TARGET_INFO_SESSION_START_TIME"))
        ).values()
        self._strings = {row["value"]: row["id"] for row in self._database["StringIds"].rows}
        self._correlation_base = self._largest_correlation()

    def close(self) -> None:
        self._database.close()

    @contextmanager
    def record(self) -> Iterator[None]:
        """Profile the block and append what was recorded, also when the block raises."""
        activities = [ProfilerActivity.CPU]
        if self._device == "cuda":
            activities.append(ProfilerActivity.CUDA)
        profiler = profile(activities=activities, profile_memory=True, acc_events=True)
        profiler.start()
        try:
            yield
        finally:
            profiler.stop()
            self._append(_export_events(profiler))

    @staticmethod
    def annotate(name: str) -> Any:
        return record_function(name)

    def _write_metadata(self, origin_ns: int) -> None:
        cuda = self._device == "cuda"
        facts = {
            "NSYSPROF:VERSION": __version__,
            "NSYSPROF:TOOL": "torch",
            "NSYSPROF:TOOL_VERSION": str(torch.__version__),
            "NSYSPROF:WORK_KIND": "kernel" if cuda else "operator",
            "NSYSPROF:MEMORY_KIND": "allocator",
        }
        self._database["META_DATA_CAPTURE"].insert_all({"name": k, "value": v} for k, v in facts.items())
        self._database["TARGET_INFO_SESSION_START_TIME"].insert({"utcEpochNs": origin_ns})
        self._database["TARGET_INFO_GPU"].insert_all(_devices(self._device))
        self._announce(origin_ns)

    def _announce(self, origin_ns: int) -> None:
        """The range at the start of every trace that names this tool; it spans the opening of this one."""
        self._database["StringIds"].insert({"id": 1, "value": f"nsysprof {__version__}"})
        tid = global_tid(os.getpid(), threading.get_native_id())
        end = time.time_ns() - origin_ns
        self._database["NVTX_EVENTS"].insert(
            {"start": 0, "end": end, "eventType": _START_END, "globalTid": tid, "textId": 1, "domainId": 0}
        )

    def _largest_correlation(self) -> int:
        (row,) = self._database.query("SELECT max(correlationId) AS largest FROM CUPTI_ACTIVITY_KIND_RUNTIME")
        return int(row["largest"] or 0) + 1

    def _string_id(self, text: str) -> int:
        number: int = self._strings.setdefault(text, len(self._strings) + 1)
        return number

    def _append(self, events: list[Event]) -> None:
        known = len(self._strings)
        rows: dict[str, list[dict[str, Any]]] = {table: [] for table in _TABLES}
        pid = next((event["pid"] for event in events if event.get("cat") in ("cpu_op", "user_annotation")), 0)
        rows["NVTX_EVENTS"] = [row for e in events if e.get("cat") == "user_annotation" for row in self._range(e)]
        if self._device == "cuda":
            self._gpu_rows(events, pid, rows)
        else:
            self._operator_rows(events, pid, rows)
        rows["CUDA_GPU_MEMORY_USAGE_EVENTS"] = self._memory_rows(events, pid)
        rows["StringIds"] = [{"id": number, "value": text} for text, number in self._strings.items() if number > known]
        for table, new in rows.items():
            if new:
                self._database[table].insert_all(new)
        self._correlation_base = self._largest_correlation()

    def _span(self, event: Event) -> dict[str, int]:
        start = event["start_ns"] - self._origin_ns
        return {"start": start, "end": start + event["duration_ns"]}

    def _range(self, event: Event) -> list[dict[str, Any]]:
        """A range twice, as our NVTX annotation makes it: process-wide, and push/pop on its thread."""
        if event["name"].startswith("ProfilerStep"):
            return []
        tid = global_tid(event["pid"], event["tid"])
        base = {
            **self._span(event),
            "textId": self._string_id(event["name"]),
            "globalTid": tid,
            "domainId": 0,
        }
        return [
            {**base, "eventType": _START_END, "endGlobalTid": tid},
            {**base, "eventType": _PUSH_POP, "endGlobalTid": None},
        ]

    def _gpu_rows(self, events: list[Event], pid: int, rows: dict[str, list[dict[str, Any]]]) -> None:
        for event in events:
            category, arguments = event.get("cat"), event.get("args", {})
            if category in ("cuda_runtime", "cuda_driver"):
                rows["CUPTI_ACTIVITY_KIND_RUNTIME"].append(
                    {
                        **self._span(event),
                        "eventClass": 0 if category == "cuda_runtime" else 1,
                        "globalTid": global_tid(event["pid"], event["tid"]),
                        "correlationId": self._correlation_base + int(arguments["correlation"]),
                        "nameId": self._string_id(event["name"]),
                        "returnValue": 0,
                    }
                )
                continue
            if category not in ("kernel", "gpu_memcpy", "gpu_memset"):
                continue
            work = {
                **self._span(event),
                "deviceId": int(arguments.get("device", 0)),
                "contextId": int(arguments.get("context", 0)),
                "streamId": int(arguments.get("stream", 0)),
                "correlationId": self._correlation_base + int(arguments["correlation"]),
                "globalPid": global_tid(pid, 0),
            }
            if category == "kernel":
                rows["CUPTI_ACTIVITY_KIND_KERNEL"].append({**work, **self._kernel_fields(event["name"], arguments)})
            elif category == "gpu_memcpy":
                kind = next((n for word, n in _COPY_KINDS.items() if word in event["name"]), None)
                rows["CUPTI_ACTIVITY_KIND_MEMCPY"].append({**work, "bytes": int(arguments["bytes"]), "copyKind": kind})
            else:
                rows["CUPTI_ACTIVITY_KIND_MEMSET"].append({**work, "bytes": int(arguments["bytes"]), "value": 0})

    def _kernel_fields(self, name: str, arguments: dict[str, Any]) -> dict[str, int | None]:
        grid, block = arguments.get("grid", [0, 0, 0]), arguments.get("block", [0, 0, 0])
        return {
            "demangledName": self._string_id(name),
            "shortName": self._string_id(short_name(name)),
            "registersPerThread": int(arguments.get("registers per thread", 0)),
            **{f"grid{axis}": int(size) for axis, size in zip("XYZ", grid, strict=True)},
            **{f"block{axis}": int(size) for axis, size in zip("XYZ", block, strict=True)},
        }

    def _operator_rows(self, events: list[Event], pid: int, rows: dict[str, list[dict[str, Any]]]) -> None:
        """A leaf operator is its own launch: one row of work and one of API, tied by a number of ours."""
        operators = [event for event in events if event.get("cat") == "cpu_op"]
        threads = {tid: index for index, tid in enumerate(dict.fromkeys(e["tid"] for e in operators))}
        for number, event in enumerate(select_leaves(operators)):
            name = self._string_id(event["name"])
            shared = {**self._span(event), "correlationId": self._correlation_base + number}
            rows["CUPTI_ACTIVITY_KIND_KERNEL"].append(
                {
                    **shared,
                    "deviceId": 0,
                    "contextId": 0,
                    "streamId": threads[event["tid"]],
                    "globalPid": global_tid(pid, 0),
                    "demangledName": name,
                    "shortName": name,
                    "registersPerThread": 0,
                }
            )
            rows["CUPTI_ACTIVITY_KIND_RUNTIME"].append(
                {
                    **shared,
                    "eventClass": 0,
                    "globalTid": global_tid(event["pid"], event["tid"]),
                    "nameId": name,
                    "returnValue": 0,
                }
            )

    def _memory_rows(self, events: list[Event], pid: int) -> list[dict[str, Any]]:
        wanted = 1 if self._device == "cuda" else 0  # c10::DeviceType
        rows = []
        for event in events:
            arguments = event.get("args", {})
            if event["name"] != "[memory]" or arguments.get("Device Type") != wanted:
                continue
            size = int(arguments["Bytes"])
            rows.append(
                {
                    "start": event["start_ns"] - self._origin_ns,
                    "globalPid": global_tid(pid, 0),
                    "deviceId": max(0, int(arguments.get("Device Id", 0))),
                    "contextId": 0,
                    "address": int(arguments["Addr"]),
                    "bytes": abs(size),
                    "memKind": _DEVICE_MEMORY,
                    "memoryOperationType": 0 if size > 0 else 1,
                }
            )
        return rows


def global_tid(pid: int, tid: int) -> int:
    """nsys' serialized id, <HW:8><VM:8><PID:24><TID:24>, as on Linux; a tid of zero gives the globalPid."""
    return (1 << 48) | ((int(pid) & 0xFFFFFF) << 24) | (int(tid) & 0xFFFFFF)


def short_name(name: str) -> str:
    """A kernel's base name: without return type, namespaces, template arguments and parameters."""
    head = name.replace("(anonymous namespace)", "anonymous").split("(", maxsplit=1)[0]
    depth, kept = 0, []
    for char in head:
        depth += (char == "<") - (char == ">")
        if depth == 0 and char != ">":
            kept.append(char)
    return "".join(kept).split("::")[-1].split(" ")[-1].strip() or name


def _devices(device: str) -> list[dict[str, Any]]:
    if device != "cuda":
        return [{"id": 0, "name": "cpu", "totalMemory": None, "smCount": None, "cuDevice": 0}]
    rows = []
    for index in range(torch.cuda.device_count()):
        facts = torch.cuda.get_device_properties(index)
        rows.append(
            {
                "id": index,
                "name": facts.name,
                "totalMemory": facts.total_memory,
                "smCount": facts.multi_processor_count,
                "cuDevice": index,
                "computeMajor": facts.major,
                "computeMinor": facts.minor,
            }
        )
    return rows


def _export_events(profiler: profile) -> list[Event]:
    """Kineto's events with integer `start_ns` (UTC epoch) and `duration_ns`.

    The JSON holds microseconds with three decimals, larger than a float keeps exactly; hence Decimal.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kineto.json"
        profiler.export_chrome_trace(str(path))
        data = json.loads(path.read_text(encoding="utf-8", errors="replace"), parse_float=Decimal)
    base = int(data.get("baseTimeNanoseconds", 0))
    events = [event for event in data["traceEvents"] if event.get("ph") in ("X", "i")]
    for event in events:
        event["start_ns"] = base + int(Decimal(event["ts"]) * 1000)
        event["duration_ns"] = int(Decimal(event.get("dur", 0)) * 1000)
    return events
