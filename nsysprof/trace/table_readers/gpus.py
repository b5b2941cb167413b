"""Read nsys' GPU metrics: the counters of DRAM, SMs, PCIe and NVLink, and every sample as recorded, for drawing.

Give each GPU one number, because every process numbers the GPUs in its own way.

A trace names a GPU in three ways: by the id of TARGET_INFO_GPU, by CUDA's ordinal on the machine (cuDevice), and by the
ordinal within a process. Kernels, copies and allocations use the latter, and CUDA_VISIBLE_DEVICES may reorder it. Our
number is the machine's ordinal.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import re
import sqlite3
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from nsysprof.notes import make_note
from nsysprof.trace.columns import read_integers, read_rows, table_sql
from nsysprof.trace.open import Trace, quote
from nsysprof.trace.schema import NULL, DeviceRow, DramSeries, GpuMetrics, Int64s, MetricSeries, UseSeries

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


# The names vary: DRAM Read Throughput, DRAM Read Bandwidth [Throughput %], VRAM Read Bandwidth.
_READ, _WRITE, _SM = range(3)
_NAMES = (
    re.compile(r"\b[DV]RAM\b.*\bRead\b.*\b(Throughput|Bandwidth)\b", re.IGNORECASE),
    re.compile(r"\b[DV]RAM\b.*\bWrite\b.*\b(Throughput|Bandwidth)\b", re.IGNORECASE),
    re.compile(r"^SMs? Active\b", re.IGNORECASE),
)
# Units whose use in percent is summed up by range. Each counts under its own name.
_USE = re.compile(r"^(GR Active|SMs? (Active|Issue)|Tensor Active|NVLink\b|PCIe\b)", re.IGNORECASE)
_UNIT = re.compile(r"\s*\[[^\]]*\]\s*$")
# The most such metrics to read. Those of nsys have at most this many, one for each direction and kind of packet.
_MOST_USES = 32
# The longest name to examine. No metric has a longer one, and searching a long name for three words in order takes
# cubic time.
_LONGEST_NAME = 200
_OTHER_UNIT = re.compile(r"\[[^\]%]*\]\s*$")  # the same counter also exists as [Avg], in cycles
# The low byte of a typeId numbers the GPU.
_GPU_BITS = 0xFF
# A value over a short time may slightly exceed the sustained peak. A value far above it is a sign error of nsys.
_MAX_PCT = 150
# A memory bandwidth outside of these limits (bytes/s) is not plausible.
_PLAUSIBLE_PEAK = (10**9, 10**15)
_SAMPLE_AGAIN = "Sample with nsys profile --gpu-metrics-devices=all and a metric set that has DRAM counters."


@dataclass(frozen=True)
class _Counters:
    """The samples of one typeId."""

    type_id: int
    # Arrays of times and values.
    read: tuple[Int64s, Int64s]
    write: tuple[Int64s, Int64s]
    sm: tuple[Int64s, Int64s]
    # The other units, by name.
    use: dict[str, tuple[Int64s, Int64s]]


def read_gpu_metrics(trace: Trace, gpus: Gpus) -> GpuMetrics | None:
    """Return the DRAM counters of every GPU that nsys sampled; None when there are none.

    A note says when something was sampled that cannot be used. Without samples there is no note.
    """
    with trace.lock:
        counters = _from_table(trace)
        if counters is None:
            counters = _from_json(trace)
    if not counters:
        return None
    known = {gpu.gpu_id: (gpu.number, _peak(gpu.memory_bytes_per_s)) for gpu in gpus.rows}
    by_gpu: dict[int, DramSeries] = {}
    use: dict[int, tuple[UseSeries, ...]] = {}
    for counter in counters:
        gpu = counter.type_id & _GPU_BITS
        number, peak = known.get(gpu, (None, None))
        series = _series(counter, gpu, number, peak)
        # One GPU can have a second type that holds a few marker rows.
        if series is not None and (gpu not in by_gpu or len(series) > len(by_gpu[gpu])):
            by_gpu[gpu] = series
            use[gpu] = tuple(_use_series(counter, gpu, number))
    if not by_gpu:
        _note_unusable(trace, "hold fewer than two usable samples of DRAM traffic")
        return None
    series_of_all = tuple(by_gpu[gpu] for gpu in sorted(by_gpu))
    _say_what_is_missing(trace, series_of_all)
    return GpuMetrics(series_of_all, tuple(unit for gpu in sorted(use) for unit in use[gpu]))


def _peak(bytes_per_s: int | None) -> int | None:
    low, high = _PLAUSIBLE_PEAK
    return bytes_per_s if bytes_per_s is not None and low <= bytes_per_s <= high else None


def _note_unusable(trace: Trace, what: str, next_step: str = _SAMPLE_AGAIN) -> None:
    trace.notes.append(make_note("gpu-metrics-unusable", problem=what, next_step=next_step))


def _say_what_is_missing(trace: Trace, series: Iterable[DramSeries]) -> None:
    for gpu_series in series:
        if gpu_series.peak_bytes_per_s is None:
            _note_unusable(
                trace, f"of GPU {gpu_series.gpu} are percentages of a peak bandwidth that the trace does not name", ""
            )
        if gpu_series.impossible:
            trace.notes.append(make_note("gpu-metrics-impossible", count=gpu_series.impossible, gpu=gpu_series.gpu))


def _from_table(trace: Trace) -> list[_Counters] | None:
    """Return the counters of GPU_METRICS; None without any row, and an empty list with a note for unusable rows."""
    table = trace.find("GPU_METRICS")
    if table is None:
        return None
    present = {name.lower(): quote(name) for name in trace.columns[table]}
    wanted = ("timestamp", "typeid", "metricid", "value")
    lacking = [name for name in wanted if name not in present]
    if lacking:
        _note_unusable(trace, f"lack the columns {', '.join(lacking)}", "Export the report again.")
        return []
    try:
        if trace.connection.execute(f"SELECT 1 FROM {table_sql(trace, table)} LIMIT 1").fetchone() is None:
            return None
        kinds = _kinds(trace)
        if not kinds:
            return []
        uses = _uses(trace, {type_id for type_id, _ in kinds})
        chosen = kinds.keys() | uses.keys()
        rows = _selected_rows(trace.connection, table_sql(trace, table), [present[name] for name in wanted], chosen)
    except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
        _note_unusable(trace, f"are damaged ({trace.explain(error)})", "Export the report again.")
        return []
    return [_split(rows, type_id, kinds, uses) for type_id in sorted({type_id for type_id, _ in kinds})]


def _kinds(trace: Trace) -> dict[tuple[int, int], int]:
    """Return (typeId, metricId) -> read, write or SM for types with both DRAM counters; add a note without any."""
    kinds: dict[tuple[int, int], int] = {}
    names = read_rows(trace, "TARGET_INFO_GPU_METRICS", ("typeId", "metricId", "metricName"))
    for type_id, metric_id, name in names:
        kind = _kind(name)
        if isinstance(type_id, int) and isinstance(metric_id, int) and kind is not None:
            if (type_id, kind) in {(other, value) for (other, _), value in kinds.items()}:
                continue  # the first metric of a kind is used
            kinds[type_id, metric_id] = kind
    dram_kinds = {(type_id, kind) for (type_id, _), kind in kinds.items()}
    whole = {type_id for type_id, _ in dram_kinds if {(type_id, _READ), (type_id, _WRITE)} <= dram_kinds}
    if not whole:
        _note_unusable(trace, "name no DRAM read and write counter" if names else "have no names")
    return {key: kind for key, kind in kinds.items() if key[0] in whole}


def _uses(trace: Trace, types: Container[int]) -> dict[tuple[int, int], str]:
    """Return (typeId, metricId) -> name of the units whose use is summed up; the first metric of a name is used."""
    uses: dict[tuple[int, int], str] = {}
    seen: set[tuple[int, str]] = set()
    for type_id, metric_id, name in read_rows(trace, "TARGET_INFO_GPU_METRICS", ("typeId", "metricId", "metricName")):
        if not isinstance(type_id, int) or not isinstance(metric_id, int) or type_id not in types:
            continue
        metric = _use_of(name)
        if metric is not None and (type_id, metric) not in seen and len(seen) < _MOST_USES * 16:
            seen.add((type_id, metric))
            uses[type_id, metric_id] = metric
    return uses


def _use_of(name: object) -> str | None:
    if not isinstance(name, str) or len(name) > _LONGEST_NAME or _OTHER_UNIT.search(name) or not _USE.match(name):
        return None
    return _UNIT.sub("", name)


def _kind(name: object) -> int | None:
    if not isinstance(name, str) or len(name) > _LONGEST_NAME or _OTHER_UNIT.search(name):
        return None
    return next((kind for kind, pattern in enumerate(_NAMES) if pattern.search(name)), None)


def _selected_rows(
    connection: sqlite3.Connection, table: str, columns: Sequence[str], kinds: Iterable[tuple[int, int]]
) -> Int64s:
    """Return (time, type, metric, value) of the wanted metrics in one pass, because nsys exports have no index."""
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
    """Return SQL for a number as the nearest integer, and NULL for anything else. A sum must not count text as 0."""
    nearest = f"CAST(ROUND({column}) AS INTEGER)"
    return f"CASE typeof({column}) WHEN 'integer' THEN {column} WHEN 'real' THEN {nearest} ELSE {NULL} END"


def _split(
    rows: Int64s, type_id: int, kinds: dict[tuple[int, int], int], uses: dict[tuple[int, int], str]
) -> _Counters:
    ours = rows[rows[:, 1] == type_id]
    metric = {kind: metric_id for (other, metric_id), kind in kinds.items() if other == type_id}

    def samples(metric_id: int) -> tuple[Int64s, Int64s]:
        chosen = ours[ours[:, 2] == metric_id]
        return chosen[:, 0], chosen[:, 3]

    read, write, sm = (samples(metric.get(kind, NULL)) for kind in (_READ, _WRITE, _SM))
    use = {name: samples(metric_id) for (other, metric_id), name in uses.items() if other == type_id}
    return _Counters(type_id, read, write, sm, use)


def _from_json(trace: Trace) -> list[_Counters]:
    """Return the counters of GENERIC_EVENTS, in which older exports keep a sample as a JSON object by metric name."""
    table = trace.find("GENERIC_EVENTS")
    if table is None:
        return []
    present = {name.lower(): quote(name) for name in trace.columns[table]}
    time = present.get("timestamp", present.get("rawtimestamp"))
    if time is None or not {"typeid", "data"} <= present.keys():
        return []
    rows: dict[int, list[tuple[int, int, int, int]]] = {}
    names: dict[int, list[str | None]] = {}
    try:
        query = f"SELECT {_integer(time)}, {present['typeid']}, {present['data']} FROM {table_sql(trace, table)}"
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
        _note_unusable(trace, f"are damaged ({trace.explain(error)})", "Export the report again.")
        return []
    counters = []
    for type_id, samples in rows.items():
        matrix = np.array(samples, dtype=np.int64)
        pairs = [(matrix[:, 0], matrix[:, 1 + kind]) for kind in range(3)]
        counters.append(_Counters(type_id, pairs[_READ], pairs[_WRITE], pairs[_SM], {}))
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


def _series(counters: _Counters, gpu: int, number: int | None, peak: int | None) -> DramSeries | None:
    """Return the samples that have a time and both values, in order of time; None when fewer than two are left."""
    read_time, read = _by_time(*counters.read)
    write_time, write = _by_time(*counters.write)
    time, of_read, of_write = np.intersect1d(read_time, write_time, assume_unique=True, return_indices=True)
    read, write = read[of_read], write[of_write]
    good = (read >= 0) & (read <= _MAX_PCT) & (write >= 0) & (write <= _MAX_PCT)
    if good.sum() < 2:
        return None
    impossible = max(len(counters.read[0]), len(counters.write[0])) - int(good.sum())
    active = counters.sm[1][(counters.sm[1] >= 0) & (counters.sm[1] <= _MAX_PCT)]
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


def _use_series(counters: _Counters, gpu: int, number: int | None) -> Iterator[UseSeries]:
    """Yield the samples of each other unit that are percentages, in order of time."""
    for metric, samples in counters.use.items():
        time, value = _by_time(*samples)
        good = (value >= 0) & (value <= _MAX_PCT)
        if good.sum() >= 2:
            time = time[good]
            yield UseSeries(metric, gpu, number, int(np.median(np.diff(time))), time, value[good].astype(np.int16))


def _by_time(time: Int64s, value: Int64s) -> tuple[Int64s, Int64s]:
    """Return samples in order of time, only the first of those at one time, without those that have no time."""
    unique, first = np.unique(time[time != NULL], return_index=True)
    return unique, value[time != NULL][first]


# A clock of a million MHz is really in Hz; nsys labels its GPC clock in this way.
_MOST_MHZ = 1_000_000
_SAMPLE_COLUMNS = {"timestamp": "time_ns", "typeId": "type_id", "metricId": "metric_id", "value": "value"}
_NAME_COLUMNS = ("typeId", "metricId", "metricName")


def read_metric_samples(trace: Trace, gpus: Gpus) -> list[MetricSeries]:
    """Return all GPU metrics by GPU and metric; an empty list where none were sampled, or where they have no names."""
    number_of = {gpu.gpu_id: gpu.number for gpu in gpus.rows}
    series = []
    for (type_id, name), samples in sorted({**_samples_from_table(trace), **_samples_from_json(trace)}.items()):
        time, value = samples[:, (samples != NULL).all(axis=0)]
        if len(time):
            order = np.argsort(time, kind="stable")
            gpu = type_id & _GPU_BITS
            label = _in_hertz(name) if "[MHz]" in name and int(np.median(value)) > _MOST_MHZ else name
            series.append(MetricSeries(label, gpu, number_of.get(gpu), time[order], value[order]))
    return series


def _in_hertz(name: str) -> str:
    return name.replace("[MHz]", "[Hz]")


def _samples_from_table(trace: Trace) -> dict[tuple[int, str], Int64s]:
    """Return the times and values of GPU_METRICS by (typeId, metric name)."""
    table = read_integers(trace, "GPU_METRICS", _SAMPLE_COLUMNS) if trace.has("GPU_METRICS") else None
    if table is None or len(table) == 0:
        return {}
    ids = table[["type_id", "metric_id"]].to_numpy(dtype=np.int64)
    unique, code = np.unique(ids, axis=0, return_inverse=True)
    order = np.argsort(code.reshape(-1), kind="stable")
    edges = np.searchsorted(code.reshape(-1)[order], np.arange(len(unique) + 1))
    columns = table[["time_ns", "value"]].to_numpy(dtype=np.int64).T
    names = {
        (type_id, metric_id): cut_name(name, LONGEST_METRIC_NAME)
        for type_id, metric_id, name in read_rows(trace, "TARGET_INFO_GPU_METRICS", _NAME_COLUMNS)
        if isinstance(name, str)
    }
    samples = {}
    for number, (type_id, metric_id) in enumerate(unique.tolist()):
        name = names.get((type_id, metric_id))
        if name is not None:
            samples[type_id, name] = columns[:, order[edges[number] : edges[number + 1]]]
    return samples


def _samples_from_json(trace: Trace) -> dict[tuple[int, str], Int64s]:
    """Return the times and values of GENERIC_EVENTS by (typeId, metric name).

    Older exports keep each sample there as one JSON object by metric name.
    """
    table = trace.find("GENERIC_EVENTS")
    present = {name.lower(): quote(name) for name in trace.columns[table]} if table else {}
    time = present.get("timestamp", present.get("rawtimestamp"))
    if table is None or time is None or not {"typeid", "data"} <= present.keys():
        return {}
    samples: dict[tuple[int, str], list[tuple[int, int]]] = {}
    try:
        with trace.lock:
            query = f"SELECT {time}, {present['typeid']}, {present['data']} FROM {table_sql(trace, table)}"
            for at, type_id, data in trace.connection.execute(query):
                if isinstance(at, int) and isinstance(type_id, int):
                    for name, value in _numbers(data).items():
                        samples.setdefault((type_id, cut_name(name, LONGEST_METRIC_NAME)), []).append((at, value))
    except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
        trace.explain(error)
        return {}  # read_gpu_metrics notes the damage
    return {key: np.array(rows, dtype=np.int64).T for key, rows in samples.items()}


def _numbers(data: object) -> dict[str, int]:
    """Return the metrics of one event. Their names have spaces, unlike the event's own fields."""
    try:
        event = json.loads(data) if isinstance(data, str) else None
    except (ValueError, RecursionError):
        return {}
    if not isinstance(event, dict):
        return {}
    return {name: number for name, value in event.items() if " " in name and (number := _whole(value)) is not None}


def _whole(value: object) -> int | None:
    try:
        number = round(float(value)) if isinstance(value, int | float | str) else None
    except (ValueError, OverflowError):  # text, NaN or an infinity
        return None
    return number if number is not None and -(2**62) < number < 2**62 else None
