"""What the CUDA API calls of a trace are: launches, graph replays, launches that only build a graph."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd

from nsysprof.analysis.attribute import attribute_work, order_work
from nsysprof.analysis.work import Rows
from nsysprof.trace.schema import GRAPH, Bools, Calls, Int64s, Tables

_LAUNCHES = re.compile(r"^(cuda|cu)Launch(?!HostFunc)|^cudaLaunchCooperative|^(cuda|cu)GraphLaunch")
_GRAPH_LAUNCHES = re.compile(r"^(cuda|cu)GraphLaunch")
_BEGIN_CAPTURE = re.compile(r"^(cuda|cu)StreamBeginCapture")
_END_CAPTURE = re.compile(r"^(cuda|cu)StreamEndCapture")


def launch_calls(tables: Tables) -> Bools:
    """For each API call, whether it launched kernels, by its name: it succeeded, and built no graph."""
    calls = tables.calls
    if calls is None:
        return np.zeros(0, dtype=bool)
    launches: Bools = (_named(tables, calls, _LAUNCHES) & ~calls.failed_of)[calls.variant]
    captured = _captured(tables, calls)
    if captured is not None:
        launches &= ~captured
    return launches


def graph_launch_calls(tables: Tables) -> Bools:
    """For each API call, whether it replays a CUDA graph, by its name."""
    if tables.calls is None:
        return np.zeros(0, dtype=bool)
    found: Bools = _named(tables, tables.calls, _GRAPH_LAUNCHES)[tables.calls.variant]
    return found


def opaque_replays(tables: Tables, launch: Rows, launches: Bools) -> tuple[Int64s, Int64s]:
    """Calls that replayed a graph whose kernels are unknown: those recorded as wholes, and those not recorded at all.

    nsys traces graphs as wholes by default, and exports by nsys <= 2023.4 have no table for that: such replays leave
    a call and nothing else. They are told from lost ones by the capture's graph mode, and by there being no record
    of any graph. launch: the call of each row of work. launches: what launch_calls says.
    """
    work = tables.work
    wholes = launch[work.kernels :][work.kinds(slice(work.kernels, None)) == GRAPH]
    modes = {
        value
        for name, values in tables.capture_facts.items()
        if name.endswith("CUDA_GRAPH_TRACE_OPTIONS:MODE")
        for value in values
    }
    recorded = np.unique(wholes[wholes >= 0]).astype(np.int64)
    if "Node" in modes or len(wholes) or work.in_graph_of.any():
        return recorded, np.zeros(0, dtype=np.int64)
    silent = launches & graph_launch_calls(tables)
    if silent.any():
        kernels = launch[: work.kernels]
        silent[kernels[kernels >= 0]] = False
    return recorded, np.flatnonzero(silent)


def _named(tables: Tables, calls: Calls, pattern: re.Pattern[str]) -> Bools:
    """For each variant of call, whether its name matches."""
    used = tables.strings[tables.strings.index.isin(calls.name_of)]
    matches = np.array([pattern.match(text) is not None for text in used], dtype=bool)
    return np.isin(calls.name_of, used.index.to_numpy(dtype=np.int64)[matches])


def _captured(tables: Tables, calls: Calls) -> Bools | None:
    """For each API call, whether its process was capturing a stream: a launch then only adds a node to a graph.

    The whole process counts, because autograd launches a captured backward pass from threads of its own. A capture
    that never ends covers nothing, lest it hide every kernel that the profiler lost after it. None: no capture.
    """
    beginning = _named(tables, calls, _BEGIN_CAPTURE) & ~calls.failed_of
    if not beginning.any():
        return None
    begins = np.flatnonzero(beginning[calls.variant])
    ends = np.flatnonzero(_named(tables, calls, _END_CAPTURE)[calls.variant])
    rows = np.concatenate((begins, ends))
    is_begin = np.arange(len(rows)) < len(begins)
    order = np.lexsort((rows, calls.start_ns[rows]))
    opened: dict[int, list[int]] = {}
    windows: list[tuple[int, int, int]] = []
    # Captures are few, so a loop over their ends is cheap: each end closes its thread's latest begin.
    for row, begin in zip(rows[order].tolist(), is_begin[order].tolist(), strict=True):
        tid = int(calls.tid_of[calls.variant[row]])
        if begin:
            opened.setdefault(tid, []).append(int(calls.start_ns[row]))
        elif opened.get(tid):
            windows.append((opened[tid].pop(), int(calls.ends_ns(row)), tid))
    spans = pd.DataFrame(windows, columns=["start_ns", "end_ns", "global_tid"], dtype="int64").assign(style="StartEnd")
    every = np.arange(len(calls), dtype=np.int32)
    captured = np.zeros(len(calls), dtype=bool)
    captured[attribute_work(order_work(every, calls)["process"], spans, "StartEnd").pairs()[1]] = True
    return captured
