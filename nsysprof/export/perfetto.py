"""Write Perfetto's protobuf for ui.perfetto.dev and trace_processor, with times in integer nanoseconds."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import IO, Any

import numpy as np
import pandas as pd

from nsysprof.arrays import Int64s, rows_by_key
from nsysprof.errors import MissingToolError
from nsysprof.export.content import CHUNK_ROWS, Advance, Content, Counts
from nsysprof.export.nesting import disjoint_lanes, sort_for_nesting, walk
from nsysprof.export.processes import Numbers, device_ids, device_name, device_of, number_processes, thread_id
from nsysprof.files.output import open_whole

_SEQUENCE = 1
_PID_MASK = ~0xFFFFFF
# After this many passes over overlapping slices, the rest is laid out at once.
_MOST_NESTING_TRACKS = 8
_NONE = np.zeros(0, dtype=np.int64)
# Fills an event with the data of a row of its table.
Fill = Callable[[Any, int], None]
_UNIT = re.compile(r"\[(?:Throughput )?([^\]]*)\]\s*$")


def write_perfetto(content: Content, path: Path, advance: Advance) -> Counts:
    """Write the trace to `path` packet by packet, and return how many rows of each kind were written.

    Memory does not grow with the trace. Raises OutputError, and MissingToolError without the perfetto package.
    """
    try:
        import perfetto.trace_builder.proto_builder  # noqa: F401
    except ImportError as error:
        raise MissingToolError(
            "--perfetto needs the perfetto package, which is not installed.", "pip install 'nsysprof[perfetto]'"
        ) from error
    with open_whole(path) as stream:
        trace = _Trace(content, stream, advance)
        trace.write()
    return trace.counts


class _Packets:
    """The packets of one sequence. They are serialised a few thousand at a time, and repeated texts are sent once."""

    def __init__(self, stream: IO[bytes]) -> None:
        from perfetto.protos.perfetto.trace import perfetto_trace_pb2
        from perfetto.trace_builder.proto_builder import TraceProtoBuilder

        self.protos = perfetto_trace_pb2
        self._stream = stream
        self._make = TraceProtoBuilder
        self._builder = TraceProtoBuilder()
        self._pending = 0
        self._flags = perfetto_trace_pb2.TracePacket.SEQ_INCREMENTAL_STATE_CLEARED
        self._interned: dict[str, dict[str, int]] = {}
        self._tracks = 0

    def add(self) -> Any:
        """Return a new packet, which must be filled before the next one is asked for."""
        if self._pending >= CHUNK_ROWS:
            self.flush()
        self._pending += 1
        packet = self._builder.add_packet()
        packet.trusted_packet_sequence_id = _SEQUENCE
        packet.sequence_flags = self._flags
        self._flags = self.protos.TracePacket.SEQ_NEEDS_INCREMENTAL_STATE
        return packet

    def flush(self) -> None:
        self._stream.write(self._builder.serialize())
        self._builder = self._make()
        self._pending = 0

    def intern(self, kind: str, text: str) -> int:
        """Return the number of a text, for a field of InternedData; a new text is sent first."""
        known = self._interned.setdefault(kind, {})
        number = known.get(text)
        if number is None:
            number = known[text] = len(known) + 1
            entry = getattr(self.add().interned_data, kind).add(iid=number)
            if kind == "debug_annotation_string_values":
                entry.str = text.encode("utf-8", "replace")
            else:
                entry.name = _valid(text)
        return number

    def track(self, name: str, parent: int = 0, rank: int = 0) -> tuple[int, Any]:
        """Add a track below `parent` (0: none); return its number, and its descriptor for further fields."""
        self._tracks += 1
        descriptor = self.add().track_descriptor
        descriptor.uuid = self._tracks
        if name:
            descriptor.name = _valid(name)
        if parent:
            descriptor.parent_uuid = parent
        if rank:
            descriptor.sibling_order_rank = rank
        descriptor.child_ordering = self.protos.TrackDescriptor.EXPLICIT
        return self._tracks, descriptor

    def event(self, kind: int, track: int, time_ns: int) -> Any:
        packet = self.add()
        packet.timestamp = time_ns
        event = packet.track_event
        event.type = kind
        event.track_uuid = track
        return event


class _Trace:
    """One trace that is being written to a file."""

    def __init__(self, content: Content, stream: IO[bytes], advance: Advance) -> None:
        self._content = content
        self._analysis = content.analysis
        self._timeline = content.analysis.timeline
        self._packets = _Packets(stream)
        self._advance = advance
        self._numbers: Numbers = number_processes(content)
        self._types = self._packets.protos.TrackEvent
        # In an operator trace, the calls are the operators again.
        self._has_calls = self._analysis.trace.work_kind == "kernel"
        self.counts = Counts()

    def write(self) -> None:
        self._head()
        for device in device_ids(self._content):
            self._device(device)
        for global_pid, pid in self._numbers.pids.items():
            self._process(global_pid, pid)
        self._packets.flush()

    def _head(self) -> None:
        digest = self._analysis.trace.sha256
        packet = self._packets.add()
        packet.trace_uuid.msb, packet.trace_uuid.lsb = (_signed(digest[low : low + 16]) for low in (0, 16))
        if not self._analysis.notes:
            return
        track, _ = self._packets.track("notes", rank=1)
        for note in self._analysis.notes:
            event = self._packets.event(self._types.TYPE_INSTANT, track, 0)
            event.name = _valid(f"{note.severity.value}: {note.text}")
            event.categories.append("note")
            event.debug_annotations.add(name="code", string_value=note.code)
            if note.next_step:
                event.debug_annotations.add(name="next step", string_value=_valid(note.next_step))
            self.counts.add("note")

    # Devices

    def _device(self, device: int) -> None:
        group, _ = self._packets.track(device_name(self._analysis, device), rank=2)
        memory = self._timeline.memory
        used = memory[memory["device_id"] == device]
        if len(used):
            name = "VRAM used" if self._analysis.trace.memory_kind == "driver" else "memory allocated"
            counter = self._counter(name, group, 1, is_bytes=True)
            self._samples(counter, used["time_ns"].to_numpy(), used["used_bytes"].to_numpy())
            self.counts.add("memory", len(used))
        for series in self._content.metrics:
            if device_of(series) == device:
                counter = self._counter(series.name, group, 3)
                self._samples(counter, series.time_ns, series.value)
                self.counts.add("metric sample", len(series))
        gpu = self._timeline.gpu
        chosen = np.flatnonzero((gpu["device_id"] == device).to_numpy())
        for stream, rows in rows_by_key(gpu["stream"].iloc[chosen], chosen):
            self._slices(gpu, rows, str(stream), group, 2, self._work)

    @cached_property
    def _work(self) -> Fill:
        gpu = self._timeline.gpu
        names, kinds = self._numbers_of(gpu["name"], "event_names"), self._numbers_of(gpu["kind"], "event_categories")
        roles = self._numbers_of(gpu["category"], "debug_annotation_string_values")
        role, size = (self._packets.intern("debug_annotation_names", name) for name in ("role", "bytes"))
        kind_of, sizes, calls = gpu["kind"].to_numpy(), gpu["bytes"].to_numpy(), gpu["call"].to_numpy()

        def fill(event: Any, row: int) -> None:
            kind = kind_of[row]
            event.name_iid = names(row)
            event.category_iids.append(kinds(row))
            event.debug_annotations.add(name_iid=role, string_value_iid=roles(row))
            if kind in ("memcpy", "memset"):
                event.debug_annotations.add(name_iid=size, uint_value=int(sizes[row]))
            if self._has_calls and calls[row] >= 0:
                event.terminating_flow_ids.append(row + 1)
                self.counts.add("flow")
            self.counts.add(kind)

        return fill

    # Processes

    def _process(self, global_pid: int, pid: int) -> None:
        group, descriptor = self._packets.track("")
        descriptor.process.pid = pid
        descriptor.process.process_name = "process"
        nvtx, api = self._timeline.nvtx, self._timeline.api
        shared = self._ranges_of["StartEnd"].get(global_pid, _NONE)
        for domain, rows in rows_by_key(nvtx["domain"].iloc[shared], shared):
            name = "NVTX start/end" + (f": {domain}" if domain else "")
            self._slices(nvtx, rows, name, group, 1, self._range)
        pushed, called = self._ranges_of["PushPop"].get(global_pid, _NONE), self._calls_of.get(global_pid, _NONE)
        ranges = dict(rows_by_key(nvtx["global_tid"].iloc[pushed], pushed))
        calls = dict(rows_by_key(api["global_tid"].iloc[called], called))
        for global_tid in sorted(ranges.keys() | calls.keys()):
            thread, descriptor = self._packets.track("", group)
            descriptor.thread.pid, descriptor.thread.tid = pid, thread_id(int(global_tid))
            own = ranges.get(global_tid, _NONE)
            for domain, rows in rows_by_key(nvtx["domain"].iloc[own], own):
                self._slices(nvtx, rows, "NVTX" + (f": {domain}" if domain else ""), thread, 1, self._range)
            if global_tid in calls:
                self._slices(api, calls[global_tid], "CUDA API", thread, 2, self._call)

    @cached_property
    def _ranges_of(self) -> dict[str, dict[int, Int64s]]:
        """Return the rows of ranges by style and process."""
        nvtx = self._timeline.nvtx
        of_style = {style: np.flatnonzero((nvtx["style"] == style).to_numpy()) for style in ("StartEnd", "PushPop")}
        return {style: dict(rows_by_key(nvtx["global_pid"].iloc[rows], rows)) for style, rows in of_style.items()}

    @cached_property
    def _calls_of(self) -> dict[int, Int64s]:
        """Return the rows of calls by process."""
        if not self._has_calls:
            return {}
        pids = self._timeline.api["global_tid"].astype("int64") & _PID_MASK
        return dict(rows_by_key(pids))

    @cached_property
    def _range(self) -> Fill:
        names = self._numbers_of(self._timeline.nvtx["name"], "event_names")
        category = self._packets.intern("event_categories", "nvtx")

        def fill(event: Any, row: int) -> None:
            event.name_iid = names(row)
            event.category_iids.append(category)
            self.counts.add("range")

        return fill

    @cached_property
    def _call(self) -> Fill:
        names = self._numbers_of(self._timeline.api["name"], "event_names")
        category = self._packets.intern("event_categories", "cuda_api")
        calls = self._timeline.gpu["call"].to_numpy()
        launched = np.argsort(calls, kind="stable")
        edges = np.searchsorted(calls[launched], np.arange(len(self._timeline.api) + 1))

        def fill(event: Any, row: int) -> None:
            event.name_iid = names(row)
            event.category_iids.append(category)
            if edges[row + 1] > edges[row]:
                event.flow_ids.extend((launched[edges[row] : edges[row + 1]] + 1).tolist())
            self.counts.add("api")

        return fill

    def _numbers_of(self, texts: pd.Series, kind: str) -> Callable[[int], int]:
        """Return a function from a row to the number of its text.

        All texts are sent now, before any event that refers to them.
        """
        codes, unique = pd.factorize(texts)
        numbers = [self._packets.intern(kind, str(text)) for text in unique]
        return lambda row: numbers[codes[row]]

    # Both

    def _slices(self, table: pd.DataFrame, rows: Int64s, name: str, parent: int, rank: int, fill: Fill) -> None:
        """Write the rows to a track. Rows that overlap without nesting go to tracks of the same name, shown as one."""
        shift = self._content.shift_ns
        start_ns, end_ns = (table[column].to_numpy(dtype=np.int64)[rows] for column in ("start_ns", "end_ns"))
        order = sort_for_nesting(start_ns, end_ns)
        rows, start_ns, end_ns = rows[order], start_ns[order] + shift, end_ns[order] + shift
        for _ in range(_MOST_NESTING_TRACKS):
            track, _ = self._packets.track(name, parent, rank)
            rest = self._fill_track(track, rows, start_ns, end_ns, fill)
            rows, start_ns, end_ns = rows[rest], start_ns[rest], end_ns[rest]
            if len(rows) == 0:
                return
        for _, part in rows_by_key(pd.Series(disjoint_lanes(start_ns, end_ns))):
            track, _ = self._packets.track(name, parent, rank)
            self._fill_track(track, rows[part], start_ns[part], end_ns[part], fill)

    def _fill_track(self, track: int, rows: Int64s, start_ns: Int64s, end_ns: Int64s, fill: Fill) -> list[int]:
        """Write the slices that nest, and return the positions of the others."""
        begin, end = self._types.TYPE_SLICE_BEGIN, self._types.TYPE_SLICE_END
        left_over: list[int] = []
        done = 0
        for time_ns, row in walk(start_ns, end_ns, left_over):
            event = self._packets.event(end if row < 0 else begin, track, time_ns)
            if row >= 0:
                fill(event, int(rows[row]))
                done += 1
                if done % CHUNK_ROWS == 0:
                    self._advance(CHUNK_ROWS)
        self._advance(done % CHUNK_ROWS)
        return left_over

    def _counter(self, name: str, parent: int, rank: int, *, is_bytes: bool = False) -> int:
        """Add a track for a counter. Its unit is bytes, or else what the name has in brackets."""
        track, descriptor = self._packets.track(name, parent, rank)
        unit = _UNIT.search(name)
        descriptor.counter.unit = self._packets.protos.CounterDescriptor.UNIT_UNSPECIFIED
        if is_bytes:
            descriptor.counter.unit = self._packets.protos.CounterDescriptor.UNIT_SIZE_BYTES
        elif unit:
            descriptor.counter.unit_name = _valid(unit[1])
        return track

    def _samples(self, counter: int, time_ns: Int64s, value: Int64s) -> None:
        shift = self._content.shift_ns
        for low in range(0, len(time_ns), CHUNK_ROWS):
            some = slice(low, low + CHUNK_ROWS)
            for time, number in zip(time_ns[some].tolist(), value[some].tolist(), strict=True):
                self._packets.event(self._types.TYPE_COUNTER, counter, time + shift).counter_value = number
            self._advance(len(time_ns[some]))


def _valid(text: str) -> str:
    """Return text that UTF-8 can store: half of a surrogate pair is replaced."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def _signed(digits: str) -> int:
    """Return sixteen hexadecimal digits as protobuf's int64."""
    return int.from_bytes(bytes.fromhex(digits), "big", signed=True)
