"""Write Perfetto's protobuf for ui.perfetto.dev and trace_processor, with times in integer nanoseconds."""

from __future__ import annotations

import re
from functools import cached_property
from pathlib import Path
from typing import IO, Any

import numpy as np
import pandas as pd

from nsysprof.arrays import Int64s, rows_by_key
from nsysprof.errors import MissingToolError
from nsysprof.export.content import CHUNK_ROWS, Advance, Content, Counts
from nsysprof.export.nesting import begins_and_ends, closed_parts, disjoint_lanes, find_crossing, sort_for_nesting
from nsysprof.export.processes import Numbers, device_ids, device_name, device_of, number_processes, thread_id
from nsysprof.export.slice_packets import InternedTexts, Slices, encode_slices
from nsysprof.files.output import open_whole

_SEQUENCE = 1
_PID_MASK = ~0xFFFFFF
# After this many passes over overlapping slices, the rest is laid out at once.
_MOST_NESTING_TRACKS = 8
_NONE = np.zeros(0, dtype=np.int64)
_UNIT = re.compile(r"\[(?:Throughput )?([^\]]*)\]\s*$")


def write_perfetto(content: Content, path: Path, advance: Advance) -> Counts:
    """Write the trace to `path` piece by piece, and return how many rows of each kind were written.

    Raises OutputError, and MissingToolError without the perfetto package.
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

    def write_slices(self, slices: Slices, track: int, time_ns: Int64s, row: Int64s) -> None:
        """Write begins and ends on a track, after everything that was added before."""
        self.flush()
        flags = self.protos.TracePacket.SEQ_NEEDS_INCREMENTAL_STATE
        self._stream.write(encode_slices(slices, _SEQUENCE, flags, track, time_ns, row))

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
        self._count_work()
        for global_pid, pid in self._numbers.pids.items():
            self._process(global_pid, pid)
        self.counts.add("range", len(self._timeline.nvtx))
        if self._has_calls:
            self.counts.add("api", len(self._timeline.api))
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
    def _work(self) -> Slices:
        gpu = self._timeline.gpu
        size_iid = self._packets.intern("debug_annotation_names", "bytes")
        into = None
        if self._has_calls:
            into = np.where(gpu["call"].to_numpy() >= 0, np.arange(1, len(gpu) + 1, dtype=np.int32), np.int32(0))
        return Slices(
            name=self._texts(gpu["name"], "event_names"),
            category=self._texts(gpu["kind"], "event_categories"),
            role_iid=self._packets.intern("debug_annotation_names", "role"),
            role=self._texts(gpu["category"], "debug_annotation_string_values"),
            size_iid=size_iid,
            sized=gpu["kind"].isin(["memcpy", "memset"]).to_numpy(dtype=bool),
            size=gpu["bytes"].to_numpy(dtype=np.int64),
            into=into,
        )

    def _count_work(self) -> None:
        for kind, number in self._timeline.gpu["kind"].value_counts().items():
            self.counts.add(str(kind), int(number))
        if self._has_calls:
            self.counts.add("flow", int((self._timeline.gpu["call"].to_numpy() >= 0).sum()))

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
    def _range(self) -> Slices:
        return Slices(self._texts(self._timeline.nvtx["name"], "event_names"), self._same("nvtx", self._timeline.nvtx))

    @cached_property
    def _call(self) -> Slices:
        api, calls = self._timeline.api, self._timeline.gpu["call"].to_numpy()
        # The work of each call, in the order of the calls; work without a call comes first.
        without = int((calls < 0).sum())
        launched = np.argsort(calls, kind="stable")[without:].astype(np.int32) + np.int32(1)
        edges = np.zeros(len(api) + 1, dtype=np.int32)
        np.cumsum(np.bincount(calls[calls >= 0], minlength=len(api)), out=edges[1:])
        names = self._texts(api["name"], "event_names")
        return Slices(names, self._same("cuda_api", api), out=launched, edges=edges)

    def _texts(self, texts: pd.Series, kind: str) -> InternedTexts:
        """Return the numbers of a column's texts. All of them are sent now, before any event that refers to them."""
        if isinstance(texts.dtype, pd.CategoricalDtype):
            codes, unique = texts.cat.codes.to_numpy(), texts.cat.categories
        else:
            codes, unique = pd.factorize(texts)
        numbers = [self._packets.intern(kind, str(text)) for text in unique]
        return InternedTexts(np.array(numbers, dtype=np.int64), codes)

    def _same(self, category: str, table: pd.DataFrame) -> InternedTexts:
        """Return the number of a category that all rows of a table have."""
        number = self._packets.intern("event_categories", category)
        return InternedTexts(np.array([number], dtype=np.int64), np.zeros(len(table), dtype=np.int8))

    # Both

    def _slices(self, table: pd.DataFrame, rows: Int64s, name: str, parent: int, rank: int, slices: Slices) -> None:
        """Write the rows to a track. Rows that overlap without nesting go to tracks of the same name, shown as one."""
        start_ns, end_ns = (table[column].to_numpy(dtype=np.int64)[rows] for column in ("start_ns", "end_ns"))
        order = sort_for_nesting(start_ns, end_ns)
        rows, start_ns, end_ns = rows[order], start_ns[order], end_ns[order]
        for _ in range(_MOST_NESTING_TRACKS):
            track, _ = self._packets.track(name, parent, rank)
            rest = self._fill_track(track, rows, start_ns, end_ns, slices)
            rows, start_ns, end_ns = rows[rest], start_ns[rest], end_ns[rest]
            if len(rows) == 0:
                return
        for _, part in rows_by_key(pd.Series(disjoint_lanes(start_ns, end_ns))):
            track, _ = self._packets.track(name, parent, rank)
            self._fill_track(track, rows[part], start_ns[part], end_ns[part], slices)

    def _fill_track(self, track: int, rows: Int64s, start_ns: Int64s, end_ns: Int64s, slices: Slices) -> Int64s:
        """Write the slices that nest, and return the positions of the others."""
        shift = self._content.shift_ns
        left_over = []
        for part in closed_parts(start_ns, end_ns):
            start, end, row = start_ns[part] + shift, end_ns[part] + shift, rows[part]
            crossing = find_crossing(start, end)
            if len(crossing):
                left_over.append(crossing + part.start)
                start, end, row = (np.delete(each, crossing) for each in (start, end, row))
            time, which = begins_and_ends(start, end)
            self._packets.write_slices(slices, track, time, np.where(which >= 0, row[which], -1))
            self._advance(len(row))
        return np.concatenate(left_over) if left_over else _NONE

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
