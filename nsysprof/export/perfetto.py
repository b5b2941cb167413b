"""Write Perfetto's protobuf for ui.perfetto.dev and trace_processor, with times in integer nanoseconds."""

from __future__ import annotations

import re
from functools import cached_property
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from nsysprof.arrays import Int64s, rows_by_key
from nsysprof.errors import MissingToolError
from nsysprof.export.content import (
    CHUNK_ROWS,
    Advance,
    Content,
    Counts,
    Flows,
    Numbers,
    device_ids,
    device_name,
    device_of,
    number_processes,
    thread_id,
)
from nsysprof.export.slice_packets import NestedTrack, Slices, encode_slices, encode_texts
from nsysprof.files.plain_file import open_whole
from nsysprof.results.event_rows import CallRows, WorkRows

_SEQUENCE = 1
_PID_MASK = ~0xFFFFFF
_Ints = npt.NDArray[Any]
_NONE = np.zeros(0, dtype=np.int64)
_UNIT = re.compile(r"\[(?:Throughput )?([^\]]*)\]\s*$")


def write_perfetto(content: Content, path: Path, advance: Advance) -> Counts:
    """Write the trace to `path` piece by piece, and return how many rows of each kind were written.

    Raises OutputError, and MissingToolError without the perfetto package.
    """
    try:
        from perfetto.protos.perfetto.trace import perfetto_trace_pb2
        from perfetto.trace_builder.proto_builder import TraceProtoBuilder
    except ImportError as error:
        raise MissingToolError(
            "--perfetto needs the perfetto package, which is not installed.", "pip install 'nsysprof[perfetto]'"
        ) from error
    with open_whole(path) as stream:
        packets = _Packets(stream, perfetto_trace_pb2, TraceProtoBuilder)
        trace = _Trace(content, packets, advance)
        trace.write()
    return trace.counts


