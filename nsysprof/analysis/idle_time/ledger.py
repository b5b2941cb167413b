"""Sum up idle time by cause, for each device of the trace and for each range.

Every idle nanosecond of a device between its first and its last work has exactly one cause.

List why devices were idle during each instance of a range, and how long they were busy in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from nsysprof.analysis.attribution.attribute import refuse_many_pairs
from nsysprof.analysis.attribution.intervals import measure_by_code, union_of_groups
from nsysprof.analysis.idle_time.blame import UNKNOWN, Blamed, blame_gaps, follow_threads
from nsysprof.analysis.idle_time.call_classes import CallClasses, call_texts, classify_calls
from nsysprof.analysis.idle_time.gaps import DeviceSpan, Gaps, find_gaps
from nsysprof.analysis.kernel_names.variant_names import Texts, kernel_names
from nsysprof.analysis.parts.find_part import Part
from nsysprof.analysis.ranges.instances import number_instances
from nsysprof.notes import Note, make_note
from nsysprof.results.column_registry.analysis_columns import CAUSES, IDLE_INSTANCES, cause_column
from nsysprof.results.column_registry.csv_table import empty_table
from nsysprof.results.findings import IDLE_COLUMNS, DeviceIdle, Idle, IdlePieces
from nsysprof.trace.schema import Bools, Int64s, Tables


def list_instances(ranges: pd.DataFrame, span: DeviceSpan, pieces: Blamed, of_device: Bools) -> pd.DataFrame:
    """Return the instances during which a device was idle, with the columns of idle_instances.csv.

    ranges: instances with name, style, domain, group, start_ns and end_ns, in order of start.
    span, pieces: from when to when the device worked, and the pieces of its gaps.
    of_device: which of the instances belong to a process that uses the device.
    """
    if not of_device.any() or len(pieces.cause) == 0:
        return pd.DataFrame(columns=list(IDLE_INSTANCES.names))
    instance = number_instances(ranges["group"].to_numpy(dtype=np.int64))[of_device]
    mine = ranges[of_device]
    # Time before the device's first work, or after its last, is not in its span.
    since, until = span.first_ns, span.first_ns + span.whole.span_ns
    start = np.clip(mine["start_ns"].to_numpy(np.int64), since, until)
    end = np.clip(mine["end_ns"].to_numpy(np.int64), start, until)
    by_cause, _ = measure_by_code(pieces.start_ns, pieces.duration_ns, pieces.cause, len(CAUSES), start, end)
    idle = by_cause.sum(axis=0)
    kept = idle > 0
    low, high = start[kept], end[kept]
    columns = {name: mine[source].to_numpy()[kept] for name, source in _TEXTS.items()}
    columns |= {"instance": instance[kept], "device_id": np.full(len(low), span.device_id)}
    columns |= {"span_ns": high - low, "idle_ns": idle[kept], "busy_ns": high - low - idle[kept]}
    for code, cause in enumerate(CAUSES):  # most have no time anywhere, and zeros take no memory until they are written
        has_time = by_cause[code].any()
        columns[cause_column(cause)] = by_cause[code][kept] if has_time else np.zeros(len(low), dtype=np.int64)
    return pd.DataFrame({name: columns[name] for name in IDLE_INSTANCES.names}, copy=False)


_TEXTS = {"range": "name", "style": "style", "domain": "domain"}


_NO_CALLS = "no CUDA API calls were recorded"
_NO_LAUNCH = "the work that ends the gap has no launch record"
_LOST = "work that was launched meanwhile is not in the trace"
_NO_NAMES = "the names of CUDA API calls are missing"
# If this part of the calls has no name, nothing tells what held up the others.
_NOTABLE = 0.01
# The most devices of which ranges are told, by name for each piece of work, and by instance for each of both: a process
# that uses many devices has many kernels in each of its ranges.
_MOST_BY_NAME, _MOST_BY_INSTANCE = 2, 8
# The most pieces of idle time that are kept for a timeline, so that a large trace takes no more memory.
_MOST_DRAWN = 500_000


@dataclass(frozen=True)
class Ledger:
    """The idle time of all devices, cut into pieces with one cause each, and the sums of these."""

    # The pieces of each device. The gaps are not kept, because they would take as much memory as the trace.
    spans: tuple[DeviceSpan, ...]
    pieces: tuple[Blamed, ...]
    classes: CallClasses
    idle: Idle
    notes: tuple[Note, ...]
    # Why no cause is known, and nothing can be found by them; "" where causes are known.
    doubt: str = ""

    def cut_out(self, begin_ns: int, end_ns: int) -> Ledger:
        """Return the ledger with the pieces alone that begin within [begin, end), and with the sums of all."""
        return replace(self, pieces=tuple(each.cut_out(begin_ns, end_ns) for each in self.pieces))


@dataclass(frozen=True)
class BlamedIdle:
    """The idle time of all devices, cut into pieces with one cause each. As in Ledger."""

    spans: tuple[DeviceSpan, ...]
    pieces: tuple[Blamed, ...]
    classes: CallClasses
    # Why no cause is known, and for how long (ns).
    reasons: dict[str, int]
    doubt: str


def blame_idle(tables: Tables, lost: Int64s | None = None, doubt: str = "") -> BlamedIdle:
    """Return the cause of each piece of idle time.

    lost: the calls that launched work which is not in the trace; None where no call did.
    doubt: why every cause is unknown, as from doubt_of; "" where they are known.
    """
    gaps = find_gaps(tables.work)
    classes = classify_calls(tables, tables.launch)
    pieces = _blame(tables, gaps, classes, lost)
    if doubt:
        pieces = [each.without_causes(len(its)) for its, each in zip(gaps, pieces, strict=True)]
    spans = tuple(each.span for each in gaps)
    total = sum(span.whole.idle_ns for span in spans)
    reasons = _reasons(tables, pieces) if not doubt else {doubt: total} if total else {}
    return BlamedIdle(spans, tuple(pieces), classes, reasons, doubt)


def _blame(tables: Tables, gaps: list[Gaps], classes: CallClasses, lost: Int64s | None) -> list[Blamed]:
    threads = follow_threads(tables, classes)
    names = kernel_names(tables)
    is_collective = (
        names.category[names.of_variant] == "communication" if len(names.texts) else np.zeros(0, dtype=np.bool_)
    )
    lost_ns = np.zeros(0, dtype=np.int64)
    if lost is not None and tables.calls is not None:
        lost_ns = np.sort(tables.calls.start_ns[lost])
    return [
        blame_gaps(tables, tables.launch, each, threads, is_collective=is_collective.astype(np.bool_), lost_ns=lost_ns)
        for each in gaps
    ]


def keep_ledger(tables: Tables, ranges: pd.DataFrame, blamed: BlamedIdle) -> Ledger:
    """Return the idle time of a trace by cause.

    ranges: instances with name, start_ns, end_ns and global_pid.
    """
    spans, pieces = blamed.spans, blamed.pieces
    _refuse_many_pairs(tables, ranges, pieces)
    parts = [table for each in pieces for table in (_of_trace(each), _of_ranges(each, ranges, _pids(tables, each)))]
    joined = pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=list(IDLE_COLUMNS))
    joined = joined.astype({"device_id": "int64", "idle_ns": "int64", "count": "int64"})
    instances = [
        list_instances(ranges, span, each, ranges["global_pid"].isin(_pids(tables, each)).to_numpy(dtype=bool))
        for span, each in zip(spans, pieces, strict=True)
    ]
    of_instances = instances[0] if len(instances) == 1 else empty_table(IDLE_INSTANCES)
    if len(instances) > 1:
        of_instances = pd.concat(instances, ignore_index=True)
    idle = Idle(joined, of_instances, tuple(span.whole for span in spans), blamed.reasons, _drawn(pieces))
    return Ledger(spans, pieces, blamed.classes, idle, tuple(_notes(idle)), blamed.doubt)


def _refuse_many_pairs(tables: Tables, ranges: pd.DataFrame, pieces: Sequence[Blamed]) -> None:
    """Raise TraceForeignError where far too many ranges are told of far too many devices."""
    if len(pieces) < 2 or not len(ranges):
        return
    names = ranges.groupby("global_pid")["name"].agg(["nunique", "size"])
    of_devices = [names.reindex(_pids(tables, each), fill_value=0).sum() for each in pieces]
    of_both = pd.concat(of_devices, axis=1).sum(axis=1)
    refuse_many_pairs(int(of_both["nunique"]), len(tables.work), _MOST_BY_NAME)
    refuse_many_pairs(int(of_both["size"]), len(tables.work) + len(ranges), _MOST_BY_INSTANCE)


def keep_part(tables: Tables, ranges: pd.DataFrame, blamed: BlamedIdle, part: Part) -> tuple[Idle, tuple[Note, ...]]:
    """Return the idle time of the devices of a part of the trace, by cause, while that part went on.

    ranges: the instances of the part; see keep_ledger.
    """
    whole = keep_ledger(tables, ranges, blamed).idle
    parts, devices, unknown_ns = [], [], 0
    for span, pieces in zip(blamed.spans, blamed.pieces, strict=True):
        since, until = span.first_ns, span.first_ns + span.whole.span_ns
        low, high = (np.clip(time, since, until) for time in part.windows(_pids(tables, pieces)))
        if not (high > low).any():
            continue
        times = measure_by_code(pieces.start_ns, pieces.duration_ns, pieces.cause, len(CAUSES), low, high)
        total, count = (of_windows.sum(axis=1) for of_windows in times)
        names = np.array([""] * len(CAUSES), dtype=object)
        parts.append(_rows(pieces.device_id, names, np.arange(len(CAUSES)), total, count))
        span_ns, idle_ns = int((high - low).sum()), int(total.sum())
        devices.append(DeviceIdle(pieces.device_id, span_ns, span_ns - idle_ns, idle_ns))
        unknown_ns += int(total[UNKNOWN])
    table = pd.concat([*parts, whole.table[(whole.table["range"] != "").to_numpy(dtype=bool)]], ignore_index=True)
    reasons = {" or ".join(blamed.reasons): unknown_ns} if unknown_ns else {}
    idle = Idle(table.astype(whole.table.dtypes), whole.instances, tuple(devices), reasons, whole.pieces)
    return idle, tuple(_notes(idle))


def _drawn(pieces: Sequence[Blamed]) -> tuple[IdlePieces, ...]:
    """Return the pieces for a timeline; nothing where they are too many to be drawn one by one."""
    if sum(len(each.start_ns) for each in pieces) > _MOST_DRAWN:
        return ()
    return tuple(IdlePieces(each.device_id, each.start_ns, each.duration_ns, each.cause) for each in pieces)


def doubt_of(tables: Tables, doubt: str) -> str:
    """Return why no cause is known: what is missing anywhere, or that calls have no names; "" where they are known."""
    return doubt or (_NO_NAMES if _lacks_names(tables) else "")


def _lacks_names(tables: Tables) -> bool:
    """Return whether a notable part of the calls has no name, as in an export without its table of texts."""
    calls = tables.calls
    if calls is None or len(calls) == 0:
        return False
    nameless = np.array([not text for text in call_texts(tables)], dtype=np.bool_)
    return bool(nameless.any()) and float(nameless[calls.variant].mean()) > _NOTABLE


def _of_trace(pieces: Blamed) -> pd.DataFrame:
    names = np.array([""] * len(CAUSES), dtype=object)
    return _rows(pieces.device_id, names, np.arange(len(CAUSES)), pieces.total_ns, pieces.gaps)


def _rows(device: int, names: Texts, cause: Int64s, total: Int64s, count: Int64s) -> pd.DataFrame:
    chosen = total > 0
    labels = np.array(CAUSES, dtype=object)[cause[chosen]]
    values = (device, names[chosen], labels, total[chosen], count[chosen])
    return pd.DataFrame(dict(zip(IDLE_COLUMNS, values, strict=True)))


def _pids(tables: Tables, pieces: Blamed) -> Int64s:
    """Return the processes that used the device."""
    return np.unique(tables.work.pid_of[tables.work.device_of == pieces.device_id])


def _of_ranges(pieces: Blamed, ranges: pd.DataFrame, pids: Int64s) -> pd.DataFrame:
    """Return idle time by range and cause: how much of each piece lies within a name's instances.

    Each moment counts once for a name, even where its instances overlap.
    """
    # A range without a name would look like the whole trace.
    mine = ranges[ranges["global_pid"].isin(pids) & (ranges["name"] != "")] if len(ranges) else ranges
    if len(mine) == 0 or len(pieces.cause) == 0:
        return pd.DataFrame(columns=list(IDLE_COLUMNS))
    code, names = pd.factorize(mine["name"])
    group, start, end = union_of_groups(
        code.astype(np.int64), mine["start_ns"].to_numpy(np.int64), mine["end_ns"].to_numpy(np.int64)
    )
    totals, numbers = measure_by_code(pieces.start_ns, pieces.duration_ns, pieces.cause, len(CAUSES), start, end)
    parts = []
    for cause in np.flatnonzero(totals.any(axis=1)).tolist():
        sums, counts = np.zeros(len(names), dtype=np.int64), np.zeros(len(names), dtype=np.int64)
        np.add.at(sums, group, totals[cause])
        np.add.at(counts, group, numbers[cause])
        parts.append(_rows(pieces.device_id, np.asarray(names, dtype=object), np.full(len(names), cause), sums, counts))
    if not parts:
        return pd.DataFrame(columns=list(IDLE_COLUMNS))
    table = pd.concat(parts, ignore_index=True)
    place = pd.Series(np.arange(len(names)), index=names)
    return table.iloc[np.argsort(place[table["range"]].to_numpy(), kind="stable")]


def _reasons(tables: Tables, pieces: list[Blamed]) -> dict[str, int]:
    """Return why no cause is known, and for how long (ns)."""
    found: dict[str, int] = {}
    for each in pieces:
        for reason, ns in zip((_NO_CALLS if tables.calls is None else _NO_LAUNCH, _LOST), each.unknown_ns, strict=True):
            if ns:
                found[reason] = found.get(reason, 0) + ns
    return found


def _notes(idle: Idle) -> list[Note]:
    total = sum(device.idle_ns for device in idle.devices)
    if not idle.unknown_reasons or not total:
        return []
    parts = [f"{100 * ns / total:.1f} % because {reason}" for reason, ns in idle.unknown_reasons.items()]
    return [make_note("idle-cause-unknown", parts=", and ".join(parts))]
