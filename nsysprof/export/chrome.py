"""Write Chrome's trace JSON, with the categories and arguments that readers of torch.profiler's traces need."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
import pandas as pd

from nsysprof.export.content import (
    CHUNK_ROWS,
    Advance,
    Content,
    Counts,
    device_ids,
    device_name,
    device_of,
    number_processes,
    thread_id,
)
from nsysprof.files.plain_file import open_whole

_WORK = {"kernel": "kernel", "memcpy": "gpu_memcpy", "memset": "gpu_memset", "graph": "gpu_graph"}
_HOST_MEMORY = ("Pageable", "Pinned")
_CUDA, _CPU = 1, 0  # c10::DeviceType
_SIDES = {"Host": "H", "Device": "D", "Array": "A", "Peer": "P"}


def write_chrome(content: Content, path: Path, advance: Advance) -> Counts:
    """Write the trace to `path`, event by event, and return how many rows of each kind were written.

    A path that ends in .gz is compressed. Raises OutputError.
    """
    with open_whole(path) as raw, _packed(raw, path) as stream:
        trace = _Trace(content, stream, advance)
        trace.write()
    return trace.counts


@contextmanager
def _packed(raw: IO[bytes], path: Path) -> Iterator[IO[bytes] | gzip.GzipFile]:
    if path.suffix != ".gz":
        yield raw
        return
    # Without a name and a time in its header, the same trace gives the same bytes.
    with gzip.GzipFile(filename="", mode="wb", compresslevel=6, fileobj=raw, mtime=0) as stream:
        yield stream


class _Trace:
    def __init__(self, content: Content, stream: IO[bytes] | gzip.GzipFile, advance: Advance) -> None:
        self._content = content
        self._analysis = content.analysis
        self._timeline = content.analysis.timeline
        self._stream = stream
        self._advance = advance
        self._numbers = number_processes(content)
        self._has_calls = content.analysis.trace.work_kind == "kernel"
        self._waiting: list[str] = []
        self._first = True
        self.counts = Counts()

    def write(self) -> None:
        self._stream.write(self._head().encode())
        self._name_lanes()
        for rows in (self._ranges, self._calls, self._work, self._memory, self._metrics):
            rows()
        self._flush()
        self._stream.write(b"\n]}\n")

    def _head(self) -> str:
        devices = [
            {"id": d.device_id, "name": d.name, "totalGlobalMem": d.total_memory_bytes, "numSms": d.sm_count}
            for d in self._analysis.devices
        ]
        head = {
            "schemaVersion": 1,
            "deviceProperties": devices if self._has_calls else [],
            "displayTimeUnit": "ns",
            "nsysprof": self._content.provenance(),
        }
        return json.dumps(head)[:-1] + ', "traceEvents": ['

    def _emit(self, event: str) -> None:
        self._waiting.append(event)
        if len(self._waiting) >= CHUNK_ROWS:
            self._flush()

    def _flush(self) -> None:
        if self._waiting:
            text = ",\n".join(self._waiting)
            self._stream.write(("\n" if self._first else ",\n").encode() + text.encode())
            self._first = False
            self._waiting.clear()

    def _name(self, pid: int, name: str, tid: int | None = None) -> None:
        kind = "process_name" if tid is None else "thread_name"
        event: dict[str, Any] = {"ph": "M", "name": kind, "pid": pid, "tid": tid or 0, "args": {"name": name}}
        self._emit(json.dumps(event))

    def _name_lanes(self) -> None:
        for device in device_ids(self._content):
            self._name(self._numbers.device_pids[device], device_name(self._analysis, device))
        for pid in self._numbers.pids.values():
            self._name(pid, "process")
        # A stream's number may repeat across processes and contexts, so each lane gets a number of its own.
        gpu = self._timeline.gpu
        self._lane_of = gpu["stream"].cat.codes.to_numpy()
        for lane, label in enumerate(gpu["stream"].cat.categories):
            for device in gpu["device_id"][self._lane_of == lane].unique():
                self._name(self._numbers.device_pids[int(device)], str(label), lane)

    def _time(self, time_ns: int) -> str:
        """Return the time in microseconds, exactly: as a float it would lose its nanoseconds."""
        time_ns += self._content.shift_ns
        return f"{time_ns // 1000}.{time_ns % 1000:03d}"

    def _times(self, table: pd.DataFrame) -> Iterator[tuple[int, str, str]]:
        """Yield the number, start and duration of every row; both times are texts in microseconds."""
        for low in range(0, len(table), CHUNK_ROWS):
            some = table.iloc[low : low + CHUNK_ROWS]
            pairs = zip(some["start_ns"].tolist(), some["end_ns"].tolist(), strict=True)
            for row, (start, end) in enumerate(pairs, start=low):
                yield row, self._time(start), f"{(end - start) // 1000}.{(end - start) % 1000:03d}"
            self._advance(len(some))

    def _ranges(self) -> None:
        """Write push/pop ranges as slices of their thread, and start/end ranges as asynchronous events.

        Start/end ranges belong to the whole process and may overlap.
        """
        nvtx = self._timeline.nvtx
        text = _quoted(nvtx["name"])
        styles, domains = nvtx["style"].to_numpy(), _quoted(nvtx["domain"])
        tids, ends = nvtx["global_tid"].to_numpy(), nvtx["end_ns"].to_numpy()
        for row, start, duration in self._times(nvtx):
            where = f'"pid":{self._numbers.pid(int(tids[row]))},"tid":{thread_id(int(tids[row]))}'
            if styles[row] == "PushPop":
                self._emit(
                    f'{{"ph":"X","cat":"user_annotation","name":{text(row)},{where},"ts":{start},"dur":{duration},'
                    f'"args":{{"domain":{domains(row)}}}}}'
                )
            else:
                end = self._time(int(ends[row]))
                both = f'"cat":"nvtx_start_end","name":{text(row)},"id":{row},{where}'
                self._emit(f'{{"ph":"b",{both},"ts":{start}}}')
                self._emit(f'{{"ph":"e",{both},"ts":{end}}}')
            self.counts.add("range")

    def _calls(self) -> None:
        if not self._has_calls:  # in an operator trace, the calls are the operators again
            return
        api = self._timeline.api
        names = _quoted(api["name"], _plain)
        is_driver = api["name"].map({name: _is_driver(str(name)) for name in _unique(api["name"])}).to_numpy(dtype=bool)
        tids = api["global_tid"].to_numpy()
        launches = np.zeros(len(api) + 1, dtype=bool)
        launches[self._timeline.gpu["call"].to_numpy()] = True  # work without a call has -1: the last, extra element
        for row, start, duration in self._times(api):
            category = "cuda_driver" if is_driver[row] else "cuda_runtime"
            pid, tid = self._numbers.pid(int(tids[row])), thread_id(int(tids[row]))
            # A number that no other process uses, because Kineto's GPU events name no process.
            correlation = f',"args":{{"correlation":{row + 1}}}' if launches[row] else ""
            self._emit(
                f'{{"ph":"X","cat":"{category}","name":{names(row)},"pid":{pid},"tid":{tid},"ts":{start},'
                f'"dur":{duration}{correlation}}}'
            )
            if launches[row]:
                self._emit(_arrow("s", row + 1, pid, tid, start))
            self.counts.add("api")

    def _work(self) -> None:
        gpu = self._timeline.gpu
        names, kinds = _quoted(gpu["name"], _kineto_name), gpu["kind"].to_numpy()
        host = self._content.work.host_of(self._content.work.numbers())
        columns = [gpu[name].to_numpy() for name in ("device_id", "context_id", "stream_id", "call", "bytes")]
        for row, start, duration in self._times(gpu):
            device, context, stream, call, size = (int(column[row]) for column in columns)
            kind, pid, tid = kinds[row], self._numbers.device_pids[device], int(self._lane_of[row])
            more = f',"bytes":{size}' if kind in ("memcpy", "memset") else ""
            more += f',"correlation":{call + 1}' if call >= 0 and self._has_calls else ""
            category = _WORK[kind] if self._has_calls else "cpu_op"
            name = names(row) if host[row] < 0 else _with_host_memory(names(row), _HOST_MEMORY[host[row]])
            self._emit(
                f'{{"ph":"X","cat":"{category}","name":{name},"pid":{pid},"tid":{tid},"ts":{start},'
                f'"dur":{duration},"args":{{"device":{device},"context":{context},"stream":{stream}{more}}}}}'
            )
            if call >= 0 and self._has_calls:
                self._emit(_arrow("f", call + 1, pid, tid, start))
                self.counts.add("flow")
            self.counts.add(kind)

    def _memory(self) -> None:
        name = "VRAM used" if self._analysis.trace.memory_kind == "driver" else "memory allocated"
        memory = self._timeline.memory
        blocks: dict[tuple[int, int], _Blocks] = {}
        columns = ("time_ns", "device_id", "used_bytes", "global_pid", "change")
        for time, device, used, process, change in zip(*(memory[name].tolist() for name in columns), strict=True):
            self._emit(self._sample(name, device, time, "bytes", used))
            pid = self._numbers.pids.get(process, self._numbers.device_pids[device])
            kind = _CUDA if self._has_calls else _CPU
            for address, size, total in blocks.setdefault((pid, device), _Blocks()).changes(change):
                self._emit(
                    f'{{"ph":"i","s":"t","cat":"cpu_instant_event","name":"[memory]","pid":{pid},"tid":0,'
                    f'"ts":{self._time(time)},"args":{{"Device Type":{kind},"Device Id":{device},"Addr":{address},'
                    f'"Bytes":{size},"Total Allocated":{total}}}}}'
                )
        self.counts.add("memory", len(memory))
        self._advance(len(memory))

    def _metrics(self) -> None:
        for series in self._content.metrics:
            device = device_of(series)
            for low in range(0, len(series), CHUNK_ROWS):
                some = slice(low, low + CHUNK_ROWS)
                for time, value in zip(series.time_ns[some].tolist(), series.value[some].tolist(), strict=True):
                    self._emit(self._sample(series.name, device, time, "value", value))
                self._advance(len(series.time_ns[some]))
            self.counts.add("metric sample", len(series))

    def _sample(self, name: str, device: int, time_ns: int, key: str, value: int) -> str:
        pid = self._numbers.device_pids[device]
        return (
            f'{{"ph":"C","name":{json.dumps(name)},"pid":{pid},"ts":{self._time(time_ns)},"args":{{"{key}":{value}}}}}'
        )


class _Blocks:
    """Blocks of memory whose sizes add up to what a process holds on a device.

    torch.profiler writes allocations and frees; a trace with pools knows how the sum changes alone.
    """

    def __init__(self) -> None:
        self._addresses_by_size: dict[int, list[int]] = {}
        self._next, self._total = 1, 0

    def changes(self, change: int) -> Iterator[tuple[int, int, int]]:
        """Yield the address and the size (negative for a free) of each block that a change takes, and the sum then."""
        while change < 0 and self._addresses_by_size:
            # What was allocated at once is mostly freed at once; else a block is freed, and what is left of it stays.
            fits = -change if -change in self._addresses_by_size else max(self._addresses_by_size)
            addresses = self._addresses_by_size[fits]
            address = addresses.pop()
            if not addresses:
                del self._addresses_by_size[fits]
            self._total -= fits
            change += fits
            yield address, -fits, self._total
        if change > 0:
            self._addresses_by_size.setdefault(change, []).append(self._next)
            self._next += 1
            self._total += change
            yield self._next - 1, change, self._total


def _arrow(phase: str, number: int, pid: int, tid: int, time: str) -> str:
    bound = ',"bp":"e"' if phase == "f" else ""
    return f'{{"ph":"{phase}","id":{number},"cat":"ac2g","name":"ac2g","pid":{pid},"tid":{tid},"ts":{time}{bound}}}'


def _quoted(texts: pd.Series, change: Callable[[str], str] = str) -> Callable[[int], str]:
    """Return a function from a row to its text as JSON. Each different text is converted only once."""
    codes, unique = pd.factorize(texts)
    quoted = [json.dumps(change(str(text))) for text in unique]
    return lambda row: quoted[codes[row]]


def _unique(texts: pd.Series) -> Any:
    return pd.factorize(texts)[1]


def _plain(name: str) -> str:
    """Return the function's name as Kineto writes it: without the version that nsys appends."""
    head, mark, version = name.rpartition("_v")
    return head if mark and version.isdigit() else name


def _is_driver(name: str) -> bool:
    return name.startswith("cu") and not name.startswith("cuda")


def _kineto_name(name: str) -> str:
    """Return `Memcpy HtoD` for [CUDA memcpy Host-to-Device]; kernels keep their names."""
    if name == "[CUDA memset]":
        return "Memset (Device)"
    if not name.startswith("[CUDA memcpy "):
        return name
    from_side, _, to_side = name.removeprefix("[CUDA memcpy ").removesuffix("]").partition("-to-")
    sides = _SIDES.get(from_side), _SIDES.get(to_side)
    return f"Memcpy {sides[0]}to{sides[1]}" if all(sides) else f"Memcpy ({name.strip('[]')})"


def _with_host_memory(name: str, memory: str) -> str:
    """Return `"Memcpy HtoD (Pageable -> Device)"` for `"Memcpy HtoD"`."""
    return f'{name[:-1]} ({memory} -> Device)"' if "HtoD" in name else f'{name[:-1]} (Device -> {memory})"'