class _Packets:
    """The packets of one sequence. They are serialised a few thousand at a time, and repeated texts are sent once."""

    def __init__(self, stream: IO[bytes], protos: Any, make_builder: Any) -> None:
        self.protos = protos
        self._stream = stream
        self._make = make_builder
        self._builder = make_builder()
        self._pending = 0
        self._flags = protos.TracePacket.SEQ_INCREMENTAL_STATE_CLEARED
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
        for packets in encode_slices(slices, _SEQUENCE, flags, track, time_ns, row):
            self._stream.write(packets.data)

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
    """One trace that is being written to a file.

    Events are read, laid out on tracks and written some at a time. What is kept is a handful of events for each track.
    """

    def __init__(self, content: Content, packets: _Packets, advance: Advance) -> None:
        self._content = content
        self._analysis = content.analysis
        self._timeline = content.analysis.timeline
        self._packets = packets
        self._advance = advance
        self._numbers: Numbers = number_processes(content)
        self._types = self._packets.protos.TrackEvent
        # In an operator trace, the calls are the operators again.
        self._has_calls = self._analysis.trace.work_kind == "kernel"
        self.counts = Counts()

    def write(self) -> None:
        self._head()
        flows = Flows(self._content.work) if self._has_calls else None
        describe = self._describe_work(flows)
        streams: dict[tuple[int, int], NestedTrack] = {}
        for device in device_ids(self._content):
            streams |= self._device(device, describe)
        self._write_work(streams)
        if flows is not None:
            self.counts.add("flow", flows.count)
        threads = self._threads(flows)
        self._write_calls(threads)
        self.counts.add("range", len(self._timeline.nvtx))
        if self._has_calls:
            self.counts.add("api", len(self._content.calls))
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

    def _device(self, device: int, work: Slices) -> dict[tuple[int, int], NestedTrack]:
        """Write the counters of a device, and return the tracks of its streams by device and number of the label."""
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
        variants = self._content.work.variants
        labels = variants["stream"].cat
        own = labels.codes[(variants["device_id"] == device) & variants["kind"].notna()]
        return {
            (device, code): self._track(str(labels.categories[code]), group, 2, work)
            for code in sorted(own.unique().tolist())
        }

    def _describe_work(self, flows: Flows | None) -> Slices:
        work = self._content.work
        size_iid = self._packets.intern("debug_annotation_names", "bytes")
        texts = encode_texts(
            self._texts(work.variants["name"], "event_names"),
            self._texts(work.variants["kind"], "event_categories"),
            self._packets.intern("debug_annotation_names", "role"),
            self._texts(work.variants["category"], "debug_annotation_string_values"),
        )
        sized = work.variants["kind"].isin(["memcpy", "memset"]).to_numpy(dtype=bool)
        return Slices(work.variants_of, texts, work.bytes_of, sized, size_iid, into=flows)

    def _write_work(self, streams: dict[tuple[int, int], NestedTrack]) -> None:
        work = self._content.work
        lanes = zip(work.variants["device_id"].tolist(), work.variants["stream"].cat.codes.tolist(), strict=True)
        numbers = {key: number for number, key in enumerate(streams)}
        lane_of = np.array([numbers.get(lane, -1) for lane in lanes], dtype=np.int64)
        tracks, count = list(streams.values()), np.zeros(len(lane_of), dtype=np.int64)
        for low in range(0, len(work), CHUNK_ROWS):
            rows = work.numbers(low, low + CHUNK_ROWS)
            variant = work.variants_of(rows)
            count += np.bincount(variant, minlength=len(lane_of))
            self._spread(tracks, lane_of[variant], work, rows)
        for track in tracks:
            track.finish()
        for kind, number in zip(work.variants["kind"].tolist(), count.tolist(), strict=True):
            if number:
                self.counts.add(str(kind), number)

    # Processes

    def _threads(self, flows: Flows | None) -> dict[int, NestedTrack]:
        """Write the ranges of all processes, and return the tracks of the calls by global tid."""
        calls = self._content.calls
        describe = Slices(
            lambda rows: calls.variant[rows],
            encode_texts(
                self._texts(calls.variants["name"], "event_names"), self._same("cuda_api", len(calls.variants))
            ),
            out=flows,
        )
        names, texts = pd.factorize(self._timeline.nvtx["name"])
        interned = self._texts(pd.Series(texts, dtype=object), "event_names")
        ranges = Slices(lambda rows: names[rows], encode_texts(interned, self._same("nvtx", len(texts))))
        tracks: dict[int, NestedTrack] = {}
        for global_pid, pid in self._numbers.pids.items():
            tracks |= self._process(global_pid, pid, ranges, describe)
        return tracks

    def _process(self, global_pid: int, pid: int, ranges: Slices, calls: Slices) -> dict[int, NestedTrack]:
        group, descriptor = self._packets.track("")
        descriptor.process.pid = pid
        descriptor.process.process_name = "process"
        nvtx = self._timeline.nvtx
        shared = self._ranges_of["StartEnd"].get(global_pid, _NONE)
        for domain, rows in rows_by_key(nvtx["domain"].iloc[shared], shared):
            self._ranges(rows, "NVTX start/end" + (f": {domain}" if domain else ""), group, ranges)
        pushed = self._ranges_of["PushPop"].get(global_pid, _NONE)
        own_ranges = dict(rows_by_key(nvtx["global_tid"].iloc[pushed], pushed))
        calling = self._calling_threads.get(global_pid, set())
        tracks = {}
        for global_tid in sorted(own_ranges.keys() | calling):
            thread, descriptor = self._packets.track("", group)
            descriptor.thread.pid, descriptor.thread.tid = pid, thread_id(int(global_tid))
            own = own_ranges.get(global_tid, _NONE)
            for domain, rows in rows_by_key(nvtx["domain"].iloc[own], own):
                self._ranges(rows, "NVTX" + (f": {domain}" if domain else ""), thread, ranges)
            if global_tid in calling:
                tracks[int(global_tid)] = self._track("CUDA API", thread, 2, calls)
        return tracks

    def _ranges(self, rows: Int64s, name: str, parent: int, ranges: Slices) -> None:
        """Write the ranges to a track."""
        track = self._track(name, parent, 1, ranges)
        start, end = (self._timeline.nvtx[column].to_numpy(dtype=np.int64) for column in ("start_ns", "end_ns"))
        shift = self._content.shift_ns
        for low in range(0, len(rows), CHUNK_ROWS):
            some = rows[low : low + CHUNK_ROWS]
            track.add(start[some] + shift, end[some] + shift, some)
        track.finish()

    @cached_property
    def _ranges_of(self) -> dict[str, dict[int, Int64s]]:
        """Return the rows of ranges by style and process."""
        nvtx = self._timeline.nvtx
        of_style = {style: np.flatnonzero((nvtx["style"] == style).to_numpy()) for style in ("StartEnd", "PushPop")}
        return {style: dict(rows_by_key(nvtx["global_pid"].iloc[rows], rows)) for style, rows in of_style.items()}

    @cached_property
    def _calling_threads(self) -> dict[int, set[int]]:
        """Return the global tids of the threads with calls, by process."""
        threads: dict[int, set[int]] = {}
        if self._has_calls:
            for global_tid in self._content.calls.variants["global_tid"].tolist():
                threads.setdefault(global_tid & _PID_MASK, set()).add(global_tid)
        return threads

    def _write_calls(self, threads: dict[int, NestedTrack]) -> None:
        if not self._has_calls:
            return
        calls = self._content.calls
        numbers = {global_tid: number for number, global_tid in enumerate(threads)}
        lane_of = np.array([numbers[tid] for tid in calls.variants["global_tid"].tolist()], dtype=np.int64)
        tracks = list(threads.values())
        for low in range(0, len(calls), CHUNK_ROWS):
            rows = calls.numbers(low, min(low + CHUNK_ROWS, len(calls)))
            if isinstance(rows, slice):
                rows = np.arange(rows.start, rows.stop, dtype=np.int32)
            self._spread(tracks, lane_of[calls.variant[rows]], calls, rows)
        for track in tracks:
            track.finish()

    # All

    def _track(self, name: str, parent: int, rank: int, slices: Slices) -> NestedTrack:
        """Return a track. Slices that overlap without nesting go to tracks of the same name, shown as one."""

        def write(track: int, time_ns: Int64s, row: Int64s) -> None:
            self._packets.write_slices(slices, track, time_ns, row)
            self._advance(len(row) // 2)

        return NestedTrack(lambda: self._packets.track(name, parent, rank)[0], write)

    def _spread(self, tracks: list[NestedTrack], lane: Int64s, events: CallRows | WorkRows, rows: _Ints) -> None:
        """Add events to their tracks.

        lane: the number of the track of each event.
        """
        start = events.start_ns[rows] + self._content.shift_ns
        end = start + events.duration_ns[rows]
        if bool((lane == lane[0]).all()):
            tracks[lane[0]].add(start, end, rows)
            return
        # Numbers of few bits are sorted by counting, not by comparing.
        lane = lane.astype(np.int16 if len(tracks) < 1 << 15 else np.int64)
        order = np.argsort(lane, kind="stable")
        ordered = lane[order]
        edges = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))
        for some in np.split(order, edges[1:]):
            tracks[int(lane[some[0]])].add(start[some], end[some], rows[some])

    def _texts(self, texts: pd.Series, kind: str) -> Int64s:
        """Return the numbers of texts. All of them are sent now, before any event that refers to them."""
        codes, unique = pd.factorize(texts.astype(object), use_na_sentinel=False)
        numbers = np.array([self._packets.intern(kind, str(text)) for text in unique], dtype=np.int64)
        text_numbers: Int64s = numbers[codes]
        return text_numbers

    def _same(self, category: str, count: int) -> Int64s:
        """Return the number of a category, once for each of `count` variants."""
        return np.full(count, self._packets.intern("event_categories", category), dtype=np.int64)

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
