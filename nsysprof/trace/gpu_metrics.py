"""Read the DRAM counters among nsys' GPU metrics: a few of many rows, so names come first and SQL filters the rows."""

from __future__ import annotations

import itertools
import json
import re
import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from nsysprof.notes import Note, Severity
from nsysprof.trace.columns import read_rows
from nsysprof.trace.devices import Gpus
from nsysprof.trace.gpu_metrics_schema import DramSeries, GpuMetrics, Int64s
from nsysprof.trace.open import Trace, quote
from nsysprof.trace.schema import NULL

# The names drift: DRAM Read Throughput, DRAM Read Bandwidth [Throughput %], VRAM Read Bandwidth.
_READ, _WRITE, _SM = range(3)
_NAMES = (
    re.compile(r"\b[DV]RAM\b.*\bRead\b.*\b(Throughput|Bandwidth)\b", re.IGNORECASE),
    re.compile(r"\b[DV]RAM\b.*\bWrite\b.*\b(Throughput|Bandwidth)\b", re.IGNORECASE),
    re.compile(r"^SMs? Active\b", re.IGNORECASE),
)
_OTHER_UNIT = re.compile(r"\[[^\]%]*\]\s*$")  # the same counter also comes as [Avg], in cycles
# The low byte of a typeId numbers the GPU.
_GPU_BITS = 0xFF
# A short-time value may exceed the sustained peak by a little; far above it is no percentage (an nsys sign error).
_MAX_PCT = 150
# A memory bandwidth outside of this, in bytes/s, is no bandwidth.
_PLAUSIBLE_PEAK = (10**9, 10**15)
_SAMPLE_AGAIN = "Sample with nsys profile --gpu-metrics-devices=all and a metric set that has DRAM counters."


@dataclass(frozen=True)
class _Counters:
    """The samples of one typeId as arrays of (time, value) each: read, write, SM."""

    type_id: int
    read: tuple[Int64s, Int64s]
    write: tuple[Int64s, Int64s]
    sm: tuple[Int64s, Int64s]


def read_gpu_metrics(trace: Trace, gpus: Gpus) -> GpuMetrics | None:
    """The DRAM counters of every GPU that nsys sampled.

    None when there are none: without a note when nothing was sampled, with one when what was sampled cannot be used.
    """
    with trace.lock:
        counters = _from_table(trace)
        if counters is None:
            counters = _from_json(trace)
    if not counters:
        return None
    known = {gpu.gpu_id: (gpu.number, _peak(gpu.memory_bytes_per_s)) for gpu in gpus.rows}
    by_gpu: dict[int, DramSeries] = {}
    for found in counters:
        gpu = found.type_id & _GPU_BITS
        number, peak = known.get(gpu, (None, None))
        series = _series(found, gpu, number, peak)
        # One GPU can have a second type that holds a few marker rows.
        if series is not None and (gpu not in by_gpu or len(series) > len(by_gpu[gpu])):
            by_gpu[gpu] = series
    if not by_gpu:
        _say(trace, "hold fewer than two usable samples of DRAM traffic")
        return None
    series_of_all = tuple(by_gpu[gpu] for gpu in sorted(by_gpu))
    _say_what_is_missing(trace, series_of_all)
    return GpuMetrics(series_of_all)


def _peak(bytes_per_s: int | None) -> int | None:
    low, high = _PLAUSIBLE_PEAK
    return bytes_per_s if bytes_per_s is not None and low <= bytes_per_s <= high else None


def _say(trace: Trace, what: str, next_step: str = _SAMPLE_AGAIN) -> None:
    text = f"The GPU metrics {what}; DRAM traffic is unknown."
    trace.notes.append(Note("gpu-metrics-unusable", Severity.WARNING, text, next_step))


