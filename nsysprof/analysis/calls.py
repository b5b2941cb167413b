"""What the CUDA API calls of a trace are: launches, graph replays, launches that only build a graph."""

from __future__ import annotations

import re

import numpy as np
import numpy.typing as npt
import pandas as pd

from nsysprof.analysis.attribute import attribute_work
from nsysprof.analysis.intervals import Ints
from nsysprof.analysis.work import GRAPH, KERNEL
from nsysprof.trace.schema import NULL, Tables

Bools = npt.NDArray[np.bool_]

_LAUNCHES = re.compile(r"^(cuda|cu)Launch(?!HostFunc)|^cudaLaunchCooperative|^(cuda|cu)GraphLaunch")
_GRAPH_LAUNCHES = re.compile(r"^(cuda|cu)GraphLaunch")
_BEGIN_CAPTURE = re.compile(r"^(cuda|cu)StreamBeginCapture")
_END_CAPTURE = re.compile(r"^(cuda|cu)StreamEndCapture")


def launch_calls(tables: Tables) -> Bools:
    """For each API call, whether it launched kernels, by its name: it succeeded, and built no graph."""
    calls = tables.launches
    if calls is None:
        return np.zeros(0, dtype=bool)
    return _named(tables, _LAUNCHES) & _succeeded(calls) & ~_captured(tables)


def graph_launch_calls(tables: Tables) -> Bools:
    """For each API call, whether it replays a CUDA graph, by its name."""
    return _named(tables, _GRAPH_LAUNCHES)


def opaque_replays(tables: Tables, work: pd.DataFrame) -> tuple[Ints, Ints]:
    """Calls that replayed a graph whose kernels are unknown: those recorded as wholes, and those not recorded at all.

    nsys traces graphs as wholes by default, and exports by nsys <= 2023.4 have no table for that: such replays leave
    a call and nothing else. They are told from lost ones by the capture's graph mode, and by there being no record
    of any graph.
    """
    by_call = work[work["launch"] >= 0]
    replayed = by_call.loc[by_call["kind"] == GRAPH, "launch"].to_numpy()
    modes = {
        value
        for name, values in tables.capture_facts.items()
        if name.endswith("CUDA_GRAPH_TRACE_OPTIONS:MODE")
        for value in values
    }
    if "Node" in modes or (work["kind"] == GRAPH).any() or work["in_graph"].any():
        return np.unique(replayed), np.zeros(0, dtype=np.int64)
    silent = launch_calls(tables) & graph_launch_calls(tables)
    silent[by_call.loc[by_call["kind"] == KERNEL, "launch"].to_numpy()] = False
    return np.unique(replayed), np.flatnonzero(silent)


def _named(tables: Tables, pattern: re.Pattern[str]) -> Bools:
    if tables.launches is None:
        return np.zeros(0, dtype=bool)
    used = tables.strings[tables.strings.index.isin(tables.launches["name_id"].unique())]
    ids = [key for key, text in used.items() if pattern.match(text)]
    return tables.launches["name_id"].isin(ids).to_numpy()


def _succeeded(calls: pd.DataFrame) -> Bools:
    return calls["return_value"].isin((0, NULL)).to_numpy()


def _captured(tables: Tables) -> Bools:
    """For each API call, whether its process was capturing a stream: a launch then only adds a node to a graph.

    The whole process counts, because autograd launches a captured backward pass from threads of its own. A capture
    that never ends covers nothing, lest it hide every kernel that the profiler lost after it.
    """
    calls = tables.launches
    assert calls is not None
    begins = _named(tables, _BEGIN_CAPTURE) & _succeeded(calls)
    captured = np.zeros(len(calls), dtype=bool)
    if not begins.any():
        return captured
    events = calls.assign(begins=begins)[begins | _named(tables, _END_CAPTURE)].sort_values("start_ns", kind="stable")
    opened: dict[int, list[int]] = {}
    windows: list[tuple[int, int, int]] = []
    # Captures are few, so a loop over their ends is cheap: each end closes its thread's latest begin.
    for tid, start, end, begin in zip(
        events["global_tid"], events["start_ns"], events["end_ns"], events["begins"], strict=True
    ):
        if begin:
            opened.setdefault(tid, []).append(start)
        elif opened.get(tid):
            windows.append((opened[tid].pop(), end, tid))
    spans = pd.DataFrame(windows, columns=["start_ns", "end_ns", "global_tid"], dtype="int64").assign(style="StartEnd")
    every = pd.DataFrame({"launch": np.arange(len(calls))})
    captured[attribute_work(every, calls, spans)[1]] = True
    return captured
