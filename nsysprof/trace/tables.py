"""All tables of a trace that the analysis needs, each with its nsys name, columns and quirks in one place."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd

from nsysprof.trace.at_once import AtOnce
from nsysprof.trace.calls import read_calls
from nsysprof.trace.columns import read_integers, read_rows, read_texts
from nsysprof.trace.devices import read_gpus
from nsysprof.trace.gpu_metrics import read_gpu_metrics
from nsysprof.trace.memory import read_memory
from nsysprof.trace.open import Trace
from nsysprof.trace.schema import KERNEL, NULL, Int64s, Tables
from nsysprof.trace.work import read_work

_RANGE_TYPES = {59: "PushPop", 60: "StartEnd", 70: "PushPop", 71: "StartEnd"}
_DOMAIN_TYPE = 75


def read_tables(trace: Trace, progress: Callable[[str], None] | None = None) -> Tables:
    """Read everything; `progress` is told each table's name and rows."""
    say = progress or (lambda _text: None)
    if trace.is_large:
        say(f"read {trace.bytes / 1e6:,.0f} MB")
    # Two tables hold nearly all rows, so two threads read them side by side; compiled reading releases the GIL.
    with AtOnce() if trace.one_thread else ThreadPoolExecutor(2 if trace.is_large else 1) as pool:
        gpus = read_gpus(trace)
        reading_calls, reading_work = pool.submit(read_calls, trace), pool.submit(read_work, trace, gpus)
        strings = read_strings(trace)
        ranges, memory, metrics = read_ranges(trace, strings), read_memory(trace, gpus), read_gpu_metrics(trace, gpus)
        calls, (work, recorded) = reading_calls.result(), reading_work.result()
    if KERNEL in recorded:
        say(f"read {work.kernels:,} kernels")
    if calls is not None:
        say(f"read {len(calls):,} API calls")
    return Tables(
        path_name=trace.identity.resolve().name,
        digest=trace.digest,
        bytes=trace.identity_bytes,
        capture_facts=_capture_facts(trace),
        export_facts=_export_facts(trace),
        diagnostics=read_diagnostics(trace),
        strings=strings,
        devices=gpus.device_rows(),
        work=work,
        recorded=recorded,
        calls=calls,
        ranges=ranges,
        memory=memory,
        gpu_metrics=metrics,
        notes=trace.notes,
    )


def read_strings(trace: Trace) -> pd.Series:
    """StringIds as a Series, id -> text."""
    rows = read_rows(trace, "StringIds", ("id", "value"))
    return pd.Series([str(value) for _, value in rows], index=[key for key, _ in rows], dtype=object)


def read_ranges(trace: Trace, strings: pd.Series) -> pd.DataFrame | None:
    """NVTX_EVENTS' push/pop and start/end ranges with their names and domains resolved; marks and the like left out."""
    table = read_integers(
        trace,
        "NVTX_EVENTS",
        {"start": "start_ns", "end": "end_ns", "eventType": "event_type"},
        {
            "globalTid": "global_tid",
            "endGlobalTid": "end_global_tid",
            "textId": "text_id",
            "domainId": "domain_id",
            "rangeId": "range_id",
        },
    )
    if table is None:
        return None
    names = _range_names(trace, table["text_id"].to_numpy(), strings)
    if names is None:
        return None
    table["name"] = names
    table["pid"] = table["global_tid"] & ~0xFFFFFF
    domains = table[table["event_type"] == _DOMAIN_TYPE]
    table["style"] = table["event_type"].map(_RANGE_TYPES).astype(object)
    table = table[table["style"].notna()].reset_index(drop=True)
    table["domain"] = _domain_names(table[["pid", "domain_id"]], domains)
    return table[["start_ns", "end_ns", "style", "global_tid", "end_global_tid", "domain_id", "name", "domain"]]


def _range_names(trace: Trace, text_ids: Int64s, strings: pd.Series) -> pd.Series | None:
    """Each row's own text, else the registered string it refers to, else nothing. None: unreadable, as a note says."""
    own = read_texts(trace, "NVTX_EVENTS", "text", len(text_ids))
    if own is None:
        return None
    codes, unique = pd.factorize(text_ids)
    registered = strings[~strings.index.duplicated()].reindex(unique)
    names = np.array([text if isinstance(text, str) else "" for text in registered], dtype=object)[codes]
    if own:
        texts = np.array(own, dtype=object)
        names = np.where(pd.isna(texts), names, texts)
    return pd.Series(names, dtype=object)


def _domain_names(keys: pd.DataFrame, domains: pd.DataFrame) -> pd.Series:
    """The domain of each (pid, domain_id); the default one is empty, one whose name was not recorded has its number."""
    names = dict(zip(zip(domains["pid"], domains["domain_id"], strict=True), domains["name"], strict=True))
    unique = keys.drop_duplicates()
    labels = [
        names.get(key, "" if key[1] in (0, NULL) else f"domain {key[1]}")
        for key in unique.itertuples(index=False, name=None)
    ]
    label = pd.Series(labels, index=pd.MultiIndex.from_frame(unique), dtype=object, name="domain")
    return keys.join(label, on=["pid", "domain_id"])["domain"]


def _capture_facts(trace: Trace) -> dict[str, list[str]]:
    facts: dict[str, list[str]] = {}
    for name, value in read_rows(trace, "META_DATA_CAPTURE", ("name", "value")):
        facts.setdefault(str(name), []).append(str(value))
    return facts


def _export_facts(trace: Trace) -> dict[str, str]:
    table = "META_DATA_EXPORT" if trace.has("META_DATA_EXPORT") else "EXPORT_META_DATA"
    return {str(name): str(value) for name, value in read_rows(trace, table, ("name", "value"))}


def read_diagnostics(trace: Trace) -> list[tuple[int, str]]:
    """What nsys says of the recording: severity and text."""
    rows = read_rows(trace, "DIAGNOSTIC_EVENT", ("severity", "text"))
    return [(_int(severity) or 0, str(text)) for severity, text in rows]


def _int(value: object) -> int | None:
    return value if isinstance(value, int) else None