def _say_what_is_missing(trace: Trace, series: Iterable[DramSeries]) -> None:
    for each in series:
        if each.peak_bytes_per_s is None:
            _say(trace, f"of GPU {each.gpu} are percentages of a peak bandwidth that the trace does not name", "")
        if each.impossible:
            text = f"{each.impossible:,} DRAM samples of GPU {each.gpu} hold no percentage and count as not sampled."
            trace.notes.append(Note("gpu-metrics-impossible", Severity.WARNING, text))


def _from_table(trace: Trace) -> list[_Counters] | None:
    """Of GPU_METRICS; None when there is no such table or no row in it, empty when it cannot be used (noted)."""
    table = trace.find("GPU_METRICS")
    if table is None:
        return None
    present = {name.lower(): quote(name) for name in trace.columns[table]}
    wanted = ("timestamp", "typeid", "metricid", "value")
    lacking = [name for name in wanted if name not in present]
    if lacking:
        _say(trace, f"lack the columns {', '.join(lacking)}", "Export the report again.")
        return []
    try:
        if trace.connection.execute(f"SELECT 1 FROM {quote(table)} LIMIT 1").fetchone() is None:
            return None
        kinds = _kinds(trace)
        if not kinds:
            return []
        rows = _selected_rows(trace.connection, quote(table), [present[name] for name in wanted], kinds)
    except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
        _say(trace, f"are damaged ({error})", "Export the report again.")
        return []
    return [_split(rows, type_id, kinds) for type_id in sorted({type_id for type_id, _ in kinds})]


def _kinds(trace: Trace) -> dict[tuple[int, int], int]:
    """(typeId, metricId) -> read, write or SM, for types that have both DRAM counters; says so when there is none."""
    kinds: dict[tuple[int, int], int] = {}
    names = read_rows(trace, "TARGET_INFO_GPU_METRICS", ("typeId", "metricId", "metricName"))
    for type_id, metric_id, name in names:
        kind = _kind(name)
        if isinstance(type_id, int) and isinstance(metric_id, int) and kind is not None:
            if (type_id, kind) in {(other, value) for (other, _), value in kinds.items()}:
                continue  # the first metric of a kind is the one
            kinds[type_id, metric_id] = kind
    found = {(type_id, kind) for (type_id, _), kind in kinds.items()}
    whole = {type_id for type_id, _ in found if {(type_id, _READ), (type_id, _WRITE)} <= found}
    if not whole:
        _say(trace, "name no DRAM read and write counter" if names else "have no names")
    return {key: kind for key, kind in kinds.items() if key[0] in whole}


def _kind(name: object) -> int | None:
    if not isinstance(name, str) or _OTHER_UNIT.search(name):
        return None
    return next((kind for kind, pattern in enumerate(_NAMES) if pattern.search(name)), None)


def _selected_rows(
    connection: sqlite3.Connection, table: str, columns: Sequence[str], kinds: Iterable[tuple[int, int]]
) -> Int64s:
    """(time, type, metric, value) of the wanted metrics, in one pass over the table: nsys exports have no index."""
    time, type_id, metric_id, value = columns
    types, metrics = (sorted(set(ids)) for ids in zip(*kinds, strict=True))
    query = (
        f"SELECT {_integer(time)}, {type_id}, {metric_id}, {_integer(value)} FROM {table} "
        f"WHERE {metric_id} IN ({_marks(metrics)}) AND {type_id} IN ({_marks(types)})"
    )
    cursor = connection.execute(query, (*metrics, *types))
    return np.fromiter(itertools.chain.from_iterable(cursor), dtype=np.int64).reshape(-1, 4)


def _marks(values: Sequence[int]) -> str:
    return ", ".join("?" * len(values))


def _integer(column: str) -> str:
    """SQL for a number as the nearest integer, and for anything else NULL: a sum must not count text as 0."""
    nearest = f"CAST(ROUND({column}) AS INTEGER)"
    return f"CASE typeof({column}) WHEN 'integer' THEN {column} WHEN 'real' THEN {nearest} ELSE {NULL} END"


