"""Read every sampled GPU metric as recorded, for drawing. gpu_metrics reads those that results are computed from."""

from __future__ import annotations

import json
import sqlite3

import numpy as np

from nsysprof.trace.columns import read_integers, read_rows, table_sql
from nsysprof.trace.open import Trace, quote
from nsysprof.trace.schema import NULL, Int64s, MetricSeries
from nsysprof.trace.table_readers.devices import LONGEST_METRIC_NAME, Gpus, cut_name

# The low byte of a typeId numbers the GPU.
_GPU_BITS = 0xFF
# A clock of a million MHz is really in Hz; nsys labels its GPC clock in this way.
_MOST_MHZ = 1_000_000
_COLUMNS = {"timestamp": "time_ns", "typeId": "type_id", "metricId": "metric_id", "value": "value"}
_NAMES = ("typeId", "metricId", "metricName")


def read_metric_samples(trace: Trace, gpus: Gpus) -> list[MetricSeries]:
    """Return all GPU metrics by GPU and metric; an empty list where none were sampled, or where they have no names."""
    number_of = {gpu.gpu_id: gpu.number for gpu in gpus.rows}
    series = []
    for (type_id, name), samples in sorted({**_from_table(trace), **_from_json(trace)}.items()):
        time, value = samples[:, (samples != NULL).all(axis=0)]
        if len(time):
            order = np.argsort(time, kind="stable")
            gpu = type_id & _GPU_BITS
            label = _in_hertz(name) if "[MHz]" in name and int(np.median(value)) > _MOST_MHZ else name
            series.append(MetricSeries(label, gpu, number_of.get(gpu), time[order], value[order]))
    return series


def _in_hertz(name: str) -> str:
    return name.replace("[MHz]", "[Hz]")


def _from_table(trace: Trace) -> dict[tuple[int, str], Int64s]:
    """Return the times and values of GPU_METRICS by (typeId, metric name)."""
    table = read_integers(trace, "GPU_METRICS", _COLUMNS) if trace.has("GPU_METRICS") else None
    if table is None or len(table) == 0:
        return {}
    ids = table[["type_id", "metric_id"]].to_numpy(dtype=np.int64)
    unique, code = np.unique(ids, axis=0, return_inverse=True)
    order = np.argsort(code.reshape(-1), kind="stable")
    edges = np.searchsorted(code.reshape(-1)[order], np.arange(len(unique) + 1))
    columns = table[["time_ns", "value"]].to_numpy(dtype=np.int64).T
    names = {
        (type_id, metric_id): cut_name(name, LONGEST_METRIC_NAME)
        for type_id, metric_id, name in read_rows(trace, "TARGET_INFO_GPU_METRICS", _NAMES)
        if isinstance(name, str)
    }
    samples = {}
    for number, (type_id, metric_id) in enumerate(unique.tolist()):
        name = names.get((type_id, metric_id))
        if name is not None:
            samples[type_id, name] = columns[:, order[edges[number] : edges[number + 1]]]
    return samples


def _from_json(trace: Trace) -> dict[tuple[int, str], Int64s]:
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
        return {}  # gpu_metrics notes the damage
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
