"""Reads a .pftrace back as trace_processor does: packets by time, a stack of slices a track, texts by their numbers."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace, TracePacket, TrackEvent


@dataclass
class Slice:
    track: int
    start_ns: int
    name: str
    category: str
    depth: int
    annotations: dict[str, Any]
    out: list[int]
    into: list[int]
    end_ns: int | None = None


@dataclass
class Read:
    slices: list[Slice] = field(default_factory=list)
    instants: list[Slice] = field(default_factory=list)
    samples: dict[int, list[tuple[int, int]]] = field(default_factory=dict)
    tracks: dict[int, Any] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def path(self, track: int) -> tuple[str, ...]:
        """Return the names of a track and those above it, from the top."""
        descriptor = self.tracks[track]
        if descriptor.HasField("thread"):
            own = f"thread {descriptor.thread.tid}"
        elif descriptor.HasField("process"):
            own = f"process {descriptor.process.pid}"
        else:
            own = descriptor.name
        return (*(self.path(descriptor.parent_uuid) if descriptor.parent_uuid else ()), own)


def read_perfetto(path: Path) -> Read:
    trace = Trace()
    trace.ParseFromString(path.read_bytes())
    read, texts, events = Read(), {}, []
    for number, packet in enumerate(trace.packet):
        if number == 0 and not packet.sequence_flags & TracePacket.SEQ_INCREMENTAL_STATE_CLEARED:
            read.problems.append("the first packet does not begin a sequence")
        if packet.HasField("track_descriptor"):
            read.tracks[packet.track_descriptor.uuid] = packet.track_descriptor
        for kind, entries in packet.interned_data.ListFields():
            for entry in entries:
                text = entry.str.decode() if kind.name.endswith("values") else entry.name
                texts[kind.name, entry.iid] = text
        if packet.HasField("track_event"):
            # Texts are looked up when the packet is read, so that one sent too late is missed.
            events.append((packet.timestamp, number, _resolve(packet.track_event, texts)))
    stacks: dict[int, list[Slice]] = {}
    for time, _, resolved in sorted(events, key=lambda each: each[:2]):
        _apply(read, stacks, time, *resolved)
    read.problems += [f"{len(stack)} slices never end" for stack in stacks.values() if stack]
    return read


def _resolve(event: Any, texts: dict[tuple[str, int], str]) -> tuple[Any, str, str, dict[str, Any]]:
    name = texts[("event_names", event.name_iid)] if event.name_iid else event.name
    categories = [texts["event_categories", iid] for iid in event.category_iids] + list(event.categories)
    annotations = {}
    for each in event.debug_annotations:
        key = texts["debug_annotation_names", each.name_iid] if each.name_iid else each.name
        if each.string_value_iid:
            annotations[key] = texts["debug_annotation_string_values", each.string_value_iid]
        else:
            annotations[key] = getattr(each, each.WhichOneof("value"))
    return event, name, "".join(categories), annotations


def _apply(read: Read, stacks: dict[int, list[Slice]], time: int, event: Any, *texts: Any) -> None:
    track = event.track_uuid
    if track not in read.tracks:
        read.problems.append(f"an event on track {track}, which is not described")
    stack = stacks.setdefault(track, [])
    slice_ = Slice(
        track, time, *texts[:2], len(stack), texts[2], list(event.flow_ids), list(event.terminating_flow_ids)
    )
    if event.type == TrackEvent.TYPE_SLICE_BEGIN:
        stack.append(slice_)
        read.slices.append(slice_)
    elif event.type == TrackEvent.TYPE_SLICE_END:
        if stack:
            stack.pop().end_ns = time
        else:
            read.problems.append("an end without a begin")
    elif event.type == TrackEvent.TYPE_INSTANT:
        read.instants.append(slice_)
    else:
        read.samples.setdefault(track, []).append((time, event.counter_value))