def _split(rows: Int64s, type_id: int, kinds: dict[tuple[int, int], int]) -> _Counters:
    ours = rows[rows[:, 1] == type_id]
    metric = {kind: metric_id for (other, metric_id), kind in kinds.items() if other == type_id}

    def samples(kind: int) -> tuple[Int64s, Int64s]:
        chosen = ours[ours[:, 2] == metric.get(kind, NULL)]
        return chosen[:, 0], chosen[:, 3]

    return _Counters(type_id, samples(_READ), samples(_WRITE), samples(_SM))


def _from_json(trace: Trace) -> list[_Counters]:
    """Of GENERIC_EVENTS, where older exports keep each sample as one JSON object, metric name -> value."""
    table = trace.find("GENERIC_EVENTS")
    if table is None:
        return []
    present = {name.lower(): quote(name) for name in trace.columns[table]}
    time = present.get("timestamp", present.get("rawtimestamp"))
    if time is None or not {"typeid", "data"} <= present.keys():
        return []
    query = f"SELECT {_integer(time)}, {present['typeid']}, {present['data']} FROM {quote(table)}"
    rows: dict[int, list[tuple[int, int, int, int]]] = {}
    names: dict[int, list[str | None]] = {}
    try:
        for at, type_id, data in trace.connection.execute(query):
            event = _event(data)
            if not isinstance(type_id, int) or event is None:
                continue
            if type_id not in names:
                names[type_id] = [next((name for name in event if _kind(name) == kind), None) for kind in range(3)]
            read, write, sm = names[type_id]
            if read and write:
                values = (_percent(event.get(read)), _percent(event.get(write)), _percent(event.get(sm or "")))
                rows.setdefault(type_id, []).append((at, *values))
    except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
        _say(trace, f"are damaged ({error})", "Export the report again.")
        return []
    counters = []
    for type_id, samples in rows.items():
        matrix = np.array(samples, dtype=np.int64)
        pairs = [(matrix[:, 0], matrix[:, 1 + kind]) for kind in range(3)]
        counters.append(_Counters(type_id, pairs[_READ], pairs[_WRITE], pairs[_SM]))
    return counters


def _event(data: object) -> dict[str, object] | None:
    try:
        event = json.loads(data) if isinstance(data, str) else None
    except (ValueError, RecursionError):
        return None
    return event if isinstance(event, dict) else None


def _percent(value: object) -> int:
    try:
        number = float(value) if isinstance(value, int | float | str) else None
        return NULL if number is None else round(number)
    except (ValueError, OverflowError):  # text, NaN or an infinity
        return NULL


def _series(found: _Counters, gpu: int, number: int | None, peak: int | None) -> DramSeries | None:
    """Samples that have a time and both values, in order of time; None when fewer than two are left."""
    read_time, read = _by_time(*found.read)
    write_time, write = _by_time(*found.write)
    time, of_read, of_write = np.intersect1d(read_time, write_time, assume_unique=True, return_indices=True)
    read, write = read[of_read], write[of_write]
    good = (read >= 0) & (read <= _MAX_PCT) & (write >= 0) & (write <= _MAX_PCT)
    if good.sum() < 2:
        return None
    impossible = max(len(found.read[0]), len(found.write[0])) - int(good.sum())
    active = found.sm[1][(found.sm[1] >= 0) & (found.sm[1] <= _MAX_PCT)]
    time = time[good]
    return DramSeries(
        gpu=gpu,
        device_id=number,
        peak_bytes_per_s=peak,
        period_ns=int(np.median(np.diff(time))),
        time_ns=time,
        read_pct=read[good].astype(np.int16),
        write_pct=write[good].astype(np.int16),
        sm_active_max_pct=int(active.max()) if len(active) else None,
        impossible=impossible,
    )


def _by_time(time: Int64s, value: Int64s) -> tuple[Int64s, Int64s]:
    """Samples in order of time, the first of those at one time; those without a time are left out."""
    unique, first = np.unique(time[time != NULL], return_index=True)
    return unique, value[time != NULL][first]
