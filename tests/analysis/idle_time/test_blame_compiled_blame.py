"""Compiled code finds the same gaps and causes as numpy, whatever the order of work and calls is."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest

from nsysprof.analysis.idle_time import blame, call_ends
from nsysprof.analysis.idle_time.blame import blame_gaps, follow_threads
from nsysprof.analysis.idle_time.call_classes import CallClasses
from nsysprof.analysis.idle_time.gaps import find_gaps
from nsysprof.native import load
from nsysprof.results.column_registry.analysis_columns import CAUSES
from tests.builders.random_tables import random_tables


def blamed(tables: SimpleNamespace, classes: CallClasses, lost_ns: np.ndarray) -> list[dict[str, object]]:
    threads = follow_threads(tables, classes)
    found = []
    for gaps in find_gaps(tables.work):
        pieces = blame_gaps(tables, tables.launch, gaps, threads, is_collective=np.arange(8) % 3 == 1, lost_ns=lost_ns)
        columns = {name: getattr(each, "tolist", lambda each=each: each)() for name, each in vars(pieces).items()}
        assert sum(columns["total_ns"]) == gaps.span.whole.idle_ns
        found.append(columns | {"span": gaps.span, "ender": gaps.ender.tolist(), "before": gaps.before.tolist()})
    return found


@pytest.mark.parametrize("at_once", [3, 1 << 17])
def test_compiled_code_blames_what_numpy_blames(at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (blame,):
        monkeypatch.setattr(module, "_GAPS_AT_ONCE", at_once)
    monkeypatch.setattr(call_ends, "_BLOCK", 16)
    monkeypatch.setattr(blame, "_PIECES_OF_FOUR", 0)
    monkeypatch.setattr(blame, "_SOME", 3)  # so that the room is used up
    causes: set[int] = set()
    for seed in range(40):
        random = np.random.default_rng(seed)
        tables = random_tables(random)
        count = len(tables.calls)
        held = random.choice(3, count, p=[[0.7, 0.1, 0.2], [0.3, 0.5, 0.2]][seed % 2]).astype(np.uint8)
        classes = CallClasses(random.choice([1, 4, 5], 5).astype(np.int8), tables.calls.variant, held)
        lost_ns = np.sort(random.choice(tables.calls.start_ns, int(random.choice([0, 9]))))
        monkeypatch.setattr(load, "is_wanted", lambda _unit: False)
        wanted = blamed(tables, classes, lost_ns)
        monkeypatch.setattr(load, "is_wanted", lambda _unit: True)
        assert blamed(tables, classes, lost_ns) == wanted
        causes |= {cause for each in wanted for cause in each["cause"]}
    assert len(causes) == len(CAUSES)


def test_an_array_that_is_no_column_is_refused() -> None:
    calls = random_tables(np.random.default_rng(1)).calls
    odd = dataclasses.replace(calls, duration_ns=calls.duration_ns.astype(np.float64))
    ends = load.loop("list_ends")
    with pytest.raises(Exception, match="loops.c"):
        none, blocks, room = np.zeros(0, np.int32), np.zeros(1, np.int64), np.zeros(9, np.int64)
        columns = odd.start_ns, odd.duration_ns, odd.variant, none, 0, 16, blocks, 1
        ends(*columns, np.zeros(5, np.int64), 5, 0, 1, room, np.zeros(9, np.int32), 9)
